"""Reactive Streams without an event loop: everything except the waiting.

`streams` has the calls; `publishing` and `subscribing` the two sides of a stream; `async_streams` the part common to
asyncio, trio and Twisted; `sources` the types of what can be published; `bridge` publishes messages of an instance.
Each adapter adds the loop that pulls from a source, in a task or a thread.
"""

"""Reactive Streams without a loop: all but the waiting.

`streams` has the calls, `publishing` and `subscribing` the two ends of a stream, `async_streams` what asyncio, trio and
Twisted share, `sources` says what can be published, `bridge` gives messages of an instance to subscribers. Each adapter
adds the loop that pulls from a source, in a task or a thread.
"""

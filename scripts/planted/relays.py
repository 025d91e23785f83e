"""Bugs in how streams are published, subscribed and relayed by the adapters."""

from __future__ import annotations

from .bug import Bug

ASYNC_STREAMS = "transports/tolliver/_streams/async_streams.py"
PUBLISHING = "transports/tolliver/_streams/publishing.py"
SUBSCRIBING = "transports/tolliver/_streams/subscribing.py"
STREAMS = "transports/tolliver/_streams/streams.py"
SOURCES = "transports/tolliver/_streams/sources.py"
WAITS = "transports/tolliver/blocking/waits.py"
RELAYS = "tests/adapters/test_streams_relay.py::test_rule"

BUGS = (
    Bug(
        "streams: a source is pulled without demand",
        PUBLISHING,
        "look",
        "min(self._owner.hub.wanted(*self.key), self._step)",
        "self._step",
        (
            "tests/adapters/test_streams_data.py::test_a_reader_that_stops_stops_the_source",
            "tests/adapters/test_streams_publisher.py::test_rule",
        ),
    ),
    Bug(
        "streams: a source is not closed",
        PUBLISHING,
        "cancelled",
        "self.set()",
        "",
        ("tests/adapters/test_streams_publisher.py::test_rule",),
    ),
    Bug(
        "relays: a subscription outlives the streams that it feeds",
        SUBSCRIBING,
        "_detach_outbound",
        "self._core.abandon(Closing(self.cancel))",
        "",
        (f"{RELAYS}[2.6-a_cancel_ends_a_subscription_that_is_a_source-asyncio-plain]",),
    ),
    Bug(
        "relays: the first subscriber that leaves cancels for all",
        SUBSCRIBING,
        "_detach_outbound",
        "not self._stream.outbound",
        "True",
        (f"{RELAYS}[4.1-a_subscription_is_cancelled_with_the_last_of_its_streams-asyncio-plain]",),
    ),
    Bug(
        "relays: the end is told to one of several streams",
        SUBSCRIBING,
        "_attach_outbound",
        "stream.outbound.add(outbound)",
        "stream.outbound = {outbound}",
        (f"{RELAYS}[4.2-all_streams_of_a_subscription_hear_its_end-asyncio-plain]",),
    ),
    Bug(
        "relays: a subscription that was opened too late stays open",
        PUBLISHING,
        "begin",
        "self._let_go()",
        "",
        (
            "tests/blocking/test_streams_ends.py::test_a_subscription_that_is_opened_after_the_end_of_its_stream_is_cancelled",
        ),
    ),
    Bug(
        "relays: a source is opened for who has left",
        ASYNC_STREAMS,
        "_begin_pulling",
        "if self.over: return",
        "",
        ("tests/adapters/test_relays.py::test_a_source_is_not_opened_for_who_has_left[asyncio]",),
    ),
    Bug(
        "relays: a thread's wait outlives its stream",
        WAITS,
        "end",
        "release(lock)",
        "pass",
        ("tests/blocking/test_streams_ends.py::test_a_source_over_messages_ends_with_its_stream",),
    ),
    Bug(
        "streams: a codec that raises StopIteration ends the source",
        PUBLISHING,
        "add_many",
        "converted(encode, elements)",
        "map(encode, elements)",
        ("tests/adapters/test_handler_outcomes.py::test_a_source_ends_its_own_stream_and_no_other[plain-asyncio]",),
    ),
    Bug(
        "streams: a codec that raises StopAsyncIteration ends the loop",
        SOURCES,
        "converted",
        "raise RuntimeError(f'the codec raised {type(error).__name__}') from error",
        "raise",
        ("tests/adapters/test_handler_outcomes.py::test_a_subscriber_ends_its_own_stream_and_no_other[asyncio]",),
    ),
    Bug(
        "streams: who takes less than half a window is never through with anything",
        SUBSCRIBING,
        "_grant",
        "used >= self._share(most)",
        "used >= self._window - self._window // 2",
        ("tests/adapters/test_bridge.py::test_a_subscriber_that_comes_and_goes_gets_on[asyncio-256-soon]",),
    ),
    Bug(
        "streams: a window is never filled up",
        SUBSCRIBING,
        "_grant",
        "self._window and not self.closed and used >= self._share(most)",
        "False",
        ("tests/adapters/test_streams_data.py::test_many_streams_on_one_connection",),
    ),
    Bug(
        "streams: access rules are not asked",
        STREAMS,
        "_on_subscribe",
        'peer is None or not self._rights(peer.identity).may_subscribe(Subscription(name, ""))',
        "peer is None",
        ("tests/adapters/test_streams_life.py::test_over_tls",),
    ),
    Bug(
        "a source that ends oddly ends the program",
        ASYNC_STREAMS,
        "_work",
        "self._loop.is_outside(error)",
        "not isinstance(error, Exception)",
        ("tests/adapters/test_handler_outcomes.py::test_a_source_ends_its_own_stream_and_no_other",),
    ),
)

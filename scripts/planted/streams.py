"""Bugs in the Reactive Streams protocol and in its adapters."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "streams: elements after a cancel",
        "tolliver_proto/reactive/_publisher.py",
        "take",
        """
        del self._streams[frame.subscriber_id]
        if isinstance(frame, Request):
            self._output.answer(OnError(frame.subscriber_id, _not_positive(frame.count)))
        """,
        """
        if isinstance(frame, Request):
            del self._streams[frame.subscriber_id]
            self._output.answer(OnError(frame.subscriber_id, _not_positive(frame.count)))
        """,
        ("tests/reactive/test_publisher.py::test_a_cancel_ends_it_at_once",),
    ),
    Bug(
        "streams: more than was asked for is taken",
        "tolliver_proto/reactive/_subscriber.py",
        "_count",
        "stream.received > stream.requested < MAX_LONG",
        "stream.received > stream.requested + 1 < MAX_LONG",
        ("tests/reactive/test_subscriber.py::test_more_elements_than_demand",),
    ),
    Bug(
        "streams: Drained missing",
        "tolliver_proto/reactive/_hub.py",
        "_on_sent",
        "self._actions.append(Drained(link.cid))",
        "",
        ("tests/reactive/test_hub.py::test_whoever_was_told_zero_is_told_drained",),
    ),
    Bug(
        "streams: streams outlive their connection",
        "tolliver_proto/reactive/_connection.py",
        "_end_streams",
        "self._queue.extend(self._subscriber.end(cause))",
        "",
        ("tests/reactive/test_connection.py::test_another_version",),
    ),
    Bug(
        "streams: a slow reader is written to without end",
        "tolliver_proto/reactive/_output.py",
        "congested",
        "self._congested",
        "False",
        ("tests/reactive/test_connection.py::test_water_marks",),
    ),
    Bug(
        "streams: a source is pulled without demand",
        "transports/tolliver/_streams/publishing.py",
        "look",
        "min(self._owner.hub.wanted(*self.key), self._step)",
        "self._step",
        (
            "tests/adapters/test_streams_data.py::test_a_reader_that_stops_stops_the_source",
            "tests/adapters/test_streams_publisher.py::test_rule",
        ),
    ),
    Bug(
        "relays: the first subscriber that leaves cancels for all",
        "transports/tolliver/_streams/subscribing.py",
        "_detach_outbound",
        "not self._stream.outbound",
        "True",
        (
            "tests/adapters/test_streams_relay.py::test_rule[4.1-a_subscription_is_cancelled_with_the_last_of_its_streams-asyncio-plain]",
        ),
    ),
    Bug(
        "streams: access rules are not asked",
        "transports/tolliver/_streams/streams.py",
        "_on_subscribe",
        'peer is None or not self._rights(peer.identity).may_subscribe(Subscription(name, ""))',
        "peer is None",
        ("tests/adapters/test_streams_life.py::test_over_tls",),
    ),
)

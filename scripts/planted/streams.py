"""Bugs in the Reactive Streams protocol.

The idea: one for each rule on the wire, and for each thing that a hub must not forget.
"""

from __future__ import annotations

from .bug import Bug

PUBLISHER = "tolliver_proto/reactive/_publisher.py"
SUBSCRIBER = "tolliver_proto/reactive/_subscriber.py"
CONNECTION = "tolliver_proto/reactive/_connection.py"
TABLE = "tolliver_proto/_common/connection_table.py"
HUB = "tolliver_proto/reactive/_hub.py"
OUTPUT = "tolliver_proto/reactive/_output.py"

BUGS = (
    Bug(
        "streams: demand off by one in packed",
        PUBLISHER,
        "_check_allowed",
        "count > stream.demand",
        "count > stream.demand + 1",
        ("tests/reactive/test_publisher.py::test_calls_that_break_a_rule",),
    ),
    Bug(
        "streams: saturation missing",
        PUBLISHER,
        "take",
        "min(stream.demand + frame.count, MAX_LONG)",
        "stream.demand + frame.count",
        ("tests/reactive/test_publisher.py::test_without_bound",),
    ),
    Bug(
        "streams: elements after a cancel",
        PUBLISHER,
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
        "streams: old element size forgotten after cancel",
        SUBSCRIBER,
        "_leave",
        "self._output.write(Cancel(subscriber_id))",
        """
        self._output.write(Cancel(subscriber_id))
        self.sizes.pop(subscriber_id, None)
        """,
        ("tests/reactive/test_subscriber.py::test_signals_after_our_cancel",),
    ),
    Bug(
        "streams: id reused before subscribed",
        SUBSCRIBER,
        "_step",
        "Step.OLD_ANSWER if stream.unanswered else Step.ANSWER",
        "Step.ANSWER",
        ("tests/reactive/test_subscriber.py::test_cancelled_again_before_any_answer",),
    ),
    Bug(
        "streams: more than was asked for is taken",
        SUBSCRIBER,
        "_count",
        "stream.received > stream.requested < MAX_LONG",
        "stream.received > stream.requested + 1 < MAX_LONG",
        ("tests/reactive/test_subscriber.py::test_more_elements_than_demand",),
    ),
    Bug(
        "streams: a deadline reads beyond the hello",
        CONNECTION,
        "_read_ahead",
        "self.state is waiting and (event := self.next_event()) is not None",
        "(event := self.next_event()) is not None",
        ("tests/reactive/test_connection.py::test_a_deadline_does_not_read_beyond_the_hello",),
    ),
    Bug(
        "streams: Drained missing",
        HUB,
        "_on_sent",
        "self._actions.append(Drained(link.cid))",
        "",
        ("tests/reactive/test_hub.py::test_whoever_was_told_zero_is_told_drained",),
    ),
    Bug(
        "streams: what is in transit is not counted",
        HUB,
        "wanted",
        "link.in_transit",
        "0",
        ("tests/reactive/test_hub.py::test_drained_waits_for_low_water",),
    ),
    Bug(
        "streams: a second Transmit",
        TABLE,
        "_write",
        "connection is None or link.in_transit or link.state is LinkState.DRAINING",
        "connection is None or link.state is LinkState.DRAINING",
        ("tests/reactive/test_hub.py::test_frames_gather_while_a_transmit_is_outstanding",),
    ),
    Bug(
        "streams: PeerDown twice",
        HUB,
        "_tell",
        "link.told = False",
        "",
        ("tests/reactive/test_hub_closing.py::test_lost_with_streams_and_unread_data",),
    ),
    Bug(
        "streams: PeerDown before its reason is known",
        HUB,
        "_on_link_timeout",
        "connection is not None and connection.state is State.CLOSED and link.state in HANDING_OUT",
        "False",
        ("tests/reactive/test_hub_deadlines.py::test_time_that_runs_on_before_actions_are_taken",),
    ),
    Bug(
        "streams: reading never resumes",
        TABLE,
        "_set_paused",
        "paused is not link.paused",
        "paused and not link.paused",
        ("tests/reactive/test_hub.py::test_reading_pauses_and_goes_on",),
    ),
    Bug(
        "streams: elements cost only their bytes",
        HUB,
        "_count",
        "sum(map(len, run.elements)) + ELEMENT_COST * len(run.elements)",
        "sum(map(len, run.elements))",
        ("tests/reactive/test_hub.py::test_elements_of_a_packed_frame_each_cost",),
    ),
    Bug(
        "streams: what was received before the loss is dropped",
        TABLE,
        "_lost",
        "link.state in HANDING_OUT",
        "False",
        ("tests/reactive/test_hub_closing.py::test_lost_with_streams_and_unread_data",),
    ),
    Bug(
        "streams: a deadline that was met stays",
        TABLE,
        "_rearm",
        """
        if due is not None:
            self._timers.set(link.cid, due)
        else:
            self._timers.cancel(link.cid)
        """,
        """
        if due is not None:
            self._timers.set(link.cid, due)
        """,
        ("tests/reactive/test_hub_deadlines.py::test_after_the_hello_nothing_is_due",),
    ),
    Bug(
        "streams: a forgotten connection's deadline stays",
        TABLE,
        "_forget",
        "self._timers.cancel(link.cid)",
        "",
        ("tests/reactive/test_hub_deadlines.py::test_a_forgotten_connection_has_no_deadline",),
    ),
    Bug(
        "streams: a peer that said hello is still a stranger",
        HUB,
        "_read",
        "self._limiter.remove(link.cid)",
        "",
        ("tests/reactive/test_hub_calls.py::test_a_stranger_is_one_no_longer",),
    ),
    Bug(
        "streams: an element of the wrong size",
        PUBLISHER,
        "next_many",
        "stream.size and lengths - {stream.size}",
        "False",
        ("tests/reactive/test_publisher.py::test_an_element_of_the_wrong_size",),
    ),
    Bug(
        "streams: an end without an answer",
        PUBLISHER,
        "_finish",
        """
        if not stream.answered:
            self._output.answer(Subscribed(frame.subscriber_id))
        """,
        "",
        ("tests/reactive/test_publisher.py::test_a_refusal",),
    ),
    Bug(
        "streams: a goodbye is not answered",
        CONNECTION,
        "_end",
        "signal in (Signal.FAULT, Signal.GOODBYE)",
        "signal is Signal.FAULT",
        ("tests/reactive/test_connection.py::test_the_peers_goodbye",),
    ),
    Bug(
        "streams: streams outlive their connection",
        CONNECTION,
        "_end_streams",
        "self._queue.extend(self._subscriber.end(cause))",
        "",
        ("tests/reactive/test_connection.py::test_another_version",),
    ),
    Bug(
        "streams: a source goes on after its connection",
        CONNECTION,
        "_end_streams",
        "self._queue.extend(self._publisher.end())",
        "",
        ("tests/reactive/test_connection.py::test_our_goodbye",),
    ),
    Bug(
        "streams: another version is spoken with",
        CONNECTION,
        "_agree",
        "hello.version != VERSION",
        "False",
        ("tests/reactive/test_connection.py::test_another_version",),
    ),
    Bug(
        "streams: answers that nobody reads pile up",
        OUTPUT,
        "check_answers",
        "self._answers > self.limits.max_answers",
        "False",
        ("tests/reactive/test_connection.py::test_a_peer_that_causes_answers_and_does_not_read",),
    ),
    Bug(
        "streams: a slow reader is written to without end",
        OUTPUT,
        "congested",
        "self._congested",
        "False",
        ("tests/reactive/test_connection.py::test_water_marks",),
    ),
    Bug(
        "streams: too many streams of a peer",
        PUBLISHER,
        "_take_subscribe",
        "len(self._streams) >= limits.max_streams",
        "False",
        ("tests/reactive/test_publisher.py::test_too_many_streams_are_refused_one_by_one",),
    ),
    Bug(
        "streams: an id twice",
        PUBLISHER,
        "_take_subscribe",
        "subscriber_id in self._streams",
        "False",
        ("tests/reactive/test_publisher.py::test_an_id_that_is_active",),
    ),
    Bug(
        "streams: a request below one is taken for none",
        PUBLISHER,
        "take",
        """
        if isinstance(frame, Request):
            self._output.answer(OnError(frame.subscriber_id, _not_positive(frame.count)))
        """,
        """
        if False:
            self._output.answer(OnError(frame.subscriber_id, _not_positive(frame.count)))
        """,
        ("tests/reactive/test_publisher.py::test_a_request_of_nothing",),
    ),
    Bug(
        "streams: the text of an error is not cut",
        PUBLISHER,
        "cut_text",
        'text.encode(errors="replace")[:most].decode(errors="ignore")',
        "text",
        ("tests/reactive/test_publisher.py::test_error_texts_are_cut_on_a_character",),
    ),
    Bug(
        "streams: a flood of elements is read on",
        HUB,
        "_count",
        "link.unread > self.limits.max_unread and not link.full",
        "False",
        ("tests/reactive/test_hub.py::test_reading_pauses_and_goes_on",),
    ),
    Bug(
        "streams: who says much keeps all others waiting",
        HUB,
        "_read",
        "not link.share",
        "False",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: what waits for its turn is read on",
        HUB,
        "_pace",
        "link.full or waits",
        "link.full",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: the next turn never comes",
        HUB,
        "next_timeout",
        "self._state.now if self._resting else super().next_timeout()",
        "super().next_timeout()",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: strangers without a bound",
        TABLE,
        "new_cid",
        "self._state.closing or full is not None",
        "self._state.closing",
        ("tests/reactive/test_hub_calls.py::test_a_bound_on_strangers",),
    ),
)

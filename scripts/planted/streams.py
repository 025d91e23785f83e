"""Bugs in the Reactive Streams protocol.

The idea: one for each rule on the wire, and for each thing that a hub must not forget.
"""

from __future__ import annotations

from .bug import Bug

PUBLISHER = "tolliver_proto/reactive/_publisher.py"
SUBSCRIBER = "tolliver_proto/reactive/_subscriber.py"
CONNECTION = "tolliver_proto/reactive/_connection.py"
HUB = "tolliver_proto/reactive/_hub.py"
OUTPUT = "tolliver_proto/reactive/_output.py"

BUGS = (
    Bug(
        "streams: demand off by one in packed",
        PUBLISHER,
        "        if count > stream.demand:\n",
        "        if count > stream.demand + 1:\n",
        ("tests/reactive/test_publisher.py::test_calls_that_break_a_rule",),
    ),
    Bug(
        "streams: saturation missing",
        PUBLISHER,
        "stream.demand = min(stream.demand + frame.count, MAX_LONG)",
        "stream.demand = stream.demand + frame.count",
        ("tests/reactive/test_publisher.py::test_without_bound",),
    ),
    Bug(
        "streams: elements after a cancel",
        PUBLISHER,
        "        del self._streams[frame.subscriber_id]\n        if isinstance(frame, Request):\n",
        "        if isinstance(frame, Request):\n            del self._streams[frame.subscriber_id]\n",
        ("tests/reactive/test_publisher.py::test_a_cancel_ends_it_at_once",),
    ),
    Bug(
        "streams: old element size forgotten after cancel",
        SUBSCRIBER,
        "        self._output.write(Cancel(subscriber_id))\n",
        "        self._output.write(Cancel(subscriber_id))\n        self.sizes.pop(subscriber_id, None)\n",
        ("tests/reactive/test_subscriber.py::test_signals_after_our_cancel",),
    ),
    Bug(
        "streams: id reused before subscribed",
        SUBSCRIBER,
        "        return Step.OLD_ANSWER if stream.unanswered else Step.ANSWER\n",
        "        return Step.ANSWER\n",
        ("tests/reactive/test_subscriber.py::test_cancelled_again_before_any_answer",),
    ),
    Bug(
        "streams: more than was asked for is taken",
        SUBSCRIBER,
        "        if stream.received > stream.requested < MAX_LONG:\n",
        "        if stream.received > stream.requested + 1 < MAX_LONG:\n",
        ("tests/reactive/test_subscriber.py::test_more_elements_than_demand",),
    ),
    Bug(
        "streams: a deadline reads beyond the hello",
        CONNECTION,
        "        while self.state is waiting and (event := self.next_event()) is not None:\n",
        "        while (event := self.next_event()) is not None:\n",
        ("tests/reactive/test_connection.py::test_a_deadline_does_not_read_beyond_the_hello",),
    ),
    Bug(
        "streams: Drained missing",
        HUB,
        "            self._actions.append(Drained(cid))\n",
        "",
        ("tests/reactive/test_hub.py::test_whoever_was_told_zero_is_told_drained",),
    ),
    Bug(
        "streams: what is in transit is not counted",
        HUB,
        "link.connection.wanted(subscriber_id, link.in_transit)",
        "link.connection.wanted(subscriber_id, 0)",
        ("tests/reactive/test_hub.py::test_drained_waits_for_low_water",),
    ),
    Bug(
        "streams: a second Transmit",
        HUB,
        "        if connection is None or link.in_transit or link.transport_lost:\n",
        "        if connection is None or link.transport_lost:\n",
        ("tests/reactive/test_hub.py::test_frames_gather_while_a_transmit_is_outstanding",),
    ),
    Bug(
        "streams: PeerDown twice",
        HUB,
        "            link.told = False\n            self._actions.append(PeerDown",
        "            self._actions.append(PeerDown",
        ("tests/reactive/test_hub.py::test_lost_with_streams_and_unread_data",),
    ),
    Bug(
        "streams: PeerDown before its reason is known",
        HUB,
        "        elif link.closed:  # and the peer",
        "        elif not link.shut or link.closed:  # and the peer",
        ("tests/reactive/test_hub.py::test_time_that_runs_on_before_actions_are_taken",),
    ),
    Bug(
        "streams: reading never resumes",
        HUB,
        "        if pausing is not link.paused:\n",
        "        if pausing and not link.paused:\n",
        ("tests/reactive/test_hub.py::test_reading_pauses_and_goes_on",),
    ),
    Bug(
        "streams: elements cost only their bytes",
        HUB,
        "        link.unread += sum(map(len, run.elements)) + ELEMENT_COST * len(run.elements)\n",
        "        link.unread += sum(map(len, run.elements))\n",
        ("tests/reactive/test_hub.py::test_elements_of_a_packed_frame_each_cost",),
    ),
    Bug(
        "streams: what was received before the loss is dropped",
        HUB,
        "        elif link.closed:\n            self._forget(link)\n        else:\n",
        "        elif True:\n            self._forget(link)\n        else:\n",
        ("tests/reactive/test_hub.py::test_lost_with_streams_and_unread_data",),
    ),
    Bug(
        "streams: a deadline that was met stays",
        HUB,
        "        else:\n            self._timers.cancel(link.cid)\n",
        "",
        ("tests/reactive/test_hub.py::test_after_the_hello_nothing_is_due",),
    ),
    Bug(
        "streams: a forgotten connection's deadline stays",
        HUB,
        "        self._resting.pop(link, None)\n        self._timers.cancel(link.cid)\n",
        "        self._resting.pop(link, None)\n",
        ("tests/reactive/test_hub.py::test_a_forgotten_connection_has_no_deadline",),
    ),
    Bug(
        "streams: a peer that said hello is still a stranger",
        HUB,
        "            self._arrivals.remove(link.cid)\n            self._actions.append(PeerUp",
        "            self._actions.append(PeerUp",
        ("tests/reactive/test_hub.py::test_a_stranger_is_one_no_longer",),
    ),
    Bug(
        "streams: an element of the wrong size",
        PUBLISHER,
        "        if stream.size and lengths - {stream.size}:\n",
        "        if False:\n",
        ("tests/reactive/test_publisher.py::test_an_element_of_the_wrong_size",),
    ),
    Bug(
        "streams: an end without an answer",
        PUBLISHER,
        "        if not stream.answered:\n"
        "            self._output.answer(Subscribed(frame.subscriber_id))\n"
        "        self._output.answer(frame)",
        "        self._output.answer(frame)",
        ("tests/reactive/test_publisher.py::test_a_refusal",),
    ),
    Bug(
        "streams: a goodbye is not answered",
        CONNECTION,
        "if not said and signal in (Signal.FAULT, Signal.GOODBYE):",
        "if not said and signal is Signal.FAULT:",
        ("tests/reactive/test_connection.py::test_the_peers_goodbye",),
    ),
    Bug(
        "streams: streams outlive their connection",
        CONNECTION,
        "        self._queue.extend(self._subscriber.end(cause))\n",
        "",
        ("tests/reactive/test_connection.py::test_another_version",),
    ),
    Bug(
        "streams: a source goes on after its connection",
        CONNECTION,
        "        self._queue.extend(self._publisher.end())\n",
        "",
        ("tests/reactive/test_connection.py::test_our_goodbye",),
    ),
    Bug(
        "streams: another version is spoken with",
        CONNECTION,
        "        if hello.version != VERSION:\n",
        "        if False:\n",
        ("tests/reactive/test_connection.py::test_another_version",),
    ),
    Bug(
        "streams: answers that nobody reads pile up",
        OUTPUT,
        "        if self._answers > self.limits.max_answers:\n",
        "        if False:\n",
        ("tests/reactive/test_connection.py::test_a_peer_that_causes_answers_and_does_not_read",),
    ),
    Bug(
        "streams: a slow reader is written to without end",
        OUTPUT,
        "        return self._congested\n",
        "        return False\n",
        ("tests/reactive/test_connection.py::test_water_marks",),
    ),
    Bug(
        "streams: too many streams of a peer",
        PUBLISHER,
        "        elif len(self._streams) >= limits.max_streams:\n",
        "        elif False:\n",
        ("tests/reactive/test_publisher.py::test_too_many_streams_are_refused_one_by_one",),
    ),
    Bug(
        "streams: an id twice",
        PUBLISHER,
        "        if subscriber_id in self._streams:\n            raise UnexpectedFrame(",
        "        if False:\n            raise UnexpectedFrame(",
        ("tests/reactive/test_publisher.py::test_an_id_that_is_active",),
    ),
    Bug(
        "streams: a request below one is taken for none",
        PUBLISHER,
        "        if isinstance(frame, Request):\n            self._output.answer(OnError",
        "        if False:\n            self._output.answer(OnError",
        ("tests/reactive/test_publisher.py::test_a_request_of_nothing",),
    ),
    Bug(
        "streams: the text of an error is not cut",
        PUBLISHER,
        'return text.encode(errors="replace")[:most].decode(errors="ignore")',
        "return text",
        ("tests/reactive/test_publisher.py::test_error_texts_are_cut_on_a_character",),
    ),
    Bug(
        "streams: a flood of elements is read on",
        HUB,
        "        if link.unread > self.limits.max_unread and not link.full:\n",
        "        if False:\n",
        ("tests/reactive/test_hub.py::test_reading_pauses_and_goes_on",),
    ),
    Bug(
        "streams: who says much keeps all others waiting",
        HUB,
        "        if not link.share:\n",
        "        if False:\n",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: what waits for its turn is read on",
        HUB,
        "        pausing = link.full or waits\n",
        "        pausing = link.full\n",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: the next turn never comes",
        HUB,
        "        if self._resting:\n            return self._now\n",
        "",
        ("tests/reactive/test_hub.py::test_a_turn_has_a_share_for_each_connection",),
    ),
    Bug(
        "streams: strangers without a bound",
        HUB,
        "        if self.closing or self._arrivals.full(address) is not None:\n",
        "        if self.closing:\n",
        ("tests/reactive/test_hub.py::test_a_bound_on_strangers",),
    ),
)

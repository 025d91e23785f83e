"""Bugs in adapters: handlers, codecs, openings, sockets, threads, the command line."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "units are joined",
        "transports/tolliver/_driver/session.py",
        "transmit",
        "self._units.extend(units)",
        'self._units.append(b"".join(units))',
        ("tests/adapters/test_hostile.py::test_a_response_is_a_record_of_its_own[asyncio]",),
    ),
    Bug(
        "a cut is reported as an end",
        "transports/tolliver/_driver/session.py",
        "_hand_over",
        'self._end(ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))',
        """
        self._driver.machine.receive_eof(self.cid, time.monotonic())
        self.reading_over = True
        (ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))
        """,
        ("tests/adapters/test_hostile.py::test_a_line_that_is_cut_is_no_end_in_order[asyncio]",),
    ),
    Bug(
        "paused, and reads on",
        "transports/tolliver/anyio/wire.py",
        "pause",
        """
        self.paused = True
        self._resumed = anyio.Event()
        """,
        "pass",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[trio]",),
    ),
    Bug(
        "shared: a wakeup of asyncio wakes the last task that waits",
        "transports/tolliver/anyio/wire.py",
        "wait",
        "self._listening.append(future)",
        "self._listening = [future]",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-asyncio]",),
    ),
    Bug(
        "twisted: written to without end",
        "transports/tolliver/twisted/wire.py",
        "pauseProducing",
        "self._full = True",
        "",
        ("tests/twisted/test_pressure.py::test_what_a_full_transport_cannot_take_stays_with_the_node",),
    ),
    Bug(
        "the sockets stay with a borrower that is away",
        "transports/tolliver/blocking/loop.py",
        "_stand_by",
        "not self._baton.locked()",
        "False",
        ("tests/blocking/test_borrowing.py::test_a_handler_that_had_the_sockets_may_block",),
    ),
    Bug(
        "a handler that failed is outvoted",
        "transports/tolliver/_messages/copies.py",
        "decided",
        "max(shared.verdict, verdict, key=_gravity)",
        "shared.verdict",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "a run settles a delivery twice",
        "transports/tolliver/_messages/mailbox.py",
        "Mailbox.settle",
        "self._out.pop(one, False)",
        "True",
        ("tests/adapters/test_handlers.py::test_a_handler_that_settles_twice_has_one_vote[asyncio-message_runs]",),
    ),
    Bug(
        "leaving an iterator acknowledges",
        "transports/tolliver/_messages/mailbox.py",
        "close",
        "self._say(out, False)",
        "self._say(out, True)",
        ("tests/adapters/test_handlers.py::test_leaving_an_iterator_fails_what_it_holds[asyncio]",),
    ),
    Bug(
        "only an Exception is a failure of a handler",
        "transports/tolliver/_messages/handler_turn.py",
        "call_each",
        "is_interrupt(error)",
        "is_interrupt(error) or not isinstance(error, Exception)",
        ("tests/adapters/test_handler_outcomes.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a database of somebody else is used",
        "transports/tolliver/_messages/opening.py",
        "open_instance",
        "(wanted is not None and known != wanted) or not mine.may_be(known)",
        "False",
        ("tests/adapters/test_instance.py::test_who_it_is_must_not_be_contradicted[asyncio]",),
    ),
    Bug(
        "a fork of an instance goes on",
        "transports/tolliver/_driver/endpoint.py",
        "check_open",
        "self._process == _this_process",
        "True",
        ("tests/adapters/test_instance.py::test_a_forked_child_is_told_to_open_its_own[asyncio]",),
    ),
    Bug(
        "a terminal is written to by a peer",
        "transports/tolliver/_cli/words.py",
        "_escaped",
        '"".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)',
        "text",
        ("tests/cli/test_words.py",),
    ),
    Bug(
        "opening: asyncio leaves a thread that a cancelled task began",
        "transports/tolliver/anyio/threads.py",
        "off_loop",
        "not outcome.cancel() and not outcome.done()",
        "False",
        ("tests/anyio/test_opening.py::test_a_task_that_is_cancelled_leaves_nothing_locked",),
    ),
    Bug(
        "a slow listener is not told that it missed something",
        "transports/tolliver/_driver/events.py",
        "put",
        "self._missed += len(self._events) == KEPT",
        "pass",
        ("tests/adapters/test_events.py::test_a_slow_listener_keeps_the_newest_and_is_told_how_many_it_missed",),
    ),
    Bug(
        "typed: a body without a value is acknowledged",
        "transports/tolliver/_messages/typed.py",
        "of",
        "delivery.fail()",
        "delivery.ack()",
        ("tests/adapters/test_typed.py::test_an_iterator_leaves_out_what_does_not_decode_and_goes_on[asyncio]",),
    ),
    Bug(
        "typed: a reply that does not decode is an answer",
        "transports/tolliver/codecs/_requests.py",
        "opened_reply",
        "typed.error is not None",
        "False",
        (
            "tests/adapters/test_typed_patterns.py::test_a_reply_without_a_body_or_without_a_value_is_a_failure[asyncio]",
        ),
    ),
    Bug(
        "what another program has written is cut off",
        "transports/tolliver/_cli/appending.py",
        "_take_back",
        "os.fstat(fd).st_size == end + len(written) and os.pread(fd, len(written), end) == written",
        "True",
        ("tests/cli/test_delivering.py::test_what_another_program_has_written_meanwhile_is_not_cut_off",),
    ),
    Bug(
        "a row is deleted before the store has it",
        "transports/tolliver/_messages/relay_steps.py",
        "_stored",
        "yield Until(stored)",
        "yield Pause(0.0)",
        ("tests/boxes/test_simulated.py::test_each_committed_transfer_has_its_effect_once",),
    ),
)

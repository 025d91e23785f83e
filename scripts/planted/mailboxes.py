"""Bugs in how messages reach handlers and iterators, and how their answers are counted."""

from __future__ import annotations

from .bug import Bug

TURNS = "tests/anyio/test_turns.py::"
COPIES = "transports/tolliver/_messages/copies.py"
INBOX = "transports/tolliver/_messages/inbox.py"
LOOP = "transports/tolliver/_driver/loop_endpoint.py"
ITERATORS = "transports/tolliver/_messages/iterators.py"
THREAD_CALLS = "transports/tolliver/blocking/handler_calls.py"
ENDS = "transports/tolliver/anyio/ends.py"
ENDPOINT = "transports/tolliver/_driver/endpoint.py"

BUGS = (
    Bug(
        "an iterator that is dropped on another thread is closed when the loop has something else to do",
        ENDPOINT,
        "abandon",
        "self.call_soon(self.wake)",
        "pass",
        ("tests/adapters/test_handlers.py::test_an_iterator_that_is_dropped_gives_back_what_it_holds[asyncio]",),
    ),
    Bug(
        "one handler is enough",
        COPIES,
        "decided",
        "shared.left == 0",
        "True",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "a handler that failed is outvoted",
        COPIES,
        "decided",
        "max(shared.verdict, verdict, key=_gravity)",
        "shared.verdict",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "several handlers share what each of them settles",
        COPIES,
        "copies",
        "[[_Copy(one) for one in shared] for _ in range(handlers)]",
        "[[_Copy(one) for one in shared]] * handlers",
        ("tests/adapters/test_handlers.py::test_a_handler_that_settles_twice_has_one_vote[asyncio-messages]",),
    ),
    Bug(
        "a run settles a delivery twice",
        INBOX,
        "Mailbox.settle",
        "self._out.pop(one, False)",
        "True",
        ("tests/adapters/test_handlers.py::test_a_handler_that_settles_twice_has_one_vote[asyncio-message_runs]",),
    ),
    Bug(
        "a handler is called for all of one peer first",
        INBOX,
        "_take_waiting",
        "peer != self._served",
        "peer == self._served",
        ("tests/adapters/test_fair.py::test_a_handler_that_many_wait_for_is_called_for_each_of_them_in_turn[asyncio]",),
    ),
    Bug(
        "gathered: acknowledgements of the turn of the close are lost",
        LOOP,
        "_begin_close",
        "self._tell_gathered()",
        "pass",
        (TURNS + "test_messages_that_are_acknowledged_in_the_turn_of_the_close_are[asyncio]",),
    ),
    Bug(
        "gathered: a message that is kept is never told as begun",
        INBOX,
        "tell",
        "self.core.begin(self, begun)",
        "pass",
        (TURNS + "test_a_message_that_is_kept_from_a_turn_to_the_next_is_being_handled[asyncio]",),
    ),
    Bug(
        "gathered: they are settled, and nobody is told",
        INBOX,
        "tell",
        "self._say(well, True)",
        "pass",
        (TURNS + "test_acknowledgements_before_a_failure_in_one_turn_stand[asyncio]",),
    ),
    Bug(
        "False is as good as True",
        INBOX,
        "is_well",
        "result is None or result is True",
        "True",
        ("tests/adapters/test_handlers.py::test_a_failed_message_comes_again_until_it_is_handled",),
    ),
    Bug(
        "leaving an iterator acknowledges",
        INBOX,
        "close",
        "self._say(out, False)",
        "self._say(out, True)",
        ("tests/adapters/test_handlers.py::test_leaving_an_iterator_fails_what_it_holds[asyncio]",),
    ),
    Bug(
        "only an Exception is a failure of a handler",
        ITERATORS,
        "_call_each",
        "is_interrupt(error)",
        "is_interrupt(error) or not isinstance(error, Exception)",
        ("tests/adapters/test_handler_outcomes.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "only an Exception is a failure of a handler that is awaited",
        ITERATORS,
        "_wait_for",
        "self._core.is_outside(error)",
        "self._core.is_outside(error) or not isinstance(error, Exception)",
        ("tests/adapters/test_handler_outcomes.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a handler has the loop until nothing waits",
        ITERATORS,
        "_call_each",
        "monotonic() > until",
        "False",
        (f"{TURNS}test_a_handler_that_takes_its_time_lets_the_others_have_their_turn",),
    ),
    Bug(
        "a handler is called in the context of the loop",
        ITERATORS,
        "call",
        "self._context.run(self._call_each, until)",
        "self._call_each(until)",
        (f"{TURNS}test_a_plain_handler_is_called_in_the_context_of_its_registration",),
    ),
    Bug(
        "a thread's interrupt is a failure of its handler",
        THREAD_CALLS,
        "_call",
        "is_interrupt(error)",
        "False",
        ("tests/adapters/test_handler_outcomes.py::test_an_interrupt_ends_the_program[threads]",),
    ),
    Bug(
        "a result must have a truth",
        INBOX,
        "is_well",
        "is_interrupt(error)",
        "True",
        ("tests/adapters/test_handler_outcomes.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a cancelled task that a handler awaits cancels us",
        ENDS,
        "_is_cancelled",
        "kind is not asyncio.CancelledError",
        "True",
        ("tests/adapters/test_handler_outcomes.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
)

"""Bugs in how messages in the hands of handlers are kept: copies, credit, calls that take too long (T-48, D-9)."""

from __future__ import annotations

from .bug import Bug

SETTLING = "tolliver_proto/_node/inboxes/settling.py"
LINKS = "tolliver_proto/_node/links/links.py"
INBOX_PART = "tolliver_proto/_node/inboxes/inbox.py"
CREDIT = "tolliver_proto/_node/inboxes/credit.py"
DELIVERING = "tolliver_proto/_node/inboxes/delivering.py"
DRIVER = "transports/tolliver/_messages/inbox.py"
TESTS = "tests/node/inboxes/test_handling.py::"
OVER_LOOPS = "tests/adapters/test_handling.py::"

BUGS = (
    Bug(
        "a copy of what is being handled is handed out",
        DELIVERING,
        "on_message",
        "not self._hands_out_again(peer, held, message)",
        "False",
        (TESTS + "test_a_copy_waits_for_what_is_being_handled_and_shares_its_answer",),
    ),
    Bug(
        "copies that wait are never acknowledged",
        CREDIT,
        "take_copies",
        "[(self._context.up[cid], count) for cid, count in waited.items() if cid in self._context.up]",
        "[]",
        (TESTS + "test_a_copy_waits_for_what_is_being_handled_and_shares_its_answer",),
    ),
    Bug(
        "copies of what failed are acknowledged with its next success",
        CREDIT,
        "drop_copies",
        "self.take_copies(delivery, inbox)",
        "pass",
        (TESTS + "test_a_copy_of_what_fails_is_not_acknowledged",),
    ),
    Bug(
        "copies wait without a bound",
        INBOX_PART,
        "wait",
        "counts[cid] > COPIES",
        "False",
        (TESTS + "test_only_so_many_copies_wait",),
    ),
    Bug(
        "a message that queues has a handling timeout",
        CREDIT,
        "is_overdue",
        "calls.begun.get(delivery, self._context.now)",
        "calls.begun.get(delivery, 0.0)",
        (
            TESTS + "test_a_copy_of_what_a_stuck_iterator_holds_is_handed_out_within_a_bound",
            TESTS + "test_after_the_timeout_a_copy_is_handed_out_and_told",
        ),
    ),
    Bug(
        "no copy is ever handed out again",
        CREDIT,
        "is_overdue",
        "one + timeout <= self._context.now",
        "False",
        (TESTS + "test_after_the_timeout_a_copy_is_handed_out_and_told",),
    ),
    Bug(
        "an overdue message gives its credit back",
        INBOX_PART,
        "set_overdue",
        "self.held[delivery] = delivery",
        "self.count -= 1",
        (TESTS + "test_no_credit_comes_back_before_the_handler_ends",),
    ),
    Bug(
        "credit begins anew with each connection",
        "tolliver_proto/_node/inboxes/credit.py",
        "down",
        "link.peer.inbox.lose(link.cid)",
        "link.peer.inbox = type(link.peer.inbox)()",
        (TESTS + "test_a_peer_that_comes_back_has_the_credit_that_it_had",),
    ),
    Bug(
        "a connection that is over hands out more than the credit",
        DELIVERING,
        "on_message",
        "inbox.exhausted and self._is_overrun(link)",
        "False",
        (TESTS + "test_a_peer_that_comes_back_has_the_credit_that_it_had",),
    ),
    Bug(
        "no handler is ever stuck",
        CREDIT,
        "_look_at_calls",
        "stuck_after + (self._context.now if oldest is None else oldest[1])",
        "self._context.now + 1e9",
        (TESTS + "test_a_stuck_handler_is_told_and_passed_by",),
    ),
    Bug(
        "a stuck handler stays so",
        CREDIT,
        "end",
        "self._look_at_calls(handler, calls, self._policy.stuck_after)",
        "pass",
        (TESTS + "test_a_stuck_handler_is_told_and_passed_by",),
    ),
    Bug(
        "what comes for a stuck handler is handed out",
        DELIVERING,
        "judge",
        "self._credit.stuck.isdisjoint(handlers)",
        "True",
        (TESTS + "test_a_stuck_handler_is_told_and_passed_by",),
    ),
    Bug(
        "what a stuck handler has takes credit",
        CREDIT,
        "_set_stuck",
        "self._is_with_stuck(delivery)",
        "False",
        (TESTS + "test_credit_of_a_stuck_handler_is_there_for_others",),
    ),
    Bug(
        "nothing is asked back of a stuck handler",
        CREDIT,
        "exhaust_credit",
        "self._actions.append(TakeBack(handler, peer.uuid))",
        "pass",
        (TESTS + "test_what_is_exhausted_later_is_asked_back_from_the_stuck",),
    ),
    Bug(
        "what is let go is an attempt",
        SETTLING,
        "let_go",
        "inbox = self._take_unhandled(delivery)",
        "self.fail([delivery])\ninbox = None",
        (TESTS + "test_credit_of_a_stuck_handler_is_there_for_others",),
    ),
    Bug(
        "an iterator that is held is never stuck",
        DRIVER,
        "begin",
        "self._timed is Timed.EACH",
        "False",
        (OVER_LOOPS + "test_an_iterator_that_is_held_and_not_read_is_stuck[messages-asyncio]",),
    ),
)

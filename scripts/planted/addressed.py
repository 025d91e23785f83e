"""Bugs in sends to some peers only, in single expiries, and in handlers side by side."""

from __future__ import annotations

from .bug import Bug

CREDIT = "tolliver_proto/_node/inboxes/credit.py"
SETTLING = "tolliver_proto/_node/inboxes/settling.py"
EXPIRY = "tolliver_proto/_node/outboxes/expiry.py"
ROUTING = "tolliver_proto/_node/outboxes/routing.py"
KEEPING = "tolliver_proto/_node/outboxes/connect_windows.py"
LANES = "tolliver_proto/_node/ordered_handling.py"
OWED = "transports/tolliver/_store/owed.py"

BUGS = (
    Bug(
        "a message for one peer is given to another that connects",
        KEEPING,
        "is_for",
        "is_new and (self.to is None or peer.uuid in self.to)",
        "is_new",
        ("tests/node/outboxes/test_addressing.py::test_what_is_kept_for_a_peer_that_connects_goes_to_none_but_those",),
    ),
    Bug(
        "a named peer that does not subscribe is sent it",
        ROUTING,
        "narrow",
        "uuid in known and not known[uuid].outbox.routed.isdisjoint(pairs)",
        "uuid in known",
        ("tests/node/outboxes/test_addressing.py::test_it_goes_to_those_that_subscribe_and_to_no_other",),
    ),
    Bug(
        "nobody looks for what expires next",
        EXPIRY,
        "_give_up_due",
        "len(over) < len(found)",
        "False",
        ("tests/node/outboxes/test_expiry.py::test_it_is_given_up_for_all_and_who_waits_is_told",),
    ),
    Bug(
        "an expiry outlives its batch",
        OWED,
        "_end_due",
        "self._expires",
        "False",
        ("tests/store/test_expiry.py::test_over_a_restart_and_a_step_of_the_wall_clock",),
    ),
    Bug(
        "a message that waits for its next try outlives its connection",
        SETTLING,
        "down",
        "one.cid == link.cid",
        "False",
        ("tests/node/inboxes/test_redelivery.py::test_with_its_connection_it_is_let_go_and_its_tries_are_known",),
    ),
    Bug(
        "two calls inside a key",
        LANES,
        "add",
        "lane in self._waiting",
        "False",
        ("tests/node/inboxes/test_ordered_handling.py::TestSideBySide",),
    ),
    Bug(
        "one call too many at once",
        LANES,
        "has_place",
        "len(self._at_work) < self._most",
        "len(self._at_work) <= self._most",
        ("tests/node/inboxes/test_ordered_handling.py::TestSideBySide",),
    ),
    Bug(
        "who waits for a handler's bound waits for ever",
        CREDIT,
        "uncount",
        "bound.waiting and not bound.is_full(2)",
        "False",
        ("tests/node/inboxes/test_pending.py::test_one_more_for_each_peer_and_all_go_on",),
    ),
    Bug(
        "the place of a call is never free again",
        "transports/tolliver/_messages/inbox.py",
        "end",
        "self._places.end(one)",
        "pass",
        ("tests/adapters/test_side_by_side.py::test_so_many_calls_at_once_and_no_more[asyncio]",),
    ),
)

"""Bugs in last values and flushes.

The idea: a value comes too often, too late, to the wrong peer, or was never true; a flush answers too soon.
"""

from __future__ import annotations

from .bug import Bug

FLUSHES = "tolliver_proto/_node/outboxes/flushes.py"
SENDER = "tolliver_proto/_node/outboxes/sender.py"
INDEX = "tolliver_proto/_patterns/value_index.py"
VALUES = "tolliver_proto/_patterns/last_values.py"
COPIES = "tolliver_proto/_patterns/value_copies.py"

_NODE = "tests/patterns/test_retained.py::"
_FLUSH = "tests/node/outboxes/test_flushing.py::"

BUGS = (
    Bug(
        "a value for every entry of a list, new or not",
        VALUES,
        "before_list",
        "wanted - known.lists.subscriptions - known.lists.held.keys()",
        "wanted",
        (f"{_NODE}test_a_longer_list_gets_what_is_new_in_it_alone",),
    ),
    Bug(
        "a subscription that was held is new",
        VALUES,
        "before_list",
        "wanted - known.lists.subscriptions - known.lists.held.keys()",
        "wanted - known.lists.subscriptions",
        (f"{_NODE}test_a_hold_that_ends_by_subscribing_is_nothing_new_and_one_that_is_over_is",),
    ),
    Bug(
        "what is retained is kept for who connects, too",
        SENDER,
        "store",
        ("bool(self._ledger.keeping) and rider is None and terms.to != _NOBODY and self._look_at_windows(len(items))"),
        "bool(self._ledger.keeping) and terms.to != _NOBODY and self._look_at_windows(len(items))",
        (f"{_NODE}test_it_comes_once_to_a_peer_that_was_connecting",),
    ),
    Bug(
        "values that nobody wants any more stay on the disk",
        COPIES,
        "rerouted",
        "not copies.wanted <= wanted",
        "False",
        (f"{_NODE}test_one_that_unsubscribes_gets_no_more_of_the_values_and_their_disk_is_free",),
    ),
    Bug(
        "a value that has gone out is dropped where the peer unsubscribes",
        COPIES,
        "take",
        "one.seq > peer.outbox.sent_to",
        "one.seq",
        (f"{_NODE}test_one_that_unsubscribes_gets_no_more_of_the_values_and_their_disk_is_free",),
    ),
    Bug(
        "an old value that waits is taken for the newest",
        COPIES,
        "is_queued",
        "seq >= self._changed_at.get(name, 0)",
        "bool(name)",
        (f"{_NODE}test_a_newer_value_than_the_one_that_waits_is_given",),
    ),
    Bug(
        "a value that waits is queued again",
        COPIES,
        "is_queued",
        "self._waits(peer, seq)",
        "False",
        (f"{_NODE}test_a_value_that_still_waits_is_not_queued_again",),
    ),
    Bug(
        "a value is given while its change is being stored",
        INDEX,
        "_go_on",
        "any(map(reading.wants, self._running))",
        "False",
        (f"{_NODE}test_a_change_while_values_are_looked_up_counts_in_the_state_of_the_end",),
    ),
    Bug(
        "a change while values are read is not seen",
        INDEX,
        "_enter",
        "reading.wants(name)",
        "False",
        (f"{_NODE}test_a_change_while_values_are_looked_up_counts_in_the_state_of_the_end",),
    ),
    Bug(
        "two lists of one peer at once",
        VALUES,
        "before_list",
        "giving is not None",
        "False",
        (f"{_NODE}test_one_list_of_a_peer_after_the_other",),
    ),
    Bug(
        "values on a full disk keep a peer out",
        VALUES,
        "_room_of",
        "self._kernel.apart",
        "False",
        (f"{_NODE}test_on_a_full_disk_a_peer_connects_and_the_values_are_left_out",),
    ),
    Bug(
        "sizes of what was not stored are believed",
        INDEX,
        "_ended",
        "self._recount()",
        "pass",
        (f"{_NODE}test_a_change_that_is_not_stored_is_not_given",),
    ),
    Bug(
        "older values stay on the disk",
        INDEX,
        "_begin",
        "name in self.entries",
        "False",
        (f"{_NODE}test_each_value_is_on_disk_once_however_often_it_changes",),
    ),
    Bug(
        "the older value counts as gone, though the commit failed",
        "tolliver_proto/_node/outboxes/ledger.py",
        "withdrawn",
        "error is None",
        "True",
        (f"{_NODE}test_a_commit_that_fails_leaves_the_older_value",),
    ),
    Bug(
        "last values expire",
        "tolliver_proto/_testing/memory_store.py",
        "find",
        "not is_keeper(uuid)",
        "True",
        (f"{_NODE}test_values_wait_for_no_peer",),
    ),
    Bug(
        "what is next in a flush is not waited for",
        FLUSHES,
        "_is_through",
        "link.sending.handed - link.in_transit >= flush.mark",
        "True",
        (f"{_FLUSH}test_it_waits_for_the_sockets_of_all_who_are_connected",),
    ),
    Bug(
        "a flush answers before a full window is through",
        FLUSHES,
        "_is_through",
        "link.sending.window.owes(flush.seq)",
        "False",
        (f"{_FLUSH}test_it_waits_for_a_window_that_is_full",),
    ),
)

"""Bugs at bounds: quotas, dead letters, ages.

The idea: at a bound the wrong thing goes, too much, too little, or at another time than what displaces it comes.
"""

from __future__ import annotations

from .bug import Bug

BATCH_PART = "tolliver_proto/_node/commits/batch.py"
LETTERS_PART = "tolliver_proto/_node/inboxes/dead_letters.py"
DEAD_LETTERS = "tolliver_proto/_node/inboxes/dead_letters.py"
QUOTA_PART = "tolliver_proto/_node/outboxes/quota.py"
SEARCH_PART = "tolliver_proto/_node/commits/commits.py"
SENDER = "tolliver_proto/_node/outboxes/sender.py"
QUOTA_ROOM = "tolliver_proto/_node/outboxes/quota.py"
LEDGER = "tolliver_proto/_node/outboxes/ledger.py"
OUTBOX_PART = "tolliver_proto/_node/outboxes/outbox.py"
OLDEST_PART = "tolliver_proto/_node/outboxes/drop_oldest.py"
NODE = "tolliver_proto/_node/node.py"
TALLY = "tolliver_proto/_node/notices.py"
CLOCK = "transports/tolliver/_store/clock.py"
SQLITE = "transports/tolliver/_store/sqlite.py"

_NODE = "tests/node/outboxes/test_quota.py::"

BUGS = (
    Bug(
        "the oldest go before what displaces them is stored",
        NODE,
        "done",
        "then(error)",
        (
            "\n"
            "        self._ledger.remove(peer, outbox.oldest.choose(excess, is_in_flight, "
            "self._ledger.next_seq) or [])\n"
            "        self._begin_commit()\n"
            "        then(error)\n"
            "        "
        ),
        (f"{_NODE}test_the_oldest_go_in_the_commit_that_stores_the_newest",),
    ),
    Bug(
        "what is in flight goes first",
        OLDEST_PART,
        "_in_order",
        "is_in_flight(one)",
        "False",
        (f"{_NODE}test_what_is_in_flight_goes_last",),
    ),
    Bug(
        "what was acknowledged is dropped once more",
        OUTBOX_PART,
        "leave",
        "self.oldest.discard(first, last)",
        "pass",
        (f"{_NODE}test_an_ack_in_between_is_no_loss_and_no_drop",),
    ),
    Bug(
        "an ack while the search waits is dropped once more",
        OLDEST_PART,
        "discard",
        "not self._found",
        "self.searching or not self._found",
        (f"{_NODE}test_an_ack_while_the_search_waits_for_a_commit",),
    ),
    Bug(
        "what was set aside is dropped for room",
        NODE,
        "take",
        "not one.parked and one.seq not in outbox.leaving",
        "one.seq not in outbox.leaving",
        (f"{_NODE}test_what_is_set_aside_neither_counts_nor_goes",),
    ),
    Bug(
        "what comes back is not among the oldest",
        LEDGER,
        "read_again",
        "peer.outbox.oldest.forget()",
        "pass",
        (f"{_NODE}test_what_is_set_aside_neither_counts_nor_goes",),
    ),
    Bug(
        "a search knows what was added meanwhile",
        OLDEST_PART,
        "end",
        "not self.valid",
        "False",
        (f"{_NODE}test_what_was_kept_for_a_connection_counts_once_it_is_stored",),
    ),
    Bug(
        "a search for each send at the quota",
        QUOTA_ROOM,
        "_look_for_oldest",
        "self._commits.room_searches.begin(peer.uuid, take, done, piece=AHEAD)",
        "self._commits.room_searches.begin(peer.uuid, take, done, piece=1)",
        (f"{_NODE}test_one_search_is_enough_for_many_sends",),
    ),
    Bug(
        "room is made in messages alone",
        OLDEST_PART,
        "choose",
        "size -= one.size",
        "size = 0",
        (f"{_NODE}test_as_many_go_as_make_room_in_bytes",),
    ),
    Bug(
        "a search that fails leaves its send waiting",
        SENDER,
        "_on_room",
        "self.blocked.popleft()",
        "return",
        (f"{_NODE}test_a_search_that_fails_fails_the_send_and_no_other",),
    ),
    Bug(
        "a send overtakes one that waits for room",
        SENDER,
        "send_many",
        "self.blocked or self.must_wait() or not self.store(items, sizes, receipt, terms)",
        "self.must_wait() or not self.store(items, sizes, receipt, terms)",
        (f"{_NODE}test_an_ack_in_between_is_no_loss_and_no_drop", f"{_NODE}test_a_later_send_waits_its_turn"),
    ),
    Bug(
        "a search within the end of another is asked twice",
        SEARCH_PART,
        "_go_on",
        "others_wait = bool(self._searches)",
        "others_wait = True",
        (f"{_NODE}test_sends_that_wait_for_room_keep_their_order",),
    ),
    Bug(
        "more than a whole quota empties the outbox",
        QUOTA_PART,
        "full",
        "policy is QuotaPolicy.DROP_OLDEST and (share[0] > self._messages or share[1] > self._bytes)",
        "False",
        (f"{_NODE}test_more_at_once_than_the_whole_quota_is_refused",),
    ),
    Bug(
        "one full peer has all others skipped",
        QUOTA_PART,
        "narrowed",
        "peer not in skipped",
        "not skipped",
        (f"{_NODE}test_a_full_peer_is_left_out_and_the_others_get_it",),
    ),
    Bug(
        "a full peer gets nothing of what would fit",
        QUOTA_PART,
        "left_out",
        "count < self._messages and total + size <= self._bytes",
        "False",
        (f"{_NODE}test_a_full_peer_is_left_out_and_the_others_get_it",),
    ),
    Bug(
        "what was skipped is given at the next handshake",
        SENDER,
        "store",
        "self._ledger.keeping[seq].exclude(peer)",
        "pass",
        (f"{_NODE}test_what_was_skipped_is_not_given_when_it_connects",),
    ),
    Bug(
        "a peer's own policy is not looked at",
        "tolliver_proto/_node/policy.py",
        "quota_of",
        "self.quota_policies.get(peer, self.quota_policy)",
        "self.quota_policy",
        (f"{_NODE}test_each_peer_has_its_own",),
    ),
    Bug(
        "that an outbox fills is told with each send",
        QUOTA_PART,
        "begins_to_fill",
        "outbox.calm_below = (self._messages * _CALM / 100, self._bytes * _CALM / 100)",
        "pass",
        (f"{_NODE}test_at_80_percent_it_is_told_once_a_crossing",),
    ),
    Bug(
        "that an outbox fills is told once for ever",
        OUTBOX_PART,
        "add",
        "self.calm_below = None",
        "pass",
        (f"{_NODE}test_at_80_percent_it_is_told_once_a_crossing",),
    ),
    Bug(
        "a notice for each message that is dropped",
        TALLY,
        "_is_first",
        "place in known",
        "False",
        (f"{_NODE}test_many_drops_are_told_once_a_minute_with_their_number",),
    ),
    Bug(
        "dead letters have no bound",
        DEAD_LETTERS,
        "_keep_letter",
        ("self.numbers.beyond(self._limits.max_dead_letters, self._limits.max_dead_letter_bytes)"),
        "[]",
        ("tests/node/inboxes/test_dead_letters.py::test_at_the_bound_the_oldest_goes_and_it_is_told",),
    ),
    Bug(
        "the newest dead letter goes",
        LETTERS_PART,
        "beyond",
        "sorted(self._sizes.items())",
        "sorted(self._sizes.items(), reverse=True)",
        ("tests/node/inboxes/test_dead_letters.py::test_at_the_bound_the_oldest_goes_and_it_is_told",),
    ),
    Bug(
        "dead letters of a commit that failed count",
        LETTERS_PART,
        "restore",
        "self.take_out((number,))",
        "pass",
        ("tests/node/inboxes/test_dead_letters.py::test_a_commit_that_fails_drops_nothing",),
    ),
    Bug(
        "a dead letter that never was is taken back",
        BATCH_PART,
        "follow",
        "self.undo[what] = undo",
        "pass",
        ("tests/node/inboxes/test_dead_letters.py::test_a_letter_that_never_was_is_not_taken_back",),
    ),
    Bug(
        "a step of the wall clock ages messages",
        CLOCK,
        "now",
        "self.correction += ahead - self._ahead",
        "pass",
        ("tests/store/test_clock.py::test_a_step_makes_no_message_older_or_younger",),
    ),
    Bug(
        "after a wall clock that was ahead nothing gets old",
        SQLITE,
        "__init__",
        "self._clock.not_before(self._deliveries.newest_stored_at())",
        "pass",
        ("tests/store/test_clock.py::test_a_wall_clock_that_was_years_ahead_keeps_nothing_for_years",),
    ),
)

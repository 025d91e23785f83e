"""Bugs in commits, lists, rules of matching, sizes and notices."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "subscriptions of a peer that is away are dropped",
        "tolliver_proto/_node/lists/peers.py",
        "end_voice",
        """
        if not peer.outbox.takes_reliable:
            self.want_while_connected(peer)
        elif peer.lists.voices:
            self.route_to(peer)
            self._commits.batch.lists.setdefault(peer, False)
            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)
        """,
        """
        if not peer.outbox.takes_reliable:
            self.want_while_connected(peer)
        else:
            self.route_to(peer)
            self._commits.batch.lists.setdefault(peer, False)
            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)
        """,
        (
            "tests/node/lists/test_holds.py",
            "tests/node/links/test_connecting.py",
        ),
    ),
    Bug(
        "a peer subscribes to the reserved channel",
        "tolliver_proto/_node/lists/peers.py",
        "_on_entries",
        "peer.derived or one.channel == RESERVED_CHANNEL",
        "peer.derived",
        ("tests/node/inboxes/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",),
    ),
    Bug(
        "too many subscriptions of a peer are kept",
        "tolliver_proto/_node/lists/peers.py",
        "_may_have",
        "len(link.lists.told) + others >= self._limits.max_subscriptions or size > self._limits.max_handshake",
        "size > self._limits.max_handshake",
        ("tests/node/inboxes/test_receiving.py::test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged",),
    ),
    Bug(
        "what a newer list lacks is dropped",
        "tolliver_proto/_node/lists/peers.py",
        "_set_peer_list",
        "{one: peer.lists.held.get(one, until) for one in kept}",
        "{}",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "a hold never ends",
        "tolliver_proto/_node/lists/peers.py",
        "_give_up_held",
        "self._commits.searches.begin(peer.uuid, take, done)",
        "",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "a subscribe in the same piece of bytes keeps what an unsubscribe gave up",
        "tolliver_proto/_node/lists/peers.py",
        "must_wait",
        '"" in channels | others or not channels.isdisjoint(others)',
        "False",
        ("tests/node/lists/test_holds.py::test_an_unsubscribe_ends_it_also_where_a_subscribe_follows",),
    ),
    Bug(
        "own subscriptions are not stored",
        "tolliver_proto/_node/lists/own.py",
        "_store_own",
        "self._commits.batch.operations.append(operation)",
        "",
        ("tests/node/inboxes/test_receiving.py::test_own_changes_are_told_to_every_peer_once_they_are_stored",),
    ),
    Bug(
        "a wildcard channel matches nothing",
        "tolliver_proto/_node/subscriptions.py",
        "matching",
        'Subscription("", key)',
        "Subscription(channel, key)",
        ("tests/node/outboxes/test_sending.py::test_reserved_names_are_case_sensitive",),
    ),
    Bug(
        "what is linked again after a failure is forgotten",
        "tolliver_proto/_node/commits/batch.py",
        "putting_away",
        "self.linked",
        "False",
        (
            "tests/node/commits/test_full_disk.py::test_what_was_linked_and_failed_is_linked_later_though_nothing_else_is_to_be_stored",
        ),
    ),
    Bug(
        "wildcard matches the reserved channel",
        "tolliver_proto/_node/sizes.py",
        "_size_around",
        "PRIVATE_CHANNELS",
        "()",
        ("tests/node/outboxes/test_sending.py::test_a_bad_item_is_refused_with_all_its_companions",),
    ),
    Bug(
        "searched for before all is stored",
        "tolliver_proto/_node/commits/commits.py",
        "when_stored",
        "self.running is None and self.batch.empty",
        "True",
        ("tests/node/outboxes/test_upkeep.py::test_what_is_being_stored_for_it_is_purged_too",),
    ),
    Bug(
        "send before commit",
        "tolliver_proto/_node/node.py",
        "_begin_commit",
        "self._commits.begin(batch)",
        """
        self._commits.begin(batch)
        if batch.runs:
            self._transmission.on_stored(batch.runs)
        """,
        ("tests/node/test_promises.py::test_i1_neither_stored_nor_a_byte_before_the_commit",),
    ),
    Bug(
        "ids in use are not reserved in the store",
        "tolliver_proto/_node/node.py",
        "_begin_commit",
        "self._ledger.ids.needs_reserve",
        "False",
        ("tests/node/commits/test_storing.py::test_ids_are_reserved_again_after_a_failure",),
    ),
    Bug(
        "the oldest go before what displaces them is stored",
        "tolliver_proto/_node/node.py",
        "done",
        "then(error)",
        """
        self._ledger.remove(peer, outbox.oldest.choose(excess, is_in_flight, self._ledger.next_seq) or [])
        self._begin_commit()
        then(error)
        """,
        ("tests/node/outboxes/test_quota.py::test_the_oldest_go_in_the_commit_that_stores_the_newest",),
    ),
    Bug(
        "a notice that repeats is told each time",
        "tolliver_proto/_node/context.py",
        "notice",
        "kind not in THROTTLED or self.tally.is_first(kind, peer, detail, self.now)",
        "True",
        ("tests/node/test_throttled.py::test_the_first_is_told_at_once_and_then_the_sum",),
    ),
    Bug(
        "each UUID that is claimed takes memory",
        "tolliver_proto/_node/notices.py",
        "_of_peer",
        "place in known or len(known) < PEERS_KNOWN",
        "True",
        ("tests/node/test_throttled.py::test_who_claims_ever_new_uuids_takes_a_bounded_share_of_memory",),
    ),
    Bug(
        "two changes of one subscription are under way at once",
        "tolliver_proto/_node/lists/control_sync.py",
        "sync",
        "told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind)",
        "told == wanted or self.mute or not self._connection.can_send(kind)",
        ("tests/node/inboxes/test_receiving.py::test_one_change_of_a_subscription_at_a_time_and_the_latest_wins",),
    ),
)

"""Bugs in the node's way of sending: the outbox, ids, quotas, holds."""

from __future__ import annotations

from .bug import Bug

COMMITS = "tolliver_proto/_node/commits/commits.py"
SIZES = "tolliver_proto/_node/sizes.py"
OUTBOX_PART = "tolliver_proto/_node/outboxes/outbox.py"
CONNECT_WAIT = "tolliver_proto/_node/outboxes/connect_wait.py"
IDS_PART = "tolliver_proto/_node/outboxes/ids.py"
TRANSMISSION = "tolliver_proto/_node/outboxes/transmission.py"
BATCH_PART = "tolliver_proto/_node/commits/batch.py"
SENDER = "tolliver_proto/_node/outboxes/sender.py"
NODE = "tolliver_proto/_node/node.py"
LEDGER = "tolliver_proto/_node/outboxes/ledger.py"
OWN = "tolliver_proto/_node/lists/own.py"
QUOTA_PART = "tolliver_proto/_node/outboxes/quota.py"
PEERS = "tolliver_proto/_node/lists/peers.py"
ACK_WATCH = "tolliver_proto/_node/outboxes/suspicion.py"
MESSAGE_SET = "tolliver_proto/_node/message_set.py"

BUGS = (
    Bug(
        "a silence is told though acknowledgements come",
        ACK_WATCH,
        "acked",
        "self._since = now if waits and self._after is not None else None",
        "pass",
        ("tests/node/links/test_silence.py",),
    ),
    Bug(
        "a silence is told again and again",
        ACK_WATCH,
        "look",
        "self._told = True",
        "self._told = False",
        ("tests/node/links/test_silence.py",),
    ),
    Bug(
        "what a newer list lacks is dropped",
        PEERS,
        "_set_peer_list",
        "{one: peer.lists.held.get(one, until) for one in kept}",
        "{}",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "what was held is not read again",
        PEERS,
        "_read_all_again",
        "window.go_back(0)",
        "pass",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "a hold never ends",
        PEERS,
        "_give_up_held",
        "self._commits.searches.begin(peer.uuid, take, lambda _error: None)",
        "",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "what is held makes a send fail",
        QUOTA_PART,
        "full",
        "QuotaPolicy.SKIP if peer.lists.held else self._policy.quota_of(peer.uuid)",
        "self._policy.quota_of(peer.uuid)",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "an unsubscribe is said once",
        OWN,
        "insist",
        "link.lists.control.insist(peer.lists.unsaid)",
        "pass",
        ("tests/node/lists/test_holds.py::test_an_unsubscribe_is_repeated_until_it_is_acknowledged",),
    ),
    Bug(
        "what was given up counts as acknowledged",
        LEDGER,
        "remove",
        "self._tell_given_up(peer.uuid, ids, reason)",
        "",
        ("tests/node/outboxes/test_undelivered.py",),
    ),
    Bug(
        "who asks later is told of an acknowledgement",
        LEDGER,
        "watch",
        "Acked([receipt], told[0] if told else None)",
        "Acked([receipt])",
        ("tests/node/outboxes/test_undelivered.py::test_who_asks_later_is_told_the_same",),
    ),
    Bug(
        "a send goes without the recipients that it requires",
        NODE,
        "_check_recipients",
        "found < required",
        "False",
        ("tests/node/outboxes/test_undelivered.py::test_a_send_with_fewer_recipients_than_it_asks_for_stores_nothing",),
    ),
    Bug(
        "who is skipped at its quota counts as a recipient that is required",
        SENDER,
        "store",
        "routed, shares = room.routed, room.shares\n_check_recipients(items, routed, terms.required)",
        "routed, shares = room.routed, room.shares",
        ("tests/node/outboxes/test_undelivered.py::test_who_is_skipped_at_its_quota_is_not_counted",),
    ),
    Bug(
        "on a full disk messages go with everything else",
        SENDER,
        "must_wait",
        "self._commits.apart or self._keeps_enough()",
        "self._keeps_enough()",
        ("tests/node/commits/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "what is linked again after a failure is forgotten",
        BATCH_PART,
        "putting_away",
        "self.linked",
        "False",
        (
            "tests/node/commits/test_full_disk.py::"
            "test_what_was_linked_and_failed_is_linked_later_though_nothing_else_is_to_be_stored",
        ),
    ),
    Bug(
        "delivery row removed when sent instead of when acked",
        TRANSMISSION,
        "pump",
        "room -= len(data)",
        (
            "\n"
            "        room -= len(data)\n"
            "        self._commits.batch.removals.append(RemoveDeliveries(peer.uuid, [(message.seq, "
            "message.seq) for message in run]))\n"
            "        "
        ),
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "wrap onto a live id",
        IDS_PART,
        "_next_free",
        "self.live.next_free(number)",
        "number",
        ("tests/node/outboxes/test_sending.py::test_ids_wrap_over_live_ones",),
    ),
    Bug(
        "ids begin among those that were handed out",
        IDS_PART,
        "_drawn",
        "self._is_clear(first, first + RESERVE - 1)",
        "True",
        ("tests/node/outboxes/test_ids.py::test_the_first_draw_that_is_clear_is_taken",),
    ),
    Bug(
        "only the first id of a block is looked at",
        IDS_PART,
        "_drawn",
        "self._is_clear(first, first + RESERVE - 1)",
        "self._is_clear(first, first)",
        ("tests/node/outboxes/test_ids.py::test_a_wrapping_block_is_looked_at_on_both_sides",),
    ),
    Bug(
        "ids run into those of earlier openings",
        IDS_PART,
        "_next_free",
        "self._older.next_free(self.live.next_free(number))",
        "self.live.next_free(number)",
        ("tests/node/outboxes/test_ids.py::test_ids_that_were_handed_out_are_passed_over_as_long_as_there_are_others",),
    ),
    Bug(
        "more than 2^30 ids are remembered",
        IDS_PART,
        "remembered",
        "room <= 0",
        "False",
        ("tests/node/outboxes/test_ids.py::test_what_is_remembered_is_the_newest_ids",),
    ),
    Bug(
        "openings are remembered without a bound",
        IDS_PART,
        "remembered",
        "spans[-OPENINGS:]",
        "spans",
        ("tests/node/outboxes/test_ids.py::test_so_many_openings_are_remembered_and_no_more",),
    ),
    Bug(
        "a restored copy meets the ids that followed it",
        IDS_PART,
        "begin_elsewhere",
        "count + BEYOND_A_COPY",
        "count",
        ("tests/node/outboxes/test_ids.py::test_a_restored_copy_keeps_clear_of_where_the_original_went_on",),
    ),
    Bug(
        "an opening that used no id leaves a row",
        IDS_PART,
        "needs_reserve",
        "0 < self._passed > self._reserved - RESERVE // 2",
        "self._passed > self._reserved - RESERVE // 2",
        ("tests/node/outboxes/test_ids.py::test_an_opening_that_used_no_id_reserves_none",),
    ),
    Bug(
        "id 2^31-1 allocated",
        IDS_PART,
        "",
        "LAST_ID = 2**31 - 2",
        "LAST_ID = 2**31 - 1",
        ("tests/node/test_parts.py::test_ids_are_free_cyclic_and_never_reserved",),
    ),
    Bug(
        "message sent during the dial lost",
        CONNECT_WAIT,
        "claim_kept",
        "self._ledger.link_kept(peer, claimed)",
        "self._ledger.link_kept(peer, [])",
        ("tests/node/links/test_connecting.py::test_what_is_sent_while_a_connection_is_made_reaches_the_peer_once",),
    ),
    Bug(
        "resend out of order",
        OUTBOX_PART,
        "fetched",
        """
        for row in rows:
            if row.seq in self.outbox.leaving or row.wire_id in self._unacked or row.wire_id in self._backoff:
                continue
            if isinstance(row, CorruptMessage):
                corrupt.append(row)
            elif holds is None or not holds(row.channel, row.key):
                self._fresh.append(row)
                self._fresh_bytes += row.size
        """,
        """
        for row in reversed(rows):
            if row.seq in self.outbox.leaving or row.wire_id in self._unacked or row.wire_id in self._backoff:
                continue
            if isinstance(row, CorruptMessage):
                corrupt.append(row)
            elif holds is None or not holds(row.channel, row.key):
                self._fresh.append(row)
                self._fresh_bytes += row.size
        """,
        ("tests/node/outboxes/test_sending.py::test_everything_again_at_once_and_in_order_on_a_new_connection",),
    ),
    Bug(
        "resend while still buffered",
        TRANSMISSION,
        "pump",
        "room -= len(data)",
        (
            "\n"
            "        window.transmitted([message.wire_id for message in run], (), self._context.now)\n"
            "        room -= len(data)\n"
            "        "
        ),
        ("tests/node/outboxes/test_sending.py::test_never_again_while_the_first_copy_is_in_our_own_buffer",),
    ),
    Bug(
        "wildcard matches the reserved channel",
        SIZES,
        "_size_around",
        "PRIVATE_CHANNELS",
        "()",
        ("tests/node/outboxes/test_sending.py::test_a_bad_item_is_refused_with_all_its_companions",),
    ),
    Bug(
        "searched for before all is stored",
        COMMITS,
        "when_stored",
        "self.running is None and self.batch.empty",
        "True",
        ("tests/node/outboxes/test_upkeep.py::test_what_is_being_stored_for_it_is_purged_too",),
    ),
    Bug(
        "another message under a known id is a copy",
        MESSAGE_SET,
        "_compared",
        "return _BY_ID",
        "return _YES",
        ("tests/node/inboxes/test_duplicates.py::test_another_message_under_a_known_id_is_a_message",),
    ),
    Bug(
        "the checksum leaves out where the names end",
        MESSAGE_SET,
        "_names_checksum",
        "_LENGTHS.pack(*map(len, names))",
        "b''",
        ("tests/node/test_message_set.py::test_names_and_body_do_not_run_into_each_other",),
    ),
    Bug(
        "only the newest message under an id is known",
        MESSAGE_SET,
        "_put_aside",
        "self._heads[at] = row",
        "",
        (
            "tests/node/inboxes/test_duplicates.py::test_another_message_under_a_known_id_is_a_message",
            "tests/node/test_message_set.py::TestMessageSet",
        ),
    ),
    Bug(
        "an entry without a checksum is like any other",
        MESSAGE_SET,
        "_compared",
        "number & 1 or checksum in (None, self._checksums[newest])",
        "checksum in (None, self._checksums[newest])",
        ("tests/node/inboxes/test_duplicates.py::test_what_an_old_layout_remembers_matches_by_id_alone",),
    ),
    Bug(
        "a peer with one id for everything makes one long chain",
        MESSAGE_SET,
        "add",
        "self._put_aside(other, at)",
        "self._aside += 1",
        ("tests/node/test_message_set.py::test_a_peer_that_has_one_id_for_everything_makes_no_long_chain",),
    ),
    Bug(
        "what nobody wants is stored",
        SENDER,
        "store",
        "[at for at, recipients in enumerate(routed) if recipients.peers or is_kept]",
        "[at for at, recipients in enumerate(routed)]",
        ("tests/node/outboxes/test_sending.py::test_nobody_wants_it_and_nothing_is_stored",),
    ),
    Bug(
        "a message alone that nobody wants is stored",
        SENDER,
        "send",
        "not count",
        "False",
        ("tests/node/outboxes/test_sending.py::test_nobody_wants_it_and_nothing_is_stored",),
    ),
    Bug(
        "a message alone passes the quota",
        SENDER,
        "send",
        "self._room.quota.is_tight(peer.outbox, 1, size)",
        "False",
        ("tests/node/outboxes/test_undelivered.py::test_what_goes_for_newer_ones_was_not_delivered",),
    ),
    Bug(
        "a message alone passes those that wait",
        SENDER,
        "send",
        (
            "self._ledger.keeping or self.blocked or self._commits.apart or self._context.closing or has_terms "
            "or self._context.foreign"
        ),
        ("self._ledger.keeping or self._commits.apart or self._context.closing or has_terms or self._context.foreign"),
        (
            "tests/node/links/test_connecting.py",
            "tests/node/outboxes/test_quota.py",
            "tests/node/commits/test_full_disk.py",
        ),
    ),
    Bug(
        "the first ack removes the message for all",
        LEDGER,
        "take_in",
        "len(recipients.peers) + is_kept",
        "1",
        ("tests/node/outboxes/test_sending.py::test_one_id_for_several_recipients",),
    ),
    Bug(
        "the quota of a peer is not looked at",
        QUOTA_PART,
        "full",
        "max(self.excess(peer.outbox, share)) <= 0",
        "True",
        ("tests/node/outboxes/test_sending.py::test_a_full_outbox_refuses_before_anything_changes",),
    ),
    Bug(
        "unreliable messages pile up",
        SENDER,
        "unreliable_send",
        "connection.unsent_bytes + link.in_transit >= high_water or not connection.live",
        "not connection.live",
        ("tests/node/outboxes/test_sending.py::test_unreliable_is_dropped_over_high_water_and_never_stored",),
    ),
    Bug(
        "the window has no bound",
        OUTBOX_PART,
        "next_run",
        "count and (count >= most or size + message.size > most_bytes)",
        "False",
        ("tests/node/outboxes/test_sending.py::test_the_window_holds_messages_back_and_acks_let_them_go",),
    ),
    Bug(
        "a withheld ack stops the peer",
        OUTBOX_PART,
        "_leave_window",
        """
        message = self._unacked.pop(wire_id)
        self._unacked_bytes -= message.size
        self._backoff[wire_id] = _Resend(message.seq, message.size, (message.channel, message.key))
        self._again.append(message)
        """,
        "heappush(self._due, (now + self.interval(0), True, [wire_id]))",
        ("tests/node/outboxes/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "resends do not back off",
        OUTBOX_PART,
        "interval",
        "self._resend_first * 2.0 ** min(attempts, 30)",
        "self._resend_first",
        ("tests/node/outboxes/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "an unreadable row stops a peer",
        OUTBOX_PART,
        "fetched",
        "corrupt.append(row)",
        "break",
        ("tests/node/commits/test_storing.py::test_corrupt_rows_are_set_aside_and_the_rest_goes_on",),
    ),
    Bug(
        "kept messages have no bound",
        SENDER,
        "_keeps_enough",
        "self._ledger.keeping.keeps_enough(self._policy.strict_block)",
        "False",
        ("tests/node/links/test_connecting.py::test_beyond_its_share_sends_wait_until_the_peer_has_answered",),
    ),
    Bug(
        "what expires was acknowledged already",
        LEDGER,
        "remove",
        """
        if one.seq in outbox.leaving and one.seq not in being_parked:
            continue
        """,
        "",
        ("tests/node/outboxes/test_upkeep.py::test_an_ack_that_crosses_the_search_counts_once",),
    ),
    Bug(
        "a send to nobody is silent success",
        SENDER,
        "_tell_nobody",
        "receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, len(channels))",
        "pass",
        ("tests/node/outboxes/test_windows.py::test_a_send_that_nobody_is_owed_is_answered_so",),
    ),
)

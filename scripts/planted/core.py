"""Bugs in the wire and the node.

The idea: one for each promise and each ruling that a peer, a crash or a limit could put to the test.
"""

from __future__ import annotations

from .bug import Bug

RECEIVING = "tolliver_proto/_node/receiving.py"
HANDLING = "tolliver_proto/_node/handling.py"
SENDING = "tolliver_proto/_node/sending.py"
STORING = "tolliver_proto/_node/storing.py"
HOLDS = "tolliver_proto/_node/holds.py"
OPENING = "tolliver_proto/_node/opening.py"
GATE = "tolliver_proto/_node/gate.py"
BATCH = "tolliver_proto/_node/batch.py"
HANDSHAKES = "tolliver_proto/_node/handshakes.py"
LINK = "tolliver_proto/_node/link.py"
IDS = "tolliver_proto/_node/ids.py"
FRAMES = "tolliver_proto/_wire/frames.py"
OUTBOX = "tolliver_proto/_node/outbox.py"
LAYOUTS = "tolliver_proto/_wire/layouts.py"
STATE = "tolliver_proto/_wire/state.py"
MAINTENANCE = "tolliver_proto/_node/maintenance.py"
REMOVING = "tolliver_proto/_node/removing.py"
QUOTA = "tolliver_proto/_node/quota.py"
BASE = "tolliver_proto/_node/base.py"
NODE = "tolliver_proto/_node/node.py"
ACCESS = "tolliver_proto/_node/access.py"
DIALING = "tolliver_proto/_node/dialing.py"
TRANSPORT = "tolliver_proto/_common/transport.py"
DERIVED = "tolliver_proto/_common/derived.py"
DEDUPE = "tolliver_proto/_node/dedupe.py"
INBOX = "tolliver_proto/_node/inbox.py"
MESSAGE_SET = "tolliver_proto/_node/message_set.py"
SUBSCRIPTIONS = "tolliver_proto/_node/subscriptions.py"
POISON = "tolliver_proto/_node/poison.py"
HANDSHAKE_LIMITER = "tolliver_proto/_common/handshake_limiter.py"
CONNECTION = "tolliver_proto/_wire/connection.py"

SEEN = ("tests/node/test_dial_causes.py",)

BUGS = (
    Bug(
        "a failed dial is told each time",
        DIALING,
        "Dialer.ended",
        "is_news, dialled.told = dialled.told is not failure.cause, failure.cause",
        "is_news = True",
        SEEN,
    ),
    Bug(
        "another cause of a failed dial is not told",
        DIALING,
        "Dialer.ended",
        "dialled.told is not failure.cause",
        "dialled.told is None",
        SEEN,
    ),
    Bug(
        "HTTP is taken for a peer that breaks the rules",
        "tolliver_proto/_common/failures.py",
        "_cause_of",
        "told or (DialCause.LAYOUT if is_handshake(first) else DialCause.PROTOCOL)",
        "DialCause.LAYOUT if is_handshake(first) else DialCause.PROTOCOL",
        SEEN,
    ),
    Bug(
        "a silence is told though acknowledgements come",
        "tolliver_proto/_node/ack_watch.py",
        "AckWatch.acked",
        "self._since = now if waits and self._after is not None else None",
        "pass",
        ("tests/node/test_silence.py",),
    ),
    Bug(
        "a silence is told again and again",
        "tolliver_proto/_node/ack_watch.py",
        "AckWatch.look",
        "self._told = True",
        "self._told = False",
        ("tests/node/test_silence.py",),
    ),
    Bug(
        "a handshake that times out is not told",
        NODE,
        "Node._on_link_timeout",
        "connection is None or connection.state in HANDSHAKING",
        "False",
        SEEN,
    ),
    Bug(
        "what a newer list lacks is dropped",
        HOLDS,
        "Holding._set_peer_list",
        "{one: peer.held.get(one, until) for one in lacking} if self._policy.unsubscribed_hold else {}",
        "{}",
        ("tests/node/test_holds.py",),
    ),
    Bug(
        "what is held is sent",
        LINK,
        "Peer.holds",
        "self.served.isdisjoint(pairs) and not self.kept_back.isdisjoint(pairs)",
        "False",
        ("tests/node/test_holds.py",),
    ),
    Bug(
        "what was held is not read again",
        HOLDS,
        "Holding._read_all_again",
        "peer.link.window.go_back(0)",
        "pass",
        ("tests/node/test_holds.py",),
    ),
    Bug(
        "a hold never ends",
        HOLDS,
        "Holding._give_up_held",
        "self._searches.begin(peer.uuid, take, lambda _error: None)",
        "",
        ("tests/node/test_holds.py",),
    ),
    Bug(
        "what is held makes a send fail",
        "tolliver_proto/_node/quota.py",
        "Quota.full",
        "QuotaPolicy.SKIP if peer.held else self._policy.quota_of(peer.uuid)",
        "self._policy.quota_of(peer.uuid)",
        ("tests/node/test_holds.py",),
    ),
    Bug(
        "an unsubscribe is said once",
        HOLDS,
        "Holding._insist",
        "link.control.insist(peer.unsaid)",
        "pass",
        ("tests/node/test_holds.py::test_an_unsubscribe_is_repeated_until_it_is_acknowledged",),
    ),
    Bug(
        "the bodies of what is held are read",
        "transports/tolliver_transports/_store/sqlite.py",
        "SQLiteStore.fetch",
        "self._held(number)",
        "None",
        ("tests/store/test_holds.py",),
    ),
    Bug(
        "what nobody wants yet is dropped",
        OPENING,
        "Opening.is_unwanted",
        "now >= self.subscriptions_due",
        "True",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "an unsubscribe does not begin the dropping of what it names",
        RECEIVING,
        "Receiving.unsubscribe",
        "self._opening.unsubscribed(subscription, self._now)",
        "",
        ("tests/node/test_first_moments.py::test_an_unsubscribe_begins_it_for_what_it_names",),
    ),
    Bug(
        "what comes before its handler is withheld",
        RECEIVING,
        "Receiving._leave",
        "fate is Fate.WANTED and self._keep_early(link, message)",
        "False",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "what is kept for a handler goes over the credit",
        OPENING,
        "EarlyMessages.keep",
        "len(self._kept) + messages >= limits.inbox_messages or size > limits.inbox_bytes",
        "False",
        ("tests/node/test_first_moments.py::test_what_exceeds_the_credit_is_let_go",),
    ),
    Bug(
        "what is still unwanted is never acknowledged",
        RECEIVING,
        "Receiving._drop_doubtful",
        "self._ack(link, list(dropped))",
        "",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "what is let go after the first moments is no notice",
        RECEIVING,
        "Receiving._drop_doubtful",
        "self._drops.add(NoticeKind.UNWANTED, peer.uuid, channel, self._now)",
        "pass",
        ("tests/node/test_first_moments.py::test_what_is_still_unwanted_after_half_a_minute_is_acknowledged",),
    ),
    Bug(
        "who dials us and is brief is told as a clone",
        "tolliver_proto/_node/handshakes.py",
        "Handshakes._look_at_brief_end",
        "link.role is Role.CLIENT",
        "True",
        ("tests/node/test_duels.py::test_who_dials_us_may_be_brief",),
    ),
    Bug(
        "what was given up counts as acknowledged",
        REMOVING,
        "Removing._remove",
        "self._tell_given_up(peer.uuid, ids, reason)",
        "",
        ("tests/node/test_undelivered.py",),
    ),
    Bug(
        "who asks later is told of an acknowledgement",
        SENDING,
        "Sending.watch",
        "if receipt.undelivered:\n    self._actions.append(Acked([receipt], receipt.undelivered[0]))\n    return",
        "",
        ("tests/node/test_undelivered.py::test_who_asks_later_is_told_the_same",),
    ),
    Bug(
        "a send goes without the recipients that it requires",
        SENDING,
        "_check_recipients",
        "found < required",
        "False",
        ("tests/node/test_undelivered.py::test_a_send_with_fewer_recipients_than_it_asks_for_stores_nothing",),
    ),
    Bug(
        "who is skipped at its quota counts as a recipient that is required",
        SENDING,
        "Sending._store",
        "routed, shares = room.routed, room.shares\n_check_recipients(items, routed, required)",
        "routed, shares = room.routed, room.shares",
        ("tests/node/test_undelivered.py::test_who_is_skipped_at_its_quota_is_not_counted",),
    ),
    Bug(
        "on a full disk removals wait for messages to be stored",
        STORING,
        "Storing.store_failed",
        "batch.stores and isinstance(error, DiskFull)",
        "False",
        (
            "tests/node/test_full_disk.py::"
            "test_what_was_acknowledged_is_removed_at_once_though_no_message_can_be_stored",
        ),
    ),
    Bug(
        "on a full disk messages go with everything else",
        SENDING,
        "Sending._must_wait",
        "self._apart or self._keeps_enough()",
        "self._keeps_enough()",
        ("tests/node/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "a disk that has room again is taken for full",
        STORING,
        "Storing.committed",
        "self._apart = self._apart and not batch.stores",
        "",
        ("tests/node/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "what is linked again after a failure is forgotten",
        BATCH,
        "Batch.putting_away",
        "self.linked",
        "False",
        (
            "tests/node/test_full_disk.py::"
            "test_what_was_linked_and_failed_is_linked_later_though_nothing_else_is_to_be_stored",
        ),
    ),
    Bug(
        "every handshake is stored",
        HANDSHAKES,
        "Handshakes._store_list",
        "self._is_stored(peer, link, wanted)",
        "False",
        ("tests/node/test_full_disk.py::test_a_list_and_a_pin_that_the_store_has_need_no_commit",),
    ),
    Bug(
        "a list that is on its way is taken for stored",
        HANDSHAKES,
        "Handshakes._is_stored",
        """
        any(
            peer in batch.lists or peer in batch.peer_lists or ("pin", peer) in batch.undo for batch in batches
        )
        """,
        "False",
        ("tests/node/test_full_disk.py::test_a_list_that_is_on_its_way_is_waited_for",),
    ),
    Bug(
        "a new list is taken for the stored one",
        HANDSHAKES,
        "Handshakes._is_stored",
        "said == peer.subscriptions",
        "True",
        ("tests/node/test_full_disk.py::test_a_list_and_a_pin_that_the_store_has_need_no_commit",),
    ),
    Bug(
        "ack before handler",
        RECEIVING,
        "Receiving._on_message",
        "inbox.add(delivery)",
        """
        self._ack(link, [message.message_id] if message.message_id is not None else [])
        inbox.add(delivery)
        """,
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "delivery row removed when sent instead of when acked",
        SENDING,
        "Sending._pump",
        "room -= len(frame)",
        """
        room -= len(frame)
        self._batch.removals.append(RemoveDeliveries(peer.uuid, [(message.seq, message.seq)]))
        """,
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "send before commit",
        STORING,
        "Storing._begin_commit",
        "self._running = (self._last_batch, batch)",
        """
        self._running = (self._last_batch, batch)
        for recipients, messages in batch.runs:
            for peer in recipients.peers:
                self._committed_for(peer, messages)
        """,
        ("tests/node/test_promises.py::test_i1_neither_stored_nor_a_byte_before_the_commit",),
    ),
    Bug(
        "ack keyed by id only",
        RECEIVING,
        "Receiving._on_ack",
        "found = link.window.acked(ack.message_id) if link.window is not None else None",
        """
        windows = [one.window for one in self._up.values() if one.window is not None]
        all_found = [window.acked(ack.message_id) for window in windows]
        found = next((one for one in all_found if one is not None), None)
        """,
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "replace becomes add",
        HANDSHAKES,
        "Handshakes._store_list",
        "ReplacePeerSubscriptions(peer.uuid, wanted)",
        "ReplacePeerSubscriptions(peer.uuid, (*wanted, *peer.subscriptions))",
        ("tests/node/test_receiving.py::test_a_handshake_on_a_live_connection_replaces_the_list",),
    ),
    Bug(
        "unsub resent stale",
        LINK,
        "ControlSync.sync",
        "told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind)",
        "told == wanted or self.mute or not self._connection.can_send(kind)",
        ("tests/node/test_receiving.py::test_one_change_of_a_subscription_at_a_time_and_the_latest_wins",),
    ),
    Bug(
        "wrap onto a live id",
        IDS,
        "IdAllocator._next_free",
        "self.live.next_free(number)",
        "number",
        ("tests/node/test_sending.py::test_ids_wrap_over_live_ones",),
    ),
    Bug(
        "ids go on where the last opening ended",
        BASE,
        "NodeState.__init__",
        "None if is_derived(instance_id) else rng",
        "None",
        (
            "tests/node/test_ids.py",
            "tests/test_restored.py",
        ),
    ),
    Bug(
        "a derived identity begins anywhere",
        BASE,
        "NodeState.__init__",
        "None if is_derived(instance_id) else rng",
        "rng",
        (
            "tests/node/test_ids.py::test_a_derived_identity_begins_at_1_and_goes_on_behind_what_was_reserved",
            "tests/adapters/test_derived.py::test_every_try_of_a_task_counts_once",
        ),
    ),
    Bug(
        "ids begin among those that were handed out",
        IDS,
        "IdAllocator._drawn",
        "self._is_clear(first, first + RESERVE - 1)",
        "True",
        ("tests/node/test_ids.py::test_the_first_draw_that_is_clear_is_taken",),
    ),
    Bug(
        "only the first id of a block is looked at",
        IDS,
        "IdAllocator._drawn",
        "self._is_clear(first, first + RESERVE - 1)",
        "self._is_clear(first, first)",
        ("tests/node/test_ids.py::test_a_wrapping_block_is_looked_at_on_both_sides",),
    ),
    Bug(
        "ids run into those of earlier openings",
        IDS,
        "IdAllocator._next_free",
        "self._older.next_free(self.live.next_free(number))",
        "self.live.next_free(number)",
        ("tests/node/test_ids.py::test_ids_that_were_handed_out_are_passed_over_as_long_as_there_are_others",),
    ),
    Bug(
        "more than 2^30 ids are remembered",
        IDS,
        "remembered",
        "room <= 0",
        "False",
        ("tests/node/test_ids.py::test_what_is_remembered_is_the_newest_ids",),
    ),
    Bug(
        "openings are remembered without a bound",
        IDS,
        "remembered",
        "spans[-OPENINGS:]",
        "spans",
        ("tests/node/test_ids.py::test_so_many_openings_are_remembered_and_no_more",),
    ),
    Bug(
        "a restored copy meets the ids that followed it",
        IDS,
        "begin_elsewhere",
        "count + BEYOND_A_COPY",
        "count",
        ("tests/node/test_ids.py::test_a_restored_copy_keeps_clear_of_where_the_original_went_on",),
    ),
    Bug(
        "an opening that used no id leaves a row",
        IDS,
        "IdAllocator.needs_reserve",
        "0 < self._passed > self._reserved - RESERVE // 2",
        "self._passed > self._reserved - RESERVE // 2",
        ("tests/node/test_ids.py::test_an_opening_that_used_no_id_reserves_none",),
    ),
    Bug(
        "id 2^31-1 allocated",
        IDS,
        "",
        "LAST_ID = 2**31 - 2",
        "LAST_ID = 2**31 - 1",
        ("tests/node/test_parts.py::test_ids_are_free_cyclic_and_never_reserved",),
    ),
    Bug(
        "2^32-1 not acked",
        FRAMES,
        "Decoder._parse_run",
        "message_id == unreliable",
        "message_id in (unreliable, 2**32 - 1)",
        ("tests/wire/test_decoding.py::test_many_frames_with_known_names_in_any_pieces",),
    ),
    Bug(
        "list applied on failed handshake",
        HANDSHAKES,
        "Handshakes._on_final",
        "frame.compatible and self._admit(link, _peer(link).uuid)",
        "self._admit(link, _peer(link).uuid)",
        ("tests/node/test_connecting.py::test_nothing_is_kept_after_a_refusal",),
    ),
    Bug(
        "list applied although the versions do not fit",
        HANDSHAKES,
        "Handshakes._on_request",
        """
        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._accept(link)
        elif answer is HandshakeStatus.OLDER and not link.up:
            link.held_list = frame.subscriptions
            self._keep(link)
            self._accept(link)
        else:
            self._store_list(link, frame.subscriptions)
        """,
        """
        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._store_list(link, frame.subscriptions)
        elif answer is HandshakeStatus.OLDER and not link.up:
            link.held_list = frame.subscriptions
            self._keep(link)
            self._accept(link)
        else:
            self._store_list(link, frame.subscriptions)
        """,
        ("tests/node/test_connecting.py::test_the_lower_version_is_spoken",),
    ),
    Bug(
        "response before subscriptions",
        HANDSHAKES,
        "Handshakes._store_list",
        "batch.then.append(partial(self._on_list_stored, link))",
        """
        batch.then.append(partial(self._on_list_stored, link))
        if _connection(link).state in HOLDING:
            self._accept(link)
        """,
        ("tests/node/test_connecting.py::test_the_list_is_stored_before_the_response_and_routes_before_that",),
    ),
    Bug(
        "message sent during the dial lost",
        SENDING,
        "Sending._stop_keeping",
        """
        self._unblock()
        return taken
        """,
        """
        self._unblock()
        return []
        """,
        ("tests/node/test_connecting.py::test_what_is_sent_while_a_connection_is_made_reaches_the_peer_once",),
    ),
    Bug(
        "first wins among duplicates",
        HANDSHAKES,
        "Handshakes._keeps",
        "self._dialled_by(old) < self._dialled_by(new)",
        "True",
        ("tests/node/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "first wins among duplicates of one direction",
        HANDSHAKES,
        "Handshakes._keeps",
        """
        if old.role is new.role or self._now - old.up_since > self.limits.crossing_dial_window:
            return False
        """,
        """
        if old.role is new.role or self._now - old.up_since > self.limits.crossing_dial_window:
            return True
        """,
        ("tests/node/test_connecting.py::test_of_two_in_the_same_direction_the_newest_wins",),
    ),
    Bug(
        "both duplicates closed",
        HANDSHAKES,
        "Handshakes._on_established",
        "self._end(loser)",
        """
        self._end(loser)
        self._end(old if loser is link else link)
        """,
        ("tests/node/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "resend out of order",
        OUTBOX,
        "Window.fetched",
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
        ("tests/node/test_sending.py::test_everything_again_at_once_and_in_order_on_a_new_connection",),
    ),
    Bug(
        "resend while still buffered",
        SENDING,
        "Sending._pump",
        "room -= len(frame)",
        """
        window.transmitted([message.wire_id], (), self._now)
        room -= len(frame)
        """,
        ("tests/node/test_sending.py::test_never_again_while_the_first_copy_is_in_our_own_buffer",),
    ),
    Bug(
        "wildcard matches the reserved channel",
        SENDING,
        "Sending._size_around",
        "PRIVATE_CHANNELS",
        "()",
        ("tests/node/test_sending.py::test_a_bad_item_is_refused_with_all_its_companions",),
    ),
    Bug(
        "final codes swapped",
        LAYOUTS,
        "",
        "{True: 1, False: 2}",
        "{True: 2, False: 1}",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "status 2 continues",
        STATE,
        "",
        """
        {
            Signal.AGREE: Transition(_S.AGREED, _E.NONE),
            Signal.REFUSE: _OVER,
            Signal.DEFER: Transition(_S.AWAITING_FINAL, _E.NONE),
            Signal.REJECT: _NOTHING,
            **_TIMED,
            **_GIVE_UP,
        }
        """,
        """
        {
            Signal.AGREE: Transition(_S.AGREED, _E.NONE),
            Signal.REFUSE: Transition(_S.AGREED, _E.NONE),
            Signal.DEFER: Transition(_S.AWAITING_FINAL, _E.NONE),
            Signal.REJECT: _NOTHING,
            **_TIMED,
            **_GIVE_UP,
        }
        """,
        ("tests/wire/test_versions.py::test_the_table",),
    ),
    Bug(
        "a copy acknowledged before its original",
        RECEIVING,
        "Receiving._is_new",
        'self._counts["withheld"] += 1',
        """
        self._counts["withheld"] += 1
        self._ack(link, [message_id])
        """,
        ("tests/node/test_duplicates.py::test_a_duplicate_is_acknowledged_only_once_its_original_was",),
    ),
    Bug(
        "handled, durably, before it is stored",
        RECEIVING,
        "Receiving._remember",
        "self._batch.handled.append(handled)",
        """
        self._batch.handled.append(handled)
        self._learn(handled)
        """,
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "a dead letter acknowledged before it is stored",
        RECEIVING,
        "Receiving._give_up",
        "self._keep_letter(letter)",
        """
        self._keep_letter(letter)
        self._ack(link, [message_id])
        """,
        ("tests/node/test_duplicates.py::test_twenty_failures_make_a_dead_letter",),
    ),
    Bug(
        "any end is a strike",
        HANDSHAKES,
        "Handshakes._on_closed",
        "event.error is None and before is LinkState.OPEN",
        "True",
        ("tests/node/test_upkeep.py::test_other_ends_do_not_count",),
    ),
    Bug(
        "searched for before all is stored",
        REMOVING,
        "Removing._when_stored",
        "self._running is None and self._batch.empty",
        "True",
        ("tests/node/test_upkeep.py::test_what_is_being_stored_for_it_is_purged_too",),
    ),
    Bug(
        "a forgotten peer's ids remembered",
        MAINTENANCE,
        "Maintenance._forget_all_of.forgotten",
        "self._dedupe.forget(peer.uuid)",
        "",
        ("tests/node/test_duplicates.py::test_a_forgotten_peer_s_ids_are_new_again",),
    ),
    Bug(
        "a flood is dropped instead of waiting",
        RECEIVING,
        "Receiving._on_control",
        "link.holding |= Hold.RATE",
        "return",
        ("tests/node/test_duplicates.py::test_more_control_messages_than_allowed_wait_and_none_is_lost",),
    ),
    Bug(
        "an ack outlives its connection",
        RECEIVING,
        "Receiving.acknowledge",
        """
        if link is not None and link.window is not None:
            link.fruitful = True
            acks.setdefault(link, []).append(message_id)
        """,
        """
        if link is None and peer is not None:
            link = peer.link
        if link is not None and link.window is not None:
            link.fruitful = True
            acks.setdefault(link, []).append(message_id)
        """,
        ("tests/node/test_handling.py::test_an_ack_goes_out_on_the_connection_that_each_copy_came_on",),
    ),
    Bug(
        "acknowledged though nobody is there to handle it",
        RECEIVING,
        "Receiving._judge",
        "handlers or Fate.WANTED",
        "handlers or Fate.UNWANTED",
        (
            "tests/node/test_receiving.py::test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped",
        ),
    ),
    Bug(
        "a probe is handed out",
        RECEIVING,
        "Receiving._judge",
        "channel == PROBE_CHANNEL",
        "False",
        ("tests/node/test_probes.py::test_a_probe_is_never_a_message",),
    ),
    Bug(
        "one failure too many before a dead letter",
        RECEIVING,
        "Receiving.fail",
        "delivery.attempt >= self.limits.max_attempts",
        "delivery.attempt > self.limits.max_attempts",
        ("tests/node/test_duplicates.py::test_a_letter_that_is_not_stored_is_still_a_message",),
    ),
    Bug(
        "credit is never spent",
        RECEIVING,
        "Receiving._on_message",
        "inbox.count >= self.limits.inbox_messages or inbox.size >= self.limits.inbox_bytes",
        "False",
        ("tests/node/test_receiving.py::test_credit_stops_events_then_reading_and_settling_brings_both_back",),
    ),
    Bug(
        "what is not understood is not acknowledged",
        RECEIVING,
        "Receiving._on_ignored",
        "frame.message_id is not None",
        "False",
        ("tests/node/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",),
    ),
    Bug(
        "a peer subscribes to the reserved channel",
        RECEIVING,
        "Receiving._on_control",
        "peer.derived or subscription.channel == RESERVED_CHANNEL",
        "peer.derived",
        ("tests/node/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",),
    ),
    Bug(
        "own subscriptions are not stored",
        RECEIVING,
        "Receiving._store_own",
        "self._batch.operations.append(operation)",
        "",
        ("tests/node/test_receiving.py::test_own_changes_are_told_to_every_peer_once_they_are_stored",),
    ),
    Bug(
        "the own list outgrows a handshake",
        RECEIVING,
        "Receiving.subscribe",
        "len(self._own) >= self.limits.max_subscriptions or self._own_bytes + size > self.limits.max_handshake",
        "False",
        ("tests/node/test_receiving.py::test_own_lists_stay_within_what_peers_take",),
    ),
    Bug(
        "too many subscriptions of a peer are kept",
        RECEIVING,
        "Receiving._has_room",
        "len(link.told) < self.limits.max_subscriptions and size <= self.limits.max_handshake",
        "size <= self.limits.max_handshake",
        ("tests/node/test_receiving.py::test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged",),
    ),
    Bug(
        "access: what may not be subscribed to is taken",
        RECEIVING,
        "Receiving._may_have",
        "self._has_room(link, subscription) and self._gate.acl.rights(peer.uuid).may_subscribe(subscription)",
        "self._has_room(link, subscription)",
        ("tests/node/test_access.py::test_a_control_message_that_asks_for_too_much_is_acknowledged",),
    ),
    Bug(
        "access: a list is taken whole",
        HANDSHAKES,
        "Handshakes._store_list",
        "one.channel != RESERVED_CHANNEL and may_have(one)",
        "one.channel != RESERVED_CHANNEL",
        ("tests/node/test_access.py::test_a_list_is_taken_as_far_as_it_is_allowed",),
    ),
    Bug(
        "access: routes do not look at the rules",
        BASE,
        "NodeState._reroute",
        "self._gate.acl.rights(peer.uuid).granted(wanted)",
        "peer.subscriptions.union(peer.held)",
        ("tests/node/test_access.py::test_rules_that_change_while_a_list_is_stored",),
    ),
    Bug(
        "access: anybody may publish",
        RECEIVING,
        "Receiving._on_guarded_message",
        "self._gate.acl.rights(peer.uuid).may_publish(message.channel, message.key)",
        "True",
        ("tests/node/test_access.py::test_rules_about_publishing_come_and_go",),
    ),
    Bug(
        "access: what is refused is not acknowledged",
        RECEIVING,
        "Receiving._on_guarded_message",
        "self._ack(link, [message.message_id])",
        "",
        ("tests/node/test_access.py::test_what_may_not_be_published_is_acknowledged_and_not_delivered",),
    ),
    Bug(
        "access: new rules leave the old routes",
        NODE,
        "Node.set_acl",
        """
        if acl.rights(uuid) != before.rights(uuid):
            self._reroute(peer)
        """,
        "pass",
        ("tests/node/test_access.py::test_narrower_rules_hold_at_once_and_wider_ones_give_back",),
    ),
    Bug(
        "access: anybody may connect",
        GATE,
        "HandshakeGate.denial",
        "not self.acl.rights(peer).connect",
        "False",
        ("tests/node/test_access.py::test_a_dial_that_leads_to_somebody_who_is_kept_out_ends",),
    ),
    Bug(
        "access: a wildcard lies within a name",
        ACCESS,
        "_is_covered",
        "_has(pattern[0], channel) and _has(pattern[1], key)",
        "not channel or _has(pattern[0], channel) and _has(pattern[1], key)",
        ("tests/node/test_access.py::test_a_subscription_lies_within_one_pattern",),
    ),
    Bug(
        "access: block is forgotten",
        GATE,
        "HandshakeGate.denial",
        "role is Role.SERVER and peer in self._blocked.values()",
        "False",
        ("tests/node/test_access.py::test_block_ends_what_comes_in_at_the_same_time",),
    ),
    Bug(
        "any UUID fits a certificate",
        GATE,
        "HandshakeGate.conflict",
        "not proved.may_be(claimed)",
        "False",
        ("tests/node/test_connecting.py::test_a_certificate_that_names_another_uuid_is_closed_out_before_a_response",),
    ),
    Bug(
        "the key of the first sight is not looked at",
        GATE,
        "HandshakeGate.conflict",
        "not proved.uuids and known.spki_sha256 not in (None, proved.spki_sha256)",
        "False",
        ("tests/node/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "the key of the first sight is not stored",
        HANDSHAKES,
        "Handshakes._change_pin",
        "self._batch.operations.append(UnpinPeer(peer.uuid) if key is None else PinPeer(peer.uuid, key))",
        "",
        ("tests/node/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "connected to itself",
        HANDSHAKES,
        "Handshakes._admit",
        "claimed == self.instance_id",
        "False",
        ("tests/node/test_connecting.py::test_a_connection_to_oneself_ends_that_dial",),
    ),
    Bug(
        "a connection that was denied is dialled again",
        DIALING,
        "",
        "HOPELESS = (AccessDenied, CertificateError, HandshakeRejected, IdentityConflict, SelfConnection)",
        "HOPELESS = (CertificateError, HandshakeRejected, IdentityConflict, SelfConnection)",
        ("tests/node/test_access.py::test_who_is_kept_out_by_its_certificate_alone_does_not_see_our_request",),
    ),
    Bug(
        "derived: any prefix will do",
        TRANSPORT,
        "PeerIdentity.may_be",
        "prefix_of(claimed) in self.prefixes",
        "bool(self.prefixes)",
        ("tests/node/test_derived.py::test_a_refusal_says_what_the_certificate_names",),
    ),
    Bug(
        "derived: it may subscribe",
        HANDSHAKES,
        "Handshakes._let_write",
        "subscriptions",
        "False",
        ("tests/node/test_derived.py::test_a_list_in_a_second_handshake_is_refused",),
    ),
    Bug(
        "derived: known for ever",
        DERIVED,
        "",
        "24 * 3600.0",
        "2400 * 3600.0",
        ("tests/node/test_derived.py::test_copies_are_known_for_a_day",),
    ),
    Bug(
        "derived: one connection at a time",
        HANDSHAKES,
        "Handshakes._on_established",
        "old is not None and not peer.derived",
        "old is not None",
        ("tests/node/test_derived.py::test_it_is_told_what_we_subscribe_to",),
    ),
    Bug(
        "derived: it is kept when it is gone",
        HANDSHAKES,
        "Handshakes._drop_derived",
        """
        self._peers.pop(peer.uuid, None)
        """,
        "pass",
        ("tests/node/test_derived.py::test_it_is_up_without_a_commit_and_leaves_nothing",),
    ),
    Bug(
        "dedupe: a high-water mark",
        DEDUPE,
        "DedupeCache.find",
        "self._known.find(peer, message_id, checksum)",
        "Known.YES if any(one == peer and known >= message_id for one, known, _ in self._known) else Known.NOT",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: forgotten over a restart",
        BASE,
        "NodeState.__init__",
        "loaded.handled if policy.dedupe else ()",
        "()",
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "dedupe: acknowledged before it is on disk",
        RECEIVING,
        "Receiving.acknowledge",
        "self._batch.acks if is_durable else {}",
        "{}",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: without a bound",
        DEDUPE,
        "DedupeCache.add",
        """
        if len(self._known) > self._size:
            self._known.forget_oldest()
        """,
        "",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "another message under a known id is a copy",
        MESSAGE_SET,
        "MessageSet._compared",
        "return _BY_ID",
        "return _YES",
        ("tests/node/test_duplicates.py::test_another_message_under_a_known_id_is_a_message",),
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
        "MessageSet._put_aside",
        "self._heads[at] = row",
        "",
        (
            "tests/node/test_duplicates.py::test_another_message_under_a_known_id_is_a_message",
            "tests/node/test_message_set.py::TestMessageSet",
        ),
    ),
    Bug(
        "an entry without a checksum is like any other",
        MESSAGE_SET,
        "MessageSet._compared",
        "number & 1 or checksum in (None, self._checksums[newest])",
        "checksum in (None, self._checksums[newest])",
        ("tests/node/test_duplicates.py::test_what_an_old_layout_remembers_matches_by_id_alone",),
    ),
    Bug(
        "a peer with one id for everything makes one long chain",
        MESSAGE_SET,
        "MessageSet.add",
        "self._put_aside(other, at)",
        "self._aside += 1",
        ("tests/node/test_message_set.py::test_a_peer_that_has_one_id_for_everything_makes_no_long_chain",),
    ),
    Bug(
        "a dead letter is an id",
        LINK,
        "Peer.message_key",
        "None if self.derived else checksum",
        "None",
        ("tests/node/test_duplicates.py::test_a_dead_letter_is_a_message_and_no_id",),
    ),
    Bug(
        "a derived identity's retried row is another message",
        RECEIVING,
        "Receiving._is_copy",
        "known is _BY_ID and peer.derived",
        "False",
        ("tests/node/test_derived.py::test_a_message_is_its_id",),
    ),
    Bug(
        "a derived identity's row is handled twice at once",
        INBOX,
        "Inbox.find",
        "derived or held.message == message",
        "held.message == message",
        ("tests/node/test_derived.py::test_a_message_is_its_id",),
    ),
    Bug(
        "what a derived identity sends under a reused id is said to be delivered",
        HANDLING,
        "Handling._on_id_reused",
        "is_derived(peer)",
        "False",
        ("tests/node/test_derived.py::test_a_message_is_its_id",),
    ),
    Bug(
        "a wildcard channel matches nothing",
        SUBSCRIPTIONS,
        "matching",
        'Subscription("", key)',
        "Subscription(channel, key)",
        ("tests/node/test_sending.py::test_reserved_names_are_case_sensitive",),
    ),
    Bug(
        "two subscriptions, two deliveries",
        SUBSCRIPTIONS,
        "Routes._look_up",
        "tuple(targets)",
        "tuple(one for some in matching(channel, key) for one in self._targets.get(some, {}))",
        ("tests/node/test_sending.py::test_routing_by_wildcards_one_copy_each",),
    ),
    Bug(
        "removing a wildcard removes what it covers",
        SUBSCRIPTIONS,
        "applied",
        "subscriptions -= {operation.subscription}",
        """
        gone = operation.subscription
        subscriptions = frozenset(one for one in subscriptions if gone not in matching(*one))
        """,
        ("tests/node/test_receiving.py::test_subscriptions_of_a_peer_change_by_control_messages",),
    ),
    Bug(
        "what nobody wants is stored",
        SENDING,
        "Sending._store",
        "[at for at, recipients in enumerate(routed) if recipients.peers or kept]",
        "[at for at, recipients in enumerate(routed)]",
        ("tests/node/test_sending.py::test_nobody_wants_it_and_nothing_is_stored",),
    ),
    Bug(
        "the first ack removes the message for all",
        SENDING,
        "Sending._store",
        "len(recipients.peers) + len(kept)",
        "1",
        ("tests/node/test_sending.py::test_one_id_for_several_recipients",),
    ),
    Bug(
        "the quota of a peer is not looked at",
        QUOTA,
        "Quota.full",
        "max(self.excess(peer.outbox, share)) <= 0",
        "True",
        ("tests/node/test_sending.py::test_a_full_outbox_refuses_before_anything_changes",),
    ),
    Bug(
        "unreliable messages pile up",
        SENDING,
        "Sending.unreliable_send",
        "link.unsent >= high_water or not link.connection.live",
        "not link.connection.live",
        ("tests/node/test_sending.py::test_unreliable_is_dropped_over_high_water_and_never_stored",),
    ),
    Bug(
        "the window has no bound",
        OUTBOX,
        "Window.next_to_send",
        """
        self._unacked and (
            len(self._unacked) >= limits.window_messages or self._unacked_bytes + message.size > limits.window_bytes
        )
        """,
        """
        False and (
            len(self._unacked) >= limits.window_messages or self._unacked_bytes + message.size > limits.window_bytes
        )
        """,
        ("tests/node/test_sending.py::test_the_window_holds_messages_back_and_acks_let_them_go",),
    ),
    Bug(
        "a withheld ack stops the peer",
        OUTBOX,
        "Window._leave_window",
        """
        message = self._unacked.pop(wire_id)
        self._unacked_bytes -= message.size
        self._backoff[wire_id] = _Resend(message.seq, message.size, (message.channel, message.key))
        self._again.append(message)
        """,
        "heappush(self._due, (now + self.interval(0), True, [wire_id]))",
        ("tests/node/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "resends do not back off",
        OUTBOX,
        "Window.interval",
        "self._resend_first * 2.0 ** min(attempts, 30)",
        "self._resend_first",
        ("tests/node/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "an unreadable row stops a peer",
        OUTBOX,
        "Window.fetched",
        "corrupt.append(row)",
        "break",
        ("tests/node/test_storing.py::test_corrupt_rows_are_set_aside_and_the_rest_goes_on",),
    ),
    Bug(
        "ids in use are not reserved in the store",
        STORING,
        "Storing._begin_commit",
        "self._ids.needs_reserve",
        "False",
        ("tests/node/test_storing.py::test_ids_are_reserved_again_after_a_failure",),
    ),
    Bug(
        "sends wait for removals that have no room",
        STORING,
        "Storing.store_failed",
        "self._apart and not no_room",
        "False",
        ("tests/node/test_full_disk.py::test_a_send_does_not_wait_for_removals_that_find_no_room_either",),
    ),
    Bug(
        "kept messages have no bound",
        SENDING,
        "Sending._keeps_enough",
        "any(kept.holds_up and (strict or self._is_full(kept)) for kept in self._keeping.values())",
        "False",
        ("tests/node/test_connecting.py::test_beyond_its_share_sends_wait_until_the_peer_has_answered",),
    ),
    Bug(
        "subscriptions of a peer that is away are dropped",
        HANDSHAKES,
        "Handshakes._take_down",
        """
        if peer.derived:
            self._drop_derived(peer)
        elif peer.voices:
            self._route_to(peer)
            self._batch.lists[peer] = None
            self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
        """,
        """
        if peer.derived:
            self._drop_derived(peer)
        else:
            self._route_to(peer)
            self._batch.lists[peer] = None
            self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
        """,
        (
            "tests/node/test_holds.py",
            "tests/node/test_connecting.py",
        ),
    ),
    Bug(
        "what is subscribed to during a handshake is not told",
        HANDSHAKES,
        "Handshakes._on_established",
        "link.control.differing(self._own)",
        "set(self._own) & set()",
        ("tests/node/test_receiving.py::test_a_change_while_the_handshake_runs_follows_it",),
    ),
    Bug(
        "set aside at the first suspicion",
        POISON,
        "PoisonDetector.ended",
        """
        if len(exposed) > 1:
            return None
        [seq] = exposed
        """,
        "seq = exposed[0]",
        ("tests/node/test_upkeep.py::test_five_strikes_set_it_aside_and_the_next_ones_go",),
    ),
    Bug(
        "what expires was acknowledged already",
        REMOVING,
        "Removing._remove",
        """
        if one.seq in outbox.leaving and one.seq not in being_parked:
            continue
        """,
        "",
        ("tests/node/test_upkeep.py::test_an_ack_that_crosses_the_search_counts_once",),
    ),
    Bug(
        "no answer to a probe is no matter",
        NODE,
        "Node._on_probe_timeout",
        "self._actions.append(Abort(cid))",
        "return",
        ("tests/node/test_probes.py::test_no_answer_is_a_lost_connection",),
    ),
    Bug(
        "strangers without a bound",
        HANDSHAKE_LIMITER,
        "HandshakeLimiter.full",
        "self._in_progress[share] >= self.most(share)",
        "False",
        ("tests/node/test_access.py::test_handshakes_in_progress_are_bounded",),
    ),
    Bug(
        "a stranger has all the time in the world",
        CONNECTION,
        "Connection.next_timeout",
        """
        if self.state in HANDSHAKING:
            return self._deadline
        """,
        "",
        ("tests/node/test_connecting.py::test_time_limits",),
    ),
    Bug(
        "a peer may take for ever to close",
        CONNECTION,
        "Connection._go",
        "self._now + self.limits.close_timeout",
        "None",
        ("tests/wire/test_connection.py::test_the_handshake_has_ten_seconds_from_the_start",),
    ),
    Bug(
        "a long body is waited for",
        FRAMES,
        "Decoder._read_message",
        "length > maximum",
        "length > 2 * maximum",
        ("tests/wire/test_limits.py::test_refused_when_the_head_is_in_and_not_before",),
    ),
    Bug(
        "a handshake shares its unit",
        CONNECTION,
        "Connection._write_unit",
        """
        self._seal()
        self._units.append(unit)
        """,
        "self._parts.append(unit)",
        ("tests/wire/test_connection.py::test_handshake_frames_are_units_of_their_own",),
    ),
    Bug(
        "frames before the handshake",
        CONNECTION,
        "Connection._take",
        "step = TRANSITIONS[self.state].get(signal)",
        """
        step = TRANSITIONS[self.state].get(signal)
        if step is None and signal is Signal.TRAFFIC:
            return frame
        """,
        ("tests/wire/test_connection.py::test_the_first_frame_of_a_server_must_be_a_request",),
    ),
    Bug(
        "handshakes on a live connection without a bound",
        CONNECTION,
        "Connection._take",
        "not self._renewals.spend(self._now)",
        "False",
        ("tests/wire/test_connection.py::test_more_than_a_burst_of_repeated_requests_closes",),
    ),
    Bug(
        "another UUID in a second handshake",
        CONNECTION,
        "Connection._check_peer",
        "self.peer_id is not None",
        "False",
        ("tests/wire/test_connection.py::test_a_repeated_request_must_be_of_the_same_peer",),
    ),
    Bug(
        "an end inside a frame is in order",
        CONNECTION,
        "Connection._end_of_input",
        """
        try:
            self._decoder.finish()
        except UnexpectedEOF as partial:
            error = partial
        """,
        """
        try:
            self._decoder.finish()
        except UnexpectedEOF:
            pass
        """,
        ("tests/wire/test_connection.py::test_the_end_of_the_stream_inside_a_frame_is_an_error_after_the_whole_ones",),
    ),
    Bug(
        "a status that contradicts the versions is believed",
        CONNECTION,
        "Connection._check_status",
        """
        if not contradicts:
            return
        """,
        "return",
        ("tests/wire/test_versions.py::test_a_status_that_contradicts_the_versions",),
    ),
    Bug(
        "a control body with something behind it",
        FRAMES,
        "Decoder._read_control",
        "len(body) == start + sum(sizes)",
        "len(body) >= start + sum(sizes)",
        ("tests/wire/test_decoding.py::test_a_control_body_that_makes_no_sense_is_ignored_with_its_id",),
    ),
    Bug(
        "names are cached by their beginning",
        FRAMES,
        "Decoder._remember",
        "self._names[raw] = text",
        "self._names[raw] = text.strip()",
        ("tests/wire/test_decoding.py::test_names_are_compared_byte_for_byte",),
    ),
)

"""Bugs in the wire and the node.

The idea: one for each promise and each ruling that a peer, a crash or a limit could put to the test.
"""

from __future__ import annotations

from .bug import Bug

RECEIVING = "tolliver_proto/_node/receiving.py"
SENDING = "tolliver_proto/_node/sending.py"
STORING = "tolliver_proto/_node/storing.py"
HANDSHAKES = "tolliver_proto/_node/handshakes.py"
LINK = "tolliver_proto/_node/link.py"
IDS = "tolliver_proto/_node/ids.py"
FRAMES = "tolliver_proto/_wire/frames.py"
OUTBOX = "tolliver_proto/_node/outbox.py"
LAYOUTS = "tolliver_proto/_wire/layouts.py"
STATE = "tolliver_proto/_wire/state.py"
UPKEEP = "tolliver_proto/_node/maintenance.py"
BASE = "tolliver_proto/_node/base.py"
NODE = "tolliver_proto/_node/node.py"
ACCESS = "tolliver_proto/_node/access.py"
DIALING = "tolliver_proto/_node/dialing.py"
TRANSPORT = "tolliver_proto/_common/transport.py"
DERIVED = "tolliver_proto/_common/derived.py"
HANDLED = "tolliver_proto/_node/dedupe.py"
SUBSCRIPTIONS = "tolliver_proto/_node/subscriptions.py"
POISON = "tolliver_proto/_node/poison.py"
WATCHING = "tolliver_proto/_node/keepalive.py"
ARRIVALS = "tolliver_proto/_common/handshake_limiter.py"
CONNECTION = "tolliver_proto/_wire/connection.py"

BUGS = (
    Bug(
        "ack before handler",
        RECEIVING,
        "        if self._is_credit_exhausted(link):\n            link.credit_exhausted = True\n",
        "        self._ack(link, [message_id] if message_id is not None else [])\n"
        "        if self._is_credit_exhausted(link):\n"
        "            link.credit_exhausted = True\n",
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "delivery row removed when sent instead of when acked",
        SENDING,
        "            room -= len(frame)\n",
        "            room -= len(frame)\n"
        "            self._batch.removals.append(RemoveDeliveries(peer.uuid, [(message.seq, message.seq)]))\n",
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "send before commit",
        STORING,
        "        self._running = (self._last_batch, batch)\n",
        "        self._running = (self._last_batch, batch)\n"
        "        for recipients, messages in batch.runs:\n"
        "            for peer in recipients.peers:\n"
        "                self._committed_for(peer, messages)\n",
        ("tests/node/test_promises.py::test_i1_neither_stored_nor_a_byte_before_the_commit",),
    ),
    Bug(
        "ack keyed by id only",
        RECEIVING,
        "        found = link.window.acked(ack.message_id) if link.window is not None else None\n",
        "        windows = [one.window for one in self._up.values() if one.window is not None]\n"
        "        all_found = [window.acked(ack.message_id) for window in windows]\n"
        "        found = next((one for one in all_found if one is not None), None)\n",
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "replace becomes add",
        HANDSHAKES,
        "self._hear(link, ReplacePeerSubscriptions(peer.uuid, wanted))",
        "self._hear(link, ReplacePeerSubscriptions(peer.uuid, (*wanted, *peer.subscriptions)))",
        ("tests/node/test_receiving.py::test_a_handshake_on_a_live_connection_replaces_the_list",),
    ),
    Bug(
        "unsub resent stale",
        LINK,
        "if told == wanted or subscription in self._under_way or not",
        "if told == wanted or not",
        ("tests/node/test_receiving.py::test_one_change_of_a_subscription_at_a_time_and_the_latest_wins",),
    ),
    Bug(
        "wrap onto a live id",
        IDS,
        "            free = self.live.next_free(start)\n",
        "            free = start\n",
        ("tests/node/test_sending.py::test_ids_wrap_over_live_ones",),
    ),
    Bug(
        "id 2^31-1 allocated",
        IDS,
        "LAST_ID = 2**31 - 2",
        "LAST_ID = 2**31 - 1",
        ("tests/node/test_parts.py::test_ids_are_free_cyclic_and_never_reserved",),
    ),
    Bug(
        "2^32-1 not acked",
        FRAMES,
        "None if message_id == unreliable else message_id",
        "None if message_id in (unreliable, 2**32 - 1) else message_id",
        ("tests/wire/test_decoding.py::test_many_frames_with_known_names_in_any_pieces",),
    ),
    Bug(
        "list applied on failed handshake",
        HANDSHAKES,
        "        if frame.compatible and self._admit(link, _peer(link).uuid):",
        "        if self._admit(link, _peer(link).uuid):",
        ("tests/node/test_connecting.py::test_nothing_is_kept_after_a_refusal",),
    ),
    Bug(
        "list applied although the versions do not fit",
        HANDSHAKES,
        "            self._accept(link)  # says so and closes; the list is discarded (T-61)\n",
        "            self._store_list(link, frame.subscriptions)\n",
        ("tests/node/test_connecting.py::test_the_lower_version_is_spoken",),
    ),
    Bug(
        "response before subscriptions",
        HANDSHAKES,
        "        batch.handshakes.append(link)\n",
        "        batch.handshakes.append(link)\n"
        "        if _connection(link).state in HOLDING:\n"
        "            self._accept(link)\n",
        ("tests/node/test_connecting.py::test_the_list_is_stored_before_the_response_and_routes_before_that",),
    ),
    Bug(
        "message sent during the dial lost",
        SENDING,
        "        self._release(spans_of(left), left)\n        self._unblock()\n        return taken\n",
        "        self._release(spans_of(left), left)\n        self._unblock()\n        return []\n",
        ("tests/node/test_connecting.py::test_what_is_sent_while_a_connection_is_made_reaches_the_peer_once",),
    ),
    Bug(
        "first wins among duplicates",
        HANDSHAKES,
        "        return self._dialled_by(old) < self._dialled_by(new)\n",
        "        return True\n",
        ("tests/node/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "first wins among duplicates of one direction",
        HANDSHAKES,
        "        if old.role is new.role or self._now - old.up_since > self.limits.crossing_dial_window:\n"
        "            return False\n",
        "        if old.role is new.role or self._now - old.up_since > self.limits.crossing_dial_window:\n"
        "            return True\n",
        ("tests/node/test_connecting.py::test_of_two_in_the_same_direction_the_newest_wins",),
    ),
    Bug(
        "both duplicates closed",
        HANDSHAKES,
        "            self._end(loser)\n",
        "            self._end(loser)\n            self._end(old if loser is link else link)\n",
        ("tests/node/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "resend out of order",
        OUTBOX,
        "        for row in rows:\n            if row.seq in self.outbox.leaving",
        "        for row in reversed(rows):\n            if row.seq in self.outbox.leaving",
        ("tests/node/test_sending.py::test_everything_again_at_once_and_in_order_on_a_new_connection",),
    ),
    Bug(
        "resend while still buffered",
        SENDING,
        "            link.gathered.append(message.wire_id)\n            room",
        "            link.gathered.append(message.wire_id)\n"
        "            window.transmitted([message.wire_id], (), self._now)\n"
        "            room",
        ("tests/node/test_sending.py::test_never_again_while_the_first_copy_is_in_our_own_buffer",),
    ),
    Bug(
        "wildcard matches the reserved channel",
        SENDING,
        "        if channel in PRIVATE_CHANNELS:\n            raise ReservedChannel(",
        "        if channel in ():\n            raise ReservedChannel(",
        ("tests/node/test_sending.py::test_a_bad_item_is_refused_with_all_its_companions",),
    ),
    Bug(
        "final codes swapped",
        LAYOUTS,
        "finals=MappingProxyType({True: 1, False: 2})",
        "finals=MappingProxyType({True: 2, False: 1})",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "status 2 continues",
        STATE,
        "        Signal.REFUSE: _OVER,\n",
        "        Signal.REFUSE: Transition(_S.AGREED, _E.NONE),\n",
        ("tests/wire/test_versions.py::test_the_table",),
    ),
    Bug(
        "a copy acknowledged before its original",
        RECEIVING,
        '            self._counts["withheld"] += 1\n            return False\n',
        '            self._counts["withheld"] += 1\n'
        "            self._ack(link, [message_id])\n"
        "            return False\n",
        ("tests/node/test_duplicates.py::test_a_duplicate_is_acknowledged_only_once_its_original_was",),
    ),
    Bug(
        "handled, durably, before it is stored",
        RECEIVING,
        "        self._batch.handled.append((peer, message_id))\n",
        "        self._batch.handled.append((peer, message_id))\n        self._handled.add(peer, message_id)\n",
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "a dead letter acknowledged before it is stored",
        RECEIVING,
        "        self._batch.letters.append((link, letter))\n",
        "        self._batch.letters.append((link, letter))\n        self._ack(link, [message_id])\n",
        ("tests/node/test_duplicates.py::test_twenty_failures_make_a_dead_letter",),
    ),
    Bug(
        "any end is a strike",
        HANDSHAKES,
        "if link.up and event.error is None and not link.ending and not link.transport_lost:",
        "if link.up:",
        ("tests/node/test_upkeep.py::test_other_ends_do_not_count",),
    ),
    Bug(
        "searched for before all is stored",
        UPKEEP,
        "        if self._running is None and self._batch.empty:\n            self._continue(None)\n",
        "        if True:\n            self._continue(None)\n",
        ("tests/node/test_upkeep.py::test_what_is_being_stored_for_it_is_purged_too",),
    ),
    Bug(
        "a forgotten peer's ids remembered",
        UPKEEP,
        "                self._handled.forget(peer.uuid)\n",
        "",
        ("tests/node/test_duplicates.py::test_a_forgotten_peer_s_ids_are_new_again",),
    ),
    Bug(
        "a flood is dropped instead of waiting",
        RECEIVING,
        "            link.rate_limited = True  # what follows waits a second (D-12)\n",
        "            return\n",
        ("tests/node/test_duplicates.py::test_more_control_messages_than_allowed_wait_and_none_is_lost",),
    ),
    Bug(
        "an ack outlives its connection",
        RECEIVING,
        "            if link is None:\n                continue\n            handled += 1\n",
        "            if link is None and delivery.peer_id in self._peers:\n"
        "                link = self._peers[delivery.peer_id].link\n"
        "            if link is None:\n"
        "                continue\n"
        "            handled += 1\n",
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "acknowledged though nobody is there to handle it",
        RECEIVING,
        "self._handlers.match(channel, key) or _WANTED)",
        "self._handlers.match(channel, key) or _UNWANTED)",
        (
            "tests/node/test_receiving.py::test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped",
        ),
    ),
    Bug(
        "a probe is handed out",
        RECEIVING,
        "wanted = channel != PROBE_CHANNEL and any",
        "wanted = any",
        ("tests/node/test_probes.py::test_a_probe_is_never_a_message",),
    ),
    Bug(
        "one failure too many before a dead letter",
        RECEIVING,
        "is_last = delivery.attempt >= self.limits.max_attempts",
        "is_last = delivery.attempt > self.limits.max_attempts",
        ("tests/node/test_duplicates.py::test_a_letter_that_is_not_stored_is_still_a_message",),
    ),
    Bug(
        "credit is never spent",
        RECEIVING,
        "            len(link.unsettled) * share >= self.limits.inbox_messages\n",
        "            False\n",
        ("tests/node/test_receiving.py::test_credit_stops_events_then_reading_and_settling_brings_both_back",),
    ),
    Bug(
        "what is not understood is not acknowledged",
        RECEIVING,
        '        self._counts[f"ignored_{frame.reason}"] += 1\n        if frame.message_id is not None:\n',
        '        self._counts[f"ignored_{frame.reason}"] += 1\n        if False:\n',
        ("tests/node/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",),
    ),
    Bug(
        "a peer subscribes to the reserved channel",
        RECEIVING,
        "is_refused = peer.derived or subscription.channel == RESERVED_CHANNEL",
        "is_refused = peer.derived",
        ("tests/node/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",),
    ),
    Bug(
        "own subscriptions are not stored",
        RECEIVING,
        "        receipt = Receipt(0, -1, [])\n        self._batch.operations.append(operation)\n",
        "        receipt = Receipt(0, -1, [])\n",
        ("tests/node/test_receiving.py::test_own_changes_are_told_to_every_peer_once_they_are_stored",),
    ),
    Bug(
        "the own list outgrows a handshake",
        RECEIVING,
        "if len(self._own) >= self.limits.max_subscriptions or self._own_bytes + size > self.limits.max_handshake:",
        "if False:",
        ("tests/node/test_receiving.py::test_own_lists_stay_within_what_peers_take",),
    ),
    Bug(
        "too many subscriptions of a peer are kept",
        RECEIVING,
        "return len(link.told) < self.limits.max_subscriptions and size <= self.limits.max_handshake",
        "return size <= self.limits.max_handshake",
        ("tests/node/test_receiving.py::test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged",),
    ),
    Bug(
        "access: what may not be subscribed to is taken",
        RECEIVING,
        "return self._has_room(link, subscription) and self._acl.rights(peer.uuid).may_subscribe(subscription)",
        "return self._has_room(link, subscription)",
        ("tests/node/test_access.py::test_a_control_message_that_asks_for_too_much_is_acknowledged",),
    ),
    Bug(
        "access: a list is taken whole",
        HANDSHAKES,
        "if one.channel != RESERVED_CHANNEL and may_have(one))",
        "if one.channel != RESERVED_CHANNEL)",
        ("tests/node/test_access.py::test_a_list_is_taken_as_far_as_it_is_allowed",),
    ),
    Bug(
        "access: routes do not look at the rules",
        BASE,
        "self._acl.rights(peer.uuid).granted(peer.subscriptions)",
        "peer.subscriptions",
        ("tests/node/test_access.py::test_rules_that_change_while_a_list_is_stored",),
    ),
    Bug(
        "access: anybody may publish",
        RECEIVING,
        "self._acl.rights(peer.uuid).may_publish(message.channel, message.key)",
        "True",
        ("tests/node/test_access.py::test_rules_about_publishing_come_and_go",),
    ),
    Bug(
        "access: what is refused is not acknowledged",
        RECEIVING,
        "        if message.message_id is not None:  # else it would come again\n"
        "            self._ack(link, [message.message_id])\n",
        "",
        ("tests/node/test_access.py::test_what_may_not_be_published_is_acknowledged_and_not_delivered",),
    ),
    Bug(
        "access: new rules leave the old routes",
        NODE,
        "            if acl.rights(uuid) != before.rights(uuid):\n                self._reroute(peer)\n",
        "            pass\n",
        ("tests/node/test_access.py::test_narrower_rules_hold_at_once_and_wider_ones_give_back",),
    ),
    Bug(
        "access: anybody may connect",
        HANDSHAKES,
        "        if not self._acl.rights(peer).connect:\n",
        "        if False:\n",
        ("tests/node/test_access.py::test_a_dial_that_leads_to_somebody_who_is_kept_out_ends",),
    ),
    Bug(
        "access: a wildcard lies within a name",
        ACCESS,
        "any(_has(pattern[0], channel) and _has(pattern[1], key) for",
        "any(not channel or _has(pattern[0], channel) and _has(pattern[1], key) for",
        ("tests/node/test_access.py::test_a_subscription_lies_within_one_pattern",),
    ),
    Bug(
        "access: block is forgotten",
        HANDSHAKES,
        "if link.role is Role.SERVER and peer in self._shut_out.values():",
        "if False:",
        ("tests/node/test_access.py::test_block_ends_what_comes_in_at_the_same_time",),
    ),
    Bug(
        "any UUID fits a certificate",
        HANDSHAKES,
        "        if not proved.may_be(claimed):\n            detail",
        "        if False:\n            detail",
        ("tests/node/test_connecting.py::test_a_certificate_that_names_another_uuid_is_closed_out_before_a_response",),
    ),
    Bug(
        "the key of the first sight is not looked at",
        HANDSHAKES,
        "        elif not proved.uuids and known is not None and known.spki_sha256 not in (None, proved.spki_sha256):",
        "        elif False:",
        ("tests/node/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "the key of the first sight is not stored",
        HANDSHAKES,
        "        self._batch.operations.append(PinPeer(peer.uuid, key))\n",
        "",
        ("tests/node/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "connected to itself",
        HANDSHAKES,
        "        if claimed == self.instance_id:\n",
        "        if False:\n",
        ("tests/node/test_connecting.py::test_a_connection_to_oneself_ends_that_dial",),
    ),
    Bug(
        "a connection that was denied is dialled again",
        DIALING,
        "HOPELESS = (AccessDenied, CertificateError,",
        "HOPELESS = (",
        ("tests/node/test_access.py::test_who_is_kept_out_by_its_certificate_alone_does_not_see_our_request",),
    ),
    Bug(
        "derived: any prefix will do",
        TRANSPORT,
        "return prefix_of(claimed) in self.prefixes if is_derived(claimed) else claimed in self.uuids",
        "return bool(self.prefixes) if is_derived(claimed) else claimed in self.uuids",
        ("tests/node/test_derived.py::test_a_refusal_says_what_the_certificate_names",),
    ),
    Bug(
        "derived: it may subscribe",
        HANDSHAKES,
        '        if subscriptions:\n            error = UnexpectedFrame(\n                "write_only",',
        '        if False:\n            error = UnexpectedFrame(\n                "write_only",',
        ("tests/node/test_derived.py::test_a_list_in_a_second_handshake_is_refused",),
    ),
    Bug(
        "derived: known for ever",
        DERIVED,
        "REMEMBERED = 24 * 3600.0",
        "REMEMBERED = 2400 * 3600.0",
        ("tests/node/test_derived.py::test_copies_are_known_for_a_day",),
    ),
    Bug(
        "derived: one connection at a time",
        HANDSHAKES,
        "        if old is not None and not peer.derived:\n",
        "        if old is not None:\n",
        ("tests/node/test_derived.py::test_it_is_told_what_we_subscribe_to",),
    ),
    Bug(
        "derived: it is kept when it is gone",
        HANDSHAKES,
        "        if not peer.voices and not peer.forgotten:\n            self._peers.pop(peer.uuid, None)\n",
        "        pass\n",
        ("tests/node/test_derived.py::test_it_is_up_without_a_commit_and_leaves_nothing",),
    ),
    Bug(
        "dedupe: a high-water mark",
        HANDLED,
        "        return (peer, message_id) in self._known\n",
        "        return any(one == peer and known is not None and known >= message_id for one, known in self._known)\n",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: forgotten over a restart",
        BASE,
        "loaded.handled[-policy.dedupe :] if policy.dedupe else ()",
        "()",
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "dedupe: acknowledged before it is on disk",
        RECEIVING,
        "                if not self._policy.dedupe_durable:  # else it waits for its commit\n                    acks",
        "                if True:\n                    acks",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: without a bound",
        HANDLED,
        "        if len(self._order) > self._size:\n            self._known.discard(self._order.popleft())\n",
        "",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "a wildcard channel matches nothing",
        SUBSCRIPTIONS,
        'Subscription(channel, ""), Subscription("", key), Subscription("", "")',
        'Subscription(channel, ""), Subscription(channel, key), Subscription("", "")',
        ("tests/node/test_sending.py::test_reserved_names_are_case_sensitive",),
    ),
    Bug(
        "two subscriptions, two deliveries",
        SUBSCRIPTIONS,
        "self._make(tuple(targets))",
        "self._make(tuple(one for some in matching(channel, key) for one in self._targets.get(some, {})))",
        ("tests/node/test_sending.py::test_routing_by_wildcards_one_copy_each",),
    ),
    Bug(
        "removing a wildcard removes what it covers",
        SUBSCRIPTIONS,
        "            subscriptions -= {operation.subscription}\n",
        "            gone = operation.subscription\n"
        "            subscriptions = frozenset(one for one in subscriptions if gone not in matching(*one))\n",
        ("tests/node/test_receiving.py::test_subscriptions_of_a_peer_change_by_control_messages",),
    ),
    Bug(
        "what nobody wants is stored",
        SENDING,
        "enumerate(routed) if recipients.peers or kept]",
        "enumerate(routed)]",
        ("tests/node/test_sending.py::test_nobody_wants_it_and_nothing_is_stored",),
    ),
    Bug(
        "the first ack removes the message for all",
        SENDING,
        "self._owed.add(messages[0].seq, len(recipients.peers) + len(kept), len(messages))",
        "self._owed.add(messages[0].seq, 1, len(messages))",
        ("tests/node/test_sending.py::test_one_id_for_several_recipients",),
    ),
    Bug(
        "the quota of a peer is not looked at",
        SENDING,
        "            if not peer.outbox.has_room(count, total, self.limits):\n",
        "            if False:\n",
        ("tests/node/test_sending.py::test_a_full_outbox_refuses_before_anything_changes",),
    ),
    Bug(
        "unreliable messages pile up",
        SENDING,
        "if link.unsent >= high_water or not link.connection.live:",
        "if not link.connection.live:",
        ("tests/node/test_sending.py::test_unreliable_is_dropped_over_high_water_and_never_stored",),
    ),
    Bug(
        "the window has no bound",
        OUTBOX,
        "        if self._unacked and (\n",
        "        if False and (\n",
        ("tests/node/test_sending.py::test_the_window_holds_messages_back_and_acks_let_them_go",),
    ),
    Bug(
        "a withheld ack stops the peer",
        OUTBOX,
        "        message = self._unacked.pop(wire_id)\n"
        "        self._unacked_bytes -= message.size\n"
        "        self._backoff[wire_id] = _Resend(message.seq, message.size)\n"
        "        self._again.append(message)\n",
        "        heappush(self._due, (now + self.interval(0), True, [wire_id]))\n",
        ("tests/node/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "resends do not back off",
        OUTBOX,
        "doubled = self._resend_first * 2.0 ** min(attempts, 30)",
        "doubled = self._resend_first",
        ("tests/node/test_sending.py::test_resending_waits_doubles_and_jitters",),
    ),
    Bug(
        "an unreadable row stops a peer",
        OUTBOX,
        "            if isinstance(row, CorruptMessage):\n"
        "                corrupt.append(row)\n"
        "            else:\n"
        "                self._fresh",
        "            if isinstance(row, CorruptMessage):\n"
        "                break\n"
        "            else:\n"
        "                self._fresh",
        ("tests/node/test_storing.py::test_corrupt_rows_are_set_aside_and_the_rest_goes_on",),
    ),
    Bug(
        "ids in use are not reserved in the store",
        STORING,
        "        if self._ids.needs_reserve:\n",
        "        if False:\n",
        ("tests/node/test_storing.py::test_ids_are_reserved_again_after_a_failure",),
    ),
    Bug(
        "kept messages have no bound",
        SENDING,
        "return any(kept.size >= self.limits.keep_bytes for kept in self._keeping.values())",
        "return False",
        ("tests/node/test_connecting.py::test_beyond_its_share_sends_wait_until_the_peer_has_answered",),
    ),
    Bug(
        "subscriptions of a peer that is away are dropped",
        HANDSHAKES,
        "            elif peer.voices:  # else",
        "            else:  # else",
        ("tests/node/test_connecting.py::test_what_was_sent_to_the_peer_anyway_is_not_sent_twice",),
    ),
    Bug(
        "what is subscribed to during a handshake is not told",
        HANDSHAKES,
        "for subscription in sorted(link.control.differing(self._own)):",
        "for subscription in sorted(set(self._own) & set()):",
        ("tests/node/test_receiving.py::test_a_change_while_the_handshake_runs_follows_it",),
    ),
    Bug(
        "set aside at the first suspicion",
        POISON,
        "        if len(under_way) > 1:\n            return None\n        [seq] = under_way\n",
        "        seq = under_way[0]\n",
        ("tests/node/test_upkeep.py::test_five_strikes_set_it_aside_and_the_next_ones_go",),
    ),
    Bug(
        "what expires was acknowledged already",
        UPKEEP,
        "            if one.seq in outbox.leaving and one.seq not in being_parked:\n"
        "                continue  # acknowledged, and on its way out already\n",
        "",
        ("tests/node/test_upkeep.py::test_an_ack_that_crosses_the_search_counts_once",),
    ),
    Bug(
        "no answer to a probe is no matter",
        WATCHING,
        "        self._actions.append(Abort(link.cid))\n"
        '        self._lost(link, ConnectionLost(f"the peer did not answer',
        '        return\n        self._lost(link, ConnectionLost(f"the peer did not answer',
        ("tests/node/test_probes.py::test_no_answer_is_a_lost_connection",),
    ),
    Bug(
        "strangers without a bound",
        ARRIVALS,
        "if self._in_progress[share] >= self.most(share)), None)",
        "if False), None)",
        ("tests/node/test_access.py::test_handshakes_in_progress_are_bounded",),
    ),
    Bug(
        "a stranger has all the time in the world",
        CONNECTION,
        "        if self.state in HANDSHAKING:\n"
        "            return self._deadline\n"
        "        return self.close_deadline\n",
        "        return self.close_deadline\n",
        ("tests/node/test_connecting.py::test_time_limits",),
    ),
    Bug(
        "a peer may take for ever to close",
        CONNECTION,
        "self.close_deadline = self._now + self.limits.close_timeout",
        "self.close_deadline = None",
        ("tests/wire/test_connection.py::test_the_handshake_has_ten_seconds_from_the_start",),
    ),
    Bug(
        "a long body is waited for",
        FRAMES,
        '            if length > maximum:\n                self._limit("too_long", f"a {name} of',
        '            if length > 2 * maximum:\n                self._limit("too_long", f"a {name} of',
        ("tests/wire/test_limits.py::test_refused_when_the_head_is_in_and_not_before",),
    ),
    Bug(
        "a handshake shares its unit",
        CONNECTION,
        "        self._seal()\n        self._units.append(unit)\n",
        "        self._parts.append(unit)\n",
        ("tests/wire/test_connection.py::test_handshake_frames_are_units_of_their_own",),
    ),
    Bug(
        "frames before the handshake",
        CONNECTION,
        "        if step is None:\n            expected",
        "        if step is None and signal is Signal.TRAFFIC:\n"
        "            return frame\n"
        "        if step is None:\n"
        "            expected",
        ("tests/wire/test_connection.py::test_the_first_frame_of_a_server_must_be_a_request",),
    ),
    Bug(
        "handshakes on a live connection without a bound",
        CONNECTION,
        "and not self._renewals.spend(self._now):",
        "and False:",
        ("tests/wire/test_connection.py::test_more_than_a_burst_of_repeated_requests_closes",),
    ),
    Bug(
        "another UUID in a second handshake",
        CONNECTION,
        "        if self.peer_id is not None and (frame.instance_id, frame.version) != (\n",
        "        if False and (frame.instance_id, frame.version) != (\n",
        ("tests/wire/test_connection.py::test_a_repeated_request_must_be_of_the_same_peer",),
    ),
    Bug(
        "an end inside a frame is in order",
        CONNECTION,
        "        except UnexpectedEOF as partial:\n            error = partial\n",
        "        except UnexpectedEOF:\n            pass\n",
        ("tests/wire/test_connection.py::test_the_end_of_the_stream_inside_a_frame_is_an_error_after_the_whole_ones",),
    ),
    Bug(
        "a status that contradicts the versions is believed",
        CONNECTION,
        "        if not contradicts:\n            return\n",
        "        return\n",
        ("tests/wire/test_versions.py::test_a_status_that_contradicts_the_versions",),
    ),
    Bug(
        "a control body with something behind it",
        FRAMES,
        "if len(body) == start + sum(sizes):",
        "if len(body) >= start + sum(sizes):",
        ("tests/wire/test_decoding.py::test_a_control_body_that_makes_no_sense_is_ignored_with_its_id",),
    ),
    Bug(
        "names are cached by their beginning",
        FRAMES,
        "            self._names[raw] = text\n",
        "            self._names[raw] = text.strip()\n",
        ("tests/wire/test_decoding.py::test_names_are_compared_byte_for_byte",),
    ),
)

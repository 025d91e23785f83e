"""Bugs in what is owed to peers: ids, order, windows, quotas and ends."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "a message for one peer is given to another that connects",
        "tolliver_proto/_node/outboxes/connect_windows.py",
        "is_for",
        "is_new and (self.to is None or peer.uuid in self.to)",
        "is_new",
        ("tests/node/outboxes/test_addressing.py::test_what_is_kept_for_a_peer_that_connects_goes_to_none_but_those",),
    ),
    Bug(
        "nobody looks for what expires next",
        "tolliver_proto/_node/outboxes/expiry.py",
        "_give_up_due",
        "len(over) < len(found)",
        "False",
        ("tests/node/outboxes/test_expiry.py::test_it_is_given_up_for_all_and_who_waits_is_told",),
    ),
    Bug(
        "set aside at the first suspicion",
        "tolliver_proto/_node/outboxes/suspicion.py",
        "ended",
        """
        if len(exposed) > 1:
            return None
        [seq] = exposed
        """,
        "seq = exposed[0]",
        ("tests/node/outboxes/test_upkeep.py::test_five_strikes_set_it_aside_and_the_next_ones_go",),
    ),
    Bug(
        "what was given up counts as acknowledged",
        "tolliver_proto/_node/outboxes/ledger.py",
        "remove",
        "self._tell_given_up(peer.uuid, ids, reason)",
        "",
        ("tests/node/outboxes/test_undelivered.py",),
    ),
    Bug(
        "the first ack removes the message for all",
        "tolliver_proto/_node/outboxes/ledger.py",
        "take_in",
        "len(recipients.peers) + is_kept",
        "1",
        ("tests/node/outboxes/test_sending.py::test_one_id_for_several_recipients",),
    ),
    Bug(
        "a job that moves is nobody's for a while",
        "tolliver_proto/_node/outboxes/ledger.py",
        "move",
        "(AddDeliveries(target.uuid, rows), RemoveDeliveries(source.uuid, spans))",
        "(RemoveDeliveries(source.uuid, spans),)",
        ("tests/patterns/test_queues.py",),
    ),
    Bug(
        "on a full disk messages go with everything else",
        "tolliver_proto/_node/outboxes/sender.py",
        "must_wait",
        "self._commits.apart or self._keeps_enough()",
        "self._keeps_enough()",
        ("tests/node/commits/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "kept messages have no bound",
        "tolliver_proto/_node/outboxes/sender.py",
        "_keeps_enough",
        "self._ledger.keeping.keeps_enough(self._policy.strict_block)",
        "False",
        ("tests/node/links/test_connecting.py::test_beyond_its_share_sends_wait_until_the_peer_has_answered",),
    ),
    Bug(
        "a send to nobody is silent success",
        "tolliver_proto/_node/outboxes/sender.py",
        "_tell_nobody",
        "receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, len(channels))",
        "pass",
        ("tests/node/outboxes/test_windows.py::test_a_send_that_nobody_is_owed_is_answered_so",),
    ),
    Bug(
        "delivery row removed when sent instead of when acked",
        "tolliver_proto/_node/outboxes/transmission.py",
        "pump",
        "room -= len(data)",
        """
        room -= len(data)
        done = [(message.seq, message.seq) for message in run]
        self._commits.batch.put_away.append(RemoveDeliveries(peer.uuid, done))
        """,
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "wrap onto a live id",
        "tolliver_proto/_node/outboxes/ids.py",
        "_next_free",
        "self.live.next_free(number)",
        "number",
        ("tests/node/outboxes/test_sending.py::test_ids_wrap_over_live_ones",),
    ),
    Bug(
        "ids run into those of earlier openings",
        "tolliver_proto/_node/outboxes/ids.py",
        "_next_free",
        "self._older.next_free(self.live.next_free(number))",
        "self.live.next_free(number)",
        ("tests/node/outboxes/test_ids.py::test_ids_that_were_handed_out_are_passed_over_as_long_as_there_are_others",),
    ),
    Bug(
        "a restored copy meets the ids that followed it",
        "tolliver_proto/_node/outboxes/ids.py",
        "begin_elsewhere",
        "count + BEYOND_A_COPY",
        "count",
        ("tests/node/outboxes/test_ids.py::test_a_restored_copy_keeps_clear_of_where_the_original_went_on",),
    ),
    Bug(
        "message sent during the dial lost",
        "tolliver_proto/_node/outboxes/connect_wait.py",
        "claim_kept",
        "self._ledger.link_kept(peer, claimed)",
        "self._ledger.link_kept(peer, [])",
        ("tests/node/links/test_connecting.py::test_what_is_sent_while_a_connection_is_made_reaches_the_peer_once",),
    ),
    Bug(
        "resend out of order",
        "tolliver_proto/_node/outboxes/outbox.py",
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
        "the window has no bound",
        "tolliver_proto/_node/outboxes/outbox.py",
        "next_run",
        "count and (count >= most or size + message.size > most_bytes)",
        "False",
        ("tests/node/outboxes/test_sending.py::test_the_window_holds_messages_back_and_acks_let_them_go",),
    ),
    Bug(
        "what is stored while a hold ends goes before what was held",
        "tolliver_proto/_node/outboxes/outbox.py",
        "committed",
        "self._loaded_to >= outbox.last_seq and not self.lists_under_way",
        "self._loaded_to >= outbox.last_seq",
        (
            "tests/node/lists/test_holds.py::test_a_message_that_is_being_stored_when_a_hold_ends_comes_after_what_was_held",
        ),
    ),
    Bug(
        "the quota of a peer is not looked at",
        "tolliver_proto/_node/outboxes/quota.py",
        "full",
        "max(self.excess(peer.outbox, share)) <= 0",
        "True",
        ("tests/node/outboxes/test_sending.py::test_a_full_outbox_refuses_before_anything_changes",),
    ),
    Bug(
        "access: routes do not look at the rules",
        "tolliver_proto/_node/outboxes/routing.py",
        "reroute",
        "self._context.acl.rights(peer.uuid).granted(wanted)",
        "peer.subscriptions.union(peer.held)",
        ("tests/node/links/test_access.py::test_rules_that_change_while_a_list_is_stored",),
    ),
    Bug(
        "what is in flight goes first",
        "tolliver_proto/_node/outboxes/drop_oldest.py",
        "_in_order",
        "is_in_flight(one)",
        "False",
        ("tests/node/outboxes/test_quota.py::test_what_is_in_flight_goes_last",),
    ),
    Bug(
        "a flush answers before a full window is through",
        "tolliver_proto/_node/outboxes/flushes.py",
        "_is_through",
        "link.sending.window.owes(flush.seq)",
        "False",
        ("tests/node/outboxes/test_flushing.py::test_it_waits_for_a_window_that_is_full",),
    ),
)

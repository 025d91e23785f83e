"""Bugs in the node's way of receiving: deliveries, acknowledgements, duplicates, subscriptions."""

from __future__ import annotations

from .bug import Bug

RECEIVING = "tolliver_proto/_node/receiving.py"
OPENING = "tolliver_proto/_node/opening.py"
DEDUPE = "tolliver_proto/_node/dedupe.py"
SUBSCRIPTIONS = "tolliver_proto/_node/subscriptions.py"
POISON = "tolliver_proto/_node/poison.py"

BUGS = (
    Bug(
        "what was withheld is not asked for",
        RECEIVING,
        "_take_unhandled",
        "not self._handlers.match(delivery.channel, delivery.key)",
        "False",
        ("tests/node/test_withheld.py::test_a_handler_that_leaves_withholds_what_it_holds",),
    ),
    Bug(
        "a peer that asks again and again is obeyed each time",
        RECEIVING,
        "_obey",
        "self._now - peer.obeyed_at < _OBEYED_WITHIN",
        "False",
        ("tests/node/test_withheld.py::test_a_sender_obeys_once_in_ten_seconds",),
    ),
    Bug(
        "what nobody wants yet is dropped",
        OPENING,
        "is_unwanted",
        "now >= self.subscriptions_due",
        "True",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "an unsubscribe does not begin the dropping of what it names",
        RECEIVING,
        "unsubscribe",
        "self._opening.unsubscribed(subscription, self._now)",
        "",
        ("tests/node/test_first_moments.py::test_an_unsubscribe_begins_it_for_what_it_names",),
    ),
    Bug(
        "what comes before its handler is withheld",
        RECEIVING,
        "_leave_to_sender",
        "fate is Fate.WANTED and message_id is not None and self._keep_early(link, message)",
        "False",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "what is kept for a handler goes over the credit",
        OPENING,
        "keep",
        "len(self._kept) + messages >= limits.inbox_messages or size > limits.inbox_bytes",
        "False",
        ("tests/node/test_first_moments.py::test_what_exceeds_the_credit_is_let_go",),
    ),
    Bug(
        "what is still unwanted is never acknowledged",
        RECEIVING,
        "_drop_doubtful",
        "self._ack(link, list(dropped))",
        "",
        ("tests/node/test_first_moments.py",),
    ),
    Bug(
        "what is let go after the first moments is no notice",
        RECEIVING,
        "_drop_doubtful",
        "self._drops.add(NoticeKind.UNWANTED, peer.uuid, channel, self._now)",
        "pass",
        ("tests/node/test_first_moments.py::test_what_is_still_unwanted_after_half_a_minute_is_acknowledged",),
    ),
    Bug(
        "ack before handler",
        RECEIVING,
        "_on_message",
        "inbox.add(delivery)",
        """
        self._ack(link, [message.message_id] if message.message_id is not None else [])
        inbox.add(delivery)
        """,
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "ack keyed by id only",
        RECEIVING,
        "_on_acks",
        "others = link.window.take_acked(wire_ids, acked) if link.window is not None else wire_ids",
        """
        others = wire_ids
        for window in [one.window for one in self._up.values() if one.window is not None]:
            others = window.take_acked(others, acked)
        """,
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "a copy acknowledged before its original",
        RECEIVING,
        "_is_new",
        'self._counts["withheld"] += 1',
        """
        self._counts["withheld"] += 1
        self._ack(link, [message_id])
        """,
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "handled, durably, before it is stored",
        RECEIVING,
        "_remember",
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
        "_keep_as_letter",
        "self._keep_letter(letter)",
        """
        self._keep_letter(letter)
        self._ack(link, [message_id])
        """,
        ("tests/node/test_duplicates.py::test_twenty_failures_make_a_dead_letter",),
    ),
    Bug(
        "a flood is dropped instead of waiting",
        RECEIVING,
        "_on_entries",
        "link.holding |= Hold.RATE",
        "return",
        ("tests/node/test_duplicates.py::test_more_control_messages_than_allowed_wait_and_none_is_lost",),
    ),
    Bug(
        "an ack outlives its connection",
        RECEIVING,
        "acknowledge",
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
        "_judge",
        "handlers or Fate.WANTED",
        "handlers or Fate.UNWANTED",
        (
            "tests/node/test_receiving.py::test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped",
        ),
    ),
    Bug(
        "a probe is handed out",
        RECEIVING,
        "_judge",
        "channel == PROBE_CHANNEL",
        "False",
        ("tests/node/test_probes.py::test_a_probe_is_never_a_message",),
    ),
    Bug(
        "one failure too many before a dead letter",
        RECEIVING,
        "fail",
        "delivery.attempt >= self.limits.max_attempts",
        "delivery.attempt > self.limits.max_attempts",
        ("tests/node/test_duplicates.py::test_a_letter_that_is_not_stored_is_still_a_message",),
    ),
    Bug(
        "credit is never spent",
        RECEIVING,
        "_on_message",
        "inbox.count >= limits.inbox_messages or inbox.size >= limits.inbox_bytes",
        "False",
        ("tests/node/test_receiving.py::test_credit_stops_events_then_reading_and_settling_brings_both_back",),
    ),
    Bug(
        "what is not understood is not acknowledged",
        RECEIVING,
        "_on_ignored",
        "frame.message_id is not None",
        "False",
        ("tests/node/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",),
    ),
    Bug(
        "a peer subscribes to the reserved channel",
        RECEIVING,
        "_on_entries",
        "peer.derived or one.channel == RESERVED_CHANNEL",
        "peer.derived",
        ("tests/node/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",),
    ),
    Bug(
        "own subscriptions are not stored",
        RECEIVING,
        "_store_own",
        "self._batch.operations.append(operation)",
        "",
        ("tests/node/test_receiving.py::test_own_changes_are_told_to_every_peer_once_they_are_stored",),
    ),
    Bug(
        "the own list outgrows a handshake",
        RECEIVING,
        "_check_list",
        "count > self.limits.max_subscriptions or size > self.limits.max_handshake",
        "False",
        ("tests/node/test_receiving.py::test_own_lists_stay_within_what_peers_take",),
    ),
    Bug(
        "too many subscriptions of a peer are kept",
        RECEIVING,
        "_may_have",
        "len(link.told) + others >= self.limits.max_subscriptions or size > self.limits.max_handshake",
        "size > self.limits.max_handshake",
        ("tests/node/test_receiving.py::test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged",),
    ),
    Bug(
        "access: what may not be subscribed to is taken",
        RECEIVING,
        "_may_have",
        "self._gate.acl.rights(peer.uuid).may_subscribe(subscription)",
        "True",
        ("tests/node/test_access.py::test_a_control_message_that_asks_for_too_much_is_acknowledged",),
    ),
    Bug(
        "access: anybody may publish",
        RECEIVING,
        "_on_guarded_message",
        "self._gate.acl.rights(peer.uuid).may_publish(message.channel, message.key)",
        "True",
        ("tests/node/test_access.py::test_rules_about_publishing_come_and_go",),
    ),
    Bug(
        "access: what is refused is not acknowledged",
        RECEIVING,
        "_on_guarded_message",
        "self._ack(link, [message.message_id])",
        "",
        ("tests/node/test_access.py::test_what_may_not_be_published_is_acknowledged_and_not_delivered",),
    ),
    Bug(
        "dedupe: a high-water mark",
        DEDUPE,
        "find",
        "self._known.find(peer, message_id, checksum)",
        "Known.YES if any(one == peer and known >= message_id for one, known, _ in self._known) else Known.NOT",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: acknowledged before it is on disk",
        RECEIVING,
        "acknowledge",
        "self._batch.acks if is_durable else {}",
        "{}",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: without a bound",
        DEDUPE,
        "add",
        """
        if len(self._known) > self._size:
            self._known.forget_oldest()
        """,
        "",
        ("tests/node/test_duplicates.py::test_the_last_n_are_an_exact_set",),
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
        "_look_up",
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
        "set aside at the first suspicion",
        POISON,
        "ended",
        """
        if len(exposed) > 1:
            return None
        [seq] = exposed
        """,
        "seq = exposed[0]",
        ("tests/node/test_upkeep.py::test_five_strikes_set_it_aside_and_the_next_ones_go",),
    ),
)

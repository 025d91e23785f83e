"""Bugs in the node's way of receiving: deliveries, acknowledgements, duplicates, subscriptions."""

from __future__ import annotations

from .bug import Bug

POISON_PART = "tolliver_proto/_node/outboxes/suspicion.py"
DEDUPE_PART = "tolliver_proto/_node/inboxes/dedupe.py"
OWN = "tolliver_proto/_node/lists/own.py"
DEAD_LETTERS = "tolliver_proto/_node/inboxes/dead_letters.py"
LINKS = "tolliver_proto/_node/links/links.py"
DELIVERING = "tolliver_proto/_node/inboxes/delivering.py"
OPENING_PART = "tolliver_proto/_node/inboxes/inbox.py"
PEERS = "tolliver_proto/_node/lists/peers.py"
SETTLING = "tolliver_proto/_node/inboxes/settling.py"
SUBSCRIPTIONS = "tolliver_proto/_node/subscriptions.py"

BUGS = (
    Bug(
        "what was withheld is not asked for",
        SETTLING,
        "_take_unhandled",
        "not self._delivering.handlers.match(delivery.channel, delivery.key)",
        "False",
        ("tests/node/inboxes/test_withheld.py::test_a_handler_that_leaves_withholds_what_it_holds",),
    ),
    Bug(
        "a peer that asks again and again is obeyed each time",
        PEERS,
        "_obey",
        "self._context.now - peer.lists.obeyed_at < OBEYED_WITHIN",
        "False",
        ("tests/node/inboxes/test_withheld.py::test_a_sender_obeys_once_in_ten_seconds",),
    ),
    Bug(
        "what nobody wants yet is dropped",
        OPENING_PART,
        "is_unwanted",
        "now >= self.subscriptions_due",
        "True",
        ("tests/node/inboxes/test_first_moments.py",),
    ),
    Bug(
        "an unsubscribe does not begin the dropping of what it names",
        DELIVERING,
        "unsubscribed",
        "self._opening.unsubscribed(Subscription(channel, key), self._context.now)",
        "",
        ("tests/node/inboxes/test_first_moments.py::test_an_unsubscribe_begins_it_for_what_it_names",),
    ),
    Bug(
        "what comes before its handler is withheld",
        DELIVERING,
        "leave_to_sender",
        "fate is Fate.WANTED and message_id is not None and self.keep_early(link, message)",
        "False",
        ("tests/node/inboxes/test_first_moments.py",),
    ),
    Bug(
        "what is kept for a handler goes over the credit",
        OPENING_PART,
        "keep",
        "len(self._kept) + messages >= limits.inbox_messages or size > limits.inbox_bytes",
        "False",
        ("tests/node/inboxes/test_first_moments.py::test_what_exceeds_the_credit_is_let_go",),
    ),
    Bug(
        "what is still unwanted is never acknowledged",
        DELIVERING,
        "_drop_doubtful",
        "self._commits.ack(link, list(dropped))",
        "",
        ("tests/node/inboxes/test_first_moments.py",),
    ),
    Bug(
        "what is let go after the first moments is no notice",
        DELIVERING,
        "_drop_doubtful",
        "self._context.drops.add(NoticeKind.UNWANTED, peer.uuid, channel, self._context.now)",
        "pass",
        ("tests/node/inboxes/test_first_moments.py::test_what_is_still_unwanted_after_half_a_minute_is_acknowledged",),
    ),
    Bug(
        "ack before handler",
        DELIVERING,
        "on_message",
        "inbox.add(delivery)",
        (
            "\n"
            "        self._commits.ack(link, [message.message_id] if message.message_id is not None else [])\n"
            "        inbox.add(delivery)\n"
            "        "
        ),
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "ack keyed by id only",
        LINKS,
        "_on_acks",
        ("others = link.sending.window.take_acked(wire_ids, acked) if link.sending.window is not None else wire_ids"),
        (
            "\n"
            "        others = wire_ids\n"
            "        for window in [one.sending.window for one in self._context.up.values() if "
            "one.sending.window is not None]:\n"
            "            others = window.take_acked(others, acked)\n"
            "        "
        ),
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "a copy acknowledged before its original",
        DELIVERING,
        "_is_new",
        'self._counts["withheld"] += 1',
        ('\n        self._counts["withheld"] += 1\n        self._commits.ack(link, [message_id])\n        '),
        ("tests/node/inboxes/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "handled, durably, before it is stored",
        SETTLING,
        "_remember",
        "self._commits.batch.handled.append(handled)",
        ("\n        self._commits.batch.handled.append(handled)\n        self.learn(handled)\n        "),
        ("tests/node/inboxes/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "a dead letter acknowledged before it is stored",
        DEAD_LETTERS,
        "keep_as_letter",
        "self._keep_letter(letter)",
        ("\n        self._keep_letter(letter)\n        self._commits.ack(link, [message_id])\n        "),
        ("tests/node/inboxes/test_duplicates.py::test_twenty_failures_make_a_dead_letter",),
    ),
    Bug(
        "a flood is dropped instead of waiting",
        PEERS,
        "_on_entries",
        "link.hold(Hold.RATE)",
        "return",
        ("tests/node/inboxes/test_duplicates.py::test_more_control_messages_than_allowed_wait_and_none_is_lost",),
    ),
    Bug(
        "an ack outlives its connection",
        SETTLING,
        "acknowledge",
        (
            "\n"
            "        if link is not None and link.sending.window is not None:\n"
            "            link.bear_fruit()\n"
            "            acks.setdefault(link, []).append(message_id)\n"
            "        "
        ),
        (
            "\n"
            "        if link is None and peer is not None:\n"
            "            link = peer.link\n"
            "        if link is not None and link.sending.window is not None:\n"
            "            link.bear_fruit()\n"
            "            acks.setdefault(link, []).append(message_id)\n"
            "        "
        ),
        ("tests/node/inboxes/test_handling.py::test_an_ack_goes_out_on_the_connection_that_each_copy_came_on",),
    ),
    Bug(
        "acknowledged though nobody is there to handle it",
        DELIVERING,
        "judge",
        "handlers or Fate.WANTED",
        "handlers or Fate.UNWANTED",
        (
            "tests/node/inboxes/test_receiving.py::test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped",
        ),
    ),
    Bug(
        "a probe is handed out",
        DELIVERING,
        "judge",
        "channel == PROBE_CHANNEL",
        "False",
        ("tests/node/links/test_probes.py::test_a_probe_is_never_a_message",),
    ),
    Bug(
        "one failure too many before a dead letter",
        SETTLING,
        "fail",
        "delivery.attempt >= self._limits.max_attempts",
        "delivery.attempt > self._limits.max_attempts",
        ("tests/node/inboxes/test_duplicates.py::test_a_letter_that_is_not_stored_is_still_a_message",),
    ),
    Bug(
        "credit is never spent",
        DELIVERING,
        "on_message",
        "inbox.count >= limits.inbox_messages or inbox.size >= limits.inbox_bytes",
        "False",
        ("tests/node/inboxes/test_receiving.py::test_credit_stops_events_then_reading_and_settling_brings_both_back",),
    ),
    Bug(
        "what is not understood is not acknowledged",
        DELIVERING,
        "on_ignored",
        "frame.message_id is not None",
        "False",
        ("tests/node/inboxes/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",),
    ),
    Bug(
        "a peer subscribes to the reserved channel",
        PEERS,
        "_on_entries",
        "peer.derived or one.channel == RESERVED_CHANNEL",
        "peer.derived",
        ("tests/node/inboxes/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",),
    ),
    Bug(
        "own subscriptions are not stored",
        OWN,
        "_store_own",
        "self._commits.batch.operations.append(operation)",
        "",
        ("tests/node/inboxes/test_receiving.py::test_own_changes_are_told_to_every_peer_once_they_are_stored",),
    ),
    Bug(
        "the own list outgrows a handshake",
        OWN,
        "check_list",
        "count > self._limits.max_subscriptions or size > self._limits.max_handshake",
        "False",
        ("tests/node/inboxes/test_receiving.py::test_own_lists_stay_within_what_peers_take",),
    ),
    Bug(
        "too many subscriptions of a peer are kept",
        PEERS,
        "_may_have",
        ("len(link.lists.told) + others >= self._limits.max_subscriptions or size > self._limits.max_handshake"),
        "size > self._limits.max_handshake",
        ("tests/node/inboxes/test_receiving.py::test_too_many_subscriptions_of_a_peer_are_refused_and_acknowledged",),
    ),
    Bug(
        "access: what may not be subscribed to is taken",
        PEERS,
        "_may_have",
        "self._context.acl.rights(peer.uuid).may_subscribe(subscription)",
        "True",
        ("tests/node/links/test_access.py::test_a_control_message_that_asks_for_too_much_is_acknowledged",),
    ),
    Bug(
        "access: anybody may publish",
        DELIVERING,
        "on_guarded_message",
        "self._context.acl.rights(peer.uuid).may_publish(message.channel, message.key)",
        "True",
        ("tests/node/links/test_access.py::test_rules_about_publishing_come_and_go",),
    ),
    Bug(
        "access: what is refused is not acknowledged",
        DELIVERING,
        "on_guarded_message",
        "self._commits.ack(link, [message.message_id])",
        "",
        ("tests/node/links/test_access.py::test_what_may_not_be_published_is_acknowledged_and_not_delivered",),
    ),
    Bug(
        "dedupe: a high-water mark",
        DEDUPE_PART,
        "find",
        "self._known.find(peer, message_id, checksum)",
        "Known.YES if any(one == peer and known >= message_id for one, known, _ in self._known) else Known.NOT",
        ("tests/node/inboxes/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: acknowledged before it is on disk",
        SETTLING,
        "acknowledge",
        "self._commits.batch.acks if is_durable else {}",
        "{}",
        ("tests/node/inboxes/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: without a bound",
        DEDUPE_PART,
        "add",
        """
        if len(self._known) > self._size:
            self._known.forget_oldest()
        """,
        "",
        ("tests/node/inboxes/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "a wildcard channel matches nothing",
        SUBSCRIPTIONS,
        "matching",
        'Subscription("", key)',
        "Subscription(channel, key)",
        ("tests/node/outboxes/test_sending.py::test_reserved_names_are_case_sensitive",),
    ),
    Bug(
        "two subscriptions, two deliveries",
        SUBSCRIPTIONS,
        "_look_up",
        "tuple(targets)",
        "tuple(one for some in matching(channel, key) for one in self._targets.get(some, {}))",
        ("tests/node/outboxes/test_sending.py::test_routing_by_wildcards_one_copy_each",),
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
        ("tests/node/inboxes/test_receiving.py::test_subscriptions_of_a_peer_change_by_control_messages",),
    ),
    Bug(
        "set aside at the first suspicion",
        POISON_PART,
        "ended",
        """
        if len(exposed) > 1:
            return None
        [seq] = exposed
        """,
        "seq = exposed[0]",
        ("tests/node/outboxes/test_upkeep.py::test_five_strikes_set_it_aside_and_the_next_ones_go",),
    ),
)

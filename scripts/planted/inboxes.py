"""Bugs in what comes: copies, credit, verdicts, dead letters, handling in order."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "two calls inside a key",
        "tolliver_proto/_node/ordered_handling.py",
        "add",
        "lane in self._waiting",
        "False",
        ("tests/node/inboxes/test_ordered_handling.py::TestSideBySide",),
    ),
    Bug(
        "ack before handler",
        "tolliver_proto/_node/inboxes/delivering.py",
        "on_message",
        "inbox.add(delivery)",
        """
        self._commits.ack(link, [message.message_id] if message.message_id is not None else [])
        inbox.add(delivery)
        """,
        ("tests/node/test_promises.py::test_i2_an_ack_only_after_acknowledge",),
    ),
    Bug(
        "acknowledged though nobody is there to handle it",
        "tolliver_proto/_node/inboxes/delivering.py",
        "judge",
        "handlers or Fate.WANTED",
        "handlers or Fate.UNWANTED",
        (
            "tests/node/inboxes/test_receiving.py::test_wanted_but_nobody_there_is_withheld_unwanted_is_acknowledged_and_dropped",
        ),
    ),
    Bug(
        "credit is never spent",
        "tolliver_proto/_node/inboxes/delivering.py",
        "on_message",
        "inbox.count >= limits.inbox_messages or inbox.size >= limits.inbox_bytes",
        "False",
        ("tests/node/inboxes/test_receiving.py::test_credit_stops_events_then_reading_and_settling_brings_both_back",),
    ),
    Bug(
        "access: anybody may publish",
        "tolliver_proto/_node/inboxes/delivering.py",
        "on_guarded_message",
        "self._context.acl.rights(peer.uuid).may_publish(message.channel, message.key)",
        "True",
        ("tests/node/links/test_access.py::test_rules_about_publishing_come_and_go",),
    ),
    Bug(
        "dedupe: forgotten over a restart",
        "tolliver_proto/_node/inboxes/delivering.py",
        "__init__",
        "loaded.handled if dedupe else ()",
        "()",
        ("tests/node/inboxes/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "handled, durably, before it is stored",
        "tolliver_proto/_node/inboxes/settling.py",
        "_remember",
        "self._commits.batch.handled.append(handled)",
        """
        self._commits.batch.handled.append(handled)
        self.learn(handled)
        """,
        ("tests/node/inboxes/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "an ack outlives its connection",
        "tolliver_proto/_node/inboxes/settling.py",
        "acknowledge",
        """
        if link is not None and link.sending.window is not None:
            link.bear_fruit()
            acks.setdefault(link, []).append(message_id)
        """,
        """
        if link is None and peer is not None:
            link = peer.link
        if link is not None and link.sending.window is not None:
            link.bear_fruit()
            acks.setdefault(link, []).append(message_id)
        """,
        ("tests/node/inboxes/test_handling.py::test_an_ack_goes_out_on_the_connection_that_each_copy_came_on",),
    ),
    Bug(
        "a dead letter acknowledged before it is stored",
        "tolliver_proto/_node/inboxes/dead_letters.py",
        "keep_as_letter",
        "self._keep_letter(letter)",
        """
        self._keep_letter(letter)
        self._commits.ack(link, [message_id])
        """,
        ("tests/node/inboxes/test_duplicates.py::test_twenty_failures_make_a_dead_letter",),
    ),
    Bug(
        "dead letters have no bound",
        "tolliver_proto/_node/inboxes/dead_letters.py",
        "_keep_letter",
        "self.numbers.beyond(self._limits.max_dead_letters, self._limits.max_dead_letter_bytes)",
        "[]",
        ("tests/node/inboxes/test_dead_letters.py::test_at_the_bound_the_oldest_goes_and_it_is_told",),
    ),
    Bug(
        "dedupe: a high-water mark",
        "tolliver_proto/_node/inboxes/dedupe.py",
        "find",
        "self._known.find(peer, message_id, checksum)",
        "Known.YES if any(one == peer and known >= message_id for one, known, _ in self._known) else Known.NOT",
        ("tests/node/inboxes/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "dedupe: without a bound",
        "tolliver_proto/_node/inboxes/dedupe.py",
        "add",
        """
        if len(self._known) > self._size:
            self._known.forget_oldest()
        """,
        "",
        ("tests/node/inboxes/test_duplicates.py::test_the_last_n_are_an_exact_set",),
    ),
    Bug(
        "another message under a known id is a copy",
        "tolliver_proto/_node/message_set.py",
        "_compared",
        "return _BY_ID",
        "return _YES",
        ("tests/node/inboxes/test_duplicates.py::test_another_message_under_a_known_id_is_a_message",),
    ),
    Bug(
        "copies wait without a bound",
        "tolliver_proto/_node/inboxes/inbox.py",
        "wait",
        "counts[cid] > COPIES",
        "False",
        ("tests/node/inboxes/test_handling.py::test_only_so_many_copies_wait",),
    ),
    Bug(
        "no handler is ever stuck",
        "tolliver_proto/_node/inboxes/credit.py",
        "_look_at_calls",
        "stuck_after + (self._context.now if oldest is None else oldest[1])",
        "self._context.now + 1e9",
        ("tests/node/inboxes/test_handling.py::test_a_stuck_handler_is_told_and_passed_by",),
    ),
)

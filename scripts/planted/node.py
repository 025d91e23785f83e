"""Bugs in the node's base: commits, calls, maintenance."""

from __future__ import annotations

from .bug import Bug

REMOTES = "tolliver_proto/_node/links/remotes.py"
ROUTING = "tolliver_proto/_node/outboxes/routing.py"
HANDSHAKES = "tolliver_proto/_node/links/handshakes.py"
LINKS = "tolliver_proto/_node/links/links.py"
COMMITS = "tolliver_proto/_node/commits/commits.py"
NODE = "tolliver_proto/_node/node.py"

SEEN = ("tests/node/links/test_dial_causes.py",)

BUGS = (
    Bug(
        "a handshake that times out is not told",
        LINKS,
        "on_link_timeout",
        "connection is None or connection.state in HANDSHAKING",
        "False",
        SEEN,
    ),
    Bug(
        "on a full disk removals wait for messages to be stored",
        COMMITS,
        "failed",
        "batch.stores and isinstance(error, DiskFull)",
        "False",
        (
            "tests/node/commits/test_full_disk.py::"
            "test_what_was_acknowledged_is_removed_at_once_though_no_message_can_be_stored",
        ),
    ),
    Bug(
        "a disk that has room again is taken for full",
        COMMITS,
        "committed",
        "self.apart = self.apart and not batch.stores",
        "",
        ("tests/node/commits/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "send before commit",
        NODE,
        "_begin_commit",
        "self._commits.begin(batch)",
        ("\n        self._commits.begin(batch)\n        self._transmission.on_stored(batch.runs)\n        "),
        ("tests/node/test_promises.py::test_i1_neither_stored_nor_a_byte_before_the_commit",),
    ),
    Bug(
        "ids go on where the last opening ended",
        "tolliver_proto/_node/outboxes/ledger.py",
        "Ledger.__init__",
        "None if is_derived(context.instance_id) else context.rng",
        "None",
        (
            "tests/node/outboxes/test_ids.py",
            "tests/test_restored.py",
        ),
    ),
    Bug(
        "a derived identity begins anywhere",
        "tolliver_proto/_node/outboxes/ledger.py",
        "Ledger.__init__",
        "None if is_derived(context.instance_id) else context.rng",
        "context.rng",
        (
            "tests/node/outboxes/test_ids.py::test_a_derived_identity_begins_at_1_and_goes_on_behind_what_was_reserved",
            "tests/adapters/test_derived.py::test_every_try_of_a_task_counts_once",
        ),
    ),
    Bug(
        "a forgotten peer's ids remembered",
        NODE,
        "forgotten",
        "self._delivering.dedupe.forget(peer.uuid)",
        "",
        ("tests/node/inboxes/test_duplicates.py::test_a_forgotten_peer_s_ids_are_new_again",),
    ),
    Bug(
        "a peer that is connected is forgotten, as it was away once",
        HANDSHAKES,
        "_on_away_timeout",
        "any(link.peer is peer for link in self._context.links.values())",
        "False",
        ("tests/node/links/test_absence.py::test_a_peer_that_is_back_in_time_has_all_of_its_time_again",),
    ),
    Bug(
        "a peer that was away at the opening is never forgotten",
        NODE,
        "__init__",
        "self._links.count_absence(peer)",
        "",
        ("tests/node/links/test_absence.py::test_after_a_restart_it_has_all_of_its_time_again",),
    ),
    Bug(
        "access: routes do not look at the rules",
        ROUTING,
        "reroute",
        "self._context.acl.rights(peer.uuid).granted(wanted)",
        "peer.subscriptions.union(peer.held)",
        ("tests/node/links/test_access.py::test_rules_that_change_while_a_list_is_stored",),
    ),
    Bug(
        "access: new rules leave the old routes",
        REMOTES,
        "set_acl",
        ("\n        if acl.rights(uuid) != before.rights(uuid):\n            self._routing.reroute(peer)\n        "),
        "pass",
        ("tests/node/links/test_access.py::test_narrower_rules_hold_at_once_and_wider_ones_give_back",),
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
        "ids in use are not reserved in the store",
        NODE,
        "_begin_commit",
        "self._ledger.ids.needs_reserve",
        "False",
        ("tests/node/commits/test_storing.py::test_ids_are_reserved_again_after_a_failure",),
    ),
    Bug(
        "sends wait for removals that have no room",
        COMMITS,
        "failed",
        "self.apart and not no_room",
        "False",
        ("tests/node/commits/test_full_disk.py::test_a_send_does_not_wait_for_removals_that_find_no_room_either",),
    ),
    Bug(
        "no answer to a probe is no matter",
        LINKS,
        "_on_probe_timeout",
        "self._actions.append(Abort(cid))",
        "return",
        ("tests/node/links/test_probes.py::test_no_answer_is_a_lost_connection",),
    ),
)

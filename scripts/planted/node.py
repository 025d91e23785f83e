"""Bugs in the node's base: commits, calls, maintenance."""

from __future__ import annotations

from .bug import Bug

STORING = "tolliver_proto/_node/storing.py"
MAINTENANCE = "tolliver_proto/_node/maintenance.py"
BASE = "tolliver_proto/_node/base.py"
NODE = "tolliver_proto/_node/node.py"

SEEN = ("tests/node/test_dial_causes.py",)

BUGS = (
    Bug(
        "a handshake that times out is not told",
        NODE,
        "_on_link_timeout",
        "connection is None or connection.state in HANDSHAKING",
        "False",
        SEEN,
    ),
    Bug(
        "on a full disk removals wait for messages to be stored",
        STORING,
        "store_failed",
        "batch.stores and isinstance(error, DiskFull)",
        "False",
        (
            "tests/node/test_full_disk.py::"
            "test_what_was_acknowledged_is_removed_at_once_though_no_message_can_be_stored",
        ),
    ),
    Bug(
        "a disk that has room again is taken for full",
        STORING,
        "committed",
        "self._apart = self._apart and not batch.stores",
        "",
        ("tests/node/test_full_disk.py::test_messages_go_in_commits_of_their_own_until_there_is_room",),
    ),
    Bug(
        "send before commit",
        STORING,
        "_begin_commit",
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
        "ids go on where the last opening ended",
        BASE,
        "__init__",
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
        "__init__",
        "None if is_derived(instance_id) else rng",
        "rng",
        (
            "tests/node/test_ids.py::test_a_derived_identity_begins_at_1_and_goes_on_behind_what_was_reserved",
            "tests/adapters/test_derived.py::test_every_try_of_a_task_counts_once",
        ),
    ),
    Bug(
        "a forgotten peer's ids remembered",
        MAINTENANCE,
        "forgotten",
        "self._dedupe.forget(peer.uuid)",
        "",
        ("tests/node/test_duplicates.py::test_a_forgotten_peer_s_ids_are_new_again",),
    ),
    Bug(
        "a peer that is connected is forgotten, as it was away once",
        MAINTENANCE,
        "_on_away_timeout",
        "any(link.peer is peer for link in self._links.values())",
        "False",
        ("tests/node/test_absence.py::test_a_peer_that_is_back_in_time_has_all_of_its_time_again",),
    ),
    Bug(
        "a peer that was away at the opening is never forgotten",
        NODE,
        "__init__",
        "self._count_absence(peer)",
        "",
        ("tests/node/test_absence.py::test_after_a_restart_it_has_all_of_its_time_again",),
    ),
    Bug(
        "access: routes do not look at the rules",
        BASE,
        "_reroute",
        "self._gate.acl.rights(peer.uuid).granted(wanted)",
        "peer.subscriptions.union(peer.held)",
        ("tests/node/test_access.py::test_rules_that_change_while_a_list_is_stored",),
    ),
    Bug(
        "access: new rules leave the old routes",
        NODE,
        "set_acl",
        """
        if acl.rights(uuid) != before.rights(uuid):
            self._reroute(peer)
        """,
        "pass",
        ("tests/node/test_access.py::test_narrower_rules_hold_at_once_and_wider_ones_give_back",),
    ),
    Bug(
        "dedupe: forgotten over a restart",
        BASE,
        "__init__",
        "loaded.handled if policy.dedupe else ()",
        "()",
        ("tests/node/test_duplicates.py::test_durable_is_acknowledged_when_it_is_on_disk",),
    ),
    Bug(
        "ids in use are not reserved in the store",
        STORING,
        "_begin_commit",
        "self._ids.needs_reserve",
        "False",
        ("tests/node/test_storing.py::test_ids_are_reserved_again_after_a_failure",),
    ),
    Bug(
        "sends wait for removals that have no room",
        STORING,
        "store_failed",
        "self._apart and not no_room",
        "False",
        ("tests/node/test_full_disk.py::test_a_send_does_not_wait_for_removals_that_find_no_room_either",),
    ),
    Bug(
        "no answer to a probe is no matter",
        NODE,
        "_on_probe_timeout",
        "self._actions.append(Abort(cid))",
        "return",
        ("tests/node/test_probes.py::test_no_answer_is_a_lost_connection",),
    ),
)

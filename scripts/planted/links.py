"""Bugs in who may connect, which connection stays, and which lists a handshake brings."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "replace becomes add",
        "tolliver_proto/_node/links/handshakes.py",
        "_store_list",
        "ReplacePeerSubscriptions(peer.uuid, wanted)",
        "ReplacePeerSubscriptions(peer.uuid, (*wanted, *peer.subscriptions))",
        ("tests/node/inboxes/test_receiving.py::test_a_handshake_on_a_live_connection_replaces_the_list",),
    ),
    Bug(
        "list applied on failed handshake",
        "tolliver_proto/_node/links/handshakes.py",
        "on_final",
        "frame.compatible and self._admit(link, peer_of(link).uuid)",
        "self._admit(link, peer_of(link).uuid)",
        ("tests/node/links/test_connecting.py::test_nothing_is_kept_after_a_refusal",),
    ),
    Bug(
        "both duplicates closed",
        "tolliver_proto/_node/links/handshakes.py",
        "_replaces",
        "self._links.end(loser)",
        """
        self._links.end(loser)
        self._links.end(old if loser is link else link)
        """,
        ("tests/node/links/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "what is subscribed to during a handshake is not told",
        "tolliver_proto/_node/links/handshakes.py",
        "_tell_own_list",
        "control.differing(self._own.entries)",
        "set(self._own.entries) & set()",
        ("tests/node/inboxes/test_receiving.py::test_a_change_while_the_handshake_runs_follows_it",),
    ),
    Bug(
        "unsub resent stale",
        "tolliver_proto/_node/link.py",
        "sync",
        "told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind)",
        "told == wanted or self.mute or not self._connection.can_send(kind)",
        ("tests/node/inboxes/test_receiving.py::test_one_change_of_a_subscription_at_a_time_and_the_latest_wins",),
    ),
    Bug(
        "access: anybody may connect",
        "tolliver_proto/_node/links/admission.py",
        "denial",
        "not self._context.acl.rights(peer).connect",
        "False",
        (
            "tests/node/links/test_access.py::test_a_dial_that_leads_to_somebody_who_is_kept_out_is_made_again_under_other_rules",
        ),
    ),
    Bug(
        "any UUID fits a certificate",
        "tolliver_proto/_node/links/admission.py",
        "conflict",
        "not proved.may_be(claimed)",
        "False",
        (
            "tests/node/links/test_connecting.py::test_a_certificate_that_names_another_uuid_is_closed_out_before_a_response",
        ),
    ),
    Bug(
        "access: a wildcard lies within a name",
        "tolliver_proto/_node/access.py",
        "_is_covered",
        "_has(pattern[0], channel) and _has(pattern[1], key)",
        "not channel or _has(pattern[0], channel) and _has(pattern[1], key)",
        ("tests/node/links/test_access.py::test_a_subscription_lies_within_one_pattern",),
    ),
    Bug(
        "derived: it is kept when it is gone",
        "tolliver_proto/_node/links/links.py",
        "drop_derived",
        """
        self._peers.pop(peer.uuid, None)
        """,
        "pass",
        ("tests/node/links/test_derived.py::test_it_is_up_without_a_commit_and_leaves_nothing",),
    ),
    Bug(
        "ack keyed by id only",
        "tolliver_proto/_node/links/links.py",
        "_on_acks",
        "others = link.sending.window.take_acked(wire_ids, acked) if link.sending.window is not None else wire_ids",
        """
        others = wire_ids
        for window in [one.sending.window for one in self._context.up.values() if one.sending.window is not None]:
            others = window.take_acked(others, acked)
        """,
        ("tests/node/test_promises.py::test_i3_only_that_peers_ack_of_that_id_removes",),
    ),
    Bug(
        "no answer to a probe is no matter",
        "tolliver_proto/_node/links/links.py",
        "_on_probe_timeout",
        "self._actions.append(Abort(cid))",
        "return",
        ("tests/node/links/test_probes.py::test_no_answer_is_a_lost_connection",),
    ),
    Bug(
        "access: new rules leave the old routes",
        "tolliver_proto/_node/links/remotes.py",
        "set_acl",
        """
        if acl.rights(uuid) != before.rights(uuid):
            self._routing.reroute(peer)
        """,
        "pass",
        ("tests/node/links/test_access.py::test_narrower_rules_hold_at_once_and_wider_ones_give_back",),
    ),
    Bug(
        "clones replace each other for ever",
        "tolliver_proto/_node/links/duels.py",
        "is_due",
        "len(self._replaced) == _REPLACED and now - self._replaced[0] < _WITHIN",
        "False",
        ("tests/node/links/test_duels.py::test_the_older_one_stays_if_it_answers",),
    ),
    Bug(
        "dials have no bound",
        "tolliver_proto/_node/links/dialing.py",
        "_dial_in",
        "max(seconds, dialled.bucket.pause(now))",
        "seconds",
        (
            "tests/node/links/test_connecting.py::test_a_remote_is_dialled_once_in_two_seconds_and_five_times_in_a_burst",
        ),
    ),
    Bug(
        "a peer that cannot answer a probe is taken for dead",
        "tolliver_proto/_node/links/keepalive.py",
        "look",
        "control.probing and not self._may_be_unheard(link)",
        "control.probing",
        ("tests/node/links/test_probes.py::test_a_peer_that_begins_to_want_everything_is_not_cut_off",),
    ),
)

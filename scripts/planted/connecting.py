"""Bugs in how nodes connect: dials, handshakes, access, identities."""

from __future__ import annotations

from .bug import Bug

INBOX_PART = "tolliver_proto/_node/inboxes/inbox.py"
ADMISSION = "tolliver_proto/_node/links/admission.py"
HANDSHAKES_PART = "tolliver_proto/_node/links/handshakes.py"
LINKS = "tolliver_proto/_node/links/links.py"
DIALING_PART = "tolliver_proto/_node/links/dialing.py"
LINK = "tolliver_proto/_node/link.py"
ACCESS = "tolliver_proto/_node/access.py"
TRANSPORT = "tolliver_proto/_common/transport.py"
DERIVED = "tolliver_proto/_common/derived_ids.py"
HANDSHAKE_LIMITER = "tolliver_proto/_common/handshake_limiter.py"

SEEN = ("tests/node/links/test_dial_causes.py",)

BUGS = (
    Bug(
        "a failed dial is told each time",
        DIALING_PART,
        "ended",
        "is_news, dialled.told = dialled.told is not failure.cause, failure.cause",
        "is_news = True",
        SEEN,
    ),
    Bug(
        "another cause of a failed dial is not told",
        DIALING_PART,
        "ended",
        "dialled.told is not failure.cause",
        "dialled.told is None",
        SEEN,
    ),
    Bug(
        "HTTP is taken for a peer that breaks the rules",
        "tolliver_proto/_common/dial_failures.py",
        "_cause_of",
        "told or (DialCause.LAYOUT if is_handshake(first) else DialCause.PROTOCOL)",
        "DialCause.LAYOUT if is_handshake(first) else DialCause.PROTOCOL",
        SEEN,
    ),
    Bug(
        "what is held is sent",
        LINK,
        "holds",
        "self.served.isdisjoint(pairs) and not self.kept_back.isdisjoint(pairs)",
        "False",
        ("tests/node/lists/test_holds.py",),
    ),
    Bug(
        "who dials us and is brief is told as a clone",
        LINKS,
        "_look_at_brief_end",
        "link.role is Role.CLIENT",
        "True",
        ("tests/node/links/test_duels.py::test_who_dials_us_may_be_brief",),
    ),
    Bug(
        "every handshake is stored",
        HANDSHAKES_PART,
        "_store_list",
        "self._is_stored(peer, link, wanted)",
        "False",
        ("tests/node/commits/test_full_disk.py::test_a_list_and_a_pin_that_the_store_has_need_no_commit",),
    ),
    Bug(
        "a list that is on its way is taken for stored",
        HANDSHAKES_PART,
        "_is_stored",
        (
            'self._peer_lists.is_list_changing(peer) or any(("pin", peer) in batch.undo for batch in '
            "self._commits.batches())"
        ),
        "False",
        ("tests/node/commits/test_full_disk.py::test_a_list_that_is_on_its_way_is_waited_for",),
    ),
    Bug(
        "a new list is taken for the stored one",
        HANDSHAKES_PART,
        "_is_stored",
        "said == peer.lists.subscriptions",
        "True",
        ("tests/node/commits/test_full_disk.py::test_a_list_and_a_pin_that_the_store_has_need_no_commit",),
    ),
    Bug(
        "replace becomes add",
        HANDSHAKES_PART,
        "_store_list",
        "ReplacePeerSubscriptions(peer.uuid, wanted)",
        "ReplacePeerSubscriptions(peer.uuid, (*wanted, *peer.subscriptions))",
        ("tests/node/inboxes/test_receiving.py::test_a_handshake_on_a_live_connection_replaces_the_list",),
    ),
    Bug(
        "unsub resent stale",
        LINK,
        "sync",
        "told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind)",
        "told == wanted or self.mute or not self._connection.can_send(kind)",
        ("tests/node/inboxes/test_receiving.py::test_one_change_of_a_subscription_at_a_time_and_the_latest_wins",),
    ),
    Bug(
        "list applied on failed handshake",
        HANDSHAKES_PART,
        "on_final",
        "frame.compatible and self._admit(link, peer_of(link).uuid)",
        "self._admit(link, peer_of(link).uuid)",
        ("tests/node/links/test_connecting.py::test_nothing_is_kept_after_a_refusal",),
    ),
    Bug(
        "list applied although the versions do not fit",
        HANDSHAKES_PART,
        "on_request",
        (
            "\n"
            "        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:\n"
            "            self._accept(link)\n"
            "        elif connection.awaits_final and not link.up:\n"
            "            self._peer_lists.keep_list(link, self._listed(link, frame))\n"
            "            self._connect_wait.begin(link)\n"
            "            self._accept(link)\n"
            "        else:\n"
            "            self._store_list(link, self._listed(link, frame))\n"
            "        "
        ),
        (
            "\n"
            "        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:\n"
            "            self._store_list(link, self._listed(link, frame))\n"
            "        elif connection.awaits_final and not link.up:\n"
            "            self._peer_lists.keep_list(link, self._listed(link, frame))\n"
            "            self._connect_wait.begin(link)\n"
            "            self._accept(link)\n"
            "        else:\n"
            "            self._store_list(link, self._listed(link, frame))\n"
            "        "
        ),
        ("tests/node/links/test_connecting.py::test_the_lower_version_is_spoken",),
    ),
    Bug(
        "response before subscriptions",
        HANDSHAKES_PART,
        "_store_list",
        "batch.then.append(partial(self._on_list_stored, link))",
        (
            "\n"
            "        batch.then.append(partial(self._on_list_stored, link))\n"
            "        if connection_of(link).state in HOLDING:\n"
            "            self._accept(link)\n"
            "        "
        ),
        ("tests/node/links/test_connecting.py::test_the_list_is_stored_before_the_response_and_routes_before_that",),
    ),
    Bug(
        "first wins among duplicates",
        HANDSHAKES_PART,
        "_keeps",
        "self._dialled_by(old) < self._dialled_by(new)",
        "True",
        ("tests/node/links/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "first wins among duplicates of one direction",
        HANDSHAKES_PART,
        "_keeps",
        (
            "\n"
            "        if old.role is new.role or self._context.now - old.up_since > "
            "self._limits.crossing_dial_window:\n"
            "            return False\n"
            "        "
        ),
        (
            "\n"
            "        if old.role is new.role or self._context.now - old.up_since > "
            "self._limits.crossing_dial_window:\n"
            "            return True\n"
            "        "
        ),
        ("tests/node/links/test_connecting.py::test_of_two_in_the_same_direction_the_newest_wins",),
    ),
    Bug(
        "both duplicates closed",
        HANDSHAKES_PART,
        "_replaces",
        "self._links.end(loser)",
        ("\n        self._links.end(loser)\n        self._links.end(old if loser is link else link)\n        "),
        ("tests/node/links/test_connecting.py::test_of_crossing_dials_the_one_by_the_lower_uuid_stays",),
    ),
    Bug(
        "any end is a strike",
        LINKS,
        "on_closed",
        "event.error is None and before is LinkState.OPEN",
        "True",
        ("tests/node/outboxes/test_upkeep.py::test_other_ends_do_not_count",),
    ),
    Bug(
        "access: a list is taken whole",
        HANDSHAKES_PART,
        "_store_list",
        "one.channel != RESERVED_CHANNEL and may_have(one)",
        "one.channel != RESERVED_CHANNEL",
        ("tests/node/links/test_access.py::test_a_list_is_taken_as_far_as_it_is_allowed",),
    ),
    Bug(
        "access: anybody may connect",
        ADMISSION,
        "denial",
        "not self._context.acl.rights(peer).connect",
        "False",
        (
            "tests/node/links/test_access.py::test_a_dial_that_leads_to_somebody_who_is_kept_out_is_made_again_under_other_rules",
        ),
    ),
    Bug(
        "access: a wildcard lies within a name",
        ACCESS,
        "_is_covered",
        "_has(pattern[0], channel) and _has(pattern[1], key)",
        "not channel or _has(pattern[0], channel) and _has(pattern[1], key)",
        ("tests/node/links/test_access.py::test_a_subscription_lies_within_one_pattern",),
    ),
    Bug(
        "access: block is forgotten",
        ADMISSION,
        "denial",
        "role is Role.SERVER and peer in self._blocked.values()",
        "False",
        ("tests/node/links/test_access.py::test_block_ends_what_comes_in_at_the_same_time",),
    ),
    Bug(
        "any UUID fits a certificate",
        ADMISSION,
        "conflict",
        "not proved.may_be(claimed)",
        "False",
        (
            "tests/node/links/test_connecting.py::test_a_certificate_that_names_another_uuid_is_closed_out_before_a_response",
        ),
    ),
    Bug(
        "the key of the first sight is not looked at",
        ADMISSION,
        "conflict",
        "not proved.uuids and known.links.spki_sha256 not in (None, proved.spki_sha256)",
        "False",
        ("tests/node/links/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "the key of the first sight is not stored",
        HANDSHAKES_PART,
        "_change_pin",
        ("self._commits.batch.operations.append(UnpinPeer(peer.uuid) if key is None else PinPeer(peer.uuid, key))"),
        "",
        ("tests/node/links/test_connecting.py::test_the_first_key_is_pinned_over_a_restart",),
    ),
    Bug(
        "connected to itself",
        HANDSHAKES_PART,
        "_admit",
        "claimed == self._context.instance_id",
        "False",
        ("tests/node/links/test_connecting.py::test_a_connection_to_oneself_ends_that_dial",),
    ),
    Bug(
        "a remote that is refused is dialled as often as one that is away",
        DIALING_PART,
        "_pause",
        "is_refused",
        "False",
        ("tests/node/links/test_connecting.py::test_a_remote_that_is_refused_is_dialled_on",),
    ),
    Bug(
        "derived: any prefix will do",
        TRANSPORT,
        "may_be",
        "prefix_of(claimed) in self.prefixes",
        "bool(self.prefixes)",
        ("tests/node/links/test_derived.py::test_a_refusal_says_what_the_certificate_names",),
    ),
    Bug(
        "derived: it may subscribe",
        HANDSHAKES_PART,
        "_let_write",
        "subscriptions",
        "False",
        ("tests/node/links/test_derived.py::test_a_list_in_a_second_handshake_is_refused",),
    ),
    Bug(
        "derived: known for ever",
        DERIVED,
        "",
        "24 * 3600.0",
        "2400 * 3600.0",
        ("tests/node/links/test_derived.py::test_copies_are_known_for_a_day",),
    ),
    Bug(
        "derived: one connection at a time",
        HANDSHAKES_PART,
        "on_established",
        "old is None or peer.derived or self._replaces(link, old)",
        "old is None or self._replaces(link, old)",
        ("tests/node/links/test_derived.py::test_it_is_told_what_we_subscribe_to",),
    ),
    Bug(
        "derived: it is kept when it is gone",
        LINKS,
        "drop_derived",
        ("\n        self._peers.pop(peer.uuid, None)\n        "),
        "pass",
        ("tests/node/links/test_derived.py::test_it_is_up_without_a_commit_and_leaves_nothing",),
    ),
    Bug(
        "a dead letter is an id",
        INBOX_PART,
        "key_of",
        "checksum_of(message)",
        "0",
        ("tests/node/inboxes/test_duplicates.py::test_a_dead_letter_is_a_message_and_no_id",),
    ),
    Bug(
        "subscriptions of a peer that is away are dropped",
        "tolliver_proto/_node/lists/peers.py",
        "end_voice",
        (
            "\n"
            "        if not peer.outbox.takes_reliable:\n"
            "            self.want_while_connected(peer)\n"
            "        elif peer.lists.voices:\n"
            "            self.route_to(peer)\n"
            "            self._commits.batch.lists[peer] = None\n"
            '            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)\n'
            "        "
        ),
        (
            "\n"
            "        if not peer.outbox.takes_reliable:\n"
            "            self.want_while_connected(peer)\n"
            "        else:\n"
            "            self.route_to(peer)\n"
            "            self._commits.batch.lists[peer] = None\n"
            '            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)\n'
            "        "
        ),
        (
            "tests/node/lists/test_holds.py",
            "tests/node/links/test_connecting.py",
        ),
    ),
    Bug(
        "what is subscribed to during a handshake is not told",
        HANDSHAKES_PART,
        "_tell_own_list",
        "control.differing(self._own.entries)",
        "set(self._own.entries) & set()",
        ("tests/node/inboxes/test_receiving.py::test_a_change_while_the_handshake_runs_follows_it",),
    ),
    Bug(
        "strangers without a bound",
        HANDSHAKE_LIMITER,
        "full",
        "self._in_progress[share] >= self.most(share)",
        "False",
        ("tests/node/links/test_access.py::test_handshakes_in_progress_are_bounded",),
    ),
    Bug(
        "who keeps trying is told of no refusal",
        "transports/tolliver/_messages/driver.py",
        "_on_dial_failed",
        "action.cause.is_refusal",
        "False",
        ("tests/adapters/test_connecting.py::test_other_access_rules_have_those_dialled_that_were_kept_out[asyncio]",),
    ),
)

"""Dialling, identities, duels, messages sent meanwhile (T-60 to T-77, D-3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Abort,
    Acl,
    Action,
    ConnectionLost,
    Dial,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    IdentityConflict,
    Limits,
    MalformedFrame,
    Message,
    Notice,
    NoticeKind,
    PauseReading,
    PeerDown,
    PeerIdentity,
    PeerUp,
    Policy,
    RemoteProtocolError,
    ResumeReading,
    Rights,
    Role,
    SelfConnection,
    ShutdownWrite,
    Stored,
    Subscribe,
    Subscription,
    TolliverError,
    encode,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import AccessDenied, CertificateError
from tolliver_proto.node import DialCause, DialEnded, DialFailed, RemoteState

from ..play import HIGH, LOW, ME, OTHER, Play, Wire, aborted, deliveries, every, notices, only


def connecting(play: Play, uuid: UUID = LOW, remote: str = "there") -> Wire:
    """A dial that stands and has not been answered."""
    return play.dialled(play.call("connect", remote), uuid)


# Handshakes.


def test_a_remote_leads_to_its_peer_whoever_has_dialled() -> None:
    play = Play()
    assert play.node.peer_at("there") is None
    wire = play.dialled(play.call("connect", "there"))
    wire.respond()
    assert play.node.peer_at("there") == LOW
    wire.lose()
    assert play.node.peer_at("there") is None
    play.peer(LOW)
    assert play.node.peer_at("there") == LOW


def test_the_list_is_stored_before_the_response_and_routes_before_that() -> None:
    """T-61."""
    play = Play()
    wire = play.accepted()
    play.hold_commits = True
    wire.request(("c", ""))
    assert wire.got() == []
    receipt = play.send("c", "k", b"early")
    assert receipt.recipients == 1
    actions = play.finish()
    assert only(actions, PeerUp).remote is None
    assert [type(frame) for frame in wire.got()] == [HandshakeResponse]
    play.finish()
    assert wire.bodies() == [b"early"]


def test_the_client_is_up_when_the_servers_list_is_stored() -> None:
    """T-34."""
    play = Play()
    wire = connecting(play)
    play.hold_commits = True
    assert every(wire.respond(("c", "")), PeerUp) == []
    up = only(play.finish(), PeerUp)
    assert (up.peer, up.remote, up.version) == (LOW, "there", 1)
    assert repr(play.node) == f"<Node {ME}, 1 connections>"
    play.node.close()
    assert repr(play.node) == f"<Node {ME}, 1 connections, closing>"
    assert play.store.load().peers[LOW].subscriptions == {Subscription("c", "")}


def test_a_failed_store_takes_the_routes_back_and_closes_without_a_frame() -> None:
    """T-61."""
    play = Play()
    play.peer(LOW, ("old", "")).lose()
    wire = play.accepted()
    play.hold_commits = True
    wire.request(("new", ""))
    assert play.knows() == {Subscription("new", "")}
    actions = play.fail()
    assert play.knows() == {Subscription("old", "")}
    assert [type(action) for action in actions if isinstance(action, ShutdownWrite | PeerUp)] == [ShutdownWrite]
    assert wire.got() == []


@pytest.mark.parametrize("speaks", [True, False])
def test_the_lower_version_is_spoken(speaks: bool) -> None:
    """T-60: an older client is answered with status 1, or refused with 2 and no list kept (T-61)."""
    play = Play(version=3, speaks=lambda _version: speaks)
    wire = play.accepted()
    actions = wire.request(("c", ""), version=2)
    (response,) = wire.got()
    assert isinstance(response, HandshakeResponse)
    if speaks:
        assert only(actions, PeerUp).version == 2
        assert response.status is HandshakeStatus.NEWER_COMPATIBLE
    else:
        assert response.status is HandshakeStatus.NEWER_INCOMPATIBLE
        assert every(actions, ShutdownWrite)
        assert play.knows() == set()


@pytest.mark.parametrize("speaks", [True, False])
def test_an_older_server(speaks: bool) -> None:
    """T-60: the client confirms and keeps the list, or denies, which ends the call."""
    play = Play(version=3, speaks=lambda _version: speaks)
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run())
    wire.got()
    actions = wire.respond(("c", ""), version=2, status=3)
    assert wire.got() == [HandshakeFinal(speaks)]
    if speaks:
        assert only(actions, PeerUp).version == 2
        assert play.knows() == {Subscription("c", "")}
        return
    wire.end()
    ended = only(wire.lose(), DialEnded)
    assert isinstance(ended.error, HandshakeRejected)
    assert play.knows() == set()


def test_a_newer_client_is_up_after_its_final() -> None:
    """T-61: its list waits for the final; what was sent meanwhile is its own too."""
    play = Play()
    wire = play.accepted()
    wire.request(("c", ""), version=9)
    assert play.knows() == set()
    receipt = play.send("c", "k", b"meanwhile")
    assert receipt.recipients == 0
    assert only(wire.send(HandshakeFinal(True)), PeerUp).version == 1
    assert wire.bodies() == [b"meanwhile"]


def test_a_client_that_repeats_its_request_before_its_final_keeps_what_was_sent_meanwhile() -> None:
    """T-63, T-66: each is answered, those beyond a burst in their turn, and the last list is its own."""
    play = Play()
    wire = play.accepted()
    wire.request(("other", ""), version=9)
    play.send("c", "k", b"meanwhile")
    for _ in range(4):
        wire.request(("c", ""), version=9)
    assert [type(frame) for frame in wire.got()] == [HandshakeResponse] * 4
    wire.send(HandshakeFinal(True))
    assert (wire.got(), play.knows()) == ([], set())
    play.wait(1.0)
    answer, kept = wire.got()
    assert isinstance(answer, HandshakeResponse)
    assert isinstance(kept, Message)
    assert kept.body == b"meanwhile"
    assert "handshake_timeout" not in notices(play.run())


def test_a_peer_that_strays_without_end_is_not_read_without_end() -> None:
    """T-65: each waits a tenth of a second, and what fills the memory behind them waits at its sender."""
    play = Play(handlers=[("", "", "all")], limits=Limits(low_water=1000, high_water=2000))
    play.call("subscribe", "c", "")
    wire = play.peer()
    wire.send(*[HandshakeFinal(True)] * 17)
    assert every(wire.send(Message("c", "k", b"." * 3000, 1)), PauseReading)
    actions = play.wait(0.1)
    assert every(actions, ResumeReading)
    assert len(deliveries(actions)) == 1
    assert play.node.stats()["hurried"] == 1


def test_nothing_is_kept_after_a_refusal() -> None:
    play = Play()
    wire = play.accepted()
    wire.request(("c", ""), version=9)
    play.send("c", "k", b"meanwhile")
    wire.send(HandshakeFinal(False))
    wire.lose()
    play.wait(1.0)
    assert (play.store.messages, list(inside(play.node).ledger.refcounts), play.knows()) == ([], [], set())


@pytest.mark.parametrize("step", ["tls", "handshake"])
def test_time_limits(step: str) -> None:
    """T-68: ten seconds for TCP and TLS, ten more for the handshake; five for the peer to close."""
    play = Play()
    if step == "tls":
        cid = play.new_cid()
        assert play.wait(9.9) == []
        assert aborted(play.wait(0.2)) == [cid]
    else:
        wire = play.accepted()
        assert play.wait(9.9) == []
        assert only(play.wait(0.2), ShutdownWrite).cid == wire.cid
        assert aborted(play.wait(5.1)) == [wire.cid]
        assert wire.lose() == []
    assert play.node.stats()["connections"] == 0


def test_a_strangers_client_hello_is_whole_within_two_seconds() -> None:
    """D-7: from when it came, whatever drips in; with it, TLS has the rest of its ten seconds."""
    play = Play()
    dripping, greeted = play.new_cid(), play.new_cid()
    for cid in (dripping, greeted):
        play.node.shaking(cid, False, play.now)
    assert play.wait(1.9) == []
    play.node.shaking(dripping, False, play.now)
    play.node.shaking(greeted, True, play.now)
    actions = play.wait(0.2)
    assert aborted(actions) == [dripping]
    assert "ClientHello within 2 s" in only(actions, Notice).detail
    play.node.shaking(dripping, False, play.now)
    assert aborted(play.wait(7.7)) == []
    assert aborted(play.wait(0.3)) == [greeted]


def test_what_is_told_of_tls_too_late_changes_nothing() -> None:
    play = Play()
    wire = play.accepted()
    play.node.shaking(wire.cid, False, play.now)
    assert play.wait(9.9) == []


def test_a_dial_has_all_of_its_time_for_tls() -> None:
    play = Play()
    play.node.shaking(only(play.call("connect", "there"), Dial).cid, False, play.now)
    assert play.wait(9.9) == []


def test_a_dial_that_hangs_is_given_up_and_tried_again() -> None:
    """T-68, T-73."""
    play = Play()
    cid = only(play.call("connect", "there"), Dial).cid
    actions = play.wait(10.5)
    assert aborted(actions) == [cid]
    assert only(actions, Dial).cid != cid
    play.node.opened(cid, Role.CLIENT)
    assert aborted(play.run()) == [cid], "too late"


# Messages sent while a connection is made (T-62).


def test_what_is_sent_while_a_connection_is_made_reaches_the_peer_once() -> None:
    play = Play()
    known = play.peer(HIGH, ("c", ""))
    wire = connecting(play)
    wire.got()
    play.send("c", "k", b"both")
    play.send("d", "k", b"one")
    play.send("e", "k", b"nobody")
    assert wire.got() == []
    wire.respond(("c", ""), ("d", ""))
    messages = wire.messages()
    assert [message.body for message in messages] == [b"both", b"one"]
    assert known.bodies() == [b"both"]
    wire.ack(*messages)
    play.wait(1.0)
    assert [message.body for message in play.store.messages] == [b"both"]


def test_what_was_sent_to_the_peer_anyway_is_not_sent_twice() -> None:
    play = Play()
    play.peer(LOW, ("c", "")).lose()
    wire = connecting(play)
    receipt = play.send("c", "k", b"x")
    assert receipt.recipients == 1
    wire.respond(("c", ""))
    assert wire.bodies() == [b"x"]
    assert play.pending() == 1


def test_two_connections_being_made_share_what_is_kept() -> None:
    play = Play()
    one, two = connecting(play, LOW, "one"), connecting(play, HIGH, "two")
    play.send("c", "k", b"x")
    one.respond(("c", ""))
    two.respond(("c", ""))
    assert one.bodies() == two.bodies() == [b"x"]
    one.ack(Message("c", "k", b"x", 1))
    two.ack(Message("c", "k", b"x", 1))
    play.wait(1.0)
    assert (play.store.messages, list(inside(play.node).ledger.refcounts), list(inside(play.node).ledger.ids.live)) == (
        [],
        [],
        [],
    )


def test_one_peer_over_two_connections_claims_it_once() -> None:
    play = Play()
    one, two = connecting(play, LOW, "one"), connecting(play, LOW, "two")
    play.send("c", "k", b"x")
    one.respond(("c", ""))
    assert one.bodies() == [b"x"]
    one.ack(Message("c", "k", b"x", 1))
    two.respond(("c", ""))
    assert two.bodies() == []
    play.wait(1.0)
    assert (play.store.messages, list(inside(play.node).ledger.refcounts), play.pending()) == ([], [], 0)


def test_what_one_connection_claimed_goes_over_the_other_where_it_was_not_stored() -> None:
    """The list that came on the first is not stored, with what was kept for its peer."""
    play = Play()
    one, two = connecting(play, LOW, "one"), connecting(play, LOW, "two")
    play.send("c", "k", b"x")
    play.hold_commits = True
    one.respond(("c", ""))
    play.fail()
    play.hold_commits = False
    two.respond(("c", ""))
    assert two.bodies() == [b"x"]
    assert play.pending() == 1


def test_nobody_wants_what_was_kept() -> None:
    play = Play()
    wire = connecting(play)
    play.send("c", "k", b"x")
    assert len(play.store.messages) == 1
    wire.respond(("other", ""))
    play.wait(1.0)
    assert (play.store.messages, list(inside(play.node).ledger.refcounts), list(inside(play.node).ledger.ids.live)) == (
        [],
        [],
        [],
    )


@pytest.mark.parametrize("outcome", ["answered", "lost", "time limit"])
def test_beyond_its_share_sends_wait_until_the_peer_has_answered(outcome: str) -> None:
    """T-62: in order, nothing dropped, and not for ever."""
    play = Play(limits=Limits(keep_bytes=100))
    known = play.peer(HIGH, ("c", ""))
    wire = connecting(play)
    wire.got()
    play.send("c", "k", bytes(100))
    receipts = [play.send("c", "k", b"%d" % n) for n in range(3)]
    assert len(known.messages()) == 1
    assert [receipt.recipients for receipt in receipts] == [0, 0, 0]
    outcomes: dict[str, Callable[[], list[Action]]] = {
        "answered": lambda: wire.respond(("c", "")),
        "lost": wire.lose,
        "time limit": lambda: play.wait(16.0),
    }
    actions = outcomes[outcome]()
    assert [token for stored in every(actions, Stored) for token in stored.tokens][-3:] == receipts
    assert [body for body in known.bodies() if len(body) == 1][:3] == [b"0", b"1", b"2"]
    assert [receipt.recipients for receipt in receipts] == [2 if outcome == "answered" else 1] * 3


def test_a_send_that_waited_goes_to_the_peer_with_its_list() -> None:
    """It waits for the answer, not for the disk: else a list that is not stored would cost the peer what it wants."""
    play = Play(limits=Limits(keep_bytes=100))
    wire = connecting(play)
    play.send("c", "k", bytes(100))
    receipt = play.send("c", "k", b"waits")
    play.hold_commits = True
    wire.respond(("c", ""))
    assert receipt.counts == [1]


def test_a_send_that_waited_and_then_cannot_be_stored_says_so() -> None:
    play = Play(limits=Limits(keep_bytes=100, outbox_messages=1))
    play.peer(HIGH, ("c", ""))
    wire = connecting(play)
    play.send("c", "k", bytes(100))
    receipt = play.send("c", "k", b"one too many")
    stored = [one for one in every(wire.respond(), Stored) if one.error is not None]
    assert [(one.tokens, type(one.error).__name__) for one in stored] == [([receipt], "OutboxFull")]


def test_kept_messages_whose_commit_fails_are_nobodys() -> None:
    """The peer answered while they were being stored: it was promised what never was."""
    play = Play()
    wire = connecting(play)
    play.hold_commits = True
    play.send("c", "k", b"x")
    wire.respond(("c", ""))
    play.fail()
    play.hold_commits = False
    play.finish()
    play.wait(100.0)
    assert wire.bodies() == []
    assert (play.pending(), play.store.messages, list(inside(play.node).ledger.refcounts)) == (0, [], [])
    play.send("c", "k", b"y")
    assert wire.bodies() == [b"y"]


def test_a_list_that_fails_with_the_claim_of_what_was_kept_is_not_held() -> None:
    """Nothing waits for the peer because of it."""
    play = Play()
    wire = connecting(play)
    play.send("c", "k", b"x")
    play.hold_commits = True
    wire.respond(("c", ""))
    play.fail()
    play.hold_commits = False
    assert (play.pending(), play.node.stats().held_subscriptions) == (0, 0)


# Identities (D-3, T-71, T-72).


def test_a_certificate_that_names_another_uuid_is_closed_out_before_a_response() -> None:
    play = Play()
    wire = play.accepted(LOW, PeerIdentity(uuids=frozenset({OTHER})))
    actions = wire.request(("", ""))
    assert notices(actions) == ["identity_mismatch"]
    assert (wire.got(), play.knows()) == ([], set())
    assert every(actions, ShutdownWrite)
    good = play.accepted(OTHER, PeerIdentity(uuids=frozenset({OTHER})))
    assert every(good.request(), PeerUp)


def test_the_first_key_is_pinned_over_a_restart() -> None:
    play = Play()
    first, second = PeerIdentity(spki_sha256=b"1" * 32), PeerIdentity(spki_sha256=b"2" * 32)
    assert every(play.accepted(LOW, first).request(), PeerUp)
    play = play.restart()
    for impostor in (second, PeerIdentity()):
        wire = play.accepted(LOW, impostor)
        assert notices(wire.request(("", "")) + play.wait(61.0)) == ["identity_mismatch"]
        assert wire.got() == []
    assert every(play.accepted(LOW, first).request(), PeerUp)
    assert play.knows() == set()


def test_who_proved_its_uuid_is_not_followed_by_one_who_proves_nothing() -> None:
    """D-3: else a certificate without a UUID, of the same CA, would get the queue of whoever has one."""
    play = Play()

    def comes(key: bytes, *uuids: UUID) -> bool:
        actions = play.accepted(LOW, PeerIdentity(frozenset(uuids), key * 32)).request(("", ""))
        return bool(every(actions, PeerUp))

    assert comes(b"1", LOW)
    assert not comes(b"2")
    play = play.restart()
    assert not comes(b"2")
    assert comes(b"3", LOW), "a renewed certificate needs no repin"
    assert not comes(b"1")
    assert comes(b"3"), "the same key, in a certificate that names nobody"


def test_a_pin_that_was_not_stored_does_not_hold() -> None:
    play = Play()
    play.hold_commits = True
    play.accepted(LOW, PeerIdentity(spki_sha256=b"1" * 32)).request()
    play.fail()
    play.hold_commits = False
    assert every(play.accepted(LOW, PeerIdentity(spki_sha256=b"2" * 32)).request(), PeerUp)


def test_names_in_certificates_are_known_after_a_restart() -> None:
    play = Play()
    key = PeerIdentity(spki_sha256=b"1" * 32)
    for name, stored in (("alice", "alice"), ("", "alice"), ("a" * 1000, "a" * 64)):
        assert every(play.accepted(LOW, replace(key, name=name)).request(), PeerUp)
        assert play.node.identity_of(LOW).name == name
        play = play.restart()
        assert play.node.identity_of(LOW) == PeerIdentity(name=stored)
        assert play.node.identity_of(LOW).name == stored


def test_a_name_is_stored_beside_a_connection_that_stands() -> None:
    """A full disk keeps nobody out for it: the next connection tries again."""
    play = Play()
    known = PeerIdentity(spki_sha256=b"1" * 32)
    play.accepted(LOW, known).request()
    for works in (False, True):
        play.hold_commits = True
        assert every(play.accepted(LOW, replace(known, name="alice")).request(), PeerUp)
        (play.finish if works else play.fail)()
        play.hold_commits = False
    assert play.restart().node.identity_of(LOW).name == "alice"


def test_a_forgotten_peer_has_no_name() -> None:
    play = Play()
    play.accepted(LOW, PeerIdentity(spki_sha256=b"1" * 32, name="alice")).request()
    play.call("forget_peer", LOW)
    play.accepted(LOW, PeerIdentity(spki_sha256=b"1" * 32)).request()
    assert play.restart().node.identity_of(LOW).name == ""


def test_an_impostor_at_the_address_we_dial_ends_the_dial() -> None:
    """T-73."""
    play = Play()
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run(), LOW, PeerIdentity(uuids=frozenset({OTHER})))
    wire.respond()
    ended = only(wire.lose(), DialEnded)
    assert isinstance(ended.error, IdentityConflict)
    assert every(play.wait(100.0), Dial) == []


def test_a_connection_to_oneself_ends_that_dial() -> None:
    """T-71: at both ends, by its certificate or by its UUID."""
    play = Play()
    client = connecting(play, ME)
    server = play.accepted(ME)
    server.send(*client.got())  # type: ignore[arg-type]  # a request, as we sent it
    client.send(*server.got())  # type: ignore[arg-type]  # the response
    assert isinstance(only(client.lose(), DialEnded).error, SelfConnection)
    server.lose()
    assert play.node.stats()["connections"] == 0
    wire = play.dialled(play.call("connect", "again"), ME, PeerIdentity(uuids=frozenset({ME})))
    assert isinstance(only(wire.lose(), DialEnded).error, SelfConnection)
    assert play.node.stats()["notices_self_connection"] == 3, "both ends of the first, and the second dial"


# Dialling (T-73, T-76, T-77).


def test_redials_back_off_with_full_jitter() -> None:
    """T-73: from 0.1 to 30 s, times a number from 0 to 1."""
    play = Play()
    play.dice.value = 1.0
    cid = only(play.call("connect", "there"), Dial).cid
    waits = []
    for _ in range(12):
        play.node.dial_failed(cid, ConnectionLost("refused"), now=play.now)
        play.run()
        [remote] = play.node.remotes()
        assert remote.next_try is not None
        waits.append(remote.next_try)
        cid = only(play.wait(remote.next_try), Dial).cid
    assert waits == pytest.approx([0.1 * 2**n for n in range(9)] + [30.0] * 3)


@pytest.mark.parametrize("call", [("connect", "there"), ("dial_refused",), ("set_acl", Acl())])
def test_no_pause_is_shortened_for_who_is_not_refused(call: tuple[Any, ...]) -> None:
    play = Play()
    play.dice.value = 1.0
    dial = only(play.call("connect", "there"), Dial)
    play.wait(10.0)
    play.call("dial_failed", dial.cid, ConnectionLost("refused"))
    assert "'there'" in (play.node.timeout_reason or "")
    assert every(play.call(*call) + play.wait(0.09), Dial) == []
    assert only(play.wait(0.02), Dial).remote == "there"


def breaking(play: Play, up: float, get_through: Callable[[Wire], object], seconds: float) -> list[float]:
    """The times of the dials of a link that breaks whenever it has been up so long."""
    play.dice.value = 1.0
    times = []
    actions = play.call("connect", "there")
    while play.now < seconds:
        if not every(actions, Dial):
            actions = play.wait(0.1)
            continue
        times.append(play.now)
        wire = play.dialled(actions)
        wire.respond(("c", ""))
        get_through(wire)
        play.wait(up)
        actions = wire.lose(ConnectionLost("reset"))
    return times


def taken(wire: Wire) -> None:
    wire.play.send("c", "k", b"x")
    wire.ack(*wire.messages())


def handled(wire: Wire) -> None:
    """A message of the peer's outbox."""
    got = wire.send(Message("c", "k", b"x", wire.cid))
    wire.play.node.acknowledge(deliveries(got), now=wire.play.now)
    wire.play.run()


def nothing(wire: Wire) -> None:
    pass


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("up", "get_through", "most"),
    [(1.5, taken, 2.2), (1.5, handled, 2.2), (0.9, taken, 2.2), (0.0, taken, 2.2), (0.9, nothing, 40)],
)
def test_after_an_acknowledgement_the_pauses_begin_anew(
    up: float, get_through: Callable[[Wire], object], most: float, durable: bool
) -> None:
    """T-76: however short the connection lived."""
    play = Play(handlers=[("", "", "h")], policy=Policy(dedupe=9, dedupe_durable=durable))
    play.call("subscribe", "c", "")
    times = breaking(play, up, get_through, 40.0)
    waits = [later - one for one, later in pairwise(times)]
    assert max(waits) <= most
    assert (len(times) > 15) is (most < 40)


def test_a_remote_is_dialled_once_in_two_seconds_and_five_times_in_a_burst() -> None:
    """T-76: also where every connection gets something through."""
    times = breaking(Play(), 0.1, taken, 300.0)
    assert len(times) > 140
    for (first, begin), (last, end) in combinations(enumerate(times), 2):
        assert last - first < 5 + (end - begin) / 2 + 1e-3


REFUSALS = {
    DialCause.CERTIFICATE: CertificateError("expired"),
    DialCause.VERSION: HandshakeRejected(2, 1),
    DialCause.IDENTITY: IdentityConflict("no"),
    DialCause.ACCESS: AccessDenied("kept out"),
}


@pytest.mark.parametrize("error", [*REFUSALS.values(), SelfConnection("us")], ids=lambda one: type(one).__name__)
def test_a_refusal_ends_a_dial_that_is_not_kept_up(error: TolliverError) -> None:
    """T-73: as the draft has it."""
    play = Play()
    play.node.connect("there", keep_trying=False)
    cid = only(play.run(), Dial).cid
    play.node.dial_failed(cid, error)
    actions = play.run()
    assert only(actions, DialEnded) == DialEnded("there", error)
    assert notices(actions) == ["dial_gave_up"]
    assert (play.node.remotes(), every(play.wait(1000.0), Dial)) == ([], [])
    assert every(play.call("connect", "there"), Dial)


def refused(play: Play, actions: list[Action], error: TolliverError) -> list[Action]:
    play.node.dial_failed(only(actions, Dial).cid, error, now=play.now)
    return play.run()


@pytest.mark.parametrize("once_up", [False, True])
@pytest.mark.parametrize("cause", REFUSALS)
@pytest.mark.parametrize(("chance", "pause"), [(0.0, 60.0), (0.5, 180.0), (1.0, 300.0)])
def test_a_remote_that_is_refused_is_dialled_on(cause: DialCause, once_up: bool, chance: float, pause: float) -> None:
    """T-73: a renewed certificate, a right clock, an upgrade heal it; those who wait for it are told."""
    play = Play(tell_events=True)
    play.dice.value = chance
    play.node.connect("there", keep_trying=not once_up)
    actions = play.run()
    if once_up:
        wire = play.dialled(actions)
        wire.respond()
        actions = wire.lose(ConnectionLost("reset")) + play.wait(0.1)
    for number in range(3):
        actions = refused(play, actions, REFUSALS[cause])
        assert every(actions, DialEnded) == []
        failed = only(actions, DialFailed)
        assert (failed.cause, failed.error, failed.is_news) == (cause, REFUSALS[cause], not number)
        assert [notice.cause for notice in every(actions, Notice)] == [cause] * (not number), "told once"
        (info,) = play.node.remotes(play.now)
        assert (info.state, info.cause) == (RemoteState.WAITING, cause)
        assert info.next_try == pytest.approx(pause)
        assert every(play.wait(pause - 0.5), Dial) == []
        actions = play.wait(1.0)
    wire = play.dialled(actions)
    wire.respond()
    (info,) = play.node.remotes(play.now)
    assert (info.state, info.cause) == (RemoteState.CONNECTED, None)


def asked_for_again(play: Play) -> None:
    play.call("connect", "there")


def other_rules(play: Play) -> None:
    play.call("set_acl", Acl(default=Rights(subscribe=())))


def other_certificate(play: Play) -> None:
    play.call("dial_refused")


MENDED = pytest.mark.parametrize("mend", [asked_for_again, other_rules, other_certificate])


@MENDED
def test_what_may_heal_a_refusal_has_the_remote_dialled_at_once(mend: Callable[[Play], None]) -> None:
    play = Play()
    refused(play, play.call("connect", "there"), REFUSALS[DialCause.CERTIFICATE])
    mend(play)
    mend(play)
    wire = play.dialled(play.wait(0.0))
    mend(play)
    wire.respond()
    mend(play)
    assert every(play.wait(1000.0), Dial) == [], "there is one connection"


@pytest.mark.parametrize("mend", [other_rules, other_certificate])
def test_what_changes_under_a_dial_that_is_refused_has_it_made_again(mend: Callable[[Play], None]) -> None:
    """It may have been made with what is no more."""
    play = Play()
    actions = play.call("connect", "there")
    mend(play)
    refused(play, actions, REFUSALS[DialCause.CERTIFICATE])
    refused(play, play.wait(0.0), REFUSALS[DialCause.CERTIFICATE])
    assert every(play.wait(59.0), Dial) == [], "once"


def test_a_remote_that_is_refused_and_connected_otherwise_is_not_dialled() -> None:
    """T-70: its peer dials us meanwhile."""
    play = Play()
    wire = play.dialled(play.call("connect", "there"))
    wire.respond()
    wire.lose(CertificateError("revoked"))
    theirs = play.peer(LOW)
    assert every(play.wait(301.0), Dial) == []
    other_certificate(play)
    assert every(play.wait(1.0), Dial) == []
    theirs.lose()
    assert every(play.wait(1.0), Dial)


def test_a_remote_that_is_this_instance_itself_is_dialled_no_more() -> None:
    """T-71, T-73: but when it is asked for."""
    play = Play()
    error = SelfConnection("us")
    for _ in range(2):
        actions = refused(play, play.call("connect", "there") + play.wait(0.0), error)
        assert only(actions, DialEnded) == DialEnded("there", error)
        assert notices(actions) == ["dial_gave_up"]
        (info,) = play.node.remotes(play.now)
        assert (info.state, info.cause, info.next_try) == (RemoteState.GAVE_UP, DialCause.SELF, None)
        assert every(play.wait(1000.0), Dial) == []
    play.call("disconnect", "there")
    assert play.node.remotes() == []


NO_HANDSHAKE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a message first": encode(Message("c", "k", b"x", 1)),
    "a request for an answer": encode(HandshakeRequest(1, LOW)),
    "a status that contradicts the versions": encode(HandshakeResponse(1, LOW, HandshakeStatus.OLDER)),
    "a list above the limit": encode(HandshakeResponse(1, LOW, HandshakeStatus.SAME_VERSION))[:-4] + b"\xff" * 4,
}


def answered(play: Play, actions: list[Action], answer: bytes) -> list[Action]:
    """The one dial among these is answered so, and the peer ends it."""
    wire = play.dialled(actions)
    play.node.receive_data(wire.cid, answer, now=play.now)
    return play.run() + wire.lose()


@pytest.mark.parametrize("answer", NO_HANDSHAKE.values(), ids=NO_HANDSHAKE)
def test_an_answer_that_is_no_handshake_ends_a_dial_that_is_not_kept_up(answer: bytes) -> None:
    """T-73."""
    play = Play()
    play.node.connect("there", keep_trying=False)
    actions = answered(play, play.run(), answer)
    ended = only(actions, DialEnded)
    assert isinstance(ended.error, RemoteProtocolError)
    assert notices(actions) == ["protocol_error", "dial_gave_up"]
    assert every(play.wait(100.0), Dial) == []


@pytest.mark.parametrize("kept", ["from the start", "by another call", "once up"])
def test_a_remote_that_is_kept_up_is_dialled_on(kept: str) -> None:
    """T-73: who waits for it and does not keep trying is told."""
    play = Play(tell_events=True)
    if kept != "from the start":
        play.node.connect("there", keep_trying=False)
    if kept != "once up":
        play.node.connect("there")
    actions = play.run()
    if kept == "once up":
        wire = play.dialled(actions)
        wire.respond()
        actions = wire.lose(ConnectionLost("reset")) + play.wait(1.0)
        assert every(actions, DialFailed) == []
    for _ in range(3):
        actions = answered(play, actions, NO_HANDSHAKE["another protocol"])
        failed = only(actions, DialFailed)
        assert (failed.remote, failed.cause) == ("there", DialCause.HTTP)
        assert isinstance(failed.error, MalformedFrame)
        assert every(actions, DialEnded) == []
        actions = play.wait(1.0)
    assert every(actions, Dial)


def test_a_connection_that_was_up_and_broke_the_rules_is_no_answer() -> None:
    """A caller who asks for the remote meanwhile waits for the next dial."""
    play = Play(tell_events=True)
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run())
    wire.respond()
    play.node.receive_data(wire.cid, b"\x09", now=play.now)
    play.run()
    play.node.connect("there", keep_trying=False)
    actions = wire.lose()
    assert [action.error for action in every(actions, DialFailed)] in ([], [None])
    assert not every(actions, DialEnded)
    assert every(play.wait(1.0), Dial)


@pytest.mark.parametrize("closes", ["at once", "in the middle"])
def test_an_end_in_the_handshake_is_no_answer(closes: str) -> None:
    """T-67, T-73: it may be restarting."""
    play = Play()
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run())
    if closes == "in the middle":
        play.node.receive_data(wire.cid, encode(HandshakeResponse(1, LOW, HandshakeStatus.SAME_VERSION))[:9])
    wire.end()
    actions = wire.lose()
    assert not every(actions, DialFailed)
    assert not every(actions, DialEnded)
    assert every(play.wait(1.0), Dial)


def test_a_refusal_that_arrives_after_tls_ends_the_dial() -> None:
    """T-74."""
    play = Play()
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run())
    error = CertificateError("the server refused our certificate")
    assert only(wire.lose(error), DialEnded).error is error


@pytest.mark.parametrize("address", ["192.0.2.1", ""])
def test_an_operator_is_told_of_a_certificate_that_was_refused_here(address: str) -> None:
    """D-1: on the dialling side the dial's end tells; here nobody waits for it."""
    play = Play()
    cid = play.node.new_cid(0.0, address)
    assert cid is not None
    play.node.lost(cid, CertificateError("it has expired"))
    notice = only(play.run(), Notice)
    assert notice.kind is NoticeKind.CERTIFICATE_REFUSED
    assert notice.detail == f"a connection from {address or 'an unknown address'} was refused: it has expired"


def test_a_dropped_connection_is_dialled_again_until_disconnect() -> None:
    """T-76, T-77: what waits for the peer stays."""
    play = Play()
    wire = connecting(play)
    wire.respond(("c", ""))
    actions = wire.lose(ConnectionLost("reset")) + play.wait(1.0)
    assert isinstance(only(actions, PeerDown).error, ConnectionLost)
    wire = play.dialled(actions)
    wire.respond(("c", ""))
    play.send("c", "k", b"waits")
    actions = play.call("disconnect", "there")
    assert only(actions, DialEnded).error is None
    assert only(actions, ShutdownWrite).cid == wire.cid
    wire.end()
    wire.lose()
    assert every(play.wait(100.0), Dial) == []
    assert (play.pending(), play.knows()) == (1, {Subscription("c", "")})
    wire = play.accepted()
    wire.request(("c", ""))
    assert wire.bodies() == [b"waits"]


def test_disconnect_while_dialling_and_while_waiting() -> None:
    play = Play()
    cid = only(play.call("connect", "there"), Dial).cid
    actions = play.call("disconnect", "there")
    assert aborted(actions) == [cid]
    assert only(actions, DialEnded).error is None
    assert play.call("disconnect", "there") == []
    cid = only(play.call("connect", "there"), Dial).cid
    play.node.dial_failed(cid, ConnectionLost("refused"))
    play.run()
    play.call("disconnect", "there")
    assert every(play.wait(100.0), Dial) == []
    assert play.node.next_timeout() is None


def test_connecting_again_says_who_is_there() -> None:
    """T-73: already connected returns that peer."""
    play = Play()
    wire = connecting(play)
    wire.respond()
    actions = play.call("connect", "there")
    assert (only(actions, PeerUp).cid, every(actions, Dial)) == (wire.cid, [])


def test_a_dial_is_parked_while_its_peer_is_connected_anyway() -> None:
    """T-70."""
    play = Play()
    ours = connecting(play)
    ours.respond()
    theirs = play.accepted()
    play.wait(11.0)
    theirs = play.accepted()
    theirs.request()
    ours.end()
    ours.lose()
    assert every(play.wait(60.0), Dial) == []
    theirs.lose()
    assert only(play.wait(1.0), Dial).remote == "there"


# Duels (T-70).


def two(play: Play, first: str, uuid: UUID, wait: float = 0.0) -> tuple[Wire, Wire]:
    """Two connections to one peer, the second begun when the first stands: (ours, theirs)."""

    def ours() -> Wire:
        wire = connecting(play, uuid)
        wire.respond(("c", ""))
        return wire

    def theirs() -> Wire:
        return play.peer(uuid, ("c", ""))

    if first == "ours":
        one = ours()
        play.wait(wait)
        return one, theirs()
    other = theirs()
    play.wait(wait)
    return ours(), other


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("uuid", [LOW, HIGH])
def test_of_crossing_dials_the_one_by_the_lower_uuid_stays(first: str, uuid: UUID) -> None:
    play = Play()
    ours, theirs = two(play, first, uuid)
    winner = theirs if uuid is LOW else ours
    loser = ours if winner is theirs else theirs
    assert play.node.stats()["peers_up"] == 1
    winner.got()
    play.send("c", "k", b"x")
    assert winner.bodies() == [b"x"]
    assert loser.end() == []
    assert loser.lose() == []
    assert play.pending(uuid) == 1


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("uuid", [LOW, HIGH])
def test_after_ten_seconds_the_newest_wins(first: str, uuid: UUID) -> None:
    play = Play()
    ours, theirs = two(play, first, uuid, wait=10.5)
    winner = theirs if first == "ours" else ours
    winner.got()
    play.send("c", "k", b"x")
    assert winner.bodies() == [b"x"]


def test_of_two_in_the_same_direction_the_newest_wins() -> None:
    play = Play()
    old, new = play.peer(LOW, ("c", "")), play.peer(LOW, ("c", ""))
    play.send("c", "k", b"x")
    assert (old.bodies(), new.bodies()) == ([], [b"x"])


def test_what_a_loser_brings_is_not_handed_out() -> None:
    """T-49, T-70: it comes again over the other one."""
    play = Play(handlers=[("", "", "h")])
    play.call("subscribe", "c", "")
    old = play.peer(LOW)
    play.peer(LOW)
    assert old.send(Message("c", "k", b"x", 1)) == []
    assert old.got() == []


def test_a_loser_that_waits_for_handlers_and_never_closes_is_let_go() -> None:
    """Its credit was spent and its reading paused: it must still see the end, or its time limit."""
    play = Play(handlers=[("", "", "h")], limits=Limits(inbox_messages=1, high_water=50, low_water=20))
    play.call("subscribe", "c", "")
    old = play.peer(LOW)
    old.send(*(Message("c", "k", bytes(20), n) for n in range(5)))
    play.peer(LOW)
    assert play.node.stats()["connections"] == 2
    actions = play.wait(6.0)
    assert aborted(actions) == [old.cid]
    assert play.node.stats()["connections"] == 1


def test_a_stale_list_of_a_losing_connection_does_not_hide_what_the_other_said() -> None:
    """T-70: its request was on its way while the live connection's peer went on subscribing."""
    play = Play(uuid=LOW)
    slow = play.accepted(HIGH)
    ours = connecting(play, HIGH)
    ours.respond()
    ours.send(Subscribe("new", "", 1))
    assert play.knows(HIGH) == {Subscription("new", "")}
    actions = slow.request(("old", ""))
    assert "duplicate_closed" in notices(actions)
    assert play.knows(HIGH) == {Subscription("new", "")}
    play.wait(1.0)
    assert play.store.load().peers[HIGH].subscriptions == {Subscription("new", "")}


def test_while_two_connections_are_made_either_list_counts() -> None:
    """Too much is harmless, too little is loss; the one that goes on decides."""
    play = Play()
    old = play.peer(LOW, ("a", ""))
    play.hold_commits = True
    new = play.accepted(LOW)
    new.request(("b", ""))
    assert play.knows() == {Subscription("a", ""), Subscription("b", "")}
    new.lose()
    play.hold_commits = False
    play.finish()
    assert play.knows() == {Subscription("a", "")}
    play.wait(1.0)
    assert play.store.load().peers[LOW].subscriptions == {Subscription("a", "")}
    play.send("a", "k", b"x")
    assert old.bodies() == [b"x"]


def test_messages_kept_for_a_connection_that_loses_go_over_the_other() -> None:
    """T-62, T-70: claimed below what the live connection has read already."""
    play = Play(uuid=HIGH)
    theirs = play.accepted(LOW)
    ours = connecting(play, LOW)
    play.send("c", "k", b"kept")
    theirs.request()
    theirs.send(Subscribe("d", "", 1))
    play.send("d", "k", b"later")
    assert theirs.bodies() == [b"later"]
    assert "duplicate_closed" in notices(ours.respond(("c", ""), ("d", "")))
    assert theirs.bodies() == [], "its list lacks that: it is held (T-61)"
    theirs.send(Subscribe("c", "", 2))
    assert theirs.bodies() == [b"kept"]


def test_all_that_was_kept_for_a_connection_that_loses_goes_though_the_other_has_sent_newer_ones() -> None:
    """T-62, T-70: the other one was accepted too late to have kept them itself."""
    play = Play(uuid=HIGH)
    ours = connecting(play, LOW)
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    theirs = play.accepted(LOW)
    theirs.request(("c", ""))
    play.send("c", "k", b"newer")
    assert theirs.bodies() == [b"newer"]
    assert "duplicate_closed" in notices(ours.respond(("c", "")))
    assert theirs.bodies() == [b"1", b"2"]


def test_a_peer_that_breaks_the_rules_is_closed_and_reported() -> None:
    play = Play()
    wire = play.accepted()
    play.node.receive_data(wire.cid, encode(HandshakeRequest(1, LOW)) + b"\x09")
    actions = play.run()
    assert notices(actions) == ["protocol_error"]
    assert every(actions, ShutdownWrite)
    assert every(actions, Abort) == []


def test_no_connection_begins_while_closing() -> None:
    play = Play()
    cid = play.new_cid()
    assert aborted(play.call("close")) == [cid]
    assert play.node.new_cid() is None
    play.node.opened(cid, Role.SERVER)
    assert aborted(play.run()) == [cid], "the adapter did not know yet"
    assert play.node.idle

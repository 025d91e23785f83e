"""Hub, call by call: requests to the world, news to the application.

A `Wires` is the world of one hub: it takes actions until None, as an adapter does. The peer is a script that obeys no
rule, or another hub.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tolliver_proto import (
    Abort,
    CertificateError,
    ConnectionClosing,
    ConnectionLost,
    Dial,
    DialCause,
    LocalProtocolError,
    PauseReading,
    PeerIdentity,
    ResumeReading,
    ShutdownWrite,
    TolliverError,
    Transmit,
    UnexpectedEOF,
    UnexpectedFrame,
)
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    CertificateExpires,
    ClientHello,
    ConnectionClosed,
    Decoder,
    DialFailure,
    Drained,
    Elements,
    Extension,
    Form,
    Goodbye,
    Happened,
    Hub,
    HubStats,
    Kind,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    PeerDown,
    PeerUp,
    Request,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    VersionMismatch,
    encode,
)
from tolliver_proto.reactive._hub import ELEMENT_COST

NO_FAILURES = dict.fromkeys(DialCause, 0)

IDENTITY = PeerIdentity(address="192.0.2.1")
HELLO = {Role.CLIENT: ServerHello(), Role.SERVER: ClientHello()}
ROLES = tuple(Role)


class Wires:
    """One hub, all its actions in order, and peers that say what they are told."""

    def __init__(self, **options: Any) -> None:
        self.hub = Hub(now=0.0, **options)
        self.now = 0.0
        self.sizes: dict[int, int] = {}
        self.decoders: dict[int, Decoder] = {}

    def actions(self) -> list[Any]:
        return list(iter(self.hub.next_action, None))

    def link(self, role: Role = Role.CLIENT) -> int:
        """A connection on which nothing was said yet, but our hello where we are the client."""
        cid = self.hub.connect("there", self.now) if role is Role.CLIENT else self.hub.new_cid(self.now, "192.0.2.1")
        assert cid is not None
        self.hub.opened(cid, role, IDENTITY, self.now)
        self.decoders[cid] = Decoder()
        return cid

    def up(self, role: Role = Role.CLIENT) -> int:
        """A connection whose peer has said hello, with nothing in transit."""
        cid = self.link(role)
        self.said(cid)
        assert PeerUp(cid, IDENTITY, "there" if role is Role.CLIENT else None) in self.feed(cid, HELLO[role])
        self.hub.sent(cid, self.now)  # a server's hello
        return cid

    def feed(self, cid: int, *frames: Any) -> list[Any]:
        """The actions of the hub when the peer says this."""
        self.hub.receive_data(cid, b"".join(encode(frame, self.sizes) for frame in frames), self.now)
        return self.actions()

    def said(self, cid: int) -> list[Any]:
        """The frames that are to be sent, until there is nothing more; each Transmit is reported."""
        frames: list[Any] = []
        while transmits := [action for action in self.actions() if isinstance(action, Transmit)]:
            for unit in transmits[0].units:
                self.decoders[cid].feed(unit)
            frames += iter(self.decoders[cid].next_frame, None)
            self.hub.sent(cid, self.now)
        return frames

    def wait(self, seconds: float) -> list[Any]:
        self.now += seconds
        self.hub.handle_timeout(self.now)
        return self.actions()

    def giving(self, cid: int, demand: int = 0, subscriber_id: int = 1) -> None:
        """A stream that we give is accepted."""
        self.feed(cid, Subscribe("p", subscriber_id, demand))
        self.hub.subscribed(cid, subscriber_id)
        self.said(cid)

    def taking(self, cid: int, demand: int = UNBOUNDED, size: int = 0) -> int:
        """A stream that we take is accepted."""
        subscriber_id = self.hub.subscribe(cid, "p", demand)
        self.said(cid)
        self.feed(cid, Subscribed(subscriber_id, size))
        self.sizes[subscriber_id] = size
        return subscriber_id


def downs(actions: list[Any]) -> list[PeerDown]:
    return [action for action in actions if isinstance(action, PeerDown)]


# A connection, from its cid on.


def test_dialled() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", 0.0)
    assert wires.actions() == [Dial(cid, "there")]
    wires.hub.opened(cid, Role.CLIENT, IDENTITY)
    assert wires.actions() == [Transmit(cid, [encode(ClientHello())])], "a client says hello at once (R-25)"
    assert wires.feed(cid, ServerHello()) == [PeerUp(cid, IDENTITY, "there")]
    assert not wires.hub.idle


def test_came_in() -> None:
    wires = Wires()
    cid = wires.hub.new_cid(0.0, "192.0.2.1")
    assert cid is not None
    wires.hub.opened(cid, Role.SERVER, IDENTITY)
    assert wires.actions() == [], "a server waits for the client's hello (R-25)"
    assert wires.feed(cid, ClientHello()) == [PeerUp(cid, IDENTITY, None), Transmit(cid, [encode(ServerHello())])]


def test_cids_are_never_used_twice() -> None:
    wires = Wires()
    first = wires.link()
    wires.hub.lost(first, None)
    assert wires.link() != first


def test_streams_both_ways_between_two_hubs() -> None:
    one, two = Wires(), Wires()
    near, far = one.link(Role.CLIENT), two.link(Role.SERVER)
    seen: list[tuple[str, Any]] = []

    def move() -> None:
        for _ in range(8):
            for name, here, cid, there, other in (("one", one, near, two, far), ("two", two, far, one, near)):
                for action in here.actions():
                    if isinstance(action, Transmit):
                        here.hub.sent(cid)
                        there.hub.receive_data(other, b"".join(action.units))
                    elif isinstance(action, Happened):
                        seen.append((name, action.event))

    move()
    taken, given = one.hub.subscribe(near, "p", 2), two.hub.subscribe(far, "q")
    move()
    two.hub.subscribed(far, taken, 1)
    one.hub.error(near, given, "no q here")
    assert two.hub.next_many(far, taken, [b"a", b"b"]) == 2
    assert two.hub.wanted(far, taken) == 0
    move()
    one.hub.request(near, taken, 1)
    move()
    assert two.hub.wanted(far, taken) == 1
    assert two.hub.complete(far, taken)
    move()
    assert [event for name, event in seen if name == "one"] == [
        Subscribe("q", given, 0),
        Subscribed(taken, 1),
        Elements(taken, [b"a", b"b"]),
        OnComplete(taken),
    ]
    assert [event for name, event in seen if name == "two"] == [
        Subscribe("p", taken, 2),
        Subscribed(given, 0),
        OnError(given, "no q here"),
        Request(taken, 1),
    ]


# One Transmit at a time.


def test_frames_gather_while_a_transmit_is_outstanding() -> None:
    wires = Wires()
    cid = wires.up()
    first, second = wires.hub.subscribe(cid, "p"), wires.hub.subscribe(cid, "q")
    assert wires.actions() == [Transmit(cid, [encode(Subscribe("p", first)) + encode(Subscribe("q", second))])]
    wires.hub.request(cid, first, 3)
    assert wires.actions() == []
    wires.hub.cancel(cid, second)
    assert wires.hub.stats()["unsent_bytes"] > 0
    wires.hub.sent(cid)
    assert wires.actions() == [Transmit(cid, [encode(Request(first, 3)) + encode(Cancel(second))])]
    wires.hub.sent(cid)
    assert wires.actions() == []
    assert wires.hub.stats()["unsent_bytes"] == 0


def test_each_connection_is_written_for_itself() -> None:
    wires = Wires()
    one, two = wires.up(), wires.up()
    wires.hub.subscribe(one, "p")
    wires.hub.subscribe(two, "p")
    assert sorted(action.cid for action in wires.actions()) == [one, two]


# Demand and pressure.

TIGHT = Limits(high_water=100, low_water=20)


def test_whoever_was_told_zero_is_told_drained() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    assert wires.hub.wanted(cid, 1) == UNBOUNDED
    wires.hub.next_many(cid, 1, [bytes(100)])
    assert wires.hub.wanted(cid, 1) == 0, "at high water"
    (transmit,) = wires.actions()
    assert wires.hub.wanted(cid, 1) == 0, "what is in transit counts"
    wires.hub.sent(cid)
    assert wires.actions() == [Drained(cid)], (transmit, "and once")
    assert wires.hub.wanted(cid, 1) == UNBOUNDED
    wires.hub.sent(cid)
    assert wires.actions() == []


def test_drained_waits_for_low_water() -> None:
    """The bytes behind the Transmit that is outstanding are still too many."""
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(50)])
    assert len(wires.actions()) == 1
    wires.hub.next_many(cid, 1, [bytes(50)])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.sent(cid)
    (transmit,) = wires.actions()
    assert isinstance(transmit, Transmit)
    assert wires.hub.wanted(cid, 1) == 0, "54 bytes are above low water"
    wires.hub.sent(cid)
    assert wires.actions() == [Drained(cid)]


def test_drained_below_low_water_while_a_little_is_queued() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(100)])
    assert len(wires.actions()) == 1
    wires.hub.next_many(cid, 1, [b"a"])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.sent(cid)
    drained, transmit = wires.actions()
    assert drained == Drained(cid)
    assert isinstance(transmit, Transmit)
    assert wires.hub.wanted(cid, 1) == UNBOUNDED


def test_zero_without_demand_is_told_by_the_request() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, 1)
    wires.hub.next_many(cid, 1, [bytes(200)])
    assert wires.hub.wanted(cid, 1) == 0
    assert len(wires.actions()) == 1
    wires.hub.sent(cid)
    assert wires.actions() == [], "nobody waits for room: there is no demand"
    assert wires.feed(cid, Request(1, 5)) == [Happened(cid, Request(1, 5))]
    assert wires.hub.wanted(cid, 1) == 5


def test_zero_of_a_stream_that_ends_is_told_by_cancel() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(200)])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.lost(cid, None)
    assert Happened(cid, Cancel(1)) in wires.actions()


# Reading stops where the application does not follow (D-9).


def test_reading_pauses_and_goes_on() -> None:
    wires = Wires(limits=Limits(max_unread=10 * ELEMENT_COST))
    cid = wires.up()
    stream = wires.taking(cid)
    assert not any(isinstance(action, PauseReading) for action in wires.feed(cid, *[OnNext(stream, b"")] * 10))
    over = wires.feed(cid, OnNext(stream, b"x"))
    assert over == [PauseReading(cid), Happened(cid, Elements(stream, [b"x"]))]
    assert wires.feed(cid, OnNext(stream, b"y")) == [Happened(cid, Elements(stream, [b"y"]))], "told once"
    assert wires.hub.stats()["unread_bytes"] == 12 * ELEMENT_COST + 2
    wires.hub.took(cid, 0, 6)
    assert wires.actions() == [], "more than half is left"
    wires.hub.took(cid, 2, 1)
    assert wires.actions() == [ResumeReading(cid)]
    wires.hub.took(cid, 0, 5)
    assert wires.actions() == []
    assert wires.hub.stats() == HubStats(connections=1, paused=1, dials=1, dials_failed=NO_FAILURES)


def test_elements_of_a_packed_frame_each_cost() -> None:
    wires = Wires(limits=Limits(max_unread=10 * ELEMENT_COST))
    cid = wires.up()
    stream = wires.taking(cid, size=1)
    packed = OnNextPacked(stream, (b"x",) * 11)
    assert wires.feed(cid, packed) == [PauseReading(cid), Happened(cid, Elements(stream, [b"x"] * 11))]


def paused() -> tuple[Wires, int, int]:
    wires = Wires(limits=Limits(max_unread=1))
    cid = wires.up()
    stream = wires.taking(cid)
    assert PauseReading(cid) in wires.feed(cid, OnNext(stream, b"x"))
    return wires, cid, stream


def test_our_goodbye_reads_on() -> None:
    """Frames that come are dropped now, and the peer's goodbye is behind them."""
    wires, cid, stream = paused()
    wires.hub.goodbye(cid, "bye")
    actions = wires.actions()
    assert ResumeReading(cid) in actions
    assert Happened(cid, OnError(stream, str(ConnectionClosed("bye")))) in actions
    wires.hub.sent(cid)
    assert wires.feed(cid, OnNext(stream, b"x"), OnNext(stream, b"x"), Goodbye())[0] == PeerDown(
        cid, "there", None, "bye"
    )


def test_the_peers_goodbye_reads_on() -> None:
    wires, cid, _ = paused()
    actions = wires.feed(cid, Goodbye("enough"))
    assert downs(actions) == [PeerDown(cid, "there", None, "enough")]
    assert ResumeReading(cid) in actions


def test_took_on_a_connection_that_is_gone() -> None:
    wires, cid, _ = paused()
    wires.hub.lost(cid, None)
    wires.actions()
    wires.hub.took(cid, 1, 1)
    assert wires.actions() == []


# A peer that says much at once waits for the others (D-12).


def subscribes(count: int) -> list[Subscribe]:
    return [Subscribe("p", number, 0) for number in range(1, count + 1)]


def events(actions: list[Any], cid: int) -> list[Any]:
    return [action.event for action in actions if isinstance(action, Happened) and action.cid == cid]


def test_a_turn_has_a_share_for_each_connection() -> None:
    """Order and number are as they were; what waits is not read beyond, and the others come in between."""
    wires = Wires(limits=Limits(max_turn=10))
    loud, good = wires.up(Role.SERVER), wires.up(Role.SERVER)
    said = subscribes(35)
    wires.hub.receive_data(loud, b"".join(map(encode, said)), 0.0)
    first = wires.feed(good, Subscribe("p", 1, 0))
    assert events(first, loud) == said[:10]
    assert events(first, good) == [Subscribe("p", 1, 0)], "in the same turn"
    assert PauseReading(loud) in first
    assert wires.hub.next_timeout() == 0.0, "at once"
    assert wires.actions() == [], "not before all others had their turn"
    assert events(wires.feed(good, Request(1, 1)), good) == [Request(1, 1)]
    assert events(wires.feed(loud, Subscribe("p", 36, 0)), loud) == [], "nor because more has come"
    assert events(wires.wait(0.0), loud) == said[10:20]
    assert events(wires.wait(0.0), loud) == said[20:30]
    last = wires.wait(0.0)
    assert events(last, loud) == [*said[30:], Subscribe("p", 36, 0)]
    assert last[-1] == ResumeReading(loud)
    assert wires.hub.next_timeout() is None
    assert wires.hub.stats() == HubStats(connections=2, rested=3, dials_failed=NO_FAILURES)


def test_what_waits_for_its_turn_is_answered_meanwhile() -> None:
    wires = Wires(limits=Limits(max_turn=10))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(15))
    for number in range(1, 11):
        wires.hub.error(cid, number, "no")
    assert len([frame for frame in wires.said(cid) if isinstance(frame, OnError)]) == 10
    assert events(wires.wait(0.0), cid) == subscribes(15)[10:], "a call leads to none before its turn"


@pytest.mark.parametrize("how", ["goodbye", "lost", "close"])
def test_an_end_comes_after_what_waits_for_its_turn(how: str) -> None:
    wires = Wires(limits=Limits(max_turn=10))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(25), Goodbye("enough"))
    if how == "lost":
        wires.hub.lost(cid, None)
    elif how == "close":
        wires.hub.close()
    told = wires.actions()
    for _ in range(10):
        told += wires.wait(0.0)
    given = subscribes(25 if how == "lost" or how == "goodbye" else 10)
    ended = [Cancel(one.subscriber_id) for one in given]
    assert events(told, cid) == [*given[10:], *ended]
    assert isinstance(next(action for action in reversed(told) if isinstance(action, Happened | PeerDown)), PeerDown)
    assert wires.hub.next_timeout() in (None, wires.hub.limits.close_timeout), "no turn is due"


def test_a_connection_that_is_gone_has_no_turn() -> None:
    wires = Wires(limits=Limits(max_turn=1))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(2))
    wires.hub.lost(cid, None)
    for _ in range(10):
        wires.wait(0.0)
    assert wires.hub.idle
    assert wires.hub.next_timeout() is None


# Deadlines.


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_no_transport_in_time(role: Role) -> None:
    """T-68: from the cid to TLS."""
    wires = Wires()
    cid = wires.hub.connect("there", 0.0) if role is Role.CLIENT else wires.hub.new_cid(0.0)
    assert cid is not None
    wires.actions()
    assert wires.hub.next_timeout() == 10.0
    assert wires.wait(9.9) == []
    abort, *rest = wires.wait(0.1)
    assert abort == Abort(cid)
    assert [(down.remote, type(down.error)) for down in downs(rest)] == [("there", ConnectionLost)] * (
        role is Role.CLIENT
    ), "nobody waits for one who dialled us and never came up"
    assert wires.hub.next_timeout() is None
    assert wires.hub.idle


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_no_hello_in_time(role: Role) -> None:
    """R-25, T-68: the connection ends, and where the peer does not let go it is cut after the time for that."""
    wires = Wires()
    cid = wires.link(role)
    wires.said(cid)
    wires.now = 5.0
    wires.hub.receive_data(cid, b"", 5.0)
    assert wires.hub.next_timeout() == 10.0
    actions = wires.wait(5.0)
    assert [str(down.error) for down in downs(actions)] == ["no hello of the peer's within 10 s (R-28): abort"] * (
        role is Role.CLIENT
    )
    assert ShutdownWrite(cid) in actions
    assert wires.wait(4.9) == []
    assert wires.wait(0.1) == [Abort(cid)]
    assert wires.hub.idle
    assert wires.hub.next_timeout() is None


def test_tls_has_its_time_and_hello_has_its_own() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", 0.0)
    wires.hub.opened(cid, Role.CLIENT, IDENTITY, 9.0)
    assert wires.hub.next_timeout() == 19.0


def test_after_the_hello_nothing_is_due() -> None:
    wires = Wires()
    cid = wires.link()
    wires.actions()
    wires.feed(cid, ServerHello())
    wires.hub.sent(cid)
    wires.actions()
    assert wires.hub.next_timeout() is None
    assert wires.wait(1e9) == []


def test_a_deadline_that_was_met_while_a_transmit_is_outstanding_does_nothing() -> None:
    wires = Wires()
    cid = wires.link()
    wires.actions()  # the hello is in transit, and stays so
    wires.feed(cid, ServerHello())
    assert downs(wires.wait(10.0)) == []
    assert wires.hub.next_timeout() is None


def test_no_goodbye_in_time() -> None:
    """R-28: five seconds, and the reason is told before it is cut."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.goodbye(cid, "bye", wires.now)
    assert Happened(cid, OnError(stream, str(ConnectionClosed("bye")))) in wires.actions()
    assert wires.hub.next_timeout() == 5.0
    (down,) = wires.wait(5.0)
    assert isinstance(down.error, ConnectionLost)
    assert (down.cid, down.remote, down.reason) == (cid, "there", "bye")
    assert wires.hub.next_timeout() == 5.0, "and now"
    assert wires.wait(0.0) == [Abort(cid)]
    assert wires.hub.idle


def test_time_that_runs_on_before_actions_are_taken() -> None:
    """The end is told with its reason before the connection is cut, however late the adapter is."""
    wires = Wires()
    cid = wires.up()
    wires.hub.goodbye(cid, "bye", 0.0)
    wires.actions()
    for now in (5.0, 20.0, 30.0):
        wires.hub.handle_timeout(now)
    (down,) = wires.actions()
    assert isinstance(down.error, ConnectionLost)
    assert wires.wait(0.0) == [Abort(cid)]


def test_a_peer_that_does_not_let_go_is_cut() -> None:
    wires = Wires()
    cid = wires.up()
    assert downs(wires.feed(cid, Goodbye())) == [PeerDown(cid, "there", None, "")]
    wires.hub.sent(cid)
    assert wires.actions() == [ShutdownWrite(cid)]
    assert wires.wait(5.0) == [Abort(cid)]
    assert wires.hub.next_timeout() is None


def test_a_peer_that_does_not_read_our_last_words_is_cut() -> None:
    wires = Wires()
    cid = wires.up()
    wires.feed(cid, Goodbye())  # our answer stays in transit
    assert wires.wait(5.0) == [Abort(cid)]


def test_a_forgotten_connection_has_no_deadline() -> None:
    wires = Wires()
    dialled, accepted = wires.hub.connect("there", 0.0), wires.hub.new_cid(0.0)
    assert accepted is not None
    opened = wires.link()
    for cid in (dialled, accepted, opened):
        wires.hub.lost(cid, None)
    wires.actions()
    assert wires.hub.next_timeout() is None
    assert wires.wait(1e9) == []


def test_deadlines_of_several_connections_at_once() -> None:
    wires = Wires()
    cids = [wires.hub.connect("there", 0.0) for _ in range(3)]
    wires.actions()
    actions = wires.wait(10.0)
    assert [action.cid for action in actions if isinstance(action, Abort)] == cids
    assert [down.cid for down in downs(actions)] == cids


def test_time_never_runs_backwards() -> None:
    wires = Wires()
    wires.hub.connect("there", 100.0)
    wires.hub.handle_timeout(5.0)
    wires.hub.connect("there", 5.0)
    assert wires.hub.next_timeout() == 110.0


# The end, told once.


@pytest.mark.parametrize(
    "error", [None, ConnectionLost("refused"), CertificateError("no")], ids=lambda e: type(e).__name__
)
def test_a_dial_that_fails(error: TolliverError | None) -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    wires.hub.lost(cid, error)
    (down,) = wires.actions()
    assert (down.cid, down.remote) == (cid, "there")
    assert down.error is error if error else isinstance(down.error, ConnectionLost)
    wires.hub.lost(cid, error)
    assert wires.actions() == []


def test_a_stranger_who_goes_before_hello_is_nobodys_business() -> None:
    wires = Wires()
    for opened in (False, True):
        cid = wires.link(Role.SERVER) if opened else wires.hub.new_cid(0.0)
        assert cid is not None
        wires.hub.lost(cid, ConnectionLost("reset"))
        assert wires.actions() == []
    cid = wires.link(Role.SERVER)
    assert downs(wires.feed(cid, ServerHello())) == [], "the wrong hello"
    assert wires.hub.idle is False


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_an_orderly_end_from_the_peer(role: Role) -> None:
    wires = Wires()
    cid = wires.up(role)
    wires.giving(cid)
    stream = wires.taking(cid)
    actions = wires.feed(cid, Goodbye("enough"))
    remote = "there" if role is Role.CLIENT else None
    assert actions == [
        Happened(cid, OnError(stream, str(ConnectionClosed("enough")))),
        Happened(cid, Cancel(1)),
        PeerDown(cid, remote, None, "enough"),
        Transmit(cid, [encode(Goodbye())]),
    ]
    wires.hub.sent(cid)
    assert wires.actions() == [ShutdownWrite(cid)]
    wires.hub.receive_eof(cid)
    assert wires.actions() == []
    wires.hub.lost(cid, None)
    assert wires.actions() == []
    assert wires.hub.idle


def test_an_orderly_end_of_ours() -> None:
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.goodbye(cid, "bye")
    wires.hub.goodbye(cid, "a second one says nothing")
    assert wires.actions() == [
        Happened(cid, OnError(stream, str(ConnectionClosed("bye")))),
        Transmit(cid, [encode(Goodbye("bye"))]),
    ]
    wires.hub.sent(cid)
    assert wires.actions() == [], "the peer's goodbye comes first (R-28)"
    assert wires.feed(cid, Goodbye("its own")) == [PeerDown(cid, "there", None, "bye"), ShutdownWrite(cid)]
    wires.hub.goodbye(cid, "late")
    wires.hub.lost(cid, ConnectionLost("reset"))
    assert wires.actions() == []


def test_crossing_goodbyes_and_the_end_in_one_piece() -> None:
    """Bytes received before the transport went are read to their end."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.receive_data(cid, encode(OnNext(stream, b"x")) + encode(Goodbye("bye")))
    wires.hub.lost(cid, ConnectionLost("reset"))
    assert wires.actions() == [
        Happened(cid, Elements(stream, [b"x"])),
        Happened(cid, OnError(stream, str(ConnectionClosed("bye")))),
        PeerDown(cid, "there", None, "bye"),
    ]
    assert wires.hub.idle


def test_lost_with_streams_and_unread_data() -> None:
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    reset = ConnectionLost("reset")
    wires.hub.receive_data(cid, encode(OnNext(stream, b"x")) + encode(OnComplete(stream))[:1])
    wires.hub.lost(cid, reset)
    element, failed, down = wires.actions()
    assert element == Happened(cid, Elements(stream, [b"x"]))
    assert failed.event.cause is down.error is reset, "also inside a frame: the transport knows why"
    assert str(failed.event.message) == str(reset)


@pytest.mark.parametrize("inside", [False, True])
def test_the_end_of_the_input_without_a_goodbye(inside: bool) -> None:
    """R-30. Nobody knows why: it is what the connection saw."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.receive_data(cid, encode(OnNext(stream, b"xyz"))[: 2 if inside else 0])
    wires.hub.receive_eof(cid)
    failed, down, *rest = wires.actions()
    assert type(failed.event.cause) is type(down.error) is (UnexpectedEOF if inside else ConnectionLost)
    assert rest == [ShutdownWrite(cid)]
    wires.hub.lost(cid, None)
    assert wires.actions() == []


def test_a_certificate_that_the_peer_refuses_after_we_are_open() -> None:
    """With TLS 1.3 a client learns of it late: streams and connection end with that."""
    wires = Wires()
    cid = wires.link()
    stream = wires.hub.subscribe(cid, "p")
    wires.actions()
    refused = CertificateError("certificate required")
    wires.hub.lost(cid, refused)
    failed, down = wires.actions()
    assert failed.event.cause is down.error is refused
    assert failed == Happened(cid, OnError(stream, str(refused)))


def test_a_fault_of_the_peers_is_told_as_such_although_the_transport_went() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.receive_data(cid, encode(ServerHello()))
    wires.hub.lost(cid, ConnectionLost("reset"))
    (down,) = wires.actions()
    assert isinstance(down.error, UnexpectedFrame)


def test_another_version() -> None:
    wires = Wires()
    cid = wires.link()
    stream = wires.hub.subscribe(cid, "p")
    wires.said(cid)
    failed, down, *rest = wires.feed(cid, ServerHello(7))
    assert failed.event.cause is down.error
    assert failed == Happened(cid, OnError(stream, str(VersionMismatch(7))))
    assert [type(action) for action in rest] == [Transmit], "a goodbye, and no PeerUp"


def test_lost_while_leaving() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.goodbye(cid, "bye")
    wires.actions()
    reset = ConnectionLost("reset")
    wires.hub.lost(cid, reset)
    assert wires.actions() == [PeerDown(cid, "there", reset, "bye")]
    assert wires.hub.idle


def test_nothing_is_written_when_the_transport_is_gone() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.lost(cid, None)
    wires.hub.subscribe(cid, "p")  # its end is not handed out yet
    assert [type(action) for action in wires.actions()] == [Happened, PeerDown]


# Closing.


def test_close_while_dialling() -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    wires.hub.close()
    abort, down = wires.actions()
    assert abort == Abort(cid)
    assert isinstance(down.error, ConnectionClosing)
    assert down.reason == "the peer is closing"
    assert wires.hub.idle
    wires.hub.opened(cid, Role.CLIENT, IDENTITY)
    assert wires.actions() == [], "it came too late"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_close_before_the_hello(role: Role) -> None:
    wires = Wires()
    cid = wires.link(role)
    wires.hub.close()
    hello = [ClientHello()] if role is Role.CLIENT else [ServerHello()]
    assert wires.said(cid) == [*hello, Goodbye("the peer is closing")]
    actions = wires.feed(cid, HELLO[role], Goodbye())
    assert not any(isinstance(action, PeerUp) for action in actions), "it is over for us"
    assert len(downs(actions)) == (role is Role.CLIENT)
    assert ShutdownWrite(cid) in actions
    wires.hub.lost(cid, None)
    assert wires.hub.idle


def test_close_in_the_middle() -> None:
    wires = Wires()
    cids = [wires.up(), wires.up(Role.SERVER)]
    for cid in cids:
        wires.giving(cid, 5)
    wires.hub.close(1.0)
    wires.hub.close(2.0)
    actions = wires.actions()
    assert [action.cid for action in actions if isinstance(action, Happened)] == cids
    assert wires.hub.next_timeout() == 6.0, "the second one changes nothing"
    assert wires.hub.new_cid() is None
    assert wires.hub.stats()["refused_connections"] == 1
    with pytest.raises(ConnectionClosing, match="there is not dialled"):
        wires.hub.connect("there")
    for cid in cids:
        wires.hub.sent(cid)
        assert len(downs(wires.feed(cid, Goodbye()))) == 1
        wires.hub.lost(cid, None)
    assert wires.hub.idle


# Strangers (D-7).


def test_a_bound_on_strangers() -> None:
    wires = Wires(limits=Limits(max_handshakes=3, max_handshakes_per_address=2))
    first, second = wires.hub.new_cid(0.0, "192.0.2.1"), wires.hub.new_cid(0.0, "192.0.2.1")
    assert None not in (first, second)
    assert wires.hub.new_cid(0.0, "192.0.2.1") is None
    assert wires.hub.new_cid(0.0, "192.0.2.2") is not None
    assert wires.hub.new_cid(0.0, "192.0.2.3") is None
    assert wires.hub.stats()["refused_connections"] == 2
    assert wires.hub.connect("there"), "those that we dial are no strangers"


def ends(wires: Wires, cid: int, how: str) -> None:
    if how == "hello":
        wires.hub.opened(cid, Role.SERVER, IDENTITY)
        wires.feed(cid, ClientHello())
    elif how == "lost":
        wires.hub.lost(cid, None)
    elif how == "lost later":
        wires.hub.opened(cid, Role.SERVER, IDENTITY)
        wires.hub.lost(cid, None)
    else:
        wires.wait(10.0)
    wires.actions()


@pytest.mark.parametrize("how", ["hello", "lost", "lost later", "late"])
def test_a_stranger_is_one_no_longer(how: str) -> None:
    wires = Wires(limits=Limits(max_handshakes=1))
    cid = wires.hub.new_cid(0.0, "192.0.2.1")
    assert cid is not None
    assert wires.hub.new_cid() is None
    ends(wires, cid, how)
    assert wires.hub.new_cid() is not None
    assert wires.hub.new_cid() is None, "and counted once"


# Calls that come too late, or are wrong.


INERT: dict[str, tuple[tuple[object, ...], object]] = {
    "opened": ((Role.CLIENT, IDENTITY), None),
    "receive_data": ((b"x",), None),
    "receive_eof": ((), None),
    "sent": ((), None),
    "lost": ((None,), None),
    "request": ((1, 1), None),
    "cancel": ((1,), None),
    "took": ((1, 1), None),
    "subscribed": ((1,), False),
    "next_many": ((1, [b"x"]), 0),
    "complete": ((1,), False),
    "error": ((1, "failed"), False),
    "wanted": ((1,), 0),
    "goodbye": (("bye",), None),
}
"""Calls with a cid in front: what else they are given, and what they answer where there is no such connection."""


@pytest.mark.parametrize("call", INERT)
def test_a_call_for_a_connection_that_is_over(call: str) -> None:
    arguments, answer = INERT[call]
    wires = Wires()
    over = wires.up()
    wires.hub.lost(over, None)
    wires.actions()
    for cid in (over, 99):
        assert getattr(wires.hub, call)(cid, *arguments) == answer
        assert wires.actions() == []
        assert wires.hub.next_timeout() is None


def test_what_needs_a_connection_says_so() -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    for unknown in (cid, 99):
        with pytest.raises(ConnectionClosing, match="make another one"):
            wires.hub.subscribe(unknown, "p")
        with pytest.raises(ConnectionClosing, match="make another one"):
            wires.hub.send(unknown, ClientHello())


@pytest.mark.parametrize("call", ["receive_data", "receive_eof", "sent", "request", "wanted"])
def test_a_connection_that_is_not_open_yet(call: str) -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    getattr(wires.hub, call)(cid, *INERT[call][0])
    assert wires.actions() == []


def test_a_wrong_call_changes_nothing() -> None:
    wires = Wires()
    cid = wires.up(Role.SERVER)
    wires.giving(cid, 1)
    wrong: list[Callable[[], object]] = [
        lambda: wires.hub.next_many(cid, 1, [b"x", b"y"]),  # rule 1.1
        lambda: wires.hub.subscribed(cid, 1),  # rule 1.9
        lambda: wires.hub.error(cid, 1, None),  # type: ignore[arg-type]  # on purpose
        lambda: wires.hub.subscribe(cid, "x" * 5000),
        lambda: wires.hub.goodbye(cid, b"bye"),  # type: ignore[arg-type]  # on purpose
        lambda: wires.hub.send(cid, ServerHello()),
    ]
    for call in wrong:
        with pytest.raises(LocalProtocolError):
            call()
        assert wires.actions() == []
    assert wires.hub.next_many(cid, 1, [b"x"]) == 1
    wires.said(cid)
    assert downs(wires.feed(cid, Goodbye("its own"))) == [PeerDown(cid, None, None, "its own")]


def test_a_server_may_not_subscribe_before_the_hello() -> None:
    wires = Wires()
    cid = wires.link(Role.SERVER)
    with pytest.raises(LocalProtocolError, match="not possible yet"):
        wires.hub.subscribe(cid, "p")
    assert PeerUp(cid, IDENTITY, None) in wires.feed(cid, ClientHello())


def test_a_wrong_request_of_ours_ends_the_stream() -> None:
    """R-16, rules 3.9 and 3.16: nothing raises."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.request(cid, stream, 0)
    failed, transmit = wires.actions()
    assert "3.9" in failed.event.message
    assert transmit == Transmit(cid, [encode(Cancel(stream))])


# Extensions.


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


def test_frames_of_an_extension() -> None:
    note = Form(20, Note, {"text": Kind.TEXT})
    wires = Wires(extensions=[Extension(300, (note,))])
    cid = wires.link()
    wires.actions()
    wires.feed(cid, ServerHello(0, (300,)))
    wires.hub.sent(cid)
    wires.hub.send(cid, Note("hi"))
    assert wires.actions() == [Transmit(cid, [b"\x14\x02hi"])]
    wires.hub.receive_data(cid, b"\x14\x02ho")
    (happened,) = wires.actions()
    assert happened.event.text == "ho"


# Dials that fail, and why.

REFUSED = ConnectionLost("connection refused", DialCause.REFUSED)


def failure(actions: list[Any]) -> DialFailure | None:
    (down,) = downs(actions)
    assert down.remote == "there"
    return down.failure


def test_a_dial_that_fails_says_why_and_is_counted() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    wires.hub.lost(cid, REFUSED, wires.now)
    assert failure(wires.actions()) == DialFailure(DialCause.REFUSED, "connection refused")
    stats = wires.hub.stats()
    assert (stats.dials, stats.dials_failed[DialCause.REFUSED], stats["dials_failed_refused"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"HTTP/1.1 400 Bad Request", DialCause.HTTP),
        (bytes((21, 3, 3, 0, 2, 2, 70)), DialCause.NEEDS_TLS),
        (b"SSH-2.0-x", DialCause.PROTOCOL),
        (encode(OnNext(1, b"x")), DialCause.PROTOCOL),
        (encode(Goodbye("no")), DialCause.VERSION),
        (encode(ServerHello(version=5)), DialCause.VERSION),
        (b"", DialCause.CLOSED),
        (encode(ServerHello())[:1], DialCause.CLOSED),
    ],
)
def test_what_answers_is_known_by_its_first_bytes(said: bytes, cause: DialCause) -> None:
    """Those of this protocol are no cause."""
    wires = Wires()
    cid = wires.link()
    wires.hub.receive_data(cid, said, wires.now)
    wires.hub.receive_eof(cid, wires.now)
    found = failure(wires.actions())
    assert found is not None
    assert found.cause is cause


def test_streams_where_tls_was_dialled_are_no_tls() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    wires.hub.lost(cid, ConnectionLost("no TLS", DialCause.STREAMS), wires.now)
    assert failure(wires.actions()) == DialFailure(DialCause.NOT_TLS, "no TLS")


def test_silence_is_no_answer() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    assert str(wires.hub.why_not_up(cid)) == "nobody answers: no connection stands yet"
    wires.hub.opened(cid, Role.CLIENT, IDENTITY, wires.now)
    assert str(wires.hub.why_not_up(cid)) == (
        "nobody answers: it is connected, and has said no hello: is it a port of streams?"
    )
    found = failure(wires.wait(wires.hub.limits.handshake_timeout))
    assert found is not None
    assert found.cause is DialCause.NO_ANSWER


@pytest.mark.parametrize("stands", [False, True])
def test_a_dial_that_is_given_up_says_what_was_missing(stands: bool) -> None:
    wires = Wires()
    cid = wires.link() if stands else wires.hub.connect("there", wires.now)
    wires.said(cid) if stands else wires.actions()
    wires.hub.give_up(cid, wires.now)
    found = failure(wires.actions())
    assert found is not None
    assert found.cause is DialCause.NO_ANSWER
    assert found.detail.startswith("given up: ")
    wires.hub.give_up(cid, wires.now)
    assert downs(wires.actions()) == []
    assert wires.hub.stats().dials_failed[DialCause.NO_ANSWER] == 1


def test_a_peer_that_was_up_is_no_dial_that_failed() -> None:
    wires = Wires()
    cid = wires.up()
    assert wires.hub.why_not_up(cid) is None
    wires.hub.give_up(cid, wires.now)
    (down,) = downs(wires.feed(cid, Goodbye()))
    assert (down.failure, down.reason) == (None, "given up")
    assert wires.hub.stats().dials_failed == NO_FAILURES


def test_the_end_of_our_certificate_is_told_at_the_start_and_daily() -> None:
    wires, day = Wires(), 86400.0
    wires.hub.watch_certificate(31.5 * day, "a.pem", wires.now)
    assert [wires.wait(0.0), wires.wait(day)] == [[], []]
    text = "our certificate a.pem ends in {} days: make a new one with the same UUID, and open the streams again"
    assert [wires.wait(day), wires.wait(day)] == [
        [CertificateExpires(left * day, text.format(left), None)] for left in (29.5, 28.5)
    ]

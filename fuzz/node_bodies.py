"""Checks for the fuzzer of the node, on any bytes.

Any bytes are a program for two or three nodes: two bytes a step, which call and with what. The fuzzer kills nodes and
starts them again from what they had committed. A stranger is there, too: a member of the CA with a certificate of its
own that says whatever the program makes it say. It may harm nobody but itself, so the promises between the others hold
whatever it does (`node_program.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from tolliver_proto import (
    Ack,
    Acl,
    Commit,
    ConnectionClosing,
    ConnectionLost,
    Decoder,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    LocalProtocolError,
    Message,
    OutboxFull,
    Revision,
    Rights,
    Role,
    StoreError,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import PROBE_CHANNEL

from .bodies import MOST_STEPS, bounded
from .node_program import NO_ID, STRANGER, UUIDS, End, Program, StrangersWitness

_MOST_WIRES = 8
RIGHTS = (Rights(), Rights(subscribe=(("p", "*"),)), Rights(subscribe=(("*", "a"),)), Rights.none())

SAID: list[Frame] = [
    HandshakeRequest(1, STRANGER, (Subscription("p", ""), Subscription("v", ""))),
    HandshakeRequest(2, STRANGER),
    HandshakeRequest(1, UUIDS[0], (Subscription("", ""),)),
    HandshakeRequest(1, UUIDS[1]),
    *(HandshakeResponse(1, STRANGER, status, (Subscription("", ""),)) for status in [*HandshakeStatus][:4]),
    HandshakeResponse(1, UUIDS[1], HandshakeStatus.SAME_VERSION),
    HandshakeFinal(True),
    HandshakeFinal(False),
    *(Message("p", "a", b"stranger", number) for number in (1, 2, 2**31 - 2)),
    Message("p", "b", b"other body, same number", 1),
    Message("v", "b", bytes(180), 3),
    Message("nobody", "", b"", 4),
    Message(PROBE_CHANNEL, "", b"", 5),
    Message("p", "a", b"unreliable", None),
    *(Ack(number) for number in (0, 1, 2, 3, 5000, 5001, 2**31 - 20, 2**31 - 3, 2**31 - 2, NO_ID)),
    Subscribe("", "", 6),
    Subscribe("p", "b", 7),
    Subscribe("v", "", None),
    Unsubscribe("p", "", 8),
    Unsubscribe("", "", 9),
]
"""Frames that the stranger says, well-meant and otherwise."""


def operations(data: bytes, *, watch_memory: bool = False) -> Program:
    """Any bytes as a program: documented errors only, promises checked at each step, nothing lost at the end."""
    with bounded(256 * 1024 + 64 * len(data), watch_memory):
        head = data[:2].ljust(2, b"\0")
        program = Program(2 + head[0] % 2, head[0] // 2, head[0] // 8, head[1])
        for at in range(2, min(len(data) - 1, 2 * MOST_STEPS), 2):
            take(program, data[at], data[at + 1])
        program.finish()
    return program


def take(run: Program, code: int, argument: int) -> None:
    """One step, then all that it leads to."""
    number = code % 4 % len(run.hosts)
    do = _STEPS[code // 4 % len(_STEPS)]
    if run.hosts[number].node is None and do is not _crash:
        return
    with suppress(LocalProtocolError, ConnectionClosing, OutboxFull):
        do(run, number, argument)
    for each in range(len(run.hosts)):
        run.drain(each)


# Steps: of the network.


def _connect(run: Program, number: int, argument: int) -> None:
    """To another node, by one of two names, or to the stranger."""
    run.call(number, "connect", argument % (len(run.hosts) + 1) + 8 * (argument >> 7))


def _disconnect(run: Program, number: int, argument: int) -> None:
    node = run.node(number)
    remote, block = argument % (len(run.hosts) + 1) + 8 * (argument >> 7), bool(argument & 64)
    node.disconnect(remote, run.now, block)
    if block:
        run.hosts[number].blocked.add(remote)


def _open(run: Program, number: int, argument: int) -> None:
    """An end that waits to be opened, else a dial that gets through, or not."""
    waiting = [end for end in run.ends[number].values() if not end.opened]
    if waiting:
        run.open(number, waiting[argument % len(waiting)])
    elif run.dials[number]:
        cid, remote = run.dials[number].popleft()
        full = len(run.ends[number]) >= _MOST_WIRES
        if full or argument > 240:
            error = CertificateError("expired") if argument == 255 else ConnectionLost("refused")
            run.call(number, "dial_failed", cid, error)
        else:
            run.connected(number, cid, remote % 8)


def _end(run: Program, number: int, argument: int, stranger: bool | None = None) -> End | None:
    ends = [end for end in run.ends[number].values() if stranger in (None, end.stranger)]
    return ends[argument % len(ends)] if ends else None


def _deliver(run: Program, number: int, argument: int) -> None:
    """To all ends, so many bytes, or all."""
    for end in list(run.ends[number].values()):
        if run.ends[number].get(end.cid) is end:
            run.deliver(number, end, argument % 64 or None)
            run.drain(number)


def _sent(run: Program, number: int, argument: int) -> None:
    for end in list(run.ends[number].values()):
        if end.in_transit:
            run.sent(number, end)


def _lost(run: Program, number: int, argument: int) -> None:
    end = _end(run, number, argument)
    if end is not None and argument > 64:
        if argument & 128:
            del end.arriving[argument % 16 :]
        run.lose(number, end, ConnectionLost("reset"))


def _wait(run: Program, number: int, argument: int) -> None:
    run.now += argument / 8
    _tick(run, number, argument)


def _tick(run: Program, number: int, argument: int) -> None:
    """The next deadline of this node, if it is soon."""
    due = run.node(number).next_timeout()
    if due is not None and due - run.now < argument:
        run.now = max(run.now, due)
    for each, host in enumerate(run.hosts):
        if host.node is not None:
            run.call(each, "handle_timeout")


def _late(run: Program, number: int, argument: int) -> None:
    """An adapter that was a moment late: all of it is ignored."""
    node = run.node(number)
    if argument not in inside(node).context.links:
        node.receive_data(argument, b"late", run.now)
        node.receive_eof(argument, run.now)
        node.sent(argument, run.now)
        node.lost(argument, None, run.now)
        node.opened(argument, Role.SERVER, None, run.now)
    if not run.hosts[number].jobs:
        node.committed(argument, run.now)
        node.store_failed(argument, StoreError("late"), run.now)
        node.fetched(UUIDS[argument % 3], [], run.now)
        node.found(argument, [], None, run.now)


# Steps: of the disk.


def _perform(run: Program, number: int, argument: int) -> None:
    for _ in range(argument % 4 + 1):
        if run.hosts[number].jobs:
            run.perform(number, argument > 200)


def _crash(run: Program, number: int, argument: int) -> None:
    """A crash before the running commit, or behind it; then a start, at once or when it is told to."""
    host = run.hosts[number]
    if host.node is not None:
        job = host.jobs[0] if host.jobs else None
        if isinstance(job, Commit) and argument & 1:
            run.commit(number, job)
        run.stop(number)
    if argument & 2 or not host.node:
        run.start(number)


def _corrupt(run: Program, number: int, argument: int) -> None:
    """A row is damaged: it is set aside when it is read."""
    host = run.hosts[number]
    if host.store.messages and argument > 128:
        spoilt = host.store.messages[argument % len(host.store.messages)]
        host.store.corrupt(spoilt.seq)
        host.ledger.sent[spoilt.body].damaged = True


# Steps: of the application.


def _send(run: Program, number: int, argument: int) -> None:
    run.send(number, [run.new_message(number, argument)], bool(argument & 128))


def _send_many(run: Program, number: int, argument: int) -> None:
    run.send(number, [run.new_message(number, argument + at) for at in range(argument % 16)], bool(argument & 128))


def _unreliable_send(run: Program, number: int, argument: int) -> None:
    sent = run.new_message(number, argument)
    run.call(number, "unreliable_send", sent.channel, sent.key, sent.body)


def _bad_send(run: Program, number: int, argument: int) -> None:
    """Send a message that is refused, before anything changes: a wrong name, too long a body, all of a list with one
    such."""
    bad = (("tolliver", "", b""), ("p", "a", bytes(2**24 + 1)), (PROBE_CHANNEL, "", b""), ("p", "k" * 5000, b""))
    before = run.node(number).stats()
    try:
        run.call(number, "send_many", [("p", "a", b"good"), bad[argument % 4]])
    except LocalProtocolError:
        assert run.node(number).stats() == before
    else:
        raise AssertionError("a message that nobody may send")


def _name(argument: int) -> tuple[str, str]:
    return (("v", "a"), ("v", "b"), ("v", ""), ("", "a"), ("", ""), ("tolliver", ""))[argument % 6]


def _subscribe(run: Program, number: int, argument: int) -> None:
    run.call(number, "subscribe", *_name(argument))


def _unsubscribe(run: Program, number: int, argument: int) -> None:
    run.call(number, "unsubscribe", *_name(argument))


def _register(run: Program, number: int, argument: int) -> None:
    run.node(number).register(*_name(argument), argument // 6 % 3)


def _unregister(run: Program, number: int, argument: int) -> None:
    run.node(number).unregister(*_name(argument), argument // 6 % 3)


def _settle(run: Program, number: int, argument: int) -> None:
    """So many of what was handed out, in order or from the end; well, or not."""
    unsettled = run.unsettled[number]
    take = unsettled.pop if argument & 64 else unsettled.popleft
    some = [take() for _ in range(min(argument % 16 + 1, len(unsettled)))]
    run.settle(number, some, argument < 128)
    if argument == 127:
        run.call(number, "acknowledge", some)  # twice does no harm
        run.call(number, "fail", some)


def _peer(run: Program, argument: int) -> UUID:
    return [*UUIDS[: len(run.hosts)], STRANGER][argument % (len(run.hosts) + 1)]


def _forget_peer(run: Program, number: int, argument: int) -> None:
    peer = _peer(run, argument)
    if argument > 128 and peer != run.hosts[number].ledger.uuid:
        run.hosts[number].ledger.forgive(peer)
        run.hosts[number].opening.clear()
        run.call(number, "forget_peer", peer)


def _retry(run: Program, number: int, argument: int) -> None:
    run.call(number, "retry", _peer(run, argument))


def _drop_parked(run: Program, number: int, argument: int) -> None:
    peer = _peer(run, argument)
    node = run.node(number)
    if any(one.parked for one in node.peers() if one.uuid == peer):
        run.hosts[number].ledger.forgive(peer)
        run.call(number, "drop_parked", peer)


def _replay(run: Program, number: int, argument: int) -> None:
    run.node(number).replay(run.hosts[number].store.dead_letters(0, argument % 4))


def _repin(run: Program, number: int, argument: int) -> None:
    """The key that it shows next, or another one than it has: then it is kept out until the next time."""
    peer, other_key = _peer(run, argument), b"o" * 32 if argument > 200 else None
    run.call(number, "repin", peer, other_key)


def _set_acl(run: Program, number: int, argument: int) -> None:
    """Other rules for one of the others. Permission to publish is always kept, or the peer is kept out: those messages
    are promised."""
    host, peer = run.hosts[number], _peer(run, argument)
    host.acl = Acl(peers={**host.acl.peers, peer: RIGHTS[argument // 8 % len(RIGHTS)]})
    host.opening.clear()  # those that are being made are promised nothing
    run.call(number, "set_acl", host.acl)


def _close(run: Program, number: int, argument: int) -> None:
    if argument > 200:
        run.hosts[number].closing = True
        run.call(number, "close")


# Steps: of the stranger.


def _come(run: Program, number: int, argument: int) -> None:
    """The stranger dials, and shows its certificate, or somebody else's address."""
    full = len(run.ends[number]) >= _MOST_WIRES
    cid = None if full else run.node(number).new_cid(run.now, f"192.0.2.{66 + argument % 2}")
    if cid is not None:
        witness = StrangersWitness(run.hosts[number].ledger, False, Revision.DRAFT_2)
        run.ends[number][cid] = End(run.hosts[number], cid, Role.SERVER, run.identity(len(run.hosts)), witness)


def _say(run: Program, number: int, argument: int) -> None:
    end = _end(run, number, argument >> 6, stranger=True)
    if end is not None:
        end.arriving += encode(SAID[argument % len(SAID)], Revision.DRAFT_2)


def _babble(run: Program, number: int, argument: int) -> None:
    """A byte that belongs nowhere, or an end."""
    end = _end(run, number, argument, stranger=True)
    if end is not None and argument > 250:
        end.ending = True
    elif end is not None:
        end.arriving.append(argument)


def _answer(run: Program, number: int, argument: int) -> None:
    """The stranger acknowledges what it was sent, or some of it, or twice."""
    end = _end(run, number, argument >> 6, stranger=True)
    if end is None:
        return
    decoder = Decoder(Revision.DRAFT_2)
    decoder.feed(bytes(end.heard))
    for frame in iter(decoder.next_frame, None):
        message_id = getattr(frame, "message_id", None)
        if message_id is not None and not isinstance(frame, Ack) and message_id & 1 != argument & 1:
            end.arriving += encode(Ack(message_id), Revision.DRAFT_2) * (1 + (argument & 2))


_STEPS: list[Callable[[Program, int, int], None]] = [
    _deliver,
    _sent,
    _perform,
    _settle,
    _open,
    _connect,
    _send,
    _send_many,
    _wait,
    _tick,
    _crash,
    _lost,
    _subscribe,
    _unsubscribe,
    _disconnect,
    _unreliable_send,
    _forget_peer,
    _retry,
    _drop_parked,
    _corrupt,
    _come,
    _say,
    _babble,
    _answer,
    _late,
    _register,
    _unregister,
    _replay,
    _repin,
    _set_acl,
    _close,
    _bad_send,
]


def step(do: Callable[[Program, int, int], None], number: int = 0, argument: int = 0) -> bytes:
    """A step as it stands in a program."""
    return bytes([4 * _STEPS.index(do) + number, argument])


def operations_seeds() -> list[bytes]:
    """Programs that connect, send both ways, and then go on with some of everything."""
    both = range(2)
    flow = b"".join(step(do, side) for _ in range(2) for side in both for do in (_deliver, _sent, _perform))
    up = step(_connect, 0, 1) + step(_open) + step(_open) + step(_open, 1) + flow * 2
    talk = step(_send, 0, 0) + step(_send_many, 1, 5) + flow + step(_settle, 0, 63) + step(_settle, 1, 63) + flow
    come = step(_come, 0) + step(_open) + step(_say, 0, 0) + flow + step(_send, 0, 4) + flow + step(_answer) + flow
    found = []
    for settings in range(0, 64, 13):
        for position, do in enumerate(_STEPS):
            argument = (243, 70, 129, 0)[position % 4]
            rest = step(do, position % 2, argument) + flow + step(do, 0, 0) + step(do, 1, 254) + talk
            middle = come if settings % 2 else talk + step(_settle, 0, 200)
            found.append(bytes([settings, position]) + up + middle + rest)
    said = b"".join(step(_say, 0, number) + step(_deliver) for number in range(len(SAID)))
    found += [bytes([settings, 1]) + up + come + said + flow for settings in (0, 3, 17, 30)]
    for number, frame in enumerate(SAID):  # as its first words
        if isinstance(frame, HandshakeRequest | HandshakeResponse):
            greet = step(_say, 0, number) + flow + step(_say, 0, SAID.index(HandshakeFinal(True))) + flow
            called = step(_connect, 0, 2) + step(_open) * 2 + greet
            came = step(_come, 1) + step(_open, 1) + greet.replace(step(_say, 0, number), step(_say, 1, number))
            found += [bytes([0, 1]) + up + begun + talk for begun in (called, came)]
    return found

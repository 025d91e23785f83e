"""Recordings made by hand, of both ends of a connection.

A wire has two ends, each of which writes down what it sees at its own time. A test says what happened between them;
which of it is missing is what the audit must find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import (
    Ack,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscription,
    encode,
)
from tolliver_proto.recording import (
    INDEX_SUFFIX,
    SUFFIX,
    BlockHeader,
    Direction,
    Gathered,
    Indexer,
    Runs,
    encode_block,
    encode_group,
    frame_sizes,
)

START = 1_800_000_000  # seconds since 1970
MILLISECOND = 10**6  # nanoseconds
IN, OUT = Direction.IN, Direction.OUT
D1, D2 = Revision.DRAFT_1, Revision.DRAFT_2


_GROUP = 7
"""Calls whose frames are written together."""


class _Call(NamedTuple):
    """Frames that passed together. `damaged`: their last byte will be spoiled."""

    header: BlockHeader
    payload: bytes
    damaged: bool = False


class Witness:
    """An instance that records, in single blocks or in `groups`. With `silent` it writes nothing."""

    def __init__(self, home: Path, number: int, *, silent: bool = False, groups: bool = False) -> None:
        self.uuid = UUID(int=number)
        self._home = home
        self._silent = silent
        self._groups = groups
        self._files = 0
        self._blocks: list[_Call] = []

    def record(
        self, at: int, direction: Direction, peer: UUID | None, cid: int, *frames: Any, revision: Revision = D2
    ) -> None:
        """One block of frames, `at` milliseconds."""
        payload = b"".join(frame if isinstance(frame, bytes) else encode(frame, revision) for frame in frames)
        time_ns = START * 10**9 + at * MILLISECOND
        header = BlockHeader(time_ns, self.uuid, peer, cid, direction, revision, len(frames))
        self._blocks.append(_Call(header, payload))

    @contextmanager
    def earlier(self) -> Iterator[None]:
        """Blocks recorded here were before those that this file has so far."""
        later, self._blocks = self._blocks, []
        yield
        self._blocks += later

    def damage(self) -> None:
        """Spoil the payload of the last block."""
        self._blocks[-1] = self._blocks[-1]._replace(damaged=True)

    def end(self, *, killed: bool = False) -> None:
        """The file is over; what comes next goes into another one. A kill leaves no index."""
        self._files += 1
        calls, self._blocks = self._blocks, []
        if self._silent:
            return
        blocks = list(self._in_groups(calls) if self._groups else map(_alone, calls))
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._home / f"20270115T0800{self._files:02}.000000000Z-{self.uuid}{SUFFIX}"
        path.write_bytes(b"".join(blocks))
        indexer = Indexer()
        for block in blocks:
            indexer.add(block, len(block))
        if not killed:
            path.with_name(path.name + INDEX_SUFFIX).write_bytes(indexer.index().encode())

    def _in_groups(self, calls: list[_Call]) -> Iterator[bytes]:
        """As a recorder writes them. A call that is to be damaged has a group of its own."""
        position = 0
        while calls:
            some = next((at for at, call in enumerate(calls[:_GROUP]) if call.damaged), _GROUP) or 1
            now, calls = calls[:some], calls[some:]
            data = encode_group(self.uuid, list(_gathered(now, position)))
            position += sum(len(call.payload) for call in now)
            yield _spoiled(data) if now[0].damaged else data


def _alone(call: _Call) -> bytes:
    data = encode_block(call.header, call.payload)
    return _spoiled(data) if call.damaged else data


def _spoiled(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _gathered(calls: list[_Call], position: int) -> Iterator[Gathered]:
    """A block for each direction of each connection, all of whose frames have the last peer that is known."""
    streams: dict[tuple[int, Direction, Revision], tuple[list[bytes], Runs]] = {}
    peers: dict[int, UUID | None] = {}
    for head, payload, _ in calls:
        position += len(payload)
        peers[head.cid] = head.peer or peers.get(head.cid)
        parts, runs = streams.setdefault((head.cid, head.direction, head.revision), ([], Runs([], [], [])))
        parts.append(payload)
        for column, number in zip(runs, (len(payload), position, head.time_ns), strict=True):
            column.append(number)
    for (cid, direction, revision), (parts, runs) in streams.items():
        payload = b"".join(parts)
        sizes, found = frame_sizes(payload, revision)
        malformed = [len(payload) - found.end] if found.end < len(payload) else []
        yield Gathered(cid, peers[cid], direction, revision, [*sizes, *malformed], runs, payload)


class Wire:
    """A connection that `client` opened to `server`, and what passes over it. Times are in milliseconds.

    `subscriptions` are the server's, `wants` the client's.
    """

    def __init__(
        self,
        client: Witness,
        server: Witness,
        at: int = 0,
        cids: tuple[int, int] = (1, 1),
        revision: Revision = D2,
        subscriptions: tuple[Subscription, ...] = (),
        wants: tuple[Subscription, ...] = (),
    ) -> None:
        self.client, self.server = client, server
        self._cids = cids
        self._revision = revision
        request = HandshakeRequest(1, client.uuid, wants)
        response = HandshakeResponse(1, server.uuid, HandshakeStatus.SAME_VERSION, subscriptions)
        client.record(at, OUT, None, cids[0], request, revision=revision)
        self.at_server(at + 1, IN, request)
        self.at_server(at + 2, OUT, response)
        self.at_client(at + 3, IN, response)

    def at_client(self, at: int, direction: Direction, frame: Any) -> None:
        self.client.record(at, direction, self.server.uuid, self._cids[0], frame, revision=self._revision)

    def at_server(self, at: int, direction: Direction, frame: Any) -> None:
        self.server.record(at, direction, self.client.uuid, self._cids[1], frame, revision=self._revision)

    def send(
        self,
        message_id: int | None,
        at: int,
        *,
        arrives: bool = True,
        acked: bool = True,
        channel: str = "c",
        body: bytes = b"",
        ack_after: int = 3,
    ) -> None:
        """From the client; the ack comes `ack_after` milliseconds later. One that does not arrive may be acked all
        the same: the server saw it, and did not write it down."""
        frame = Message(channel, "k", body or str(message_id).encode(), message_id)
        self.at_client(at, OUT, frame)
        if arrives:
            self.at_server(at + 1, IN, frame)
        if message_id is not None and acked:
            if arrives:
                self.at_server(at + 2, OUT, Ack(message_id))
            self.at_client(at + ack_after, IN, Ack(message_id))

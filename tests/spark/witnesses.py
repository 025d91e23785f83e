"""Recordings made by hand, of both ends of a connection.

A wire has two ends, each of which writes down what it sees at its own time. A test says what happened between them;
which of it is missing is what the audit must find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
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
from tolliver_proto.recording import INDEX_SUFFIX, SUFFIX, BlockHeader, Direction, Indexer, encode_block

START = 1_800_000_000  # seconds since 1970
MILLISECOND = 10**6  # nanoseconds
IN, OUT = Direction.IN, Direction.OUT
D1, D2 = Revision.DRAFT_1, Revision.DRAFT_2


class Witness:
    """An instance that records. With `silent` it writes nothing."""

    def __init__(self, home: Path, number: int, *, silent: bool = False) -> None:
        self.uuid = UUID(int=number)
        self._home = home
        self._silent = silent
        self._files = 0
        self._blocks: list[bytes] = []

    def record(
        self, at: int, direction: Direction, peer: UUID | None, cid: int, *frames: Any, revision: Revision = D2
    ) -> None:
        """One block of frames, `at` milliseconds."""
        payload = b"".join(frame if isinstance(frame, bytes) else encode(frame, revision) for frame in frames)
        time_ns = START * 10**9 + at * MILLISECOND
        header = BlockHeader(time_ns, self.uuid, peer, cid, direction, revision, len(frames))
        self._blocks.append(encode_block(header, payload))

    @contextmanager
    def earlier(self) -> Iterator[None]:
        """Blocks recorded here were before those that this file has so far."""
        later, self._blocks = self._blocks, []
        yield
        self._blocks += later

    def damage(self) -> None:
        """Spoil the payload of the last block."""
        self._blocks[-1] = self._blocks[-1][:-1] + bytes([self._blocks[-1][-1] ^ 1])

    def end(self, *, killed: bool = False) -> None:
        """The file is over; what comes next goes into another one. A kill leaves no index."""
        self._files += 1
        blocks, self._blocks = self._blocks, []
        if self._silent:
            return
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._home / f"20270115T0800{self._files:02}.000000000Z-{self.uuid}{SUFFIX}"
        path.write_bytes(b"".join(blocks))
        indexer = Indexer()
        for block in blocks:
            indexer.add(block, len(block))
        if not killed:
            path.with_name(path.name + INDEX_SUFFIX).write_bytes(indexer.index().encode())


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

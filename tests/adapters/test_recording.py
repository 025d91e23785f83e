"""Recordings of real connections, with `record=DIR`.

They hold what went over the wire, and they hold up nothing.

`test_recorder.py` has the writer alone.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Ack,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    NoticeKind,
    Revision,
    StoreError,
    Subscription,
    decode,
)
from tolliver_proto.recording import INDEX_SUFFIX, SUFFIX, Block, Direction, Index, read_blocks

from .facade import Facade, until
from .nodes import Inbox, Nodes, connected, noticed, subscribed
from .relay import Relay

IN, OUT = Direction.IN, Direction.OUT
MIB = 2**20
LARGE = random.Random(1).randbytes(MIB)


def blocks(directory: Path) -> Iterator[Block]:
    """All of them, in order: nothing is damaged, and each file was ended, as its index says."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        data = path.read_bytes()
        index = Index.decode(path.with_name(path.name + INDEX_SUFFIX).read_bytes())
        assert index is not None
        assert index.fits(len(data), data)
        for block in read_blocks([data]):
            assert isinstance(block, Block), block
            yield block


def streams(directory: Path) -> list[dict[Direction, bytes]]:
    """The bytes that each connection brought and was given, in the order in which they were made."""
    found: dict[int, dict[Direction, bytes]] = {}
    for block in blocks(directory):
        stream = found.setdefault(block.header.cid, dict.fromkeys(Direction, b""))
        stream[block.header.direction] += block.payload
    return list(found.values())


def frames(stream: bytes) -> list[Any]:
    return decode(stream, Revision.DRAFT_2)


def bodies(stream: bytes) -> list[bytes]:
    return [frame.body for frame in frames(stream) if isinstance(frame, Message)]


class Tap(Relay):
    """Keeps what passes: by the number of the dial, and whether it was the dialler who said it."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.passed: dict[tuple[int, bool], bytearray] = {}

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        number, dialler = self.dials - 1, target.getpeername()[1] == self._target
        kept = self.passed[number, dialler] = bytearray()
        with suppress(OSError):  # it was cut
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def talk(left: Facade, right: Facade, there: Inbox, back: Inbox) -> None:
    """Every way to send, in both directions, and all of it has arrived and is acknowledged."""
    left.send("news", "k", b"small")
    left.send_many([("news", "", b"%d" % number) for number in range(50)])
    left.wait_acked(left.send("news", "", LARGE))
    until(lambda: left.unreliable_send("news", "", b"unreliable"))
    right.wait_acked(right.send("back", "", LARGE[::-1]))
    there.holds(53)
    back.holds(1)


@pytest.mark.parametrize("secured", [True, False])
def test_both_ends_recorded_exactly_what_went_over_the_wire(nodes: Nodes, tmp_path: Path, secured: bool) -> None:
    """In plaintext it is compared with the wire itself; in TLS with the other end. A second connection, too."""
    where = {name: tmp_path / f"{name}'s recordings" for name in ("left", "right")}
    options: dict[str, dict[str, Any]] = {name: {"record": path} for name, path in where.items()}
    if not secured:
        for each in options:
            options[each] |= {"plaintext": True, "identity": UUID(int=ord(each[0]))}
    there, back = Inbox(), Inbox()
    with nodes.open("right", **options["right"]) as right, Tap(right.port or 0) as tap:
        right.subscribe("news", handler=there)
        with nodes.open("left", **options["left"]) as left:
            left.subscribe("back", handler=back)
            left.new_connection(tap.address)
            subscribed(left)
            subscribed(right)
            talk(left, right, there, back)
            left.remove_connection(tap.address)
            until(lambda: not connected(left) and not left.stats()["connections"])
            left.new_connection(tap.address)
            left.wait_acked(left.send("news", "", b"on another connection"))
        identities = left.instance_id, right.instance_id
    ours, theirs = streams(where["left"]), streams(where["right"])
    assert len(ours) == len(theirs) == 2
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[OUT] == other[IN]
        assert mine[IN] == other[OUT]
    if not secured:
        for number, mine in enumerate(ours):
            assert mine[OUT] == tap.passed[number, True]
            assert mine[IN] == tap.passed[number, False]

    first = ours[0]
    assert bodies(first[OUT]) == there.bodies[:53] == [b"small", *(b"%d" % n for n in range(50)), LARGE, b"unreliable"]
    assert bodies(first[IN]) == back.bodies == [LARGE[::-1]]
    assert bodies(ours[1][OUT]) == [b"on another connection"]
    request, response = frames(first[OUT])[0], frames(first[IN])[0]
    assert request == HandshakeRequest(1, identities[0], (Subscription("back", ""),))
    assert isinstance(response, HandshakeResponse)
    acked = [frame.message_id for frame in frames(first[IN]) if isinstance(frame, Ack)]
    assert acked == [frame.message_id for frame in frames(first[OUT]) if isinstance(frame, Message)][:52]
    for block in blocks(where["left"]):
        assert block.header.local == identities[0]
        assert block.header.peer in (None, identities[1])
        assert block.header.frames == len(frames(block.payload))


def test_a_directory_that_takes_no_files_is_an_error_at_start_that_leaves_nothing_open(nodes: Nodes) -> None:
    (nodes.directory / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"takes no recordings: .* Give a directory that we may write to"):
        nodes.open("left", record=nodes.directory / "file" / "in it").__enter__()
    with nodes.open("left", record=nodes.directory / "recordings") as left:  # the database is free
        assert left.stats()["connections"] == 0


def test_a_disk_that_becomes_full_ends_the_recording_and_nothing_else(nodes: Nodes) -> None:
    resource = pytest.importorskip("resource")
    directory = nodes.directory / "recordings"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with nodes.pair(left={"record": directory}) as (left, _, inbox):
        subscribed(left)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, hard))  # far above what the databases come to
        try:
            for sent in range(1, 100):
                left.unreliable_send("news", "", bytes(MIB // 8))
                inbox.holds(sent)
                if noticed(left, NoticeKind.NOT_RECORDED):
                    break
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        [told] = noticed(left, NoticeKind.NOT_RECORDED)
        assert "recording has ended" in told
        assert "Make room" in told
        left.wait_acked(left.send("news", "", b"still here"))
        assert inbox.bodies[-1] == b"still here"
        until(lambda: not left.stats()["pending"])
    [recorded] = streams(directory)
    assert bodies(recorded[OUT]) == inbox.bodies[: len(bodies(recorded[OUT]))]
    assert 0 < len(bodies(recorded[OUT])) < 17
    assert b"still here" not in recorded[OUT]

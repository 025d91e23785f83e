"""Sink and live stream with doubles of programs that speak other layouts (docs/foreign.md)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tolliver.spark.source import TolliverSource
from tolliver.spark.write._options import WriteOptions, write_options
from tolliver.spark.write._sending import NotAcknowledged, NotSubscribed
from tolliver.spark.write._sink import write_rows

from tests.adapters.gopeer import TODAY, Conn, Defect, Forms2026, GoPeer, Identity, go_identity
from tests.adapters.rustpeer import Received, RustPeer
from tests.certificates import Certificates
from tests.spark.queries import Query
from tests.spark.receivers import Receivers, wait_for
from tests.spark.rows import Row, batch, batches, numbered
from tests.spark.test_write_options import COLUMNS, schema
from tolliver_proto import Message, Revision, decode
from tolliver_proto.recording import Block, Direction, in_order, read_blocks

ROWS = numbered(3000)
CLOSES = TODAY - {Defect.NEVER_CLOSES, Defect.SPINS_ON_READ_ERROR}  # else each task waits for its end
BODIES = [body for _, _, body in ROWS]


@pytest.fixture
def identity(certs: Certificates) -> Identity:
    return go_identity(certs, "gosink")


def to_go(tmp_path: Path, certs: Certificates, identity: Identity, port: int, **options: Any) -> WriteOptions:
    """It has no name in its certificate: its key is pinned."""
    given = Receivers(tmp_path, certs).given(port, revision="go-2026", **options)
    return write_options(given | {"connect": f"{identity.spki_sha256.hex()}@{given['connect']}"}, streaming=False)


def ack(message_id: int, status: int = 0) -> bytes:
    return struct.pack(">BBQ", 4, status, message_id)


def written(recordings: Path) -> list[bytes]:
    """Bodies of the messages that were sent, by a recording."""
    blocks = [block for path in recordings.glob("*.rec") for block in in_order(read_blocks([path.read_bytes()]))]
    found: list[bytes] = []
    for block in blocks:
        assert isinstance(block, Block)
        assert block.header.revision is Revision.GO_2026
        frames = decode(block.payload, block.header.revision)
        if block.header.direction is Direction.OUT:
            found += [one.body for one in frames if isinstance(one, Message)]
    return found


def test_go_of_2026_gets_all_rows_and_may_refuse_some(tmp_path: Path, certs: Certificates, identity: Identity) -> None:
    """The list of its handshake, one that comes later, refusals, and acks of ids that no row has."""
    go = GoPeer(CLOSES, identity, forms=Forms2026(), subscriptions=[("rows", "")])
    first = threading.Event()

    def take(body: bytes) -> bool:
        if first.is_set() or body != b"more":
            return True
        first.set()
        [conn] = go.connections.values()
        for odd in (2**32 + 3002, 2**63, 2**64 - 1):
            conn.write(ack(odd))
        return False

    go.register("", "", take)
    go.table = []

    def with_more() -> Iterator[object]:
        yield from batches(ROWS, 700)
        go.subscribe_all(("and more", ""), ("other", ""))
        wait_for(lambda: len(go.messages) >= 3000)
        yield batch([("rows", "", b"between")])
        wait_for(lambda: go.acks)  # of the control message
        yield batch([("other", "", b"more")])

    seen = tmp_path / "seen"
    with go:
        options = to_go(tmp_path, certs, identity, go.listen(), ackTimeout=6, window=1000, rowsPerSend=300, record=seen)
        wrote = write_rows(with_more(), options, "write/0")
        assert (wrote.rows, wrote.dropped, wrote.resent) == (3002, 0, 1)
        assert [one.body for one in go.messages] == [*BODIES, b"between", b"more", b"more"]
        assert [one.message_id for one in go.messages] == [*range(1, 3003), 3002]
        assert (bytes(go.stray), go.malformed, go.panic) == (b"", 0, None)
        assert written(seen) == [*BODIES, b"between", b"more", b"more"]
        with pytest.raises(NotSubscribed):
            write_rows(batches([("nobody", "", b"")], 1), options, "write/1")


def test_who_refuses_for_ever_is_said(tmp_path: Path, certs: Certificates, identity: Identity) -> None:
    go = GoPeer(CLOSES, identity, forms=Forms2026(), subscriptions=[("rows", "")])
    go.register("", "", lambda _body: False)
    with go:
        options = to_go(tmp_path, certs, identity, go.listen(), ackTimeout=2)
        with pytest.raises(NotAcknowledged, match=r"3 rows are unacknowledged.* and it refused rows \d+ times"):
            write_rows(batches(ROWS[:3], 3), options, "write/0")


@pytest.mark.thorough
def test_the_published_go_reads_no_second_try(tmp_path: Path, certs: Certificates, identity: Identity) -> None:
    """It stops at a second connection of an instance that it has not forgotten, and it forgets none."""
    with GoPeer(TODAY, identity, forms=Forms2026(), subscriptions=[("rows", "")]) as go:
        port = go.listen()
        options, second = (to_go(tmp_path, certs, identity, port, ackTimeout=seconds) for seconds in (3, 0.5))
        assert write_rows(batches(ROWS[:3], 3), options, "write/0").rows == 3
        with pytest.raises(NotAcknowledged):
            write_rows(batches(ROWS[:3], 3), second, "write/0")
        assert len(go.messages) == 3


def test_a_cut_ack_with_a_status(tmp_path: Path, certs: Certificates, identity: Identity) -> None:
    """It is known to be one, and of which row, when all of it is there."""

    class Cutting(Forms2026):
        def ack(self, message_id: int) -> bytes:
            return b""

        def refusal(self, message_id: int) -> bytes:
            return b""

    go = GoPeer(CLOSES, identity, forms=Cutting(), subscriptions=[("rows", "")])
    counted = [0]

    def take(_body: bytes) -> bool:
        counted[0] += 1
        if counted[0] == 3:
            conn: Conn = next(iter(go.connections.values()))
            for piece in (ack(1)[:1], ack(1)[1:] + ack(2)[:5], ack(2)[5:] + ack(3, 1) + ack(3)):
                conn.write(piece)
        return True

    go.register("", "", take)
    with go:
        wrote = write_rows(batches(ROWS[:3], 3), to_go(tmp_path, certs, identity, go.listen()), "write/0")
    assert (wrote.rows, wrote.resent) == (3, 0)


def test_rust_of_2026_gets_unreliable_rows() -> None:
    """It says nothing of what it wants, so it is sent everything."""
    with RustPeer() as rust:
        given = {"connect": f"127.0.0.1:{rust.listen()}", "plaintext": "true", "revision": "rust-2026"}
        options = write_options({**given, "reliable": "false", "ackTimeout": "2"}, streaming=False)
        rows: list[Row] = [*ROWS[:200], ("large", "", bytes(65535))]
        assert write_rows(batches(rows, 70), options, "write/0").rows == 201
        wait_for(lambda: len(rust.messages) == 201)
        assert rust.messages == [Received(*row, 0) for row in rows]
        with pytest.raises(ValueError, match=r"row 2 of this partition.*65535 bytes \(all that this revision carries"):
            write_rows(batches([ROWS[0], ("large", "", bytes(65536))], 2), options, "write/1")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"plaintext": "true"}, "without acknowledgements.*reliable=false"),
        ({"tls.cert": "c", "tls.key": "k", "tls.ca": "a", "reliable": "false"}, "knows no TLS: give plaintext=true"),
        ({"plaintext": "true", "reliable": "false", "unsubscribed": "drop"}, "leave unsubscribed out"),
    ],
)
def test_what_a_layout_cannot_say_is_refused_on_the_driver(more: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TolliverSource({"connect": "127.0.0.1", "revision": "Rust-2026", **more}).writer(schema(COLUMNS), False)


def test_a_live_stream_takes_what_go_of_2026_sends(tmp_path: Path, certs: Certificates, identity: Identity) -> None:
    """With ids up to the largest that it has."""
    tls = certs.tls("right")
    paths = {"tls.cert": tls.cert, "tls.key": tls.key, "tls.ca": tls.ca}
    go = GoPeer(CLOSES, identity, forms=Forms2026())
    with go:
        pinned = f"{identity.spki_sha256.hex()}@127.0.0.1:{go.listen()}"
        query = Query(None, stagingDir=tmp_path / "stage", connect=pinned, revision="go-2026", channels="rows", **paths)
        wait_for(lambda: go.table)
        [conn] = go.connections.values()
        ids = [*range(1, 101), 2**63 - 1]
        for (channel, key, body), message_id in zip(ROWS, ids, strict=False):
            conn.write(go.forms.regular(channel, key, body, message_id))
        wait_for(lambda: len(go.acks) == 101)
        query.drain()
        assert query.bodies == BODIES[:101]
        query.reader.stop()
    assert go.acks == ids

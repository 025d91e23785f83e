"""Instances with doubles of other programs of 2026, Go's and Rust's, both roles, on every adapter.

Each line of docs/foreign.md that says what works is tried here; the drafts' era is in `test_gopeer`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._options.instance import InstanceOptions, Remote

from tests.adapters.facade import Facade, until
from tests.adapters.gopeer import (
    PRESETS,
    TODAY,
    VERSION,
    Forms,
    Forms2026,
    GoPeer,
    HandshakeFailed,
    Identity,
    final,
    go_identity,
)
from tests.adapters.kinds import EACH_ADAPTER, ONE_KIND
from tests.adapters.nodes import Inbox, Nodes, connected, noticed
from tests.adapters.rustpeer import Received, RustPeer, regular
from tests.certificates import Certificates
from tests.wire.strategies import channel, frames, instance_id, name
from tolliver_proto import (
    Ack,
    Delivery,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Limits,
    LocalProtocolError,
    Message,
    NoticeKind,
    OwnLimitExceeded,
    Policy,
    Revision,
    Subscribe,
    Subscription,
    decode,
    encode,
)
from tolliver_proto.layouts import LAYOUTS, Dialect, Refusal, SubscribeMany, UnsubscribeMany
from tolliver_proto.recording import Block, Direction, in_order, read_blocks

WE_DIAL, IT_DIALS = "we dial", "it dials"
BIG = bytes(range(256)) * 400
GO, RUST = Revision.GO_2026, Revision.RUST_2026
both_roles = pytest.mark.parametrize("role", [WE_DIAL, IT_DIALS])


@pytest.fixture(scope="module")
def identity(certs: Certificates) -> Identity:
    return go_identity(certs, "gotoday")


def todays(identity: Identity, **options: Any) -> GoPeer:
    return GoPeer(TODAY, identity, forms=Forms2026(), **options)


@contextmanager
def go_connection(node: Facade, go: GoPeer, identity: Identity, role: str) -> Iterator[None]:
    """For as long as the Go process lives. It has no name in its certificate: its key is pinned."""
    remote = None
    with go:
        if role == WE_DIAL:
            remote = Remote("127.0.0.1", go.listen(), spki_sha256=identity.spki_sha256, revision=GO)
            assert node.new_connection(remote) == go.instance_id
        else:
            assert go.dial(node.port or 0) == node.instance_id
        until(lambda: connected(node) and go.connections, "the connection")
        yield
    if remote is not None:
        node.remove_connection(remote)
    until(lambda: not connected(node), "the end of the connection")


@contextmanager
def rust_connection(node: Facade, rust: RustPeer, role: str) -> Iterator[None]:
    with rust:
        if role == WE_DIAL:
            dialect = Dialect(subscriptions=(Subscription("back", ""),))
            remote = Remote("127.0.0.1", rust.listen(), revision=RUST, dialect=dialect)
            assert node.new_connection(remote) == rust.instance_id
        else:
            assert rust.dial(node.port or 0) == node.instance_id
        until(lambda: connected(node) and rust.connections, "the connection")
        yield
        if role == WE_DIAL:
            node.remove_connection(remote)


def seen(go: GoPeer) -> list[bytes]:
    return [message.body for message in go.messages]


# Bytes: the doubles have theirs from elsewhere.


def written_by_go(frame: Any, revision: Revision) -> bytes:
    layout, forms = LAYOUTS[revision], Forms2026() if revision is GO else Forms()
    if isinstance(frame, HandshakeRequest):
        return forms.request(frame.instance_id, frame.subscriptions)
    if isinstance(frame, HandshakeResponse):
        return forms.response(frame.instance_id, layout.statuses[frame.status], frame.subscriptions)
    if isinstance(frame, HandshakeFinal):
        return final(layout.finals[frame.compatible])
    if isinstance(frame, Ack | Refusal):
        return (forms.ack if isinstance(frame, Ack) else forms.refusal)(frame.message_id)
    message_id = layout.unreliable_id if frame.message_id is None else frame.message_id
    if isinstance(frame, Message):
        return forms.regular(frame.channel, frame.key, frame.body, message_id)
    listed = isinstance(frame, SubscribeMany | UnsubscribeMany)
    entries = frame.subscriptions if listed else [(frame.channel, frame.key)]
    code = 0 if isinstance(frame, Subscribe | SubscribeMany) else 1
    return forms.regular("tolliver", "", forms.control_body(code, entries), message_id)


@pytest.mark.parametrize("revision", [GO, Revision.GO_SEED, Revision.GO_499B76D, Revision.GO_D05F89B])
@given(data=st.data())
def test_we_write_what_go_writes(data: st.DataObject, revision: Revision) -> None:
    frame = data.draw(frames(revision))
    if isinstance(frame, HandshakeRequest | HandshakeResponse):
        frame = replace(frame, version=VERSION)
    assert encode(frame, revision) == written_by_go(frame, revision)


@given(channel=channel, key=name, body=st.binary(max_size=300), peer=instance_id)
def test_we_write_and_read_what_rust_writes(channel: str, key: str, body: bytes, peer: uuid.UUID) -> None:
    written = regular(channel, key, body, 0)
    assert encode(Message(channel, key, body), RUST) == written
    assert decode(written + regular(channel, key, body, 7), RUST) == [
        Message(channel, key, body),
        Message(channel, key, body, 7),
    ]
    assert encode(HandshakeRequest(VERSION, peer), RUST) == struct.pack(">BQ16s", 0, VERSION, peer.bytes)
    assert encode(HandshakeFinal(True), RUST) == b"\2\0"


# Go's.


@both_roles
def test_go_of_2026_takes_and_gives_everything(nodes: Nodes, identity: Identity, role: str) -> None:
    inbox = Inbox()
    go = todays(identity, subscriptions=[("back", "k")])
    with nodes.open("ours", dialects={go.instance_id: Dialect(revision=GO)} if role == IT_DIALS else {}) as node:
        node.subscribe("news", "k", inbox)
        with go_connection(node, go, identity, role):
            until(lambda: go.table == [("news", "k", node.instance_id)], "our list, from the handshake")
            ids = [go.send("news", "k", body) for body in (b"", b"hi", BIG)]
            until(lambda: go.acks == ids, "our acks")
            go.unreliable_send("news", "k", b"unreliable")
            inbox.holds(4)
            assert inbox.bodies == [b"", b"hi", BIG, b"unreliable"]

            receipt = node.send_many([("back", "k", body) for body in (b"", b"ho", BIG)])
            assert receipt.deliveries == 3
            node.wait_acked(receipt)
            assert node.unreliable_send("back", "k", b"unreliable") == 1
            node.wait_acked(node.send("back", "k", b"after it"))
            assert seen(go) == [b"", b"ho", BIG, b"unreliable", b"after it"]

            control = go.subscribe_all(("more", ""), ("and more", "x"))
            until(lambda: control in go.acks, "one ack for both")
            assert len(node.peers()[0].subscriptions) == 3
            node.unsubscribe("news", "k")
            node.subscribe("sport")
            until(lambda: go.table == [("sport", "", node.instance_id)], "what we changed")
            assert (go.malformed, bytes(go.stray), go.panic) == (0, b"", None)
            assert noticed(node, NoticeKind.PROTOCOL_ERROR) == []


@ONE_KIND
def test_numbers_at_the_end_of_64_bits(nodes: Nodes, identity: Identity) -> None:
    """Acks of ids that no database has are strays (T-44). The largest id of a message is known as a copy after a
    restart, and may be a dead letter's; one above it ends the connection (T-40)."""
    inbox, who, largest = Inbox(), uuid.uuid4(), 2**63 - 1
    known: dict[str, Any] = {"policy": Policy(dedupe=100, dedupe_durable=True), "limits": Limits(max_attempts=1)}

    def handler(delivery: Delivery) -> None:
        if delivery.body == b"bad":
            raise RuntimeError("never")
        inbox(delivery)

    for life, number in enumerate((largest, largest - 1, largest)):
        go = todays(identity, instance_id=who)
        with nodes.open(
            "ours", dialects={who: Dialect(revision=GO)}, handlers=[("news", "", handler)], **known
        ) as node:
            node.subscribe("news")
            with go_connection(node, go, identity, IT_DIALS):
                conn, forms = go.connections[node.instance_id], go.forms
                for odd in (2**63 - 1, 2**63, 2**64 - 1):
                    conn.write(forms.ack(odd) + forms.refusal(odd))
                conn.write(forms.regular("news", "", b"good", number))
                until(lambda go=go: go.acks, "our ack")  # type: ignore[misc]  # a default binds it
                assert go.acks == [number]
                assert node.stats()["stray_acks"] == 6
                conn.write(forms.regular("news", "", b"bad", largest - 2 - life))
                until(lambda life=life: len(node.dead_letters()) == life + 1, "a dead letter")  # type: ignore[misc]  # as above
                conn.write(forms.regular("news", "", b"good", 2**63))
                until(lambda: noticed(node, NoticeKind.PROTOCOL_ERROR), "that it is told")
                until(lambda: not connected(node), "its end")
    assert [(one.body, one.message_id) for one in inbox.deliveries] == [(b"good", largest), (b"good", largest - 1)]


def test_what_go_refuses_is_kept_told_and_sent_again(nodes: Nodes, identity: Identity) -> None:
    go = todays(identity, subscriptions=[("back", "")])
    refused = {b"no"}
    go.register("", "", lambda body: body not in refused)
    with nodes.open("ours", retry_interval=0.05) as node, go_connection(node, go, identity, WE_DIAL):
        receipt = node.send("back", "", b"no")
        until(lambda: noticed(node, NoticeKind.REFUSED_THERE), "that it is told")
        assert node.stats()["pending"] == 1
        node.wait_acked(node.send("back", "", b"yes"))
        refused.clear()
        node.wait_acked(receipt)
        assert node.stats()["pending"] == 0


@both_roles
@EACH_ADAPTER
def test_nothing_is_lost_when_go_is_killed(nodes: Nodes, identity: Identity, role: str) -> None:
    inbox = Inbox()
    who = uuid.uuid4()
    taken: list[bytes] = []
    with nodes.open(
        "ours", retry_interval=0.1, dialects={who: Dialect(revision=GO)} if role == IT_DIALS else {}
    ) as node:
        node.subscribe("news", "", inbox)
        for life in range(3):
            go = todays(identity, instance_id=who, subscriptions=[("back", "")])
            stops_after = 5 if life < 2 else 1000

            def take(body: bytes, go: GoPeer = go, stops_after: int = stops_after) -> bool:
                if len(go.messages) > stops_after:
                    return False
                taken.append(body)
                return True

            go.register("", "", take)
            with go_connection(node, go, identity, role):
                until(lambda go=go: go.table, "our list")  # type: ignore[misc]  # a default binds it
                if life == 0:
                    for number in range(20):
                        node.send("back", "", str(number).encode())
                go.send("news", "", str(life).encode())
                until(lambda go=go: len(go.messages) >= 6 and go.acks, "some of it")  # type: ignore[misc]
                if life == 2:
                    until(lambda: node.stats()["pending"] == 0, "the rest")
    assert {int(one) for one in taken} == {*range(20)}
    assert inbox.bodies == [b"0", b"1", b"2"]


@ONE_KIND
def test_a_connection_of_another_layout_is_recorded_in_that(nodes: Nodes, identity: Identity) -> None:
    dialled, dials = todays(identity, subscriptions=[("back", "")]), todays(identity)
    folder = nodes.directory / "recordings"
    known = {dials.instance_id: Dialect(revision=GO)}
    with nodes.open("ours", record=folder, dialects=known, limits=Limits(close_timeout=0.2)) as node:
        node.subscribe("news")
        with go_connection(node, dialled, identity, WE_DIAL):
            node.wait_acked(node.send("back", "", b"out"))
        with go_connection(node, dials, identity, IT_DIALS):
            until(lambda: dials.table, "our list")
            dials.send("news", "", b"in")
            until(lambda: dials.acks or inbox_of(node), "that it came")
        with nodes.open("right", subscriptions=["x"]) as right:
            node.new_connection(f"127.0.0.1:{right.port}")
    frames: dict[tuple[uuid.UUID | None, Direction], list[Any]] = {}
    revisions = set()
    for file in folder.glob("*.rec"):
        for block in read_blocks([file.read_bytes()]):
            assert isinstance(block, Block)
            found = decode(block.payload, block.header.revision)
            assert len(found) == block.header.frames
            frames.setdefault((block.header.peer, block.header.direction), []).extend(found)
            revisions.add((block.header.peer, block.header.revision))
    assert {one for peer, one in revisions if peer in (dialled.instance_id, dials.instance_id)} == {GO}
    assert Revision.DRAFT_2 in {one for _, one in revisions}
    written = [one for (_, way), found in frames.items() if way is Direction.OUT for one in found]
    assert [one.body for one in written if isinstance(one, Message)] == [b"out"]
    read = [one for (_, way), found in frames.items() if way is Direction.IN for one in found]
    assert any(isinstance(one, Ack) for one in read)
    assert [one.body for one in read if isinstance(one, Message)] == [b"in"]


def inbox_of(node: Facade) -> int:
    return node.stats()["withheld"] + node.stats()["unwanted"]


@both_roles
@ONE_KIND
def test_go_of_the_drafts_era(nodes: Nodes, identity: Identity, role: str) -> None:
    """Its unreliable messages have one id, which is no id in its revision: none is a copy, and none acknowledged."""
    inbox = Inbox()
    go = GoPeer(PRESETS["1860a51"], identity)
    seed = Dialect(revision=Revision.GO_SEED, announce_after_handshake=True)
    with nodes.open(
        "ours", policy=Policy(dedupe=100), dialects={go.instance_id: seed} if role == IT_DIALS else {}
    ) as node:
        node.subscribe("news", "k", inbox)
        with go:
            if role == WE_DIAL:
                remote = Remote("127.0.0.1", go.listen(), spki_sha256=identity.spki_sha256, dialect=seed)
                assert node.new_connection(remote) == go.instance_id
            else:
                assert go.dial(node.port or 0) == node.instance_id
            until(lambda: go.table == [("news", "k", node.instance_id)], "our subscription, as a message (T-33)")
            for _ in range(3):
                go.unreliable_send("news", "k", b"again")
            ids = [go.send("news", "k", b"last")]
            until(lambda: go.acks == ids, "our ack, of the last one alone")
            assert inbox.bodies == [b"again", b"again", b"again", b"last"]


@ONE_KIND
def test_a_certificate_with_another_uuid(nodes: Nodes, certs: Certificates) -> None:
    files = certs.tls("right")
    other = Identity(Path(files.cert), Path(files.key), certs.ca, b"")
    go = todays(other)
    with nodes.open("ours", dialects={go.instance_id: Dialect(revision=GO)}) as node, go:
        with pytest.raises(HandshakeFailed):
            go.dial(node.port or 0)
        until(lambda: noticed(node, NoticeKind.IDENTITY_MISMATCH), "that it is told")


# Rust's.


@both_roles
def test_rust_of_2026_takes_and_gives_unreliable_messages(nodes: Nodes, role: str) -> None:
    inbox = Inbox()
    rust = RustPeer()
    known = {rust.instance_id: Dialect(revision=RUST, subscriptions=(Subscription("back", ""),))}
    with nodes.open("ours", plaintext=True, dialects=known if role == IT_DIALS else {}) as node:
        node.subscribe("news", "", inbox)
        with rust_connection(node, rust, role):
            me = node.instance_id
            rust.send(me, "news", "", b"with an id")
            rust.unreliable_send(me, "news", "", b"")
            rust.unreliable_send(me, "news", "", bytes(65535))
            inbox.holds(3)
            assert inbox.bodies == [b"with an id", b"", bytes(65535)]

            until(lambda: node.unreliable_send("back", "k", b"hi") == 1, "that it is up")
            assert node.unreliable_send("back", "k", bytes(65535)) == 1
            with pytest.raises(OwnLimitExceeded, match="65535"):
                node.unreliable_send("back", "k", bytes(65536))
            receipt = node.send("back", "k", b"reliable")
            assert receipt.recipients == 0
            with pytest.raises(LocalProtocolError, match="unreliable_send"):
                node.send("back", "k", b"reliable", to=rust.instance_id)
            assert noticed(node, NoticeKind.NOT_RELIABLE)
            until(lambda: len(rust.messages) == 2, "both")
            assert rust.messages == [Received("back", "k", b"hi", 0), Received("back", "k", bytes(65535), 0)]
            assert rust.errors == []
        until(lambda: not connected(node), "its end")


@both_roles
@EACH_ADAPTER
def test_rust_is_killed_and_is_spoken_with_as_soon_as_it_is_back(nodes: Nodes, role: str) -> None:
    """Nothing comes twice; the recording has all that passed, in its layout."""
    inbox, who, folder = Inbox(), uuid.uuid4(), nodes.directory / "recordings"
    known = {who: Dialect(revision=RUST, subscriptions=(Subscription("back", ""),))}
    dialects = known if role == IT_DIALS else {}
    with nodes.open("ours", plaintext=True, record=folder, dialects=dialects) as node:
        node.subscribe("news", "", inbox)
        for life in range(3):
            rust = RustPeer(who)
            with rust_connection(node, rust, role):
                until(lambda life=life: node.unreliable_send("back", "", b"%d" % life) == 1, "that it is up")  # type: ignore[misc]  # a default binds it
                rust.send(node.instance_id, "news", "", b"%d" % life)
                inbox.holds(life + 1)
                until(lambda rust=rust: rust.messages, "ours")  # type: ignore[misc]  # as above
                assert [one.body for one in rust.messages] == [b"%d" % life]
            until(lambda: not connected(node), "its end")
    assert inbox.bodies == [b"0", b"1", b"2"]
    found: dict[Direction, list[bytes]] = {Direction.IN: [], Direction.OUT: []}
    for file in folder.glob("*.rec"):
        for block in in_order(read_blocks([file.read_bytes()])):
            assert isinstance(block, Block)
            frames = decode(block.payload, block.header.revision)
            assert (block.header.peer, block.header.revision) == (who, RUST)
            found[block.header.direction] += [one.body for one in frames if isinstance(one, Message)]
    assert found == {way: [b"0", b"1", b"2"] for way in Direction}


@ONE_KIND
def test_what_cannot_work_is_refused_where_it_is_written(nodes: Nodes, certs: Certificates) -> None:
    rust = Remote("127.0.0.1", 7011, revision=RUST)
    somebody = uuid.uuid4()
    for wrong in (
        {"remotes": [rust]},
        {"revision": RUST},
        {"dialects": {somebody: Dialect(revision=RUST)}},
    ):
        with pytest.raises(ValueError, match="option plaintext"):
            InstanceOptions(tls=certs.tls("left"), **wrong)
        InstanceOptions(plaintext=True, **wrong)
    with pytest.raises(ValueError, match="D-15"):
        InstanceOptions(plaintext=True, remotes=[Remote("192.0.2.1", revision=RUST)])
    for odd in ({"dialects": {"bob": Dialect()}}, {"dialects": {somebody: GO}}, {"revision": "go"}):
        with pytest.raises(TypeError, match=r"Revision\.GO_2026|UUID|Dialect"):
            InstanceOptions(plaintext=True, **odd)
    with pytest.raises(TypeError, match=r"Revision\.RUST_2026"):
        Remote("127.0.0.1", revision="rust")  # type: ignore[arg-type]
    said = Remote("127.0.0.1", revision=GO, dialect=Dialect(unreliable_id=0)).full_dialect
    assert said == Dialect(revision=GO, unreliable_id=0)
    with nodes.open("ours") as node, pytest.raises(ValueError, match="TLS"):
        node.new_connection(rust)

"""Peer in JavaScript (`interop/js`), against instances, `tolliver` as a process, and a scripted peer."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from tolliver import Delivery
from tolliver.blocking import Instance, InstanceOptions, create_instance

from tests.cases import cases, named
from tests.certificates import Certificates
from tests.cli.commands import SECONDS, listener, until
from tests.ports import free_address
from tests.raw import RawPeer
from tests.wire.vectors import D2
from tolliver_proto import (
    Ack,
    Established,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Subscribe,
    Subscription,
    Unsubscribe,
    decode,
    encode,
)

NODE = shutil.which("node")
ROOT = Path(__file__).parents[2]
JS = ROOT / "interop" / "js"
BIG = bytes(range(256)) * 4096
BODIES = {"empty": b"", "big": BIG, "größe ✓ \0": "ü".encode(), "﻿mark": b"\xff\x00"}

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


class Process:
    """A run of `tolliver.js`, with its output in files."""

    def __init__(self, directory: Path, *arguments: object, code: Path = JS) -> None:
        name = f"{arguments[0]}-{uuid4().hex[:8]}"
        self._output, self._errors = directory / f"{name}.out", directory / f"{name}.err"
        command = [NODE or "node", code / "tolliver.js", *arguments]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=output, stderr=errors
            )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._output.read_text("utf-8").splitlines()]

    def said(self) -> str:
        return self._errors.read_text("utf-8")

    def port(self) -> int:
        until(lambda: "listening on" in self.said() or self.process.poll() is not None)
        found = re.search(r"listening on \S+:(\d+)", self.said())
        assert found is not None, self.said()
        return int(found[1])

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def end(self, data: bytes | None = None) -> int:
        """The exit status, once it has ended."""
        self.process.communicate(data, SECONDS)
        return self.process.returncode


@pytest.fixture
def js(tmp_path: Path, certs: Certificates) -> Iterator[Any]:
    """`js("listen", ...)` runs it as jay, with an outbox of this test's."""
    certs.tls("jay")
    who = ("--certs", certs.directory, "--name", "jay", "--database", tmp_path / "jay.outbox")
    with ExitStack() as running:

        def run(*arguments: object, who: tuple[object, ...] = who, code: Path = JS) -> Process:
            made = Process(tmp_path, *arguments, *who, code=code)
            running.enter_context(made.process)
            running.callback(made.process.kill)
            return made

        yield run


@contextmanager
def instance(tmp_path: Path, certs: Certificates, **options: Any) -> Iterator[Instance]:
    tls = certs.tls("alice")
    with create_instance(InstanceOptions(database=tmp_path / "alice.db", tls=tls, **options)) as made:
        yield made


def raw(port: int, *subscriptions: str, uuid: UUID | None = None) -> RawPeer:
    peer = RawPeer(port, None, uuid or uuid4(), subscriptions)
    peer.establish()
    return peer


def wait_for(peer: RawPeer, kind: type, count: int) -> list[Any]:
    while len(found := [event for event in peer.events if isinstance(event, kind)]) < count:
        assert peer.receive(), "the connection ended"
    return found


def say(peer: RawPeer, *frames: Any) -> None:
    peer.send_raw(b"".join(encode(frame, D2) for frame in frames))


def test_the_vectors_are_read_and_written() -> None:
    """Those of frames in draft 2, whole and byte by byte; what is read is written as the same bytes."""
    found = [
        case
        for case in cases("messages", "frame") + cases("messages", "frames")
        if "DRAFT_2" in case["layouts"] and case.get("options", {}) in ({}, {"limits": {}})
    ]
    command = [NODE or "node", str(ROOT / "tests" / "interop" / "read_vectors.mjs")]
    data = "\n".join(case["bytes"] for case in found)
    done = subprocess.run(command, input=data, capture_output=True, text=True, check=True, timeout=SECONDS)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(found) > 100
    for case, (whole, single) in zip(found, lines, strict=True):
        expected = [dict(frame) for frame in case.get("frames", [case.get("frame")])]
        for frame in expected:
            frame.pop("reason", None)
            if "version" in frame:
                frame["version"] = str(frame["version"])
        assert whole == single, case["id"]
        assert whole["frames"] == expected, case["id"]
        assert whole["failed"] == (case.get("error", {}).get("class") in ("malformed", "limit")), case["id"]
        if "frame" in case:
            assert whole["written"] == [case["bytes"]], case["id"]


SAME, NEWER, OLDER = HandshakeStatus.SAME_VERSION, HandshakeStatus.NEWER_INCOMPATIBLE, HandshakeStatus.OLDER
SOMEBODY = UUID("01890000-0000-7000-8000-000000000001")
UNREADABLE = bytes.fromhex("0300000008000000000000000100000002") + b"tolliver\x07"  # a control message
OURS = (Subscription("a", ""),)
CASE_OPTIONS = {"instance_id", "version", "subscriptions"}


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        ([HandshakeRequest(0, SOMEBODY)], [(NEWER, ())]),
        ([HandshakeRequest(2, SOMEBODY), HandshakeFinal(False)], [(OLDER, OURS)]),
        ([HandshakeRequest(2, SOMEBODY), HandshakeFinal(True), Message("b", "", b"", 1)], [(OLDER, OURS), Ack(1)]),
        ([HandshakeRequest(1, SOMEBODY)] * 2 + [Message("b", "", b"", 1)], [(SAME, OURS)] * 2 + [Ack(1)]),
        (
            [
                HandshakeFinal(False),
                HandshakeRequest(1, SOMEBODY),
                HandshakeResponse(1, SOMEBODY, SAME),
                HandshakeFinal(False),
                UNREADABLE,
            ],
            [(SAME, OURS), Ack(2)],
        ),
        ([Message("a", "", b"", 1)], []),
        ([b"\0" + (1).to_bytes(8, "big") + bytes(20)], []),
        ([HandshakeRequest(1, SOMEBODY), HandshakeRequest(1, UUID(int=7))], [(SAME, OURS)]),
    ],
    ids=["older", "newer, failure", "newer", "repeated", "out of turn", "no handshake", "nobody", "somebody else"],
)
def test_a_server_answers_as_the_table_of_versions_says(js: Any, sent: list[Frame | bytes], answers: list[Any]) -> None:
    """Each request is answered before the next frame goes; after all answers nothing more comes but the end."""
    listening = js("listen", "--listen", "127.0.0.1:0", "--channel", "a", who=("--plaintext",))
    got = b""
    with socket.create_connection(("127.0.0.1", listening.port()), SECONDS) as stream:

        def answered(count: int) -> bool:
            nonlocal got
            got += (piece := stream.recv(65536))
            return not piece or len(decode(got, D2)) >= count

        requests = 0
        for frame in sent:
            stream.sendall(frame if isinstance(frame, bytes) else encode(frame, D2))
            requests += isinstance(frame, HandshakeRequest)
            while isinstance(frame, HandshakeRequest) and not answered(requests):
                pass
        while not answered(len(answers)):
            pass
        stream.shutdown(socket.SHUT_WR)
        while not answered(len(answers) + 1):
            pass
    frames = decode(got, D2)
    assert [
        (frame.status, frame.subscriptions) if isinstance(frame, HandshakeResponse) else frame for frame in frames
    ] == answers


ITS_OWN = {"server-accepts-with-another-list"}
"""Cases in which the program does something that no flag of the command does."""

CONNECTIONS = [
    case
    for case in cases("messages", "connection")
    if "DRAFT_2" in case["layouts"] and case["level"] != "ours" and case["options"].keys() <= CASE_OPTIONS
    if case["options"]["version"] == 2 and case["id"] not in ITS_OWN
    if {call["call"] for step in case["steps"] for call in step.get("calls", [])} <= {"accept", "ack"}
]


def without_acks(data: bytes) -> list[Any]:
    return [frame for frame in decode(data, D2) if not isinstance(frame, Ack)]


@pytest.mark.thorough
@pytest.mark.parametrize("case", CONNECTIONS, ids=named)
def test_a_connection_is_as_its_vector_says(js: Any, tmp_path: Path, case: Any) -> None:
    """In both roles, as one that speaks version 2. The vectors are of a machine that acknowledges nothing by itself."""
    copy = shutil.copytree(JS, tmp_path / "js")
    text = (copy / "connection.js").read_text("utf-8").replace("const VERSION = 1n", "const VERSION = 2n")
    (copy / "connection.js").write_text(text, "utf-8")
    outbox = tmp_path / "outbox"
    outbox.write_text(json.dumps(["uuid", case["options"]["instance_id"]]) + "\n", "utf-8")
    who = ("--plaintext", "--database", outbox, "--channel", "mine")
    with socket.create_server(("127.0.0.1", 0)) as server:
        if case["role"] == "client":
            js("listen", "--connect", f"127.0.0.1:{server.getsockname()[1]}", who=who, code=copy)
            server.settimeout(SECONDS)
            stream = server.accept()[0]
        else:
            port = js("listen", "--listen", "127.0.0.1:0", who=who, code=copy).port()
            stream = socket.create_connection(("127.0.0.1", port))
    with stream:
        stream.settimeout(SECONDS)
        for step in case["steps"]:
            if "in" in step:
                stream.sendall(bytes.fromhex(step["in"]))
            if "end" in step:
                stream.shutdown(socket.SHUT_WR)
            got, expected = b"", without_acks(bytes.fromhex("".join(step.get("out", []))))
            ended = False
            while not ended and (len(without_acks(got)) < len(expected) or "closes" in step):
                piece = b""
                with suppress(ConnectionResetError):
                    piece = stream.recv(65536)
                got, ended = got + piece, not piece
            assert without_acks(got) == expected
            assert not ended or "closes" in step


@pytest.mark.parametrize("dials", [True, False], ids=["it dials", "it listens"])
def test_messages_pass_both_ways_in_both_roles(js: Any, tmp_path: Path, certs: Certificates, dials: bool) -> None:
    """Bodies of 0 bytes and of 1 MiB, names of UTF-8; a handler that fails twice, and one that is slow."""
    back: dict[str, list[bytes]] = {}

    def note(delivery: Delivery) -> None:
        back.setdefault(delivery.key, []).append(delivery.body)

    bodies = {**BODIES, "fails": b"fail:2:x", "slow": b"slow:0.2:x"}
    with instance(tmp_path, certs, listen="127.0.0.1:0", retry_interval=0.3) as alice:
        alice.register_callback("conform.out", "", note)
        alice.subscribe("conform.out")
        if dials:
            js("conform", "--connect", f"127.0.0.1:{alice.port}")
            until(lambda: alice.stats().peers_up)
        else:
            alice.new_connection(f"127.0.0.1:{js('conform', '--listen', '127.0.0.1:0').port()}", timeout=SECONDS)
        receipts = [alice.send("conform.in", key, body) for key, body in bodies.items()]
        assert [receipt.recipients for receipt in receipts] == [1] * len(bodies)
        for receipt in receipts:
            alice.wait_acked(receipt, timeout=SECONDS)
        until(lambda: len(back) == len(bodies))
    assert {key: found[0] for key, found in back.items()} == bodies


def test_a_sender_that_is_killed_loses_nothing_that_it_stored(js: Any, tmp_path: Path, certs: Certificates) -> None:
    """It is killed with 400 of 500 messages unhandled; its next run sends these and 100 more, under ids that go on."""
    got: list[tuple[int | None, bytes]] = []
    killed: list[Process] = []
    lines = [b"%d" % number for number in range(600)]

    def note(delivery: Delivery) -> None:
        got.append((delivery.message_id, delivery.body))
        if len(got) == 100:
            until(lambda: (tmp_path / "jay.outbox").read_bytes().count(b'["add"') == 500)
            killed[0].kill()

    with instance(tmp_path, certs, listen="127.0.0.1:0") as alice:
        alice.register_callback("numbers", "", note)
        alice.subscribe("numbers")
        (tmp_path / "lines").write_bytes(b"\n".join(lines[:500]))
        to = ("numbers", "", "--file", tmp_path / "lines", "--connect", f"127.0.0.1:{alice.port}", "--json")
        killed.append(js("send", *to))
        until(lambda: killed[0].process.poll() is not None)
        assert killed[0].lines() == []  # it was killed before it was ready
        nowhere = js("send", "numbers", "", "more", "--connect", free_address())
        until(lambda: "is dialled again" in nowhere.said())
        nowhere.kill()  # it has written its file anew
        (tmp_path / "lines").write_bytes(b"\n".join(lines[500:]))
        again = js("send", *to)
        assert again.end() == 0, again.said()
        assert again.lines() == [{"messages": 100, "stored": 100, "unacknowledged": 0}]
    assert {body for _, body in got} == set(lines)
    assert len({number for number, _ in got}) == 600


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_over_many_kills(js: Any, tmp_path: Path, certs: Certificates, seed: int) -> None:
    """A sender of a thousand messages is killed again and again, and its receiver closed and opened in between."""
    random = Random(seed)
    got: set[bytes] = set()
    handled, runs, stored = 0, 0, 0
    due: dict[str, int] = {}
    running: list[Process] = []

    def note(delivery: Delivery) -> None:
        nonlocal handled
        handled += 1
        got.add(delivery.body)
        if handled >= due["kill"]:
            running[-1].process.kill()

    lines = [b"%d" % number for number in range(1000)]
    file, outbox, address = tmp_path / "lines", tmp_path / "jay.outbox", free_address()
    while len(got) < len(lines):
        runs += 1
        assert runs < 100
        due["kill"] = handled + random.randrange(1, 400)  # it gets on beyond its window of 256
        with instance(tmp_path, certs, listen=address) as alice:
            alice.register_callback("numbers", "", note)
            alice.subscribe("numbers")
            file.write_bytes(b"\n".join(lines[stored:]))
            running.append(js("send", "numbers", "", "--file", file, "--connect", address))
            until(lambda: running[-1].process.poll() is not None)
        stored += (b"\n" + outbox.read_bytes()).partition(b'\n["id"')[2].rpartition(b"\n")[0].count(b'\n["add"')
    assert got == set(lines)


def test_a_receiver_that_is_killed_gets_the_rest_in_its_next_life(js: Any, tmp_path: Path, certs: Certificates) -> None:
    certs.tls("bob")
    address = free_address()
    who = ("--certs", certs.directory, "--name", "bob", "--database", tmp_path / "bob.db", "--listen", address)
    lines = [f"{number}" for number in range(500)]
    first, second = tmp_path / "first", tmp_path / "second"
    with listener(first, who, "--channel", "numbers") as bob:
        sending = js("send", "numbers", "", "-", "--connect", address, "--json")
        sending.write("".join(f"{line}\n" for line in lines[:250]).encode())
        until(lambda: len(bob.lines()) >= 100)
        bob.process.kill()
    with listener(second, who, "--channel", "numbers"):
        status = sending.end("".join(f"{line}\n" for line in lines[250:]).encode())
        assert status == 0, sending.said()
    assert sending.lines() == [{"messages": 500, "stored": 500, "unacknowledged": 0}]
    printed = first.read_text().splitlines() + second.read_text().splitlines()
    assert {line.split()[-1] for line in printed} == set(lines)


@pytest.mark.parametrize(("dedupe", "handled"), [(10, 2), (0, 3)])
def test_copies_are_acknowledged(js: Any, dedupe: int, handled: int) -> None:
    """Every copy is handled (T-48), but where it remembers; another message under the same id is another one."""
    listening = js("listen", "--listen", "127.0.0.1:0", "--json", "--dedupe", dedupe, who=("--plaintext",))
    with raw(listening.port()) as peer:
        for sent, body in enumerate([b"one", b"one", b"two"], 1):
            say(peer, Message("a", "", body, 7))
            assert wait_for(peer, Ack, sent)[-1] == Ack(7)
        say(peer, Message("tolliver.probe", "", b"", 8))
        assert wait_for(peer, Ack, 4)[-1] == Ack(8)
    assert len(listening.lines()) == handled


def test_a_copy_of_what_is_being_handled_waits_for_its_answer(js: Any) -> None:
    conforming = js("conform", "--listen", "127.0.0.1:0", who=("--plaintext",))
    with raw(conforming.port(), "conform.out") as peer:
        say(peer, *[Message("conform.in", "", b"slow:0.3:", 7)] * 3)
        assert wait_for(peer, Ack, 3) == [Ack(7)] * 3
        assert len(peer.receive_messages(1)) == 1


def test_subscriptions_end_on_both_sides(js: Any, tmp_path: Path, certs: Certificates) -> None:
    """`--only` unsubscribes from what earlier runs asked for; what a peer unsubscribes from is not sent to it."""

    def list_of_alice() -> list[list[str]]:
        records = [json.loads(line) for line in (tmp_path / "jay.outbox").read_text().split("\n")[:-1]]
        lists: list[list[list[str]]] = [each[2] for each in records if each[:2] == ["list", str(certs.uuid("alice"))]]
        return lists[-1]

    with instance(tmp_path, certs, listen="127.0.0.1:0") as alice:
        to = ("--connect", f"127.0.0.1:{alice.port}")
        first = js("listen", "--channel", "old", "--count", "1", "--json", *to)
        until(lambda: alice.stats().peers_up)
        alice.send("old", "", b"1")
        assert first.end() == 0, first.said()
        js("listen", "--channel", "new", "--only", *to)
        until(lambda: alice.send("new", "", b"").recipients == 1 and alice.send("old", "", b"").recipients == 0)
        alice.subscribe("theirs")
        until(lambda: list_of_alice() == [["theirs", ""]])
        alice.unsubscribe("theirs")
        until(lambda: list_of_alice() == [])


def test_what_a_list_lacks_is_held_until_an_unsubscribe_gives_it_up(js: Any, tmp_path: Path) -> None:
    """As T-61 says; to unsubscribe from what is listed leaves what is queued (T-30)."""
    uuid = uuid4()
    who = ("--plaintext", "--database", tmp_path / "outbox")
    conforming = js("conform", "--listen", "127.0.0.1:0", who=who)
    with raw(conforming.port(), "conform.out", uuid=uuid) as peer:
        say(peer, Message("conform.in", "", b"held", 1))
        peer.receive_messages(1)
    with raw(conforming.port(), uuid=uuid) as peer:  # its list is empty now
        say(peer, Message("tolliver.probe", "", b"", 2))
        wait_for(peer, Ack, 1)
        assert peer.messages == []
    with raw(conforming.port(), "conform.out", uuid=uuid) as peer:
        assert [message.body for message in peer.receive_messages(1)] == [b"held"]
        say(peer, Unsubscribe("conform.out", "", 3), Subscribe("conform.out", "", 4))
        wait_for(peer, Ack, 2)
    with raw(conforming.port(), "conform.out", uuid=uuid) as peer:
        assert [message.body for message in peer.receive_messages(1)] == [b"held"]
    with raw(conforming.port(), uuid=uuid) as peer:
        say(peer, Unsubscribe("conform.out", "", 3))
        wait_for(peer, Ack, 1)
    with raw(conforming.port(), "conform.out", uuid=uuid) as peer:
        say(peer, Message("tolliver.probe", "", b"", 4))
        wait_for(peer, Ack, 1)
        assert peer.messages == []


def test_whom_it_does_not_know_it_refuses(js: Any, tmp_path: Path, certs: Certificates) -> None:
    """A dial that the other CA refuses ends it with a word; a false UUID and a false certificate get no response."""
    certs.tls("stranger")
    with instance(tmp_path, certs, listen="127.0.0.1:0") as alice:
        who = ("--certs", certs.directory / "foreign", "--name", "stranger")
        refused = js("listen", "--connect", f"127.0.0.1:{alice.port}", who=who)
        assert refused.end() == 1
        assert "tolliver.js: 127.0.0.1" in refused.said()
    listening = js("listen", "--listen", "127.0.0.1:0")
    with RawPeer(listening.port(), certs.tls("mallory"), certs.uuid("alice")) as peer:
        peer.flush()
        peer.read_to_the_end()
        assert not any(isinstance(event, Established) for event in peer.events)
    assert "it has no certificate of" in listening.said()
    with RawPeer(listening.port(), certs.tls("intruder"), certs.uuid("intruder")) as peer:
        peer.read_to_the_end()
    until(lambda: "refused a connection" in listening.said())


def test_its_file_is_cut_at_a_torn_end_refused_where_it_is_damaged_and_one_process_s_alone(
    js: Any, tmp_path: Path
) -> None:
    file = tmp_path / "outbox"
    who = ("--plaintext", "--database", file)
    file.write_text('["uuid","01890000-0000-7000-8000-000000000001"]\n["id",41]\n["ad')
    first = js("listen", "--listen", "127.0.0.1:0", who=who)
    first.port()
    assert "01890000-0000-7000-8000-000000000001" in first.said()
    second = js("listen", "--listen", "127.0.0.1:0", who=who)
    assert (second.end(), "another process's" in second.said()) == (1, True)
    first.kill()
    file.write_text(f"{file.read_text()}x\n")
    third = js("listen", "--listen", "127.0.0.1:0", who=who)
    assert (third.end(), "is damaged in line" in third.said()) == (1, True)


def test_a_certificate_without_a_uuid_keeps_the_first_that_it_claims(js: Any, certs: Certificates) -> None:
    """No other key has that UUID from then on (T-72)."""
    uuid = uuid4()
    listening = js("listen", "--listen", "127.0.0.1:0")
    for name, is_let_in in [("anonymous", True), ("anonymous", True), ("garbled", False)]:
        with RawPeer(listening.port(), certs.tls(name), uuid) as peer:
            peer.establish()
            assert any(isinstance(event, Established) for event in peer.events) == is_let_in


def test_what_is_not_acknowledged_is_sent_again(js: Any) -> None:
    """Under its id, with pauses that begin at `--retry-interval`, until the ack."""
    conforming = js("conform", "--listen", "127.0.0.1:0", "--retry-interval", "0.1", who=("--plaintext",))
    with raw(conforming.port(), "conform.out") as peer:
        say(peer, Message("conform.in", "k", b"body", 1))
        first, second = peer.receive_messages(2)
        assert first == second
        say(peer, Ack(first.message_id or 0), Message("tolliver.probe", "", b"", 2))
        wait_for(peer, Ack, 2)


@pytest.mark.parametrize("lower", [True, False])
def test_of_crossing_dials_the_one_by_the_lower_uuid_stays(js: Any, lower: bool) -> None:
    uuid = UUID(int=1 if lower else 2**128 - 2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = f"127.0.0.1:{server.getsockname()[1]}"
        both = js("listen", "--connect", to, "--listen", "127.0.0.1:0", who=("--plaintext",))
        server.settimeout(SECONDS)
        stream = server.accept()[0]
    with RawPeer.accepted(stream, uuid) as by_it:
        by_it.establish()
        with RawPeer(both.port(), None, uuid) as by_us:
            by_us.establish()
            stays, goes = (by_us, by_it) if lower else (by_it, by_us)
            goes.read_to_the_end()
            say(stays, Message("tolliver.probe", "", b"", 2))
            assert wait_for(stays, Ack, 1) == [Ack(2)]


def test_of_two_that_dial_each_other_one_connection_stays(js: Any, tmp_path: Path, certs: Certificates) -> None:
    """Whichever wins (T-70): what is sent both ways before, between and after arrives."""
    got: set[str] = set()
    address = free_address()
    with instance(tmp_path, certs, listen="127.0.0.1:0", remotes=[address]) as alice:
        alice.register_callback("conform.out", "", lambda delivery: got.add(delivery.key))
        alice.subscribe("conform.out")
        js("conform", "--listen", address, "--connect", f"127.0.0.1:{alice.port}")
        until(lambda: alice.send("conform.in", "first", b"").recipients)
        for number in range(200):
            alice.wait_acked(alice.send("conform.in", f"{number}", b""), timeout=SECONDS)
        until(lambda: len(got) == 201)
        assert alice.stats().connections == 1

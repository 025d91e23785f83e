"""`tolliver doctor` at set-ups that are broken, each in one way: real sockets, real certificates.

The cause that is named is part of what is promised: scripts look at it.
"""

from __future__ import annotations

import datetime
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tolliver._store.lock import is_used
from tolliver._tls.policy import ALPN, server_context
from tolliver.blocking import InstanceOptions, StreamsOptions, create_instance, create_streams
from tolliver.certs import Member, make_ca, make_certificate

from tests.cli.commands import Result, tolliver
from tests.ports import free_address, free_port
from tests.raw import RawListener
from tests.store.given import open_store
from tolliver_proto import Acl, NoticeKind, Revision, Rights
from tolliver_proto.errors import AccessDenied
from tolliver_proto.node import DialCause
from tolliver_proto.reactive import ServerHello, encode

LOOK = ("--no-handshake",)
"""For servers that are no instances."""
SOON = ("--timeout", 0.5)
"""For what is to take all of the time."""
UTC = datetime.UTC
DAY = datetime.timedelta(days=1)
HOUR = datetime.timedelta(hours=1)


class Members:
    """Certificates of two CAs, made when first asked for. Nobody changes a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made: dict[str, Member] = {}
        for ca in ("ours", "other"):
            make_ca(directory / ca)

    def __call__(self, name: str, ca: str = "ours", **choices: Any) -> Member:
        if name not in self._made:
            self._made[name] = make_certificate(self.directory / ca, name, **choices)
        return self._made[name]

    def who(self, name: str, **choices: Any) -> tuple[object, ...]:
        """The options that say who asks."""
        member = self(name, **choices)
        return "--cert", member.cert, "--key-file", member.key, "--ca", member.ca


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    return Members(tmp_path_factory.mktemp("members"))


@contextmanager
def instance(members: Members, name: str = "alice", ca: str = "ours", **options: Any) -> Iterator[str]:
    """Its address."""
    if not options.get("plaintext"):
        options.setdefault("tls", members(name, ca).tls())
    with create_instance(InstanceOptions(database=":memory:", listen="127.0.0.1:0", **options)) as there:
        yield f"127.0.0.1:{there.port}"


@contextmanager
def streams(members: Members, **options: Any) -> Iterator[str]:
    with create_streams(StreamsOptions(listen="127.0.0.1:0", **options or {"tls": members("alice").tls()})) as there:
        yield f"127.0.0.1:{there.port}"


@contextmanager
def tls_server(
    member: Member, serve: Callable[[socket.socket], None] = lambda _stream: None, alpn: str = ALPN
) -> Iterator[str]:
    """A server with this certificate, however bad that is."""
    with RawListener(server_context(member.tls(), alpn=alpn), serve) as listener:
        yield listener.address


@contextmanager
def plain_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    with RawListener(None, serve) as listener:
        yield listener.address


@contextmanager
def web_server(offset: float = 0.0, body: Callable[[], bytes] = bytes) -> Iterator[str]:
    """Its clock goes wrong by `offset` seconds."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = body()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_HEAD = do_GET

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + offset)

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def dropping() -> Iterator[str]:
    """A port whose queue is full, so that the system drops what asks for more."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def lines(result: Result) -> list[str]:
    assert result.stderr == ""
    return result.stdout.splitlines()


def causes(result: Result) -> list[str]:
    """The causes that are named, each with its remedy under it."""
    found: list[str] = []
    told = lines(result)
    for line, following in zip(told, [*told[1:], ""], strict=True):
        if line.startswith(("FAIL ", "warn ")):
            found.append(line[5:].partition(":")[0])
            assert following.startswith("     "), "its remedy"
            assert following.strip()
        else:
            assert line.startswith(("ok   ", "     ")), line
    assert result.exit_code == (2 if any(line.startswith("FAIL") for line in told) else 1 if found else 0)
    return found


def test_all_is_well(members: Members) -> None:
    with instance(members) as there:
        result = tolliver("doctor", there, *members.who("bob"))
        assert causes(result) == []
        checks = [line[5:].partition(":")[0] for line in lines(result)]
        assert "TLSv1.3 with" in result.stdout
        assert checks == ["files", "certificate", "tcp", "tls", "peer", "protocol", "handshake"]
        assert str(members("alice").uuid) in result.stdout
        less = tolliver("doctor", there, *members.who("bob"), "--no-handshake", "--uuid", members("alice").uuid)
        assert causes(less) == []
        assert lines(less)[-1].startswith("ok   protocol: ")


def answers(reply: bytes) -> Callable[[], AbstractContextManager[str]]:
    def serve(stream: socket.socket) -> None:
        if stream.recv(65536):
            stream.sendall(reply)
            while stream.recv(65536):
                pass

    return lambda: plain_server(serve)


Place = Callable[[Members], AbstractContextManager[str]]
HEAD = bytes([1]) + (1).to_bytes(8) + UUID("01890000-0000-7000-8000-0000000000aa").bytes


def says(reply: bytes, alpn: str = "another/1") -> Place:
    """An implementation of its own, under our CA."""

    def serve(stream: socket.socket) -> None:
        stream.recv(65536)
        stream.sendall(reply)
        while stream.recv(65536):
            pass

    return lambda members: tls_server(members("alice"), serve, alpn=alpn)


@contextmanager
def an_address(text: str) -> Iterator[str]:
    yield text


class Case(NamedTuple):
    place: Place
    causes: list[str]
    words: str
    arguments: tuple[object, ...] = ()
    who: str = "bob"


CASES: dict[str, Case] = {
    "name": Case(lambda _: an_address("nobody.invalid:7011"), ["name"], "nobody.invalid"),
    "nobody listens": Case(lambda _: an_address(free_address()), ["refused"], "nobody listens at 127.0.0.1 port"),
    "packets dropped": Case(lambda _: dropping(), ["no_answer"], "drops the packets", SOON),
    "plain tcp that talks": Case(lambda _: answers(b"SSH-2.0-x\r\n")(), ["not_tls"], "SSH-2.0"),
    "plain tcp that closes": Case(lambda _: plain_server(lambda _stream: None), ["not_tls"], "plain TCP"),
    "plain tcp that is silent": Case(lambda _: silent(), ["silent"], "does not answer in TLS", SOON),
    "a plain instance": Case(lambda members: instance(members, plaintext=True), ["not_tls"], "its option plaintext"),
    "plain streams": Case(lambda members: streams(members, plaintext=True), ["not_tls"], "speaks streams"),
    "http": Case(lambda _: answers(b"HTTP/1.1 400 Bad Request\r\n\r\n")(), ["http"], "speaks HTTP"),
    "http that says so when asked": Case(lambda _: web_server(), ["http"], "speaks HTTP"),
    "https": Case(lambda _: answers(bytes.fromhex("15030300020278"))(), ["protocol"], "it refuses both by ALPN"),
    "broken tls": Case(lambda _: answers(bytes.fromhex("15030300020250"))(), ["tls"], "internal error"),
    "another ca": Case(lambda members: instance(members, "mallory", "other"), ["other_ca"], "'mallory'"),
    "another ca, of ours": Case(
        lambda members: tls_server(members("strict", ca="other")), ["other_ca"], "is of another CA, 'tolliver CA"
    ),
    "theirs expired": Case(
        lambda members: tls_server(members("old", valid_from=datetime.datetime.now(UTC) - 9 * DAY, days=6)),
        ["theirs_expired"],
        "has expired, 3 days ago",
    ),
    "theirs expires": Case(
        lambda members: tls_server(members("soon", days=7)), ["theirs_expires"], "expires in 6 days", LOOK
    ),
    "theirs is not valid yet": Case(
        lambda members: tls_server(members("early", valid_from=datetime.datetime.now(UTC) + 3 * HOUR)),
        ["clock"],
        "is not valid before",
    ),
    "a uuid of the future": Case(
        lambda members: tls_server(members("ahead", uuid=uuid_made_at(time.time() + 600))),
        ["clock"],
        "was made at",
        LOOK,
    ),
    "host name": Case(
        lambda members: tls_server(members("elsewhere", hosts=["alice.example", "10.0.0.1"])),
        ["host_name"],
        "is for alice.example, 10.0.0.1, and not for 127.0.0.1",
    ),
    "uuid": Case(instance, ["uuid"], "and not 01890000", ("--uuid", "01890000-0000-7000-8000-000000000001")),
    "ours expired": Case(
        lambda members: instance(members), ["ours_expired", "ours_refused"], "bob-old.pem has expired", (), "bob-old"
    ),
    "ours expires": Case(lambda members: instance(members), ["ours_expires"], "expires in 4 days", (), "bob-soon"),
    "ours is not valid yet": Case(
        lambda members: instance(members), ["clock", "ours_refused"], "is not valid before", (), "bob-early"
    ),
    "streams": Case(streams, ["streams"], "where messages were meant"),
    "messages": Case(instance, ["messages"], "where streams were meant", ("--streams",)),
    "another layout": Case(says(HEAD + bytes(1) + b"\xff" * 4), ["no_alpn", "layout"], "revision", ("--handshake",)),
    "another layout, by default": Case(says(HEAD + bytes(1) + b"\xff" * 4, ALPN), ["layout"], "revision"),
    "a layout that waits": Case(says(HEAD), ["no_alpn", "layout"], "revision", ("--handshake", *SOON)),
    "another service": Case(says(b"220 hello\r\n"), ["no_alpn", "protocol"], "another service", ("--handshake",)),
    "version": Case(lambda members: instance(members, version=3), ["version"], "version 3 of the protocol"),
    "a layout of an instance, which waits": Case(
        lambda members: instance(members, revision=Revision.GO_2026), ["silent"], "another layout", ("--timeout", 2)
    ),
    "access rules": Case(
        lambda members: instance(members, acl=Acl(default=Rights.none())), ["closed"], "access_denied"
    ),
}
OURS: dict[str, dict[str, Any]] = {
    "bob": {},
    "bob-old": {"valid_from": datetime.datetime.now(UTC) - 9 * DAY, "days": 6},
    "bob-soon": {"days": 5},
    "bob-early": {"valid_from": datetime.datetime.now(UTC) + 3 * HOUR},
}


def uuid_made_at(seconds: float) -> UUID:
    return UUID(int=int(seconds * 1000) << 80 | 7 << 76 | 2 << 62 | 1)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named(name: str, members: Members) -> None:
    case = CASES[name]
    who = members.who(case.who, **OURS[case.who])
    with case.place(members) as there:
        result = tolliver("doctor", there, *who, "--timeout", 20, *case.arguments)
    assert causes(result) == case.causes, result.stdout
    assert case.words in result.stdout


PLAIN: dict[str, Case] = {
    "well": Case(lambda members: instance(members, plaintext=True), [], "version 1 of the protocol"),
    "uuid": Case(
        lambda members: instance(members, plaintext=True),
        ["uuid"],
        "says that it is",
        ("--uuid", "01890000-0000-7000-8000-000000000001"),
    ),
    "tls": Case(instance, ["needs_tls"], "in place of --plaintext"),
    "http": Case(lambda _: answers(b"HTTP/1.1 400 Bad Request\r\n\r\n")(), ["http"], "HTTP"),
    "streams": Case(lambda members: streams(members, plaintext=True), ["streams"], "port of streams"),
    "streams that were meant": Case(
        lambda members: streams(members, plaintext=True), [], "says hello in version 0", ("--streams",)
    ),
    "messages for streams": Case(
        lambda members: instance(members, plaintext=True), ["closed"], "before the handshake", ("--streams",)
    ),
    "silent": Case(lambda _: silent(), ["silent"], "nobody answers", SOON),
    "another version of streams": Case(
        lambda _: answers(encode(ServerHello(9)))(), ["version"], "version 9", ("--streams",)
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_without_tls_the_handshake_is_asked(name: str, members: Members) -> None:
    case = PLAIN[name]
    with case.place(members) as there:
        result = tolliver("doctor", there, "--plaintext", "--timeout", 20, *case.arguments)
    assert causes(result) == case.causes, result.stdout
    assert case.words in result.stdout


def test_without_certificates_it_looks(members: Members) -> None:
    with instance(members) as there:
        result = tolliver("doctor", there)
        assert causes(result) == ["no_certificate"]
        assert str(members("alice").uuid) in result.stdout
        assert causes(tolliver("doctor", there, "--streams")) == ["no_certificate", "messages"]
    with tls_server(members("old", valid_from=datetime.datetime.now(UTC) - 9 * DAY, days=6)) as there:
        assert causes(tolliver("doctor", there)) == ["no_certificate", "theirs_expired"]


def test_streams_are_examined(members: Members) -> None:
    with streams(members) as there:
        assert causes(tolliver("doctor", there, *members.who("bob"), "--streams")) == []


def test_a_ca_that_only_they_have(members: Members) -> None:
    """They refuse ours, while we take theirs, as our file has both."""
    both = members.directory / "both.pem"
    both.write_bytes(members("bob").ca.read_bytes() + members("mallory", "other").ca.read_bytes())
    who = ("--cert", members("bob").cert, "--key-file", members("bob").key, "--ca", both)
    with instance(members, "mallory", "other") as there:
        for arguments in ((), ("--no-handshake",)):
            result = tolliver("doctor", there, *who, *arguments)
            assert causes(result) == ["ours_refused"]
            assert "unknown CA" in result.stdout


def test_a_running_connection_of_the_same_instance_stays(members: Members) -> None:
    """T-70: neither way of asking replaces it, however often."""
    listening = InstanceOptions(database=":memory:", listen="127.0.0.1:0", tls=members("alice").tls())
    dialling = InstanceOptions(database=":memory:", tls=members("bob").tls())
    with create_instance(listening) as alice, create_instance(dialling) as bob:
        address = f"127.0.0.1:{alice.port}"
        bob.new_connection(address, timeout=30.0)
        _wait_until(lambda: alice.stats()["peers_up"] == 1)
        for more in ((), ("--no-handshake",)):
            for _ in range(4):  # as three are taken for two live instances of one UUID
                assert causes(tolliver("doctor", address, *members.who("bob"), *more)) == []
            kinds = {notice.kind for node in (alice, bob) for notice in node.notices()}
            assert kinds <= ({NoticeKind.PROTOCOL_ERROR} if more else set())
        assert [one.connected for one in alice.peers()] == [True]
        alice.register_callback("c", "k", lambda _message: None)
        alice.subscribe("c", "k")
        _wait_until(lambda: bob.peers()[0].subscriptions)
        bob.wait_acked(bob.send("c", "k", b"still there"), timeout=30.0)


def _wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_several_addresses(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them that leads nowhere is worth a line."""
    real = socket.getaddrinfo

    def two(host: str, port: int, **choices: Any) -> list[Any]:
        if host != "two.example":
            return real(host, port, **choices)
        return [*real("127.0.0.2", port, **choices), *real("127.0.0.1", port, **choices)]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    with instance(members) as there:
        port = there.partition(":")[2]
        told = tolliver("doctor", f"two.example:{port}", *members.who("bob"), "--uuid", members("alice").uuid)
        assert causes(told) == ["refused"]
        assert told.exit_code == 1
        assert "two.example is 127.0.0.2, 127.0.0.1" in told.stdout


# This machine.


def test_files(members: Members, tmp_path: Path) -> None:
    bob, carol = members("bob"), members("carol")
    address = free_address()

    def told(cert: Path = bob.cert, key: Path = bob.key, ca: Path = bob.ca) -> tuple[list[str], str]:
        result = tolliver("doctor", address, "--cert", cert, "--key-file", key, "--ca", ca)
        found = causes(result)
        assert found.pop() == "refused"
        return found, result.stdout

    assert told() == ([], told()[1])
    found, text = told(key=tmp_path / "missing")
    assert found == ["unreadable"]
    assert f"{tmp_path / 'missing'} cannot be read: No such file" in text
    assert told(key=carol.key)[0] == ["key"]
    (tmp_path / "text").write_text("no PEM")
    os.chmod(tmp_path / "text", 0o600)
    assert [told(**{name: tmp_path / "text"})[0] for name in ("cert", "key", "ca")] == 3 * [["unusable"]]
    (tmp_path / "open.key").write_bytes(bob.key.read_bytes())
    os.chmod(tmp_path / "open.key", 0o644)
    found, text = told(key=tmp_path / "open.key")
    assert found == ["too_open"]
    assert f"chmod 600 {tmp_path / 'open.key'}" in text
    assert told(ca=members("mallory", "other").ca)[0] == ["ours_refused"]


def test_databases(members: Members, tmp_path: Path) -> None:
    database = tmp_path / "bob.db"

    def told(*arguments: object) -> tuple[list[str], str]:
        result = tolliver("doctor", free_address(), *arguments)
        found = causes(result)
        assert found.pop() == "refused"
        return found, result.stdout

    assert told("--database", database)[0] == []
    assert told("--database", tmp_path / "missing" / "bob.db")[0] == ["no_database"]
    assert not list(tmp_path.iterdir())
    with closing(open_store(database)):
        assert is_used(str(database))
        found, text = told("--database", database)
        assert found == ["in_use"]
        if sys.platform == "linux":
            assert f"process {os.getpid()}" in text
    assert not is_used(str(database))
    assert told("--database", database)[0] == []
    found, text = told("--database", database, "--min-free", 2**60)
    assert found == ["disk_low"]
    assert f"the disk of {tmp_path} has" in text
    os.chmod(database, 0o644)
    assert told("--database", database)[0] == ["too_open"]


def test_a_database_of_another_process(tmp_path: Path) -> None:
    database = tmp_path / "bob.db"
    with closing(open_store(database)):
        program = f"from tolliver._store.lock import is_used; print(is_used({str(database)!r}))"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ended.stdout == "True\n"


def test_the_python_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> tuple[list[str], str]:
        result = tolliver("doctor", free_address(), "--spark")
        found = causes(result)
        assert found.pop() == "refused"
        return found, result.stdout

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found, text = told()
    assert found == ["python"]
    assert "there is no python3 on the PATH" in text
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    found, text = told()
    assert found == ["python"]
    assert f"{bare}, which Spark runs, has no pyspark, tolliver_proto" in text
    bare.write_text("#!/bin/sh\nexit 1\n")
    assert "does not work" in told()[1]
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert told()[0] == []


# Clocks.


def test_clocks(members: Members) -> None:
    def told(there: str) -> tuple[list[str], str]:
        result = tolliver("doctor", free_address(), "--status", there)
        found = causes(result)
        assert found.pop(0) == "refused"
        return found, result.stdout

    with web_server() as there:
        assert told(there)[0] == []
    with web_server(offset=-600) as there:
        found, text = told(there)
        assert found == ["clock"]
        assert "9 minutes behind ours" in text or "10 minutes behind ours" in text
    status = json.dumps({"time": time.time() + 7300, "uuid": "x"}).encode()
    with web_server(body=lambda: status) as there:
        found, text = told(there)
        assert found == ["clock"]
        assert "2 hours ahead of ours" in text
    with plain_server(lambda stream: stream.sendall(b"SSH-2.0-x\r\n")) as there:
        assert told(there)[0] == ["status"]
    assert told(free_address())[0] == ["status"]


def test_the_clock_of_an_instance(members: Members) -> None:
    options = InstanceOptions(database=":memory:", listen="127.0.0.1:0", plaintext=True, status="127.0.0.1:0")
    with create_instance(options) as there:
        assert there.status_address is not None
        host, port = there.status_address
        result = tolliver("doctor", f"127.0.0.1:{there.port}", "--plaintext", "--status", f"{host}:{port}")
        assert causes(result) == []
        assert lines(result)[-1].startswith("ok   clock: that of ")
        assert causes(tolliver("doctor", f"{host}:{port}", *members.who("bob"))) == ["http"]


def test_a_remote_that_an_instance_refuses_is_told_though_all_else_is_well() -> None:
    """T-73: what is well for the doctor may not be for the instance, which has rules and files of its own."""
    listens = InstanceOptions(database=":memory:", plaintext=True, listen="127.0.0.1:0")
    rules = Acl(default=Rights.none())
    keeps_out = InstanceOptions(database=":memory:", plaintext=True, status="127.0.0.1:0", acl=rules)
    with create_instance(listens) as there, create_instance(keeps_out) as itself:
        assert itself.status_address is not None
        where, remote = "{}:{}".format(*itself.status_address), f"127.0.0.1:{there.port}"
        with pytest.raises(AccessDenied):
            itself.new_connection(remote, keep_trying=True)
        result = tolliver("doctor", remote, "--plaintext", "--status", where)
        assert causes(result) == ["remote"]
        told = f"the instance at {where} is not connected to {remote}: {DialCause.ACCESS.text}: "
        assert told in result.stdout
        assert result.exit_code == 2


# Form.


def test_json(members: Members) -> None:
    with instance(members) as there:
        well = tolliver("doctor", there, *members.who("bob"), "--json")
    assert well.exit_code == 0
    assert {json.loads(line)["grade"] for line in lines(well)} == {"ok"}
    result = tolliver("doctor", f"127.0.0.1:{free_port()}", "--json")
    told = json.loads(lines(result)[-1])
    assert (told["check"], told["grade"], told["cause"]) == ("tcp", "fail", "refused")
    assert told["remedy"]
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a:b:c",), "several colons"),
        (("127.0.0.1", "--certs", "c"), "--certs goes with --name"),
        (("127.0.0.1", "--plaintext", "--certs", "c", "--name", "n"), "more than one way"),
        (("127.0.0.1", "--status", "7012"), "the host is missing"),
    ],
)
def test_what_cannot_be_examined(arguments: tuple[str, ...], words: str) -> None:
    result = tolliver("doctor", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_every_step_ends_in_its_time(members: Members) -> None:
    """Against a server that says a byte now and then, and never enough."""
    stop = threading.Event()

    def trickle(stream: socket.socket) -> None:
        while not stop.wait(0.05):
            stream.sendall(b"\x16")

    with plain_server(trickle) as there:
        try:
            result = tolliver("doctor", there, "--status", there, "--timeout", 0.3)
        finally:
            stop.set()
    assert result.exit_code == 2

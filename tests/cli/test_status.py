"""`tolliver status`: running instances, whatever else may answer there, and exit statuses."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tolliver._cli.endpoints import Endpoint, look
from tolliver.blocking import InstanceOptions, create_instance

from tests.certificates import Certificates
from tests.cli.commands import tolliver
from tests.ports import free_address
from tests.status.samples import hostile, snapshot
from tests.status.test_server import serving

HTTP = b"HTTP/1.0 %s OK\r\nContent-Type: application/json\r\n\r\n%s"


def test_running_instances_are_told_with_their_peers_and_notices(certs: Certificates, tmp_path: Path) -> None:
    nobody = free_address()
    with create_instance(
        InstanceOptions(
            database=tmp_path / "alice.db", listen="127.0.0.1:0", tls=certs.tls("alice"), status="127.0.0.1:0"
        )
    ) as alice:
        options = InstanceOptions(database=tmp_path / "bob.db", tls=certs.tls("bob"), status="127.0.0.1:0")
        with create_instance(options) as bob:
            bob.new_connection(f"127.0.0.1:{alice.port}", timeout=30)
            alice.register_callback("news", "", lambda _delivery: True)
            alice.subscribe("news")
            bob.wait_subscribed("news", timeout=30)
            bob.wait_acked(bob.send("news", "", b"hello"), timeout=30)
            where = ["{}:{}".format(*one.status_address) for one in (alice, bob) if one.status_address is not None]
            told = tolliver("status", *where)
            assert told.exit_code == 0, told
            tables = dict(part.split("\n", 1) for part in told.stdout.rstrip().split("\n\n")[1:])
            peers = [line.split("\t") for line in tables["Peers"].splitlines()]
            assert [line[1:3] for line in peers] == [["peer", "state"], ["bob", "up"], ["alice", "up"]]
            assert ["alice", "news", "1", "0", "1", "0"] in [
                line.split("\t")[:6] for line in tables["Handlers"].splitlines()
            ]
            mixed = tolliver("status", f"http://{where[0]}/", nobody, "--json")
            assert mixed.exit_code == 2
            first, second = map(json.loads, mixed.stdout.splitlines())
            assert (first["endpoint"], first["error"], first["uuid"]) == (where[0], None, str(alice.instance_id))
            assert first["counters"]["handled"] == 1
            assert second["endpoint"] == nobody
            assert f"nobody listens at {nobody}" in second["error"]
            assert f"tolliver: {nobody}: nobody listens at {nobody}: start the instance" in mixed.stderr


def test_one_that_is_not_ready_says_why_and_nothing_gets_to_the_terminal_as_it_is() -> None:
    with serving(lambda answered: answered(hostile())) as one, serving() as other:
        told = tolliver("status", *("{}:{}".format(*server.address) for server in (one, other)))
    assert told.exit_code == 1
    assert " is not ready: " in told.stdout
    assert "\u202e" not in told.stdout
    assert "\\u202e" in told.stdout
    assert "b:7011\twaiting\t2\t1.5 s\tnobody listens there" in told.stdout
    assert snapshot().name in told.stdout


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """An address where each gets this answer, and after an empty one nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                with sock:
                    sock.settimeout(30)
                    while answer and not sock.recv(65536).endswith(b"\r\n\r\n"):
                        pass
                    sock.sendall(answer)
                    if not answer:
                        while sock.recv(65536):
                            pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "does not answer within 0.3 s"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it does not speak HTTP: is that the port of messages?"),
        (HTTP % (b"404", b"no"), "a server of HTTP answers there, and has no /status.json"),
        (
            HTTP % (b"503", b"the loop\nhangs \x1b[2J"),
            "the instance is there, and does not answer: the loop hangs \\x1b[2J",
        ),
        (HTTP % (b"200", b"[" * 100_000), "not with the status of an instance"),
        (HTTP % (b"200", b'{"uuid": 5, "gauges": {}}'), "not with the status of an instance"),
    ],
)
def test_another_server_is_told_from_an_endpoint(answer: bytes, said: str) -> None:
    with answering(answer) as where:
        told = look(Endpoint.parse(where), 30.0 if answer else 0.3)
    assert told.status is None
    assert said in told.error
    assert told.error.isprintable()


def test_a_status_of_other_types_is_shown_as_far_as_it_goes() -> None:
    odd = {
        "uuid": "x",
        "gauges": {"pending": "many", "peers": True, "disk_free_bytes": 1e300},
        "peers": [5, {"name": 7, "uuid": "who", "oldest_unacknowledged": -1e999}],
        "not_ready": 3,
    }
    with answering(HTTP % (b"200", json.dumps(odd).encode())) as where:
        told = tolliver("status", where)
    assert told.exit_code == 1
    assert "who\taway\t-\t" in told.stdout


def test_an_endpoint_that_cannot_be_one_is_refused() -> None:
    for wrong in ("9464", "https://a:1/", "http://a/b", "01890000-0000-7000-8000-000000000001@a:1", "a:0"):
        with pytest.raises(ValueError, match=r"give|write|host|port"):
            Endpoint.parse(wrong)
    assert str(Endpoint.parse("http://[::1]/")) == "[::1]:9464"


def test_a_name_that_leads_nowhere_is_told() -> None:
    assert re.search("is not found|the resolver does not answer", look(Endpoint("nobody.invalid", 1), 5.0).error)

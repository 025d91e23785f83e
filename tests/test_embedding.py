"""The loop of docs/embedding.md over TLS: the code of the page itself runs."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.certificates import Certificates
from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    Established,
    HandshakeRequest,
    Message,
    Role,
    Subscription,
)

PAGE = Path(__file__).parent.parent / "docs" / "embedding.md"
MANY = 200
ONE, OTHER = (UUID(f"01890000-0000-7000-8000-00000000000{number}") for number in (1, 2))


def page() -> dict[str, Any]:
    """Functions of the first program, without the lines that run it."""
    found = re.search(r"^```python\n(.*?)^left, right = ", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    made: dict[str, Any] = {}
    exec(found[1].replace("from tolliver import", "from tolliver_proto import"), made)
    return made


def over_tls(
    certs: Certificates, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> tuple[Callable[[], socket.socket], Callable[[], socket.socket]]:
    tls = certs.tls("left")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(tls.ca))
    for context in (server, client):
        context.load_cert_chain(str(tls.cert), str(tls.key))
        context.minimum_version = context.maximum_version = version
    with socket.create_server(("127.0.0.1", 0)) as listener:
        right = socket.create_connection(listener.getsockname())
        left, _ = listener.accept()
    return (
        lambda: server.wrap_socket(left, server_side=True),
        lambda: client.wrap_socket(right, server_hostname="localhost"),
    )


@pytest.mark.parametrize("closes", ["the publisher", "both"])
def test_the_loop_of_the_page_runs_over_tls(
    certs: Certificates, capsys: pytest.CaptureFixture[str], closes: str
) -> None:
    loop, failures, ends_with = page(), list[BaseException](), list[BaseException | None]()
    serving, dialling = over_tls(certs)

    def subscriber(conn: Connection, event: object) -> None:
        loop["subscriber"](conn, event)
        if closes == "both" and isinstance(event, loop["Message"]):
            conn.close()

    def run(made: Callable[[], socket.socket], conn: Connection, react: Callable[..., None]) -> None:
        def watched(conn: Connection, event: object) -> None:
            if isinstance(event, Closed):
                ends_with.append(event.error)
            react(conn, event)

        try:
            with made() as sock:
                loop["drive"](sock, conn, watched)
        except BaseException as error:
            failures.append(error)

    ends = [
        threading.Thread(target=run, args=(serving, Connection(Role.SERVER, instance_id=ONE), subscriber)),
        threading.Thread(target=run, args=(dialling, Connection(Role.CLIENT, instance_id=OTHER), loop["publisher"])),
    ]
    for end in ends:
        end.start()
    for end in ends:
        end.join(30)
    assert (failures, ends_with) == ([], [None, None])
    assert not any(end.is_alive() for end in ends)
    said = capsys.readouterr().out
    assert "received greetings first hello" in said
    assert "acknowledged 1" in said


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("closes", ["the publisher", "the subscriber"])
def test_what_is_on_its_way_when_one_side_closes_arrives(
    certs: Certificates, version: ssl.TLSVersion, closes: str
) -> None:
    loop, failures, ends_with = page(), list[BaseException](), list[BaseException | None]()
    received, acked = list[int](), list[int]()
    serving, dialling = over_tls(certs, version)

    def subscriber(conn: Connection, event: object) -> None:
        if isinstance(event, HandshakeRequest):
            conn.accept([Subscription("greetings", "")])
        elif isinstance(event, Message) and event.message_id is not None:
            received.append(event.message_id)
            if len(received) <= MANY // 2 or closes == "the publisher":
                conn.send(Ack(event.message_id))
            if len(received) == MANY // 2 and closes == "the subscriber":
                conn.close()

    def publisher(conn: Connection, event: object) -> None:
        if isinstance(event, Established):
            for number in range(MANY):
                conn.send(Message("greetings", "", bytes(1000), message_id=number + 1))
            if closes == "the publisher":
                conn.close()
        elif isinstance(event, Ack):
            acked.append(event.message_id)

    def run(made: Callable[[], socket.socket], conn: Connection, react: Callable[..., None]) -> None:
        def watched(conn: Connection, event: object) -> None:
            if isinstance(event, Closed):
                ends_with.append(event.error)
            react(conn, event)

        try:
            with made() as sock:
                loop["drive"](sock, conn, watched)
        except BaseException as error:
            failures.append(error)

    ends = [
        threading.Thread(target=run, args=(serving, Connection(Role.SERVER, instance_id=ONE), subscriber)),
        threading.Thread(target=run, args=(dialling, Connection(Role.CLIENT, instance_id=OTHER), publisher)),
    ]
    for end in ends:
        end.start()
    for end in ends:
        end.join(30)
    assert (failures, ends_with) == ([], [None, None])
    assert len(received) == MANY
    assert len(acked) == (MANY if closes == "the publisher" else MANY // 2)

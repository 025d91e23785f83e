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
from tolliver_proto import Closed, Connection, Role

PAGE = Path(__file__).parent.parent / "docs" / "embedding.md"
ONE, OTHER = (UUID(f"01890000-0000-7000-8000-00000000000{number}") for number in (1, 2))


def page() -> dict[str, Any]:
    """Functions of the first program, without the lines that run it."""
    found = re.search(r"^```python\n(.*?)^left, right = ", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    made: dict[str, Any] = {}
    exec(found[1].replace("from tolliver import", "from tolliver_proto import"), made)
    return made


def over_tls(certs: Certificates) -> tuple[Callable[[], socket.socket], Callable[[], socket.socket]]:
    tls = certs.tls("left")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(tls.ca))
    for context in (server, client):
        context.load_cert_chain(str(tls.cert), str(tls.key))
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

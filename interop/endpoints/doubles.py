"""Endpoint of the matrix (interop/README.md): a double of the Go or of the Rust program of 2026.

    python -m interop.endpoints.doubles go|rust

The double of Go is without the defects of which it dies or after which it sends nothing more. Its rows, which the Go
program keeps in a database, are in a file here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from interop.endpoints.contract import Given, digest
from tests.adapters.gopeer import Forms2026, GoPeer, HandshakeFailed, Identity
from tests.adapters.rustpeer import RustPeer
from tests.foreign_kills import MENDED

RETRY = 1.0  # seconds, as Go has it
TICK = 0.01  # seconds


class Rows:
    """Messages of the Go program and their acks, in a file: ["row", id, key, file of the body] and ["ack", id]."""

    def __init__(self, path: Path) -> None:
        self.last, self.unacked = 0, dict[int, tuple[str, str]]()
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if line.endswith(b"\n"):  # else a kill has torn it
                kind, number, *rest = json.loads(line)
                self.last = max(self.last, number)
                if kind == "row":
                    self.unacked[number] = (rest[0], rest[1])
                else:
                    self.unacked.pop(number, None)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *record: object) -> None:
        os.write(self._fd, json.dumps(record).encode() + b"\n")


def go(given: Given) -> None:
    rows = Rows(given.state / "rows")
    files = (given.certs / f"{given.name}.pem", given.certs / f"{given.name}.key", given.certs / "ca.pem")
    double = GoPeer(
        MENDED,
        Identity(*files, spki_sha256=b""),
        instance_id=given.uuid,
        subscriptions=[(given.name, "")],
        table=[(given.peer, "", given.peer_uuid)],
        forms=Forms2026(),
    )

    def take(body: bytes) -> bool:
        """A callback is not told the key; the message that is being handled is the last one."""
        given.say("handled", double.messages[-1].key, digest(body))
        return True

    double.register("", "", take)
    owed = [(number, given.peer, key, Path(file).read_bytes()) for number, (key, file) in rows.unacked.items()]
    double.restore(rows.last, owed, given.peer_uuid)
    with double:
        start(given, double)
        keep(lambda: look_after(given, double, rows))
        for verb, key, file in given.lines():
            body = Path(file).read_bytes()
            if not double.connections:
                given.say("nobody", key)
            elif verb == "send":
                rows.last += 1
                rows.write("row", rows.last, key, file)
                sent = double.send(given.peer, key, body)
                assert sent == rows.last
                given.say("stored", key)
            else:
                double.unreliable_send(given.peer, key, body)
                given.say("told", key)


def look_after(given: Given, double: GoPeer, rows: Rows) -> Iterator[None]:
    """Note acks, send again, dial again; end where the Go program would."""
    noted, retried = 0, time.monotonic()
    while True:
        if double.panic is not None or double.stray or double.malformed:
            print(f"panic {double.panic}, stray {bytes(double.stray)!r}", file=sys.stderr, flush=True)
            os._exit(1)
        acks = double.acks[noted:]
        noted += len(acks)
        for number in acks:
            rows.write("ack", number)
        if double.connections and time.monotonic() > retried + RETRY:
            double.retry()
            retried = time.monotonic()
        if not given.listens and not double.connections:
            with suppress(OSError, HandshakeFailed):
                double.dial(given.port)
        yield


def rust(given: Given) -> None:
    with RustPeer(given.uuid) as double:
        start(given, double)
        keep(lambda: watch(given, double))
        for _, key, file in given.lines():
            if given.peer_uuid in double.connections:
                double.unreliable_send(given.peer_uuid, given.peer, key, Path(file).read_bytes())
                given.say("told", key)
            else:
                given.say("nobody", key)


def watch(given: Given, double: RustPeer) -> Iterator[None]:
    """Say what has come; dial until it is heard."""
    said = 0
    while True:
        for message in double.messages[said:]:
            given.say("handled", message.key, digest(message.body))
            said += 1
        if not given.listens and not double.connections:
            with suppress(OSError, EOFError):
                double.dial(given.port)
        yield


def start(given: Given, double: GoPeer | RustPeer) -> None:
    if given.listens:
        double.listen(given.port)
    given.say("ready")


def keep(work: Callable[[], Iterator[None]]) -> None:
    """Its steps, one a tick, in a thread of their own, to the end of the process."""

    def run() -> None:
        for _ in work():
            time.sleep(TICK)

    threading.Thread(target=run, daemon=True).start()


SCENARIOS = {
    "go": ("go-2026", ("messages", "unreliable", "large", "kills"), go),
    "rust": ("rust-2026", ("unreliable",), rust),
}

if __name__ == "__main__":
    wire, scenarios, run = SCENARIOS[sys.argv[1]]
    given = Given.from_environment()
    if given.wire != wire or given.scenario not in scenarios:
        sys.exit(127)
    run(given)
    os._exit(0)  # threads of a double wait for its peer

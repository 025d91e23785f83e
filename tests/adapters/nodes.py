"""Instances by name for scenarios, on real sockets, TLS and databases."""

from __future__ import annotations

import http.client
import socket
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from tolliver._options.instance import InstanceOptions

from tests.certificates import Certificates
from tolliver_proto import Delivery, NoticeKind

from .facade import Facade, Gate, World, until

AGAIN = {"retry_interval": 0.05}  # seconds; for tests in which something must come again
SOMEBODY = UUID("01890000-0000-7000-8000-00000000aaaa")


class Nodes:
    """Opens instances of one kind: a name is a certificate and a database."""

    def __init__(self, directory: Path, certs: Certificates, world: World) -> None:
        self.directory = directory
        self.certs = certs
        self.world = world
        self._gates: list[Gate] = []

    def options(self, name: str, **options: Any) -> InstanceOptions:
        options = {"database": self.directory / f"{name}.db", "listen": "127.0.0.1:0", **options}
        if "plaintext" not in options:
            options.setdefault("tls", self.certs.tls(name))
        return InstanceOptions(**options)

    def open(self, name: str, **options: Any) -> Facade:
        return Facade(self.world, self.options(name, **options))

    @contextmanager
    def pair(
        self, channels: Iterable[str] = ("news",), *, left: Any = None, right: Any = None
    ) -> Iterator[tuple[Facade, Facade, Inbox]]:
        """Two connected instances. The right one subscribes to the channels, and its inbox handles them."""
        with self.open("right", **(right or {})) as listener, self.open("left", **(left or {})) as dialler:
            inbox = Inbox()
            for channel in channels:
                listener.subscribe(channel, handler=inbox)
            dialler.new_connection(address(listener))
            yield dialler, listener, inbox

    def visit(self, host: Facade, name: str = "right") -> None:
        """Let this one subscribe to `news` at the host, and close it: afterwards it is away."""
        with self.open(name, subscriptions=["news"]) as visitor:
            visitor.new_connection(address(host))
            subscribed(host)

    def gate(self) -> Gate:
        """One that is opened at the end of the test, so that no handler waits for ever."""
        self._gates.append(Gate())
        return self._gates[-1]

    def open_gates(self) -> None:
        for gate in self._gates:
            gate.open()

    def rows(self, name: str, table: str) -> int:
        """Number of rows of a table in a database that nobody has open."""
        with closing(sqlite3.connect(self.directory / f"{name}.db")) as database:
            [(count,)] = database.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
        return int(count)


class Inbox:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    def holds(self, count: int) -> None:
        until(lambda: len(self.deliveries) >= count, f"{count} messages: there are {len(self.deliveries)}, and it")


def address(node: Facade) -> str:
    return f"127.0.0.1:{node.port}"


@contextmanager
def silent_port() -> Iterator[str]:
    """An address where TCP connects and then nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def asked(node: Facade, path: str, method: str = "GET") -> tuple[int, str]:
    """Status code and body of one request."""
    assert node.status_address is not None
    with closing(http.client.HTTPConnection(*node.status_address, timeout=20)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def connected(node: Facade) -> int:
    return node.stats()["peers_up"]


def subscribed(node: Facade, count: int = 1, peer: UUID | None = None) -> None:
    """Wait until the node knows that many subscriptions of its only peer, or of this one."""

    def known() -> bool:
        return any(len(one.subscriptions) == count for one in node.peers() if peer in (None, one.uuid))

    until(known, f"{count} subscriptions of the peer")


def noticed(node: Facade, kind: NoticeKind) -> list[str]:
    return [notice.detail for notice in node.notices() if notice.kind is kind]


def error_of(node: Facade, remote: Any) -> Any:
    """The error that dialling it comes to, if any."""
    outcome = node.start("new_connection", remote).outcome()
    return outcome if isinstance(outcome, Exception) else None


def gave_up(node: Facade) -> bool:
    """Nothing is connected and nothing is going to be dialled."""
    return not node.stats()["connections"] and not node.redials()

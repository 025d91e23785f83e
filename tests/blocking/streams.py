"""Streams on threads for tests: a pair, a peer whose wire can be seen, sources that block."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tolliver.blocking import Peer, Streams, StreamsOptions, create_streams

from tests.blocking.nodes import PATIENCE, until
from tolliver_proto.reactive import Connection, Event, Role


def opened(**options: Any) -> Streams:
    return create_streams(StreamsOptions(plaintext=True, **options))


@contextmanager
def pair(**options: Any) -> Iterator[tuple[Streams, Streams]]:
    """A publisher, and a subscriber that is connected to it, with these options both."""
    with opened(listen="127.0.0.1:0", **options) as publisher, opened(**options) as subscriber:
        subscriber.connect(f"127.0.0.1:{publisher.port}", timeout=PATIENCE)
        yield publisher, subscriber


class Raw:
    """A peer whose wire a test can see: it accepts one connection, and has the machine of one connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.machine = Connection(Role.SERVER)
        self.seen: list[Event] = []

    def accept(self) -> None:
        self._sock, _ = self._listener.accept()
        self._sock.settimeout(0.02)

    def read_until(self, true: Callable[[], object]) -> None:
        def look() -> object:
            for unit in self.machine.data_to_send():
                self._sock.sendall(unit)
            with contextlib.suppress(TimeoutError):
                if data := self._sock.recv(65536):
                    self.machine.receive_data(data)
                else:
                    self.machine.receive_eof()
            self.seen += self.machine.events()
            return true()

        until(look)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if type(event) is kind]

    def close(self) -> None:
        self._sock.close()
        self._listener.close()


def connected_to(raw: Raw, streams: Streams) -> Peer:
    with ThreadPoolExecutor(1) as pool:
        peer = pool.submit(streams.connect, raw.address, timeout=PATIENCE)
        raw.accept()
        raw.read_until(peer.done)
        return peer.result()


def numbers(_name: str) -> Iterator[bytes]:
    return (b"%d" % number for number in itertools.count())


class Blocks:
    """A source that says a few elements and blocks then, until it is let go."""

    def __init__(self, *elements: bytes) -> None:
        self.elements = elements
        self.blocked = threading.Event()
        self.held: list[threading.Thread] = []  # that blocked
        self.go_on = threading.Event()
        self.ended: list[threading.Thread] = []

    def __call__(self, _name: str) -> Iterator[bytes]:
        try:
            yield from self.elements
            self.held.append(threading.current_thread())
            self.blocked.set()
            assert self.go_on.wait(PATIENCE)
            yield b"at last"
        finally:
            self.ended.append(threading.current_thread())


def feeds() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tolliver reads")]

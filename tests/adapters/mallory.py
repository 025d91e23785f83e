"""Hostile member: a socket and any bytes; and a good member.

It says bytes and reads frames, and nothing of a connection's rules is in between. Every step has a limit, and the end
of the connection is no error: it is what most attacks come to.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self
from uuid import UUID

from tolliver_proto import (
    Ack,
    Decoder,
    Frame,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    Revision,
    Subscription,
    encode,
)
from tolliver_proto import reactive as rs

PATIENCE = 30.0  # seconds
PIECE = 65536  # bytes of a flood that are written at once
SMALL = 4096  # bytes of a receive buffer, so that who does not read is noticed soon


class Mallory(ABC):
    """The connection. Use it as a context manager. `deaf`: its kernel takes little, for one that does not read."""

    patience = PATIENCE
    """Seconds for each step."""

    def __init__(self, port: int, context: ssl.SSLContext, *, deaf: bool = False) -> None:
        self.frames: list[Any] = []
        self.answered: set[int] = set()  # ids of its own that were acknowledged, or whose stream has failed
        self.ended = False
        stream = socket.socket()
        stream.settimeout(self.patience)
        if deaf:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        stream.connect(("127.0.0.1", port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(stream, server_hostname="127.0.0.1", suppress_ragged_eofs=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> bool:
        """In pieces. Whether the other end took it."""
        try:
            for at in range(0, len(data), PIECE):
                self.socket.sendall(data[at : at + PIECE])
        except OSError:  # ssl.SSLError is one
            return False
        return True

    def write_each(self, pieces: Sequence[bytes]) -> bool:
        """Each in a record of its own."""
        return all(map(self.write, pieces))

    def read(self) -> bool:
        """One record. False at the end, however it came."""
        data = b""
        with suppress(ConnectionError, ssl.SSLError):
            data = self.socket.recv(PIECE)
        self.ended = not data
        self._feed(data)
        return bool(data)

    @abstractmethod
    def _feed(self, data: bytes) -> None: ...

    def reason(self) -> str:
        """Why it was ended, where that is said."""
        return ""

    @abstractmethod
    def sync(self) -> float:
        """Something that must be answered was: seconds that this took."""

    def hear(self, enough: Callable[[], object], what: str) -> None:
        """Read until then."""
        end = time.monotonic() + self.patience
        while not enough():
            assert time.monotonic() < end, f"{what} did not come within {self.patience} s"
            assert self.read(), f"{what} did not come: the connection has ended"

    def is_shut(self) -> bool:
        """Read to the end, which comes within the limit."""
        end = time.monotonic() + self.patience
        try:
            while self.read():
                if time.monotonic() > end:
                    return False
        except TimeoutError:
            return False
        return True

    def half_close(self) -> None:
        """Beneath TLS, which is told nothing."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def beneath(self, data: bytes) -> None:
        """Bytes on the wire that TLS has not sealed."""
        with suppress(OSError):
            socket.socket.send(self.socket, data)

    def say_end(self) -> None:
        """TLS's own end, close_notify, of our half."""
        self.socket.settimeout(0.0)
        with suppress(OSError):  # it would wait for the other's
            self.socket.unwrap()
        self.socket.settimeout(self.patience)


class Member(Mallory):
    """Speaks Tolliver. `hello` is the list of its handshake, or None to say nothing yet."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext,
        uuid: UUID,
        *,
        hello: Sequence[Subscription] | None = (),
        deaf: bool = False,
    ) -> None:
        super().__init__(port, context, deaf=deaf)
        self.uuid = uuid
        self._decoder = Decoder(Revision.DRAFT_2)
        self._marks = 0x7F000000
        if hello is not None:
            self.say(HandshakeRequest(1, uuid, tuple(hello)))
            self.hear(lambda: self.all(HandshakeResponse), "the response")

    def say(self, *frames: Frame) -> bool:
        return self.write(packed(*frames))

    def _feed(self, data: bytes) -> None:
        self._decoder.feed(data)
        while (frame := self._decoder.next_frame()) is not None:
            self.frames.append(frame)
            if isinstance(frame, Ack):
                self.answered.add(frame.message_id)

    def all(self, kind: type) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def sync(self) -> float:
        """A message of ours is handled or dropped, and acknowledged: seconds that this took."""
        self._marks += 1
        mark, began = self._marks, time.monotonic()
        self.say(Message("news", "", b"mark", mark))
        self.frames.clear()
        self.hear(lambda: mark in self.answered, "an ack")
        return time.monotonic() - began


class Streamer(Mallory):
    """Speaks the protocol of streams. `hello`: whether it begins as it should."""

    def __init__(self, port: int, context: ssl.SSLContext, *, hello: bool = True, deaf: bool = False) -> None:
        super().__init__(port, context, deaf=deaf)
        self._decoder = rs.Decoder()
        self._marks = 1_000_000
        if hello:
            self.say(rs.ClientHello())
            self.hear(lambda: self.all(rs.ServerHello), "the hello")

    def say(self, *frames: Any) -> bool:
        return self.write(streamed(*frames))

    def _feed(self, data: bytes) -> None:
        self._decoder.feed(data)
        while (frame := self._decoder.next_frame()) is not None:
            self.frames.append(frame)
            if isinstance(frame, rs.OnError):
                self.answered.add(frame.subscriber_id)

    def all(self, kind: type) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def sync(self) -> float:
        """A subscription of ours is refused: seconds that this took."""
        self._marks += 1
        mark, began = self._marks, time.monotonic()
        self.say(rs.Subscribe("nobody publishes this", mark, 0))
        self.frames.clear()
        self.hear(lambda: mark in self.answered, "a refusal")
        return time.monotonic() - began

    def reason(self) -> str:
        return " ".join(frame.reason for frame in self.all(rs.Goodbye))


def packed(*frames: Frame) -> bytes:
    return b"".join(encode(frame) for frame in frames)


def streamed(*frames: Any) -> bytes:
    return b"".join(rs.encode(frame) for frame in frames)


def codes(text: str) -> set[str]:
    """The short words of the errors that it quotes."""
    return set(re.findall(r"\[(\w+)[\]:]", text))

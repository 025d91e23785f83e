"""One connection of the kit: bytes and TLS below, frames above.

State: the socket, which never blocks; TLS without I/O; what is not sent yet; the frames that came and that no step has
taken. Bytes are read whenever the kit waits or writes, so two full buffers cannot wait for each other, unless a case
wants just that (`reads`). Ciphertext is fed record by record: `records` has the plaintext of each.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from time import monotonic
from typing import Any, Protocol

from tolliver_proto import TolliverError
from tolliver_proto.errors import ProtocolError

from .._tls.pump import AnyPump, PlainPump
from .cases import Failed

_HEAD = 5  # bytes before a TLS record, the last two of them its length
QUIET = 0.15
"""Seconds in which what must not come has time to come. An answer to something later came before."""
_SHOWN, _WIDTH = 6, 160
_MOST = 4  # times its patience that the kit waits for a peer which says other things


class End(StrEnum):
    """Ways in which the peer ended a connection."""

    ORDERLY = "an orderly end"
    CUT = "an end without close_notify"
    RESET = "a reset"
    TLS = "a failure of TLS"


class Frames(Protocol):
    """A decoder of either protocol."""

    def feed(self, data: bytes) -> object: ...
    def next_frame(self) -> Any: ...


class Wire:
    """A connection whose TLS stands. `patience` is how long an answer may take, in seconds."""

    def __init__(self, stream: socket.socket, pump: AnyPump, decoder: Frames, patience: float) -> None:
        self.pump, self.patience = pump, patience
        self.frames: list[Any] = []
        """Frames that came and that no step has taken."""
        self.records: list[bytes] = []
        self.end: End | None = None
        self.reads = True
        self._stream, self._decoder = stream, decoder
        self._unsent = bytearray()
        self._cipher = bytearray()
        self._log: deque[str] = deque(maxlen=_SHOWN)
        self._why = ""
        self._heard = 0  # frames
        stream.setblocking(False)

    def shake(self) -> bool:
        """TLS's handshake. False where it fails, and then `end` says how."""
        try:
            deadline = monotonic() + self.patience
            while not self.pump.handshake():
                self._unsent += self.pump.outgoing()
                if self.end is not None or not self._step(deadline):
                    return False
            self._unsent += self.pump.outgoing()
        except TolliverError as error:
            self._unsent += self.pump.outgoing()
            self._ended(End.TLS, str(error))
            with suppress(OSError):
                self.flush(1.0)
            return False
        self._read()  # frames may have come in the same piece
        return True

    # Output.

    def write(self, data: bytes) -> None:
        """Encrypts in TLS records of its own; it goes out with the next step."""
        with suppress(TolliverError):  # it is over: the next step that expects something says so
            self.pump.write(data)
            self._unsent += self.pump.outgoing()

    def send(self, data: bytes) -> None:
        """Writes, and waits until the socket has taken all, or the peer has ended."""
        self.write(data)
        if not self.flush(self.patience):
            raise self.failed("the peer to go on reading")

    def flush(self, seconds: float) -> bool:
        """True if the socket took all that is unsent in this time, or the connection ended."""
        deadline = monotonic() + seconds
        while self._unsent and self.end is not End.RESET:
            if not self._step(deadline):
                return False
        return True

    def finish(self, *, fin: bool = True) -> None:
        """The orderly end of our half: close_notify, then FIN."""
        self.pump.close_notify()
        self._unsent += self.pump.outgoing()
        self.flush(self.patience)
        if fin:
            self.cut()

    def cut(self) -> None:
        """FIN alone; we read on."""
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Ends at once, with a reset."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, (1).to_bytes(4, "little") + bytes(4))
        self._stream.close()
        self.end = self.end or End.RESET

    def close(self) -> None:
        """In order, where that is still possible; waits a moment for the peer's own end."""
        if self._stream.fileno() < 0:
            return
        with suppress(OSError, Failed):
            self.finish()
            self.reads = True
            self.wait(lambda: self.end is not None, min(2.0, self.patience))
        self._stream.close()

    # Input.

    def arrived(self, frame: Any) -> bool:
        """Hook for each frame: answers as any good peer does. True if a step may take the frame."""
        return True

    def wait(self, until: Callable[[], object], seconds: float) -> bool:
        """True if it came to be so in this time."""
        deadline = monotonic() + seconds
        while not until():
            if not self._step(deadline):
                return bool(until())
        return True

    def expect(self, what: str, match: Callable[[Any], bool], patience: float | None = None) -> Any:
        """The first frame that matches, of those that no step has taken."""

        def place() -> int | None:
            return next((at for at, frame in enumerate(self.frames) if match(frame)), None)

        patience = self.patience if patience is None else patience
        latest = monotonic() + _MOST * patience
        heard = -1
        while heard < self._heard and monotonic() < latest:  # a busy peer is not a silent one
            heard = self._heard
            if self.wait(lambda: place() is not None or self.end is not None, patience):
                break
        at = place()
        if at is None:
            raise self.failed(what)
        return self.frames.pop(at)

    def quiet(self, what: str, match: Callable[[Any], bool], seconds: float = QUIET) -> None:
        """Nothing that matches came, nor comes in this time. `what` says so."""
        if self.wait(lambda: any(map(match, self.frames)), seconds):
            raise self.failed(what)

    def ends(self, what: str = "the connection to be ended", patience: float | None = None) -> End:
        """The peer ends the connection, however."""
        if not self.wait(lambda: self.end is not None, self.patience if patience is None else patience):
            raise self.failed(what)
        assert self.end is not None
        return self.end

    def failed(self, expected: str) -> Failed:
        """The error: this was expected, and the last frames were seen, and the end if it came."""
        seen = [*self._log]
        if self.end is not None:
            seen.append(f"{self.end}{f' ({self._why})' if self._why else ''}")
        elif not seen:
            seen.append("nothing")
        return Failed(expected, ", then ".join(seen))

    # Steps.

    def _step(self, deadline: float) -> bool:
        """Waits once for the socket. False where the time is over, or nothing can come any more."""
        wait = deadline - monotonic()
        reads = self.reads and self.end is None
        if wait <= 0 or self._stream.fileno() < 0 or not (reads or self._unsent):
            return False
        readable, writable, _ = select.select([self._stream] * reads, [self._stream] * bool(self._unsent), [], wait)
        try:
            if writable:
                del self._unsent[: self._stream.send(self._unsent[:262144])]
            if readable:
                self._take(self._stream.recv(65536))
        except BlockingIOError:
            pass
        except OSError as error:  # an end that came with bytes is read first
            if readable or not reads or isinstance(error, ConnectionResetError):
                self._ended(End.RESET)
            self._unsent.clear()
        return bool(readable or writable)

    def _take(self, data: bytes) -> None:
        if not data:
            self.pump.receive(bytes(self._cipher))
            self.pump.receive_eof()
            self._read()
            self._ended(End.ORDERLY if self.pump.peer_closed else End.CUT)
            return
        if isinstance(self.pump, PlainPump):
            self.pump.receive(data)
            self._read()
            return
        self._cipher += data
        while len(self._cipher) >= (size := _HEAD + int.from_bytes(self._cipher[3:_HEAD], "big")) > _HEAD - 1:
            if len(self._cipher) < _HEAD:
                break
            self.pump.receive(bytes(self._cipher[:size]))
            del self._cipher[:size]
            self._read()

    def _read(self) -> None:
        try:
            if not self.pump.handshake():
                return
            data = self.pump.read()
        except TolliverError as error:
            self._ended(End.TLS, str(error))
            return
        if data:
            self.records.append(data)
            self._decoder.feed(data)
            self._parse()
        if self.pump.peer_closed:
            self._ended(End.ORDERLY)

    def _parse(self) -> None:
        try:
            while (frame := self._decoder.next_frame()) is not None:
                self._heard += 1
                self._log.append(shown(frame))
                if self.arrived(frame):
                    self.frames.append(frame)
        except ProtocolError as error:
            raise self.failed(f"frames of the protocol, but: {error}") from error

    def _ended(self, end: End, why: str = "") -> None:
        if self.end is None:
            self.end, self._why = end, why


def shown(frame: object) -> str:
    """A frame for a report: escaped, and cut."""
    text = repr(frame)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}... ({len(text):,} characters)"

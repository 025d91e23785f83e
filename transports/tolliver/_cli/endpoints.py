"""Status endpoints of other instances, read over HTTP.

The parts of their answers are here, too. Others wrote the answer. So it has a bound in bytes and in time, a part of it
has the type that is asked for whatever is there, and a text of it is printable.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field

from tolliver_proto import TolliverError

from .._options.instance import Remote
from .._tls.pump import PlainPump
from . import probe, words

PORT = 9464
_MOST = 2**26  # bytes of an answer
_SAID = 300  # characters of an answer that is no status
_OPEN = 'its program opens one with InstanceOptions(status="HOST:PORT"), `tolliver run` with status = "HOST:PORT"'


@define(frozen=True)
class Endpoint:
    """Host and port of a status endpoint."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """From "HOST:PORT", "HOST" or "http://HOST:PORT/". Raises ValueError."""
        if "://" in text:
            parts = urlsplit(text)
            if parts.scheme != "http" or parts.path not in ("", "/", "/status.json"):
                raise ValueError(f"{text!r:.100}: give HOST:PORT, or http://HOST:PORT/; an endpoint has no TLS")
            text = parts.netloc
        place = Remote.parse(text, PORT)
        if place.pinned:
            raise ValueError(f"{text!r:.100}: an endpoint has no TLS, so nothing can be in front of the host")
        return cls(place.host, place.port)

    def __str__(self) -> str:
        return str(Remote(self.host, self.port))


class NoStatus(Exception):
    """No status came: cause and remedy, in a sentence."""


class Part:
    """A part of an answer, by names. A value of another type counts as none."""

    def __init__(self, data: object) -> None:
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def data(self) -> dict[str, Any]:
        """The part as it came."""
        return self._data

    def text(self, name: str) -> str:
        return _printable(self._data.get(name))

    def texts(self, name: str) -> list[str]:
        return [_printable(one) for one in self._list(name)]

    def number(self, name: str) -> float | None:
        value = self._data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return value if math.isfinite(value) else None
        except OverflowError:  # a whole number without end
            return None

    def flag(self, name: str) -> bool:
        return self._data.get(name) is True

    def part(self, name: str) -> Part:
        return Part(self._data.get(name))

    def parts(self, name: str) -> list[Part]:
        return [Part(one) for one in self._list(name)]

    def numbers(self, name: str) -> list[float]:
        return [float(one) for one in self._list(name) if isinstance(one, int | float)]

    def _list(self, name: str) -> list[Any]:
        value = self._data.get(name)
        return value if isinstance(value, list) else []


def _printable(value: object) -> str:
    return words.line(value) if isinstance(value, str) else ""


@define(frozen=True)
class Look:
    """One look at an endpoint: its status, or why there is none; `at` is our own clock, in seconds."""

    endpoint: Endpoint
    status: Part | None
    error: str = ""
    at: float = field(factory=time.monotonic)


def look(endpoint: Endpoint, seconds: float) -> Look:
    """Never raises; ends after so many seconds."""
    try:
        return Look(endpoint, read(endpoint, seconds))
    except NoStatus as error:
        return Look(endpoint, None, str(error))


def look_at_all(endpoints: Sequence[Endpoint], seconds: float) -> list[Look]:
    """All at a time, in their order."""
    looks: dict[Endpoint, Look] = {}

    def put(endpoint: Endpoint) -> None:
        looks[endpoint] = look(endpoint, seconds)

    threads = [
        threading.Thread(target=put, args=(endpoint,), name=f"tolliver look {endpoint}", daemon=True)
        for endpoint in dict.fromkeys(endpoints)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [looks[endpoint] for endpoint in endpoints]


def read(endpoint: Endpoint, seconds: float) -> Part:
    """The status that is served there. Raises NoStatus."""
    head, body = _answer(endpoint, seconds)
    code = head.split(b" ", 2)[1:2]
    if code != [b"200"]:
        raise NoStatus(_refused(b"".join(code).decode("latin-1"), body))
    try:
        status = Part(json.loads(body))
    except (ValueError, RecursionError):
        status = Part(None)
    if not status.text("uuid") or not isinstance(status.data.get("gauges"), dict):
        raise NoStatus(f"a server of HTTP answers there, and not with the status of an instance: {_OPEN}")
    return status


def _refused(code: str, body: bytes) -> str:
    said = words.line(" ".join(body[:_SAID].decode("utf-8", "replace").split()))
    if code == "503":
        return f"the instance is there, and does not answer: {said}"
    if code == "404":
        return f"a server of HTTP answers there, and has no /status.json: {_OPEN}"
    return f"it answers with {words.line(code)} and not with a status: {said}"


def _answer(endpoint: Endpoint, seconds: float) -> tuple[bytes, bytes]:
    """First line and body."""
    deadline = time.monotonic() + seconds
    failure: Exception | None = None
    try:
        for address in probe.resolve(endpoint.host, endpoint.port, seconds):
            try:
                with probe.reach(address, max(0.01, deadline - time.monotonic())) as sock:
                    line = probe.Line(sock, PlainPump(), max(0.01, deadline - time.monotonic()))
                    line.send(f"GET /status.json HTTP/1.0\r\nHost: {endpoint}\r\n\r\n".encode())
                    return _split(_all(line), seconds)
            except (ConnectionError, OSError) as error:
                failure = error
    except OSError as error:  # of the name
        if isinstance(error, TimeoutError):
            raise NoStatus(f"no name server says within {seconds:g} s where {endpoint.host} is") from None
        raise NoStatus(f"the name {endpoint.host} leads nowhere: {error.strerror or error}") from None
    except TolliverError as error:
        raise NoStatus(words.line(str(error))) from None
    raise NoStatus(_unreached(endpoint, failure, seconds))


def _all(line: probe.Line) -> bytes:
    parts, size = [], 0
    while data := line.read():
        parts.append(data)
        size += len(data)
        if size > _MOST:
            raise NoStatus("its answer is longer than any status is")
    return b"".join(parts)


def _split(answer: bytes, seconds: float) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/"):
        raise NoStatus(f"it does not speak HTTP: is that the port of messages? {_OPEN}")
    return head.partition(b"\r\n")[0], body


def _unreached(endpoint: Endpoint, error: Exception | None, seconds: float) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens there: start the instance, or correct the port; {_OPEN}"
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s: the machine is off, something drops the packets, or it is no endpoint"
    said = getattr(error, "strerror", None) or error
    return f"there is no way to {endpoint}: {said}"

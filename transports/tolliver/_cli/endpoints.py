"""Status endpoints of other instances, read over HTTP.

Responses are not trusted: size and time are limited, values of an unexpected type count as missing, and texts are made
printable.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from attrs import define, field

from tolliver_proto import TolliverError

from .._options.instance import Remote
from .._tls.pump import PlainPump
from . import causes, probe, words

PORT = 9464
_MOST = 2**26  # most bytes of a response
_SAID = 300  # most characters shown of a response that is no status
_NO_TIME = 1e11  # seconds since 1970 above which a time is invalid
_OPEN = 'an instance opens one with its option status, which is status = "HOST:PORT" in the file of `tolliver run`'
_START = f"start the instance, or correct the port; {_OPEN}"


@define(frozen=True)
class Endpoint:
    """Host and port of a status endpoint."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Endpoint from "HOST:PORT", "HOST" or "http://HOST:PORT/". Raises ValueError."""
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


class NoStatus(ValueError):
    """No status could be read; the text has cause and advice."""


class Part:
    """Part of a status as received, with access by name. A value of another type counts as missing."""

    def __init__(self, data: object) -> None:
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def data(self) -> dict[str, Any]:
        """The data as received, without checks of types."""
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
        except OverflowError:  # an infinite number
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
    """One reading of an endpoint: its status or the reason of the failure; `at` is our own clock in seconds."""

    endpoint: Endpoint
    status: Part | None
    error: str = ""
    at: float = field(factory=time.monotonic)


def look(endpoint: Endpoint, seconds: float) -> Look:
    """Read an endpoint within `seconds`. Never raises: a failure is in the Look."""
    try:
        return Look(endpoint, read(endpoint, seconds))
    except NoStatus as error:
        return Look(endpoint, None, str(error))


def look_at_all(endpoints: Sequence[Endpoint], seconds: float) -> list[Look]:
    """Read all endpoints in parallel, each within `seconds`; results are in their order."""
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
    """Status from the endpoint, which has `seconds` to answer. Raises NoStatus."""
    answer = _ask(endpoint, seconds)
    code = answer.head.split(b" ", 2)[1:2]
    if code != [b"200"]:
        raise NoStatus(_refused(b"".join(code).decode("latin-1"), answer.body))
    status = _status_in(answer.body)
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


@define(frozen=True)
class Clock:
    """Time of another machine and ours at one moment, with a precision in seconds."""

    theirs: float
    ours: float
    precision: float
    status: Part
    """The status in the same response; empty for another web server."""


def read_clock(endpoint: Endpoint, seconds: float) -> Clock:
    """Time from the status, or from the Date header of any HTTP server, which has whole seconds.

    Raises NoStatus, and ValueError if there is no time.
    """
    answer = _ask(endpoint, seconds)
    theirs, precision = time_in(answer.head, answer.body)
    return Clock(theirs, answer.asked + answer.took / 2, answer.took / 2 + precision, _status_in(answer.body))


def time_in(head: bytes, body: bytes) -> tuple[float, float]:
    """Time in an HTTP response, in seconds since 1970, and its precision in seconds. Raises ValueError."""
    told = _status_in(body).number("time")
    if told is not None and 0 <= told < _NO_TIME:
        return told, 0.0
    date = http.client.parse_headers(BytesIO(head.partition(b"\r\n")[2] + b"\r\n\r\n")).get("Date")
    if date is None:
        raise ValueError("its answer has no Date")
    return parsedate_to_datetime(date).timestamp() + 0.5, 0.5


def _status_in(body: bytes) -> Part:
    try:
        return Part(json.loads(body))
    except (ValueError, RecursionError):
        return Part(None)


class _Answer(NamedTuple):
    """An HTTP response: time of the request (seconds since 1970), and seconds until it began."""

    head: bytes
    body: bytes
    asked: float
    took: float


def _ask(endpoint: Endpoint, seconds: float) -> _Answer:
    """The first response from one of the endpoint's addresses, within `seconds` in all. Raises NoStatus."""
    deadline = time.monotonic() + seconds
    try:
        addresses = probe.resolve(endpoint.host, endpoint.port, seconds)
    except OSError as error:
        raise _unreached(causes.no_name(endpoint.host, error)) from None
    failure = OSError("it has no address")
    for address in addresses:
        try:
            with probe.reach(address, max(0.01, deadline - time.monotonic())) as sock:
                line = probe.Line(sock, PlainPump(), max(0.01, deadline - time.monotonic()))
                asked = time.time()
                line.send(f"GET /status.json HTTP/1.0\r\nHost: {endpoint}\r\n\r\n".encode())
                answer = line.read()
                took = time.time() - asked
                while data := line.read():
                    answer += data
                    if len(answer) > _MOST:
                        raise NoStatus("its answer is longer than any status is")
                return _Answer(*split(answer), asked, took)
        except OSError as error:
            failure = error
        except TolliverError as error:
            raise NoStatus(words.line(str(error))) from None
    raise _unreached(causes.unreached(endpoint, failure, seconds))


def split(answer: bytes) -> tuple[bytes, bytes]:
    """Head and body of an HTTP response. Raises NoStatus for anything else."""
    if not answer.startswith(b"HTTP/"):
        raise NoStatus(f"it does not speak HTTP: is that the port of messages? {_OPEN}")
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def _unreached(finding: causes.Finding) -> NoStatus:
    return NoStatus(f"{finding.text}: {_START if finding.cause == 'refused' else finding.remedy}")

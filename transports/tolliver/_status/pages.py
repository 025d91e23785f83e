"""Requests and responses of the status endpoint, as bytes, without sockets."""

from __future__ import annotations

import ipaddress
import json
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from .prometheus import CONTENT_TYPE, text_of
from .snapshot import InstanceStatus

_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_TEXT = "text/plain; charset=utf-8"
_PATHS = ("/", "/healthz", "/readyz", "/metrics", "/status.json")
_ALWAYS = (
    "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
)
_NOTHING = "default-src 'none'; frame-ancestors 'none'"


class Response(NamedTuple):
    """Response of the status endpoint as bytes: in full, and its head for HEAD requests."""

    whole: bytes
    head: bytes


class Request(NamedTuple):
    """Request to the status endpoint: its path, or the response that refuses it."""

    path: str
    sends_body: bool = True
    refusal: Response | None = None

    @property
    def needs_snapshot(self) -> bool:
        """True for all paths except the HTML page, which fetches the snapshot itself."""
        return self.path != "/"


def requested(head: bytes, anywhere: bool) -> Request:
    """Parse the head of a request. `anywhere` accepts any Host header, not only an IP address or localhost."""
    said, end, _ = head.partition(b"\r\n\r\n")
    if not end:
        return _refused(431, "the head of a request ends within 8 KiB here")
    first, *lines = said.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _refused(400, "this is no request of HTTP/1.1")
    method, target, _ = words
    if method not in ("GET", "HEAD"):
        return _refused(405, "GET and HEAD are all that there is", "Allow: GET, HEAD\r\n")
    if not anywhere and not all(_is_near(line) for line in lines):
        return _refused(
            403,
            "this endpoint is for its own machine, by an address or as localhost: any other name may be a page of "
            "another site that has a browser ask here. Open it with status_anywhere=True to use names",
        )
    path = target.partition("?")[0]
    if path not in _PATHS:
        return _refused(404, f"there is {', '.join(_PATHS)}")._replace(sends_body=method == "GET")
    return Request(path, method == "GET")


def _is_near(line: str) -> bool:
    """False if the line is a Host header that names neither an IP address nor localhost."""
    field, _, value = line.partition(":")
    if field.strip().lower() != "host":
        return True
    host = value.strip().lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def respond(path: str, status: InstanceStatus | None) -> Response:
    """Response for the path. Only the HTML page needs no snapshot."""
    if status is None:
        body, policy = _page()
        return _response(200, body, "text/html; charset=utf-8", policy=policy)
    if path == "/metrics":
        return _response(200, text_of(status).encode(), CONTENT_TYPE)
    if path == "/status.json":
        return _response(200, json.dumps(status.as_dict(), allow_nan=False).encode(), "application/json")
    if path == "/readyz" and not status.ready:
        return _response(503, _said("not ready", *status.not_ready, *status.warnings))
    return _response(200, _said(*(("ready", *status.warnings) if path == "/readyz" else ("alive",))))


def too_late(seconds: float) -> Response:
    """Response if the loop does not answer within `seconds`."""
    return _response(
        503,
        _said(
            f"the instance's loop has not answered for {seconds:.1f} s",
            "a handler or the program itself keeps it: look at what blocks there",
        ),
    )


def broken() -> Response:
    """Response if the snapshot could not be encoded."""
    return _response(500, _said("this answer could not be made: the log says why"))


def _said(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _refused(code: int, text: str, more: str = "") -> Request:
    return Request("", True, _response(code, _said(text), more=more))


def _response(code: int, body: bytes, kind: str = _TEXT, policy: str = _NOTHING, more: str = "") -> Response:
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Security-Policy: {policy}\r\n{more}{_ALWAYS}\r\n"
    )
    encoded = head.encode("latin-1")
    return Response(encoded + body, encoded)


@lru_cache(1)
def _page() -> tuple[bytes, str]:
    """The HTML page, and its Content-Security-Policy, which allows only its own style and script."""
    text = files(__package__).joinpath("page.html").read_text("utf-8")
    style, script = (_hash(text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]) for tag in ("style", "script"))
    policy = (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

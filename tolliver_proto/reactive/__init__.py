"""Reactive Streams over a network as a pure state machine: the second protocol. Bytes in, events out, no I/O.

This file is the public surface; every other module of the package is private but `testing`.
"""

from __future__ import annotations

from .._events import Closed, Role
from ._connection import ALPN, DEFAULT_PORT, VERSION, Connection
from ._errors import ConnectionClosed, VersionMismatch
from ._events import (
    Cancel,
    ClientHello,
    Elements,
    Event,
    Frame,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from ._frames import Decoder, decode, encode
from ._layout import DRAFT, Extension, Form, Kind, Layout
from ._limits import Limits
from ._state import State
from ._varint import MAX_LONG as UNBOUNDED

__all__ = [
    "ALPN",
    "DEFAULT_PORT",
    "DRAFT",
    "UNBOUNDED",
    "VERSION",
    "Cancel",
    "ClientHello",
    "Closed",
    "Connection",
    "ConnectionClosed",
    "Decoder",
    "Elements",
    "Event",
    "Extension",
    "Form",
    "Frame",
    "Goodbye",
    "Kind",
    "Layout",
    "Limits",
    "OnComplete",
    "OnError",
    "OnNext",
    "OnNextPacked",
    "Request",
    "Role",
    "ServerHello",
    "State",
    "Subscribe",
    "Subscribed",
    "VersionMismatch",
    "decode",
    "encode",
]

"""Reactive Streams over a network, as a pure state machine.

This file is the public surface; every other module of the package is private but `testing`.
"""

from __future__ import annotations

from .._common.certificate_watch import CertificateExpires
from .._common.dial_failures import DialFailure
from .._common.transport import Role
from .._wire.events import Closed
from ._actions import Action, Drained, Happened, PeerDown, PeerUp
from ._connection import ALPN, DEFAULT_PORT, VERSION, Connection
from ._errors import ConnectionClosed, HelloRefused, StreamError, VersionMismatch
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
from ._hub import Hub
from ._layout import DRAFT, Extension, Form, Kind, Layout
from ._limits import Limits
from ._state import State
from ._stats import HubStats
from ._varint import MAX_LONG as UNBOUNDED

__all__ = [
    "ALPN",
    "DEFAULT_PORT",
    "DRAFT",
    "UNBOUNDED",
    "VERSION",
    "Action",
    "Cancel",
    "CertificateExpires",
    "ClientHello",
    "Closed",
    "Connection",
    "ConnectionClosed",
    "Decoder",
    "DialFailure",
    "Drained",
    "Elements",
    "Event",
    "Extension",
    "Form",
    "Frame",
    "Goodbye",
    "Happened",
    "HelloRefused",
    "Hub",
    "HubStats",
    "Kind",
    "Layout",
    "Limits",
    "OnComplete",
    "OnError",
    "OnNext",
    "OnNextPacked",
    "PeerDown",
    "PeerUp",
    "Request",
    "Role",
    "ServerHello",
    "State",
    "StreamError",
    "Subscribe",
    "Subscribed",
    "VersionMismatch",
    "decode",
    "encode",
]

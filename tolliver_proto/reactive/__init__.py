"""Reactive Streams over a network, as a pure state machine.

This file is the public surface; all other modules of the package are private, except `testing`.

`_events` has the frames, `_layout` their form as data, `_frames` and `_runs` the codec, `_state` the tables,
`_connection` one connection with its two halves (`_publisher`, `_subscriber`), `_hub` all connections of a program.

State: the state of each connection, and one record for each open stream; the protocol stores nothing. Invariants: a
publisher sends no element without demand, and a subscriber hands out none that was not asked for (rule 1.1, R-18);
every subscribe is answered by one `subscribed` (R-10, R-14); the end of a connection ends each of its streams once, and
is the last event (R-29, R-30). A call never leads to a callback: the events of a call are taken later, so that a
program may call from anywhere. One machine for both protocols was rejected: they share the table of
connections and the terms of `_common`, and no frame.
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
from ._sign_of_life import SIGN_OF_LIFE
from ._state import State
from ._stats import HubStats
from ._varint import MAX_LONG as UNBOUNDED

__all__ = [
    "ALPN",
    "DEFAULT_PORT",
    "DRAFT",
    "SIGN_OF_LIFE",
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

"""Events of a program's streams, for `events()` and `on_event`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tolliver_proto import TolliverError
from tolliver_proto.node import CertificateExpires, DialCause

from .._options.instance import Remote
from .peers import BasePeer

P = TypeVar("P", bound=BasePeer)


@dataclass(frozen=True, slots=True)
class StreamsPeerUp(Generic[P]):
    """A peer has connected and said hello: streams may start in both directions."""

    peer: P


@dataclass(frozen=True, slots=True)
class StreamsPeerDown(Generic[P]):
    """A connection has ended, with all its streams. `error` is the reason: ConnectionClosed after an orderly end."""

    peer: P
    error: TolliverError


@dataclass(frozen=True, slots=True)
class StreamsDialFailed:
    """A `connect` failed, or its caller gave up. `text` gives the reason in words."""

    remote: Remote
    cause: DialCause
    text: str


StreamsEvent = StreamsPeerUp[P] | StreamsPeerDown[P] | StreamsDialFailed | CertificateExpires
"""Every type of event of streams, except EventsMissed."""

"""Events of a program's streams: what `events()` and `on_event` tell."""

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
    """A peer has said hello: streams may go both ways."""

    peer: P


@dataclass(frozen=True, slots=True)
class StreamsPeerDown(Generic[P]):
    """A connection is over, and every stream of it. `error` says why: ConnectionClosed after goodbyes."""

    peer: P
    error: TolliverError


@dataclass(frozen=True, slots=True)
class StreamsDialFailed:
    """A `connect` came to nothing, or was given up by its caller. `text` says why, for people."""

    remote: Remote
    cause: DialCause
    text: str


StreamsEvent = StreamsPeerUp[P] | StreamsPeerDown[P] | StreamsDialFailed | CertificateExpires
"""All that can be told of streams; EventsMissed comes beside it."""

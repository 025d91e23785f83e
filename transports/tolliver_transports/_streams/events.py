"""Events of a program's streams: what `events()` and `on_event` tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tolliver_proto import TolliverError

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

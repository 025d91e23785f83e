"""Frames of the Reactive Streams protocol, which are also the events.

Each frame has one small class, the same in both directions. `Closed` and `Role` are those of the other protocol, so
that one adapter can drive both. A subscriber id belongs to the subscriber (R-11): in subscribe, request and cancel it
is the sender's, in all others the receiver's.
"""

from __future__ import annotations

from dataclasses import field

from .._common.errors import TolliverError
from .._common.records import record
from .._wire.events import Closed


@record
class ClientHello:
    """First frame of the side that opened the connection (R-25)."""

    version: int = 0
    extensions: tuple[int, ...] = ()


@record
class ServerHello:
    """First frame of the other side (R-25)."""

    version: int = 0
    extensions: tuple[int, ...] = ()


@record
class Subscribe:
    """The peer wants the elements of the publisher `name`; `initial_demand` of them at once, 0 is legal (R-05)."""

    name: str
    subscriber_id: int
    initial_demand: int = 0


@record
class Request:
    """`count` more elements may come; 2^63-1 means without bound (R-17)."""

    subscriber_id: int
    count: int


@record
class Cancel:
    """The subscriber wants no more. As an event: this stream is over, whoever ended it (R-16, R-29)."""

    subscriber_id: int


@record
class Subscribed:
    """The publisher's answer to a subscribe, exactly one each. `element_size` is in bytes, 0 where it varies."""

    subscriber_id: int
    element_size: int = 0


@record
class OnNext:
    """One element."""

    subscriber_id: int
    element: bytes


@record
class OnComplete:
    """The stream ended well."""

    subscriber_id: int


@record
class OnError:
    """The stream failed. `cause` is never on the wire: it says what happened where this side made the event (R-29)."""

    subscriber_id: int
    message: str
    cause: TolliverError | None = field(default=None, compare=False)


@record
class OnNextPacked:
    """Several elements of a stream with a fixed element size."""

    subscriber_id: int
    elements: tuple[bytes, ...]


@record
class Goodbye:
    """The orderly end: ends every stream, and is answered with another (R-28, R-29)."""

    reason: str = ""


@record
class Elements:
    """Elements of one stream that came one after the other, however they were framed: what `next_run` hands out."""

    subscriber_id: int
    elements: list[bytes]


Signal = Subscribed | OnNext | OnNextPacked | OnComplete | OnError
"""From publisher to subscriber."""

Demand = Subscribe | Request | Cancel
"""From subscriber to publisher."""

Frame = ClientHello | ServerHello | Demand | Signal | Goodbye
Event = Frame | Closed
"""Events that `Connection` hands out; frames of extensions besides."""

"""Frames of the Reactive Streams protocol, which are also the events.

Each frame has one small class, the same in both directions. `Closed` and `Role` are those of the messaging protocol, so
that one adapter can drive both. A subscriber id is given by the subscriber (R-11): in subscribe, request and cancel the
id is the sender's, in all other frames the receiver's.
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
    """First frame of the side that accepted the connection (R-25)."""

    version: int = 0
    extensions: tuple[int, ...] = ()


@record
class Subscribe:
    """The sender wants elements of the publisher `name`, and `initial_demand` of them at once; 0 is legal (R-05)."""

    name: str
    subscriber_id: int
    initial_demand: int = 0


@record
class Request:
    """The subscriber wants `count` more elements; 2^63-1 means without bound (R-17)."""

    subscriber_id: int
    count: int


@record
class Cancel:
    """The subscriber wants no more elements. As an event: the stream has ended, by either side (R-16, R-29)."""

    subscriber_id: int


@record
class Subscribed:
    """The publisher's answer to a subscribe, exactly one for each. `element_size` is in bytes, 0 if sizes differ."""

    subscriber_id: int
    element_size: int = 0


@record
class OnNext:
    """One element."""

    subscriber_id: int
    element: bytes


@record
class OnComplete:
    """The stream has ended without an error."""

    subscriber_id: int


@record
class OnError:
    """The stream has failed. `cause` is not on the wire: this side sets it in the events that it makes (R-29)."""

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
    """Orderly end of the connection: ends every stream, and is answered by a Goodbye (R-28, R-29)."""

    reason: str = ""


@record
class Elements:
    """Elements of one stream that came one after the other, in any frames; `Connection.next_run` hands them out."""

    subscriber_id: int
    elements: list[bytes]


Signal = Subscribed | OnNext | OnNextPacked | OnComplete | OnError
"""Frames from publisher to subscriber."""

Demand = Subscribe | Request | Cancel
"""Frames from subscriber to publisher."""

Frame = ClientHello | ServerHello | Demand | Signal | Goodbye
Event = Frame | Closed
"""Events that `Connection` hands out, without the frames of extensions."""

"""The name and codec of a stream."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ..codecs._codec import AnyCodec, coding_of
from .publishing import check_name
from .streams import BaseStreamsCore

T = TypeVar("T")


class BaseStreamChannel(Generic[T]):
    """Streams of one name with a codec; the adapters add the calls."""

    def __init__(self, core: BaseStreamsCore[Any], name: str, codec: AnyCodec[T] | None) -> None:
        check_name(name)
        coding_of(codec)  # raises TypeError for an invalid codec
        self._core = core
        self._name = name
        self._codec = codec

    @property
    def name(self) -> str:
        """Name under which the stream is published or subscribed to."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r:.100}>"

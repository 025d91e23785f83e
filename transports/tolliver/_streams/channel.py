"""One stream's name and codec."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ..codecs._codec import AnyCodec, coding_of
from .streams import BaseStreamsCore

T = TypeVar("T")


class BaseStreamChannel(Generic[T]):
    """The streams of one name, without their calls."""

    def __init__(self, core: BaseStreamsCore[Any], name: str, codec: AnyCodec[T] | None) -> None:
        coding_of(codec)  # which may refuse it
        self._core = core
        self._name = name
        self._codec = codec

    @property
    def name(self) -> str:
        """The name that is offered or asked for."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r:.100}>"

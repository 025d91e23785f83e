"""Retained messages with a codec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar, cast
from uuid import UUID

from tolliver_proto.errors import BodyNotDecoded
from tolliver_proto.node import RetainedValue

from ._bodies import Opener
from ._codec import AnyCodec

T = TypeVar("T")


class TypedRetainedValue(RetainedValue, Generic[T]):
    """A retained message with the `value` decoded from its body."""

    __slots__ = ("_error", "_value")

    def __init__(self, kept: RetainedValue, value: T | None, error: BodyNotDecoded | None = None) -> None:
        super().__init__(kept.channel, kept.key, kept.body, kept.stored_at)
        self._value = value
        self._error = error

    @property
    def value(self) -> T:
        """The decoded value. Raises BodyNotDecoded, as a retained message may have been sent with another codec
        (P-48)."""
        if self._error is not None:
            raise self._error
        return cast(T, self._value)


def opened_values(codec: AnyCodec[T], own: UUID, values: Iterable[RetainedValue]) -> list[TypedRetainedValue[T]]:
    """Retained messages of the instance with UUID `own`, with decoded values. Raises TypeError for an invalid codec."""
    opener = Opener(codec)
    return [_opened(opener, own, one) for one in values]


def _opened(opener: Opener[T], own: UUID, kept: RetainedValue) -> TypedRetainedValue[T]:
    try:
        return TypedRetainedValue(kept, opener.value(kept.channel, kept.key, own, kept.body))
    except BodyNotDecoded as error:
        return TypedRetainedValue(kept, None, error)

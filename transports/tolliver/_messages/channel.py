"""Calls of one channel with typed values, without those that wait.

A channel wraps the calls of its instance: the codec encodes before a call and decodes after its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from tolliver_proto.node import Reply, RetainedValue, check_type, listed

from ..codecs._bodies import TypedHandler, decoding, encoded, encoded_items
from ..codecs._codec import BYTES, AnyCodec, coding_of
from ..codecs._requests import TypedReply, TypedResponding, answering, opened_replies, opened_reply
from ..codecs._retained import TypedRetainedValue, opened_values
from .facade import BaseInstance
from .responding import Responding

T = TypeVar("T")
R = TypeVar("R")


class BaseChannel(Generic[T, R]):
    """One channel of an instance with the codecs of its values: its calls that never wait."""

    def __init__(
        self,
        instance: BaseInstance[Any],
        name: str,
        codec: AnyCodec[T] | None,
        reply_codec: AnyCodec[R] | None,
        keep: bool,
    ) -> None:
        check_type("name", name, str, "the name of the channel")
        if codec is None and reply_codec is not None:
            raise TypeError("reply_codec is given alone: give codec, too")
        self._instance = instance
        self._name = name
        self._codec = cast("AnyCodec[T]", BYTES) if codec is None else codec
        self._reply_codec = cast("AnyCodec[R]", self._codec) if reply_codec is None else reply_codec
        coding_of(self._codec), coding_of(self._reply_codec)  # raises TypeError for an invalid codec
        if keep:
            instance._keep(name)

    @property
    def name(self) -> str:
        """Name of the channel."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r:.100}>"

    def _encoded(self, key: str, value: T) -> bytes:
        return encoded(self._codec, self._name, key, value)

    def _items(self, items: Iterable[tuple[str, T]]) -> list[tuple[str, str, bytes]]:
        return encoded_items(self._codec, [(self._name, *_pair(item)) for item in listed("items", items)])

    def _decoding(self, handler: TypedHandler[T] | None) -> Any:
        return None if handler is None else decoding(self._codec, handler)

    def _opened(self, values: list[RetainedValue]) -> list[TypedRetainedValue[T]]:
        return opened_values(self._codec, self._instance.instance_id, values)

    def _answering(self, handler: TypedResponding[T, R]) -> Responding:
        return answering(self._codec, handler, self._reply_codec)

    def _reply(self, key: str, reply: Reply) -> TypedReply[R]:
        return opened_reply(self._reply_codec, self._name, key, reply)

    def _replies(self, key: str, replies: list[Reply]) -> list[TypedReply[R]]:
        return opened_replies(self._reply_codec, self._name, key, replies)


def _pair(item: tuple[str, T]) -> tuple[str, T]:
    if not isinstance(item, Sequence) or len(item) != 2:
        raise TypeError(f"items has {item!r:.100}: give (key, value)")
    return item

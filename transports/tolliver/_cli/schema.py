"""Protobuf bodies as JSON, for `--proto` or `--descriptors`, and `--type`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define

from tolliver_proto import Delivery

from ..codecs import Protobuf, ProtobufTypes, TypedDelivery


@define(frozen=True)
class Schema:
    """A Protobuf message type and the files that define it, which are read on first use."""

    proto: list[Path]
    include: list[Path]
    descriptors: Path | None
    type: str | None

    def bodies(self) -> Bodies | None:
        """Converter of bodies between Protobuf and JSON; None if no type is named. Raises ValueError, OSError, and
        ModuleNotFoundError for a missing extra.
        """
        if self.type is None:
            if self.proto or self.descriptors is not None:
                raise ValueError("of which type are the messages? Give --type, such as acme.Reading")
            return None
        if bool(self.proto) is (self.descriptors is not None):
            raise ValueError(f"what is {self.type}? Give --proto FILE.proto, or --descriptors FILE as protoc makes it")
        if self.descriptors is not None:
            try:
                types = ProtobufTypes(self.descriptors.read_bytes())
            except ValueError as error:
                raise ValueError(f"{self.descriptors}: {error}") from error
        else:
            types = ProtobufTypes.of_files(self.proto, self.include)
        return Bodies(types, types.codec(self.type))


class Bodies:
    """Converts bodies of one Protobuf message type from and to JSON."""

    def __init__(self, types: ProtobufTypes, codec: Protobuf[Any]) -> None:
        from google.protobuf import json_format

        self.codec = codec
        self._name = codec.kind.DESCRIPTOR.full_name
        self._pool = types.pool
        self._format: Any = json_format

    def encode(self, text: bytes, place: str) -> bytes:
        """The body of a message given in JSON. Raises ValueError, which names the place."""
        try:
            message = self._format.Parse(text, self.codec.kind(), descriptor_pool=self._pool)
            return self.codec.encode(message)
        except (self._format.Error, ValueError, RecursionError) as error:
            raise ValueError(f"{place} is no {self._name} in JSON: {error}") from error

    def decode(self, delivery: Delivery) -> str:
        """The value of a typed delivery as JSON, on one line."""
        assert isinstance(delivery, TypedDelivery)
        text: str = self._format.MessageToJson(
            delivery.value,
            indent=None,
            preserving_proto_field_name=True,
            ensure_ascii=False,
            descriptor_pool=self._pool,
        )
        return text


Encode = Callable[[bytes, str], bytes]
"""Function of a typed body and a text for its place; returns the body to send."""

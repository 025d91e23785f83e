"""Protobuf bodies.

They are messages of a class that protoc made, or of a type that a descriptor set describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._extras import needed

T = TypeVar("T")


class Protobuf(Generic[T]):
    """Messages of one protobuf class. Needs the extra `protobuf`. Raises TypeError where that is no message class.

    Streams and messages take the class itself as a codec, too; this one also refuses messages of another class, and
    those that lack required fields.
    """

    def __init__(self, kind: type[T]) -> None:
        needed("protobuf", "google.protobuf")
        from google.protobuf.message import Message

        if not isinstance(kind, type) or not issubclass(kind, Message):
            raise TypeError(f"{kind!r:.100} is no protobuf message class: give one that protoc made")
        self._kind: Any = kind

    @property
    def kind(self) -> type[T]:
        """The class of the messages."""
        return self._kind  # type: ignore[no-any-return]  # as it was given

    def encode(self, value: T, /) -> bytes:
        if not isinstance(value, self._kind):
            raise TypeError(f"the value is a {type(value).__name__}, not a {self._kind.DESCRIPTOR.full_name}")
        message: Any = value
        body: bytes = message.SerializeToString()
        return body

    def decode(self, body: bytes, /) -> T:
        message = self._kind.FromString(body)
        if not message.IsInitialized():
            raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors()):.200}")
        return message  # type: ignore[no-any-return]  # of the class

    def __repr__(self) -> str:
        return f"Protobuf({self._kind.DESCRIPTOR.full_name})"


class ProtobufTypes:
    """The message types of a descriptor set or of `.proto` files, by their full names.

    For programs that have no generated classes. `of_files` needs the extra `protoc`, which brings the compiler.
    """

    def __init__(self, descriptors: bytes) -> None:
        """Of a serialized FileDescriptorSet, with all that its files import. Raises ValueError."""
        needed("protobuf", "google.protobuf")
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError

        try:
            files = FileDescriptorSet.FromString(descriptors)
        except DecodeError as error:
            raise ValueError(f"no descriptor set, as protoc --descriptor_set_out writes it: {error}") from error
        self.pool: DescriptorPool = DescriptorPool()
        """All that the set describes."""
        self.names: list[str] = []
        """Full names of all message types, in order."""
        for file in files.file:
            try:
                self.pool.AddSerializedFile(file.SerializeToString())
            except TypeError as error:
                raise ValueError(f"{file.name}: {error}: make the set with --include_imports") from error
            package = f"{file.package}." if file.package else ""
            self.names += _names(package, file.message_type)

    @classmethod
    def of_files(
        cls, files: Iterable[str | PathLike[str]], include: Iterable[str | PathLike[str]] = ()
    ) -> ProtobufTypes:
        """Of `.proto` files, compiled now; imports are looked for beside each of them and in `include`.

        Raises ValueError with the compiler's own words.
        """
        needed("protoc", "grpc_tools")
        import subprocess  # and the others that most programs never load
        import sys
        import tempfile

        paths = [Path(fspath(one)) for one in files]
        folders = [*dict.fromkeys([*(str(Path(fspath(one))) for one in include), *(str(one.parent) for one in paths)])]
        with tempfile.TemporaryDirectory() as directory:
            made = Path(directory) / "set.binpb"
            command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{one}" for one in folders)]
            command += ["--include_imports", f"--descriptor_set_out={made}", *map(str, paths)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ValueError(done.stderr.strip() or f"protoc ended with status {done.returncode}")
            return cls(made.read_bytes())

    def codec(self, name: str) -> Protobuf[Any]:
        """The codec of one type. Raises ValueError, which lists what there is."""
        from google.protobuf.message_factory import GetMessageClass

        if name not in self.names:
            raise ValueError(f"there is no message type {name!r:.100}: there are {', '.join(self.names) or 'none'}")
        kind: Any = GetMessageClass(self.pool.FindMessageTypeByName(name))
        return Protobuf(kind)


def _names(prefix: str, types: Iterable[Any]) -> list[str]:
    found = []
    for one in types:
        if not one.options.map_entry:
            found += [prefix + one.name, *_names(f"{prefix}{one.name}.", one.nested_type)]
    return found

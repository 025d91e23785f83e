"""Contract of interop/README.md, for endpoints in Python."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self
from uuid import UUID


class Given(NamedTuple):
    """Environment of an endpoint, and the lines that it reads and writes."""

    scenario: str
    wire: str
    listens: bool
    address: str
    name: str
    uuid: UUID
    peer: str
    peer_uuid: UUID
    certs: Path
    state: Path
    elements_file: Path

    @classmethod
    def from_environment(cls) -> Self:
        def given(name: str) -> str:
            return os.environ[f"INTEROP_{name}"]

        return cls(
            given("SCENARIO"),
            given("WIRE"),
            given("ROLE") == "listen",
            given("ADDRESS"),
            given("NAME"),
            UUID(given("UUID")),
            given("PEER"),
            UUID(given("PEER_UUID")),
            Path(given("CERTS")),
            Path(given("STATE")),
            Path(given("ELEMENTS")),
        )

    def say(self, *words: str) -> None:
        """One line, in one write: it is out when this returns."""
        os.write(1, f"{' '.join(words)}\n".encode())

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Verb, key, and file of the body, until the runner asks for an end."""
        for line in sys.stdin:
            verb, key, file = line.rstrip("\n").split(" ", 2)
            yield verb, key, file

    def elements(self) -> list[bytes]:
        """Those of the stream that this endpoint publishes."""
        return self.elements_file.read_bytes().splitlines()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

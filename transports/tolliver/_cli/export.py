"""Recordings as captures for Wireshark.

The recorded bytes are unchanged; the TCP connections around them are invented. A recording is plaintext, so each
connection appears without TLS, on the port that the dissector knows. IP addresses stand for instances, and the capture
has their names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import UUID

from tolliver_proto import HandshakeRequest, Revision
from tolliver_proto.layouts import LAYOUTS
from tolliver_proto.recording import Block, Damage, Direction, in_order

from .._private import open_private
from . import pcapng
from .recordings import blocks_in, in_words

PORT = 7011
_FIRST_ADDRESS = int(IPv4Address("10.0.0.1"))
_ADDRESSES = 2**24 - 2
_FIRST_PORT, _PORTS = 49152, 16384
_COMMENT = (
    "Made by `tolliver recordings export` from recordings: bytes and times are true, and both are those of plaintext. "
    "Addresses, ports and TCP are invented."
)


class Exported(NamedTuple):
    """Result of an export: numbers of connections and blocks written, their revisions, and texts about damage."""

    connections: int
    blocks: int
    revisions: set[Revision]
    failures: list[str]


class _Part(NamedTuple):
    """A block of a recording, and the number of its connection in the capture, counted from 0."""

    number: int
    block: Block


def _parts(files: Iterable[Path], failures: list[str]) -> Iterator[_Part]:
    """Blocks of the recordings in order. A handshake request starts a new connection, as a restarted instance numbers
    them from 1 again. Texts about damage are appended to `failures`.
    """
    numbers: dict[tuple[UUID, int], int] = {}
    begun = 0
    for path in files:
        with path.open("rb") as file:
            for block in in_order(blocks_in(file, path)):
                if isinstance(block, Damage):
                    failures.append(f"{path}: {in_words(block)}")
                    continue
                header = block.header
                key = header.local, header.cid
                request = LAYOUTS[header.revision].codes[HandshakeRequest]
                if key not in numbers or block.payload[:1] == bytes([request]):
                    numbers[key] = begun
                    begun += 1
                yield _Part(numbers[key], block)


class _Addresses:
    """Invented IPv4 addresses in a capture: one for each instance, and for each peer that never identified itself."""

    def __init__(self) -> None:
        self._of: dict[object, IPv4Address] = {}

    def of(self, instance: object) -> IPv4Address:
        known = self._of.get(instance)
        if known is None:
            known = self._of[instance] = IPv4Address(_FIRST_ADDRESS + len(self._of) % _ADDRESSES)
        return known

    def names(self) -> dict[IPv4Address, str]:
        return {address: str(one) for one, address in self._of.items() if isinstance(one, UUID)}


def export(files: list[Path], target: Path) -> Exported:
    """Write the capture, a new file with mode 0600; "-" is standard output. Raises OSError."""
    addresses = _Addresses()
    peers: dict[int, UUID] = {}
    for number, block in _parts(files, []):  # first pass, as a later block may identify the peer
        addresses.of(block.header.local)
        if block.header.peer is not None and number not in peers:
            peers[number] = block.header.peer
            addresses.of(block.header.peer)

    exported = Exported(0, 0, set(), [])
    connections: dict[int, tuple[pcapng.Connection, bool]] = {}
    blocks = 0
    with _opened(target) as out:
        out.write(pcapng.section(_COMMENT) + pcapng.names(addresses.names()))
        for number, block in _parts(files, exported.failures):
            header = block.header
            blocks += 1
            exported.revisions.add(header.revision)
            if number not in connections:
                dialled = header.direction is Direction.OUT  # the dialling side sends first
                near = addresses.of(header.local), PORT
                far = addresses.of(peers.get(number, number)), PORT
                client, server = (near, far) if dialled else (far, near)
                connection = pcapng.Connection((client[0], _FIRST_PORT + number % _PORTS), server)
                connections[number] = connection, dialled
                out.writelines(connection.opened(header.time_ns))
            connection, dialled = connections[number]
            from_server = (header.direction is Direction.OUT) is not dialled
            out.writelines(connection.carried(header.time_ns, from_server, block.payload))
    return exported._replace(connections=len(connections), blocks=blocks)


@contextmanager
def _opened(target: Path) -> Iterator[BinaryIO]:
    if str(target) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with open(target, "xb", opener=open_private) as file:
        yield file

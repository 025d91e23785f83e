"""Captures of known bytes, and what tshark says of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from random import Random
from struct import pack, unpack_from
from typing import Any, NamedTuple

import pytest
from tolliver._cli import pcapng

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "transports" / "tolliver" / "_cli" / "tolliver.lua"
SECONDS = 300.0
CLIENT, SERVER = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")
MESSAGES, STREAMS, OTHER = 7011, 7012, 7777
TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="no tshark reads captures: on Debian, apt-get install tshark")

Pieces = Iterable[tuple[bool, bytes]]
"""Bytes in the order of the wire, and whether the server sent them."""


class Said(NamedTuple):
    """A frame of ours, as tshark has it: where it is, and its fields, each with all its values in order."""

    number: int
    stream: int
    from_server: bool
    fields: dict[str, list[str]]

    def one(self, name: str) -> str:
        [value] = self.fields[name]
        return value

    def all(self, name: str) -> list[str]:
        return self.fields.get(name, [])

    @property
    def experts(self) -> set[str]:
        return {name.rpartition(".")[2] for name in self.fields if name.startswith("tolliver") and ".expert." in name}


def capture(path: Path, streams: Iterable[Pieces], ports: int | Sequence[int] = MESSAGES) -> Path:
    """A capture of these connections, one after the other, to one port or each to its own."""
    with path.open("wb") as file:
        file.write(pcapng.section("of a test"))
        time = 10**18
        for number, pieces in enumerate(streams):
            port = ports if isinstance(ports, int) else ports[number]
            connection = pcapng.Connection((CLIENT, 10_000 + number % 50_000), (SERVER, port))
            file.writelines(connection.opened(time))
            for from_server, data in pieces:
                time += 10**6
                file.writelines(connection.carried(time, from_server, data))
    return path


def snapped(path: Path, most: int) -> Path:
    """The capture with so many bytes of each packet."""
    data, blocks, at = path.read_bytes(), [], 0
    while at < len(data):
        kind, size = unpack_from("<II", data, at)
        block = data[at : at + size]
        if kind == pcapng.PACKET:
            held, length = unpack_from("<II", block, 20)
            some = block[28 : 28 + min(held, most)]
            body = block[8:20] + pack("<II", len(some), length) + some + bytes(-len(some) % 4)
            block = pack("<II", kind, len(body) + 12) + body + pack("<I", len(body) + 12)
        blocks.append(block)
        at += size
    path.write_bytes(b"".join(blocks))
    return path


def cut(data: bytes, random: Random, most: int = 8) -> list[bytes]:
    """In pieces, at random places."""
    places = sorted(random.sample(range(1, len(data)), min(len(data) - 1, random.randint(1, most)))) if data else []
    edges = [0, *places, len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def run(
    path: Path, *options: str, script: Path | None = SCRIPT, home: Path | None = None, told: Sequence[str] = ()
) -> str:
    """Output of tshark, which tells these lines on standard error and no other."""
    assert TSHARK is not None
    scripts = () if script is None else ("-X", f"lua_script:{script}")
    env = {**os.environ, "HOME": str(home or path.parent), "WIRESHARK_RUN_FROM_BUILD_DIRECTORY": ""}
    command = [TSHARK, "-n", "-r", str(path), *scripts, *options]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, env=env)
    errors = [line for line in done.stderr.decode().splitlines() if "Running as user" not in line]
    assert (done.returncode, errors) == (0, [*told]), done.stderr.decode()
    return done.stdout.decode()


def read(path: Path, *options: str, two_passes: bool = True, home: Path | None = None, **more: Any) -> list[Said]:
    """Frames of ours in a capture, in its order. Asserts that the script had no error."""
    passes = ["-2"] if two_passes else []
    shown = ["-T", "json", "-J", "frame ip tcp tls tolliver tolliver_rs _ws.lua _ws.malformed"]
    text = run(path, *passes, *shown, *options, home=home, **more)
    assert "Lua Error" not in text, text[text.index("Lua Error") - 2000 :][:3000]
    said: list[Said] = []
    for packet in json.loads(text, object_pairs_hook=Pairs):
        layers = packet.get("_source").get("layers")
        for name, layer in layers:
            if name in ("tolliver", "tolliver_rs"):
                assert isinstance(layer, Pairs), layer
                frame, tcp = layers.get("frame"), layers.get("tcp")
                number, stream = int(frame.get("frame.number")), int(tcp.get("tcp.stream"))
                from_server = layers.get("ip").get("ip.src") == str(SERVER)
                said.append(Said(number, stream, from_server, dict(layer.flat())))
    return said


class Pairs(list[tuple[str, Any]]):
    """A JSON object, whose names may be there several times."""

    def get(self, name: str) -> Any:
        return next(value for one, value in self if one == name)

    def flat(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, value in self:
            if isinstance(value, Pairs):
                inner = value.flat()
                if not name.endswith("_tree"):  # a node that has no value, such as an expert info
                    found.setdefault(name, []).append("")
                for one, values in inner.items():
                    found.setdefault(one, []).extend(values)
            else:
                found.setdefault(name, []).append(value)
        return found


def counted(path: Path, filters: Sequence[str], *options: str) -> list[int]:
    """Packets that each display filter finds."""
    lines = run(path, "-2", "-q", "-z", ",".join(("io,stat,0", *filters)), *options).splitlines()
    [row] = [line for line in lines if "<>" in line]
    return [int(cell.split("|")[0]) for cell in row.split("<>")[1].split("|")[1:-1:2]]


def in_turn(said: Sequence[Said]) -> dict[tuple[int, bool], list[Said]]:
    """By connection and direction."""
    found: dict[tuple[int, bool], list[Said]] = {}
    for one in said:
        found.setdefault((one.stream, one.from_server), []).append(one)
    return found

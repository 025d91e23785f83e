"""Hostile captures: golden vectors that are cut, spliced and spoilt, and bytes of no kind at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tests.reactive import vectors as reactive
from tests.wire.vectors import VECTORS
from tests.wireshark.captures import OTHER, Pieces, capture, cut, run

LAYOUTS = (
    "DRAFT_1",
    "DRAFT_2",
    "GO_SEED",
    "GO_D05F89B",
    "GO_499B76D",
    "GO_2026",
    "RUST_2026",
    "DRAFT_2_LETTER",
    "AUTO",
)
STREAMS = "streams"
NUMBERS = [bytes(8), b"\xff" * 8, b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\0\xff\xff\xff", b"\0\0\x27\x11", b"\x80" * 10]
AT_ONCE = 2_000
"""Inputs in a capture."""
FIELDS = ("-e", "frame.number", "-e", "tcp.stream", "-e", "_ws.expert.message")
COMPLAINTS = "_ws.lua.error or _ws.malformed.expert or _ws.malformed.dissector_bug or _ws.malformed.reassembly"


def spoilt(data: bytes, random: Random) -> bytes:
    """The bytes with a few of them changed, left out, or put in."""
    bad = bytearray(data)
    for _ in range(random.randint(0, 4)):
        at = random.randrange(len(bad) + 1)
        match random.randrange(5):
            case 0 if at < len(bad):
                bad[at] = random.randrange(256)
            case 1 if at < len(bad):
                bad[at] ^= 1 << random.randrange(8)
            case 2:
                bad[at:at] = random.choice(NUMBERS)
            case 3:
                del bad[at : at + random.randint(1, 8)]
            case _:
                bad[at : at + 4] = random.choice(NUMBERS)[:4]
    return bytes(bad)


def hostile(random: Random, vectors: Sequence[bytes]) -> Pieces:
    """Both directions of one connection."""
    pieces = []
    for _ in range(random.randint(1, 3)):
        if random.random() < 0.15:
            data = random.randbytes(random.randint(1, 100))
        else:
            data = spoilt(b"".join(random.choices(vectors, k=random.randint(1, 4))), random)
        from_server = random.random() < 0.5
        pieces += [(from_server, piece) for piece in (cut(data, random, 3) if len(data) > 1 else [data]) if piece]
    return pieces


def captures(folder: Path, kind: str, count: int, seed: int) -> Iterator[Path]:
    """Captures of so many connections in all."""
    random = Random(f"{kind} {seed}")
    known = [v.data for v in VECTORS] if kind != STREAMS else [v.data for v in reactive.VECTORS]
    for start in range(0, count, AT_ONCE):
        some = (hostile(random, known) for _ in range(min(AT_ONCE, count - start)))
        yield capture(folder / f"{kind}-{seed}-{start}.pcapng", some, OTHER)


def complaints(path: Path, kind: str, *, two_passes: bool = True) -> str:
    """Lines of tshark about packets in which the script failed."""
    options = ["-2"] if two_passes else []
    if kind == STREAMS:
        options += ["-d", f"tcp.port=={OTHER},tolliver_rs"]
    else:
        options += ["-d", f"tcp.port=={OTHER},tolliver", "-o", f"tolliver.layout:{kind}"]
    return run(path, *options, "-Y", COMPLAINTS, "-T", "fields", *FIELDS)

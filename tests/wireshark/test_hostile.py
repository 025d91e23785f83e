"""Hostile inputs: the script never fails, and reads as far as our decoder does."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.wire.vectors import D2, ONE, VECTORS
from tests.wireshark import hostile
from tests.wireshark.captures import OTHER, SCRIPT, capture, in_turn, needs_tshark, read, run
from tests.wireshark.test_dissector import in_words, of_message
from tolliver_proto import Decoder, HandshakeRequest, Limits, RemoteProtocolError, Subscription, encode

pytestmark = needs_tshark


@pytest.mark.parametrize("kind", ["AUTO", hostile.STREAMS])
def test_the_script_never_fails(kind: str, tmp_path: Path) -> None:
    [path] = hostile.captures(tmp_path, kind, 1000, seed=1)
    assert hostile.complaints(path, kind) == ""


def test_a_script_that_fails_is_noticed(tmp_path: Path) -> None:
    [path] = hostile.captures(tmp_path, "DRAFT_2", 50, seed=1)
    text = SCRIPT.read_text("utf-8")
    spoilt = tmp_path / "spoilt.lua"
    spoilt.write_text(text.replace("\nfunction show.ack(", "\nfunction show.nobody("))
    options = ["-d", f"tcp.port=={OTHER},tolliver", "-Y", hostile.COMPLAINTS, "-T", "fields", *hostile.FIELDS]
    assert "Lua Error" in run(path, *options, script=spoilt)


def decoded(data: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Frames before the first error, and whether there is one."""
    decoder = Decoder(D2, Limits())
    decoder.feed(data)
    frames = []
    try:
        while (frame := decoder.next_frame()) is not None:
            frames.append(in_words(frame))
    except RemoteProtocolError:
        return frames, True
    return frames, False


def as_shown(value: Any) -> Any:
    """Text as Wireshark shows it: it ends at a NUL."""
    if isinstance(value, dict):
        return {name: as_shown(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_shown(one) for one in value]
    return value.partition("\0")[0] if isinstance(value, str) else value


def test_it_reads_as_far_as_our_decoder(tmp_path: Path) -> None:
    random = Random(5)
    known = [vector.data for vector in VECTORS if vector.revision is D2]
    streams = [[*hostile.hostile(random, known)] for _ in range(200)]
    lists = [tuple(Subscription("c" * size, str(number)) for number in range(30)) for size in (5, 9)]
    hello = b"".join(encode(HandshakeRequest(1, ONE, some), D2) for some in lists)
    streams.append([(False, hello[at : at + 7]) for at in range(0, len(hello), 7)])
    path = capture(tmp_path / "hostile.pcapng", streams, OTHER)
    said = in_turn(read(path, "-d", f"tcp.port=={OTHER},tolliver", "-o", "tolliver.layout:DRAFT_2"))
    errors = 0
    for number, pieces in enumerate(streams):
        for from_server in (False, True):
            frames, failed = decoded(b"".join(data for side, data in pieces if side is from_server))
            some = said.get((number, from_server), [])
            read_ones = [one for one in some if not one.all("tolliver.unread")]
            assert as_shown([of_message(one) for one in read_ones]) == as_shown(frames), (number, from_server)
            assert (len(some) > len(read_ones)) is failed, (number, from_server)
            errors += failed
    assert 50 < errors < 350

"""Round trips in both revisions, cut anywhere (V2).

`TOLLIVER_ROUNDTRIP=1000000` makes it that many frames for each revision (default 2,000).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tolliver_proto import Decoder, Frame, Revision, decode, encode
from tolliver_proto.layouts import Decoded

from .drive import REVISIONS
from .strategies import cut, frames, sizes

FRAMES = int(os.environ.get("TOLLIVER_ROUNDTRIP", "2000"))
PER_EXAMPLE = 20

thorough = settings(
    max_examples=max(1, FRAMES // PER_EXAMPLE),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
def test_round_trip(revision: Revision) -> None:
    @thorough
    @given(st.lists(frames(revision), min_size=PER_EXAMPLE, max_size=PER_EXAMPLE), sizes)
    def check(written: list[Frame], pieces: list[int]) -> None:
        data = b"".join(encode(frame, revision) for frame in written)
        assert decode(data, revision) == written
        decoder = Decoder(revision)
        read: list[Decoded] = []
        for piece in cut(data, pieces):
            decoder.feed(piece)
            read += iter(decoder.next_frame, None)
        decoder.finish()
        assert read == written

    check()

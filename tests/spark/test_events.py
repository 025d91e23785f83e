"""`partition_events`, which must yield what `decode` says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tolliver.spark import DamagedRecording, partition_events

from tests.wire.drive import REVISIONS
from tests.wire.strategies import cut, frames, sizes
from tolliver_proto import Ack, Frame, MalformedFrame, Message, Revision, UnexpectedEOF, decode, encode
from tolliver_proto.recording import BLOCK, Block, Direction, encode_block, read_blocks

from .recordings import NOON, OTHER, PEER, block, header

heads = st.builds(
    header, st.just(NOON), st.sampled_from([PEER, OTHER]), st.sampled_from(Direction), st.just(REVISIONS[0])
)


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
@given(data=st.data(), sizes=sizes)
def test_bare_frames_however_they_are_cut(data: st.DataObject, sizes: list[int], revision: Revision) -> None:
    listed = data.draw(st.lists(frames(revision)))
    chunks = cut(b"".join(encode(frame, revision) for frame in listed), sizes)
    found = list(partition_events(iter(chunks), of="frames", revision=int(revision)))
    assert found == [(None, frame) for frame in listed]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(heads, st.lists(frames(REVISIONS[0]), max_size=4)), max_size=5))
def test_recordings_with_the_header_of_each_frame(listed: list[tuple[Any, list[Frame]]]) -> None:
    content = b"".join(block(some, head) for head, some in listed)
    expected = [
        (one.header, frame)
        for one in read_blocks([content])
        if isinstance(one, Block)
        for frame in decode(one.payload, one.header.revision)
    ]
    assert [frame for _, frame in expected] == [frame for _, some in listed for frame in some]
    assert list(partition_events(iter([content, b"", content]))) == 2 * expected


def test_what_is_damaged_is_named_and_what_is_torn_is_left_out() -> None:
    whole = block([Message("a", "", b"", 1)])
    assert len(list(partition_events([whole + whole[:-1]]))) == 1
    with pytest.raises(DamagedRecording, match="recording 1 of the partition: byte 0: is no recording"):
        list(partition_events([whole, b"x" * 100]))
    malformed = encode_block(header(), encode(Ack(1)) + b"\xee")
    with pytest.raises(
        DamagedRecording, match=f"byte {len(whole) + BLOCK.size + 5}: no frame begins with the byte 238"
    ):
        list(partition_events([whole + malformed]))


def test_frames_that_are_no_good_raise_as_the_decoder_does() -> None:
    with pytest.raises(MalformedFrame):
        list(partition_events([encode(Ack(1)), b"\xee"], of="frames"))
    with pytest.raises(UnexpectedEOF):
        list(partition_events([encode(Ack(1))[:-1]], of="frames"))


@pytest.mark.parametrize("arguments", [{"of": "bytes"}, {"of": "frames", "revision": 99}])
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"bytes|99"):
        list(partition_events([], **arguments))


def test_the_events_need_nothing_but_python() -> None:
    """Workers have what a zip brought them: no attrs, no numpy, no Spark."""
    root = Path(__file__).parents[2]
    code = f"""
import sys
sys.path[:0] = [{str(root)!r}, {str(root / "transports")!r}]
from tolliver.spark import partition_events
assert [frame.message_id for _, frame in partition_events([b"\\x04\\0\\0\\0\\7"], of="frames")] == [7]
ours = {{"tolliver_proto", "tolliver", "__main__"}}
foreign = {{name.split(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names) - ours
print(sorted(name for name in foreign if not name.startswith("_")))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")

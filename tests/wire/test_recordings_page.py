"""Page on recordings: layouts, bounds and the example, as in code."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from struct import calcsize

import pytest
from tolliver._messages.recorder import Recorder

from tolliver_proto import Ack, encode
from tolliver_proto.recording import BLOCK, GROUP, GROUPED, INDEX, INDEX_ENTRY, INDEX_STEP, MAX_LENGTH, Codec, Direction

from .vectors import D2, ONE

PAGE = (Path(__file__).parents[2] / "docs" / "recordings.md").read_text("utf-8")


def test_the_tables_are_the_layouts() -> None:
    tables = re.findall(r"^\| offset \| size \| field .*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    on_page = [re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \| \S", table, re.MULTILINE) for table in tables]
    expected = []
    for fields in (GROUP, GROUPED, BLOCK, INDEX, INDEX_ENTRY):
        rows, offset = [], 0
        for part in fields.spec.split(","):
            kind, name = part.split()
            rows.append((str(offset), str(calcsize(f">{kind}")), name))
            offset += calcsize(f">{kind}")
        assert offset == fields.size
        expected.append(rows)
    assert on_page == expected


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"`length` | bytes of the payload, {MAX_LENGTH} at most |" in PAGE
    assert f"MiB ({INDEX_STEP} bytes)" in PAGE
    assert f"first {BLOCK.size} bytes" in PAGE
    assert f"| bytes of table and blocks, {MAX_LENGTH} at most |" in PAGE
    assert ", ".join(f"{int(codec)} {codec.name.lower()}" for codec in Codec) == "0 none, 1 zlib"
    assert " ".join(f"{int(way)} {way.name.lower()}" for way in Direction) == "0 in 1 out"


def test_the_example_reads_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Recorder(Path("recordings"), ONE, D2, pytest.fail)) as recorder:
        recorder.sent(1, [encode(Ack(5), D2), encode(Ack(6), D2)])
    (path,) = Path("recordings").glob("*.rec")
    path.write_bytes(path.read_bytes() + b"T")
    (code,) = re.findall(r"```python\n(from pathlib.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    first, second, torn = capsys.readouterr().out.splitlines()
    assert first.endswith(" OUT None Ack(message_id=5)")
    assert second.endswith(" OUT None Ack(message_id=6)")
    assert torn == f"{path}: byte {path.stat().st_size - 1}: the file ends inside a block, of which 1 bytes are there"

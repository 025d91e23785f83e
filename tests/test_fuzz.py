"""Fuzz targets (V3), with hypothesis, the corpus and every crash."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.by_hypothesis import search
from fuzz.targets import CORPUS, CRASHES, TARGETS, Body, Target
from fuzz.words import WORDS, path_of, text_of
from scripts.prove.roundtrip import PER_STREAM, PROTOCOLS, differs

Record = Callable[[str, object], None]
FUZZING = Path(__file__).parent.parent / "docs" / "testing.md"
SEEDS = 12  # of each target that are run whole
each = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)


def loaded(target: Target) -> tuple[Body, list[bytes]]:
    if target.needs and importlib.util.find_spec(target.needs) is None:
        pytest.skip(f"{target.name} needs {target.needs}, which is not installed")
    body, seeds = target.load()
    return body, seeds()


@each
def test_seeds_any_bytes_and_damaged_seeds(target: Target) -> None:
    body, seeds = loaded(target)
    for seed in islice(seeds, 0, None, max(1, len(seeds) // SEEDS)):
        body(seed)
    search(body, seeds, 30)


@each
def test_the_corpus_and_every_crash_there_was(target: Target, record_property: Record) -> None:
    body, _ = loaded(target)
    for case in target.cases:
        body(case.read_bytes())
    record_property("cases of the fuzzers' corpora", len(target.cases))


def test_every_kept_case_belongs_to_a_target_and_the_corpora_are_small() -> None:
    folders = {path for top in (CORPUS, CRASHES) if top.is_dir() for path in top.iterdir()}
    assert {folder.name for folder in folders} <= TARGETS.keys()
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert len(files) <= 200
    assert sum(path.stat().st_size for path in files) <= 200_000


@pytest.mark.parametrize("name", WORDS)
def test_the_dictionaries_say_what_the_layouts_say(name: str) -> None:
    assert path_of(name).read_text() == text_of(name), "write them anew: python -m fuzz.words"


def test_the_seeds_of_a_node_reach_all_that_it_can_say() -> None:
    """A fuzzer that never gets past the handshake would prove little."""
    body, seeds = loaded(TARGETS["node"])
    told: Counter[str] = Counter()
    for seed in seeds[::2]:
        told.update(body(seed).told)  # type: ignore[attr-defined]  # a Program
    kinds = ("Dial", "PeerUp", "PeerDown", "Deliver", "Fetch", "Find", "Acked", "Abort", "ShutdownWrite", "DialEnded")
    assert {kind for kind in kinds if told[kind] < 4} == set()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_random_frames_there_and_back(protocol: str) -> None:
    """V2, short; `python -m scripts.prove.proofs frames` is the long form."""
    for seed in range(600 // PER_STREAM):
        assert differs(protocol, seed) is None


def test_the_command_runs_a_target_without_atheris(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert main(["decoder", "--seconds", "1"]) == 2
    assert "pip install '.[fuzz]'" in capsys.readouterr().out
    assert main(["decoder", "--hypothesis", "--seconds", "0"]) == 0
    assert "none broke it" in capsys.readouterr().out
    assert main(["nothing"]) == 2
    assert "Targets: decoder, connection, " in capsys.readouterr().out


def test_the_command_finds_the_mistake_in_a_target_of_your_own_and_runs_that_case_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The target is the one of docs/testing.md, with a mistake."""
    section = FUZZING.read_text("utf-8").partition("## Fuzz it")[2]
    [program] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    mistaken = program.replace("except ValueError", "except UnicodeDecodeError")
    assert mistaken != program
    for name, code in {"right_orders": program, "mistaken_orders": mistaken}.items():
        (tmp_path / f"{name}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["right_orders:orders", "--hypothesis", "--seconds", "0.1"]) == 0
    assert main(["mistaken_orders:orders", "--hypothesis", "--seconds", "5"]) == 1
    [crash] = tmp_path.glob("crash-*")
    assert main(["mistaken_orders:orders", "--hypothesis", crash.name]) == 1
    assert main(["right_orders:orders", "--hypothesis", crash.name]) == 0
    assert f"again: python -m fuzz mistaken_orders:orders --hypothesis {crash.name}" in capsys.readouterr().out

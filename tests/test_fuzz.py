"""Fuzz targets (V3), with hypothesis, the corpus and every crash."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import CORPUS, CRASHES, TARGETS, Body, Target
from fuzz.words import WORDS, path_of, text_of
from scripts.prove.roundtrip import PER_STREAM, PROTOCOLS, differs

Record = Callable[[str, object], None]
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
SEEDS = 12  # of each target that are run whole
each = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
_ODD = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 4), st.binary(max_size=4)), max_size=4)


def loaded(target: Target) -> tuple[Body, list[bytes]]:
    if target.needs and importlib.util.find_spec(target.needs) is None:
        pytest.skip(f"{target.name} needs {target.needs}, which is not installed")
    body, seeds = target.load()
    return body, seeds()


@each
def test_seeds_and_any_bytes(target: Target) -> None:
    body, seeds = loaded(target)
    for seed in islice(seeds, 0, None, max(1, len(seeds) // SEEDS)):
        body(seed)

    @quick
    @given(st.binary(max_size=200))
    def check(data: bytes) -> None:
        body(data)

    check()


@each
def test_damaged_seeds(target: Target) -> None:
    """A good case with a few bytes changed, inserted or gone."""
    body, seeds = loaded(target)

    @quick
    @given(st.sampled_from(seeds), _ODD)
    def check(seed: bytes, damages: list[tuple[int, int, bytes]]) -> None:
        case = bytearray(seed)
        for at, gone, new in damages:
            case[at : at + gone] = new
        body(bytes(case))

    check()


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

"""Tables of docs/drafts.md: each sentence of the drafts, its ruling, the code that cites the ruling, its test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.draw.citations import Place, citations
from scripts.draw.sentences import MESSAGES, OF_STREAMS, Sentence
from scripts.pages import ROOT, with_parts

PAGE = ROOT / "docs" / "drafts.md"
MOST_PLACES = 2
_ROOMS = ("_wire", "reactive", "_node", "_patterns", "_common", "tolliver/")
_CORE = "tolliver_proto/"
_BESIDE = ("/_testing/", "/_cli/", "/_conform/", "/spark/", "_common/errors.py", "_node/actions.py", "_node/numbers.py")
"""Simulators, tools, and lists of names: they say a ruling, and carry none out."""


def places(rulings: Sequence[str]) -> list[Place]:
    """Code that carries out these rulings, the closest first: functions that cite the first of them and most others,
    from the core up, of files that cite the first often; where there is none, classes and modules. Adapters count only
    where the core cites none of these rulings.
    """
    votes: Counter[Place] = Counter()
    for ruling in rulings:
        votes.update(one for one in citations().get(ruling, ()) if not any(part in one.file for part in _BESIDE))
    if any(one.file.startswith(_CORE) for one in votes):
        votes = Counter({one: count for one, count in votes.items() if one.file.startswith(_CORE)})
    first = citations().get(rulings[0], ()) if rulings else ()
    files = Counter(one.file for one in first)

    def rank(one: Place) -> tuple[bool, bool, int, int, int]:
        room = next(number for number, name in enumerate(_ROOMS) if name in one.file)
        return not one.acts, one not in first, -votes[one], room, -files[one.file]

    return sorted(votes, key=rank)[:MOST_PLACES]


def numbered(sentences: Sequence[Sentence]) -> Iterator[tuple[str, Sentence]]:
    """Each sentence with its numbers in the drafts that have it; a further part of one has a letter, from b on."""
    counts: Counter[int] = Counter()
    part = 0
    for sentence in sentences:
        part = part + 1 if sentence.goes_on else 0
        counts.update({} if sentence.goes_on else dict.fromkeys(sentence.drafts, 1))
        letter = chr(ord("a") + part) if part else ""
        yield " ".join(f"{draft}.{counts[draft]}{letter}" for draft in sentence.drafts), sentence


def table(sentences: Sequence[Sentence]) -> Iterator[str]:
    yield "| sentence | the draft says | here | ruling | code | test |"
    yield "|---|---|---|---|---|---|"
    for number, (said, here, rulings, test, *_) in numbered(sentences):
        names = rulings.split()
        code = "<br>".join(map(str, places(names)))
        shown = f"`{test}`" if test else ""
        yield f"| {number} | {said} | {here} | {', '.join(names)} | {code} | {shown} |"


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, with_parts(PAGE, {"messages": table(MESSAGES), "streams": table(OF_STREAMS)})

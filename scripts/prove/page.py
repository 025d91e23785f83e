"""Page of the proofs: one line a row, all of it for the reference, and short quotes.

Everything in them is drawn from docs/proof.json; nothing is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple, NotRequired, TypedDict

from scripts.prove.graph import Graph
from scripts.prove.rows import KINDS, ROWS, Row


class Said(TypedDict):
    """Result lines of one command."""

    size: str
    figures: str


class Outcome(TypedDict):
    """Outcome of a row when it was last run."""

    passed: bool
    commands: list[str]
    said: list[Said]
    graphs: NotRequired[list[str]]
    """Lines as the commands said them."""
    date: str
    commit: str
    seconds: int


class Survivor(TypedDict):
    """Mutant that no test kills: lines of a file, and in words why."""

    file: str
    before: str
    after: str
    said: str


class Quoted(NamedTuple):
    """Row of the proof that README.md quotes: the trouble, and how many of its figures."""

    row: str
    trouble: str
    figures: int


HEAD = """# Promises, and how they are proved

Each row is a promise, what came out when it was last tried, and what a failure would be. The reference of the site has
every row in full, out of `docs/proof.json`: the size that a release asks for, all figures, the command, the day and the
commit.

- `make proof` runs all rows, in some {hours} hours on two cores.
- `make proof ROWS="V7 V8"` runs some of them.
- `make test` runs the short form of each.

A row that fails says so here until it is run again. No figure on this page is written by hand. [Our own bugs](bugs.md)
has what was wrong once, and how it was found.
"""
MUTANTS = """
## Mutants that survive

Each of these changes of the source passes the tests that were chosen for it (`python -m scripts.mutation`). One that
has no effect that anybody can see is equivalent.
"""
DETAILS = """# Proofs in full

A row that takes long is run in a smaller size; where that is so, the row says how to run what is asked for. KIND is
asyncio, trio, twisted or blocking, one after the other; figures are the least and the most of these.
"""
README = (
    Quoted("V7", "`kill -9` of real senders and receivers, at any moment", 2),
    Quoted("V6", "a crash at every store call, and at every pair of them", 1),
    Quoted("V8", "a loss of power, whatever the disk had not yet written", 1),
    Quoted("V9", "a bit that flips in the database", 5),
    Quoted("V5", "simulated networks: drops at any byte, crashes, store errors, clocks", 2),
    Quoted("V25", "Spark's driver and its JVM are killed while messages stream into a table", 3),
    Quoted("V3", "inputs that fuzzers made, bytes and operations", 1),
)
_LONGEST = 72  # characters of a size in the table
_GLANCE = 90  # characters of the figures
_AT_ONCE = 48  # characters of those of another trial
_DRAWN = re.compile(r"(<!-- drawn: (reliability|kills) -->\n).*?(<!-- end -->)", re.DOTALL)
_KIND = re.compile(rf", (?:{'|'.join(KINDS)})$")
_ADAPTER = re.compile(rf"(?<= )(?:{'|'.join(KINDS)})(?= |$)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


def page(outcomes: Mapping[str, Outcome], alive: Collection[Survivor] = ()) -> str:
    """docs/proof.md, but for the links to rulings."""
    lines = [
        HEAD.format(hours=_hours(outcomes)),
        "| row | promise | tried with | result | a failure would be | |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(row, outcomes.get(row.name)) for row in ROWS]
    lines += [MUTANTS, "| file | before | after | why it survives |", "|---|---|---|---|"] if alive else []
    lines += sorted("| {file} | {before} | {after} | {said} |".format(**_cells(one)) for one in alive)
    return "\n".join(lines) + "\n"


def _hours(outcomes: Mapping[str, Outcome]) -> int:
    """Sum of what the rows took in the size of `make proof`, one after the other."""
    took = ((row, outcomes[row.name]) for row in ROWS if row.name in outcomes)
    return round(sum(one["seconds"] for row, one in took if one["commands"] == [*row.commands]) / 3600)


def _cells(alive: Survivor) -> dict[str, str]:
    code = {name: f"`{alive[name].replace('|', chr(92) + '|')}`" for name in ("file", "before", "after")}
    return {**code, "said": alive["said"] or "not looked at yet"}


def details(outcomes: Mapping[str, Outcome]) -> str:
    """Page of the reference: every row in full."""
    lines = [DETAILS]
    for row in ROWS:
        lines += _details(row, outcomes.get(row.name))
    return "\n".join(lines).rstrip("\n") + "\n"


def quoting(text: str, outcomes: Mapping[str, Outcome]) -> str:
    """README.md, or the first page of the site, with its table or sentence as it is to be."""
    drawn = {"reliability": _table(outcomes), "kills": _sentence(outcomes["V7"])}
    return _DRAWN.sub(lambda around: f"{around[1]}\n{drawn[around[2]]}\n\n{around[3]}", text)


def _sentence(kills: Outcome) -> str:
    said = kills["said"][0]
    return (
        f"Measured, not drawn: {_first(said['size'], 1)} of real senders and receivers with `kill -9`, "
        f"{_first(said['figures'], 2)}{'' if kills['passed'] else ' **FAILED**'}. "
        "[Every promise has such a row, and the command that measures it](proof.md)."
    )


def _table(outcomes: Mapping[str, Outcome]) -> str:
    rows = ["| trouble | tried with | result |", "|---|---|---|"]
    for quoted in README:
        if outcome := outcomes.get(quoted.row):
            found = _first(outcome["said"][0]["figures"], quoted.figures)
            rows.append(
                f"| {quoted.trouble} | {_size(outcome)} | {found}{'' if outcome['passed'] else ' **FAILED**'} |"
            )
    return "\n".join(rows)


def _line(row: Row, outcome: Outcome | None) -> str:
    if outcome is None:
        return f"| {row.name} | {row.what} | not run | | {row.fails} | |"
    verdict = "holds" if outcome["passed"] else "**FAILED**"
    cells = (row.name, row.what, _size(outcome), _short(outcome), row.fails, verdict)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _size(outcome: Outcome) -> str:
    """Size of the first command, without what the others differ in."""
    said = outcome["said"]
    size = said[0]["size"]
    kinds = sum(1 for one in said if _KIND.search(one["size"]))
    if kinds > 1:
        of_kind = next(one["size"] for one in said if _KIND.search(one["size"]))
        return f"{_KIND.sub('', of_kind)}, on {kinds} adapters"
    return size if len(size) <= _LONGEST else _first(size, 1)


def _short(outcome: Outcome) -> str:
    """The first figures, as many as are read at a glance, and those of other trials, or how many these are."""
    [(_, figures), *more] = _together(outcome["said"])
    others = [f"{size}: {_fitting(of_other, _AT_ONCE)}" for size, of_other in more]
    if sum(map(len, others)) > _GLANCE:
        others = [f"more trials: {len(others)}"]
    return "; ".join((_fitting(figures, _GLANCE), *others))


def _fitting(figures: str, most: int) -> str:
    """The first of these figures, as many as fit, and one at least."""
    if len(_first(figures, 1)) > most:
        figures = _first(figures, 1)
    count = 1
    while len(more := _first(figures, count + 1)) <= most and more != _first(figures, count):
        count += 1
    return _first(figures, count)


def _first(text: str, count: int) -> str:
    """The first parts of a text between semicolons or else commas; a comma within a number parts nothing."""
    between = "; " if "; " in text else ", "
    return between.join(text.split(between)[:count])


def _details(row: Row, outcome: Outcome | None) -> Iterator[str]:
    yield f"## {row.name}: {row.what}\n"
    yield f"- Asked for: {row.asked}. A failure would be {row.fails}."
    if row.full and (outcome is None or tuple(outcome["commands"]) != row.full):
        yield f"- In that size: {_commands(row.full)}."
    if outcome is None:
        yield f"- Never run. Command: {_commands(row.commands)}."
    else:
        took = f"{outcome['seconds']:,} s"
        yield f"- Run on {outcome['date']} at {outcome['commit']}, in {took}: {_commands(outcome['commands'])}."
        yield from (f"- {size}: {figures}" for size, figures in _together(outcome["said"]))
        yield from (f"- {graph.drawn()}" for graph in map(Graph.heard, outcome.get("graphs", ())) if graph)
    yield ""


def _together(said: list[Said]) -> Iterator[tuple[str, str]]:
    """Sizes and figures: one line for all adapters, with the least and the most of each number."""
    for size, group in groupby(said, lambda one: _KIND.sub("", one["size"])):
        figures = [one["figures"].split("; ") for one in group]
        parts = [_range(list(column)) for column in zip(*figures, strict=True)]
        on = f", on {len(figures)} adapters" if len(figures) > 1 else ""
        subjects = groupby((part.rpartition(": ")[::2] for part in parts), lambda pair: pair[0])
        told = (": ".join(filter(None, (name, ", ".join(text for _, text in texts)))) for name, texts in subjects)
        yield f"{size}{on}", "; ".join(told)


def _range(texts: list[str]) -> str:
    """Texts that differ in their numbers alone, as one."""
    numbers = zip(*map(_NUMBER.findall, texts), strict=True)
    drawn = (f"{least} to {most}" if least != most else least for least, most in map(_ends, numbers))
    return _NUMBER.sub(lambda _: next(drawn), texts[0])


def _ends(numbers: tuple[str, ...]) -> tuple[str, str]:
    ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
    return ordered[0], ordered[-1]


def _commands(commands: list[str] | tuple[str, ...]) -> str:
    """Those that differ in the adapter alone are one."""
    anywhere = dict.fromkeys(_ADAPTER.sub("KIND", command) for command in commands)
    return ", ".join(f"`{command}`" for command in anywhere)

"""Kills of real processes by SIGKILL, and losses counted.

    python -m scripts.prove.kills KIND [KILLS] [--seed N]

    messages  V7       a sender and a receiver, also in opening and close; restarts, copies, new disks    10,000
    work      work     workers of a queue and their producer                                          1,000
    later     later    a sender whose messages wait, for a time or a subscriber, and their receiver    1,000
    banks     banks    two banks with an outbox and an inbox in their own databases                10,000
    doubles   doubles  the same without `inbox.once`: the rounds must show doubles                     10
    restored  restored banks whose databases, or those of their instances, are put back from copies     1,000
    local     local    an instance and four local programs that hand over to it                       200
    foreign   foreign  an instance and doubles of other programs, Go and Rust of 2026                   600
    poison    poison   messages whose handlers end the process, on each adapter                        1,000
    ctrl-c    ctrl-c   SIGINT in a call of a program on threads, which catches it and goes on; 33 calls   99,000

A round has databases of its own, so that a failure is found near its seed, which decides the adapters, the troubles
and the moments, or the call: `python -m MODULE DIRECTORY KILLS SEED` repeats one. A round says itself whether all went
well, by the lists that its processes keep. Rounds run on all cores, until there were enough kills and messages. Exit
status 1 if one failed; it is told, and none begins then.

The promises of messages: each for which `send` returned is handled (`lost`), but for those of the time between a copy
and its return, which stand in the file that is gone alone. Nothing is handled that was never sent (`unexpected`), nor
taken for something old after a copy was put back (T-40, T-48). First copies come in the order in which they were stored
(`overtaken`; T-46, T-51, T-61). Once the receiver was known, each `send` had a recipient (`nobody`; T-61). At the end
the outbox drains (T-09). Commits that a copy lacks are told at the next opening, unless it was said that a copy was put
back; SIGTERM ends an instance in order (`wrong`).

Of poison: each message whose handler ends the process is a dead letter after five tries at most, and all others are
handled.

Of work: each job for which `put` returned is done, and the queue drains. A job that a worker had when it was killed may
be done twice. Each call that the producer began with a message key, in whatever life, has one answer, whenever it asks.
Of local programs: each call that returned is handled, each message key has one effect, however often it is asked for.
Of later: no message comes before its time, each for which `send` returned is handled, copies have the id of the first,
and what a channel keeps comes in order.
Of banks: each transfer that was committed has its effect once, one that was rolled back has none, and
the accounts have together what they began with. Where databases are put back from copies, transfers are lost only as
docs/exactly-once.md says, which is told unless a copy is a young one, and none comes twice.
Of the others: nothing is lost where acks exist, nothing of Rust's comes twice, no program dies by itself but Go, and
each recording can be read in the layout that it names. After a Ctrl-C messages arrive, requests are answered, jobs are
done, elements come, and what was being opened or closed can be opened.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from scripts.prove.graph import Graph

ROOT = Path(__file__).resolve().parents[2]
LEAST = 10  # kills of a round
LONGEST = 1800.0  # seconds for a round
LAST = 40_000  # characters of what was said where something is wrong


class Kind(NamedTuple):
    """One row: the module of a round, its kills, those of a whole run, messages for each of them, the result."""

    module: str
    round: int
    kills: int
    messages: int
    result: str


KINDS = {
    "messages": Kind(
        "tests.killing",
        100,
        10_000,
        100,
        "V7 | {kills:,} kills, {troubles} | {messages:,} messages, {lost} lost, {unexpected} unexpected, "
        "{overtaken} overtaken, {failed} rounds bad, {duplicates:,} duplicates, {not_in_copies:,} in no file but one "
        "that a copy has replaced, first message after {recoveries}",
    ),
    "work": Kind(
        "tests.work_kills",
        50,
        1_000,
        0,
        "work | {workers} workers and {producers} producers killed | {jobs} jobs, {lost} lost, {unexpected} "
        "unexpected, {twice} done twice, {calls} calls, {unanswered} without an answer, {differing} with two, "
        "{failed} rounds bad",
    ),
    "later": Kind(
        "tests.later_kills",
        20,
        1_000,
        0,
        "later | {senders} senders and {receivers} receivers killed | {messages:,} messages, {kept:,} of them kept, "
        "{early} early, {lost} lost, {twice} stored twice, {overtaken} overtaken, {copies} copies | {failed} bad",
    ),
    "banks": Kind(
        "tests.bank_kills",
        40,
        10_000,
        0,
        "banks | {kills:,} kills, {postgres} banks on PostgreSQL | {messages:,} transfers, {lost} lost, {twice} twice, "
        "{unexpected} sent after a rollback, {missing} missing in the accounts",
    ),
    "doubles": Kind(
        "tests.bank_kills without",
        10,
        10,
        0,
        "doubles | {kills} kills of banks without inbox.once | {messages:,} transfers, {twice} twice",
    ),
    "restored": Kind(
        "tests.bank_copies",
        20,
        1_000,
        0,
        "restored | {kills:,} kills, {instances} databases of instances and {own} of banks restored, {young} from "
        "young copies | {messages:,} transfers, {gone} gone with what was restored, {told} told, {silent} not told, "
        "{wrong_alarms} wrong alarms, {lost} lost, {twice} twice, {missing} missing in the accounts",
    ),
    "local": Kind(
        "tests.local_kills",
        20,
        200,
        0,
        "local | {instances} instances and {programs} programs killed | {messages:,} calls that returned, "
        "{lost} lost, {twice} with two effects, {differing} with two places or answers, {unexpected} unexpected, "
        "{nobody} without a recipient, {failed} rounds bad",
    ),
    "foreign": Kind(
        "tests.foreign_kills",
        12,
        600,
        0,
        "foreign | {kills of ours} kills of ours and {kills of theirs} of theirs in {settings} settings | "
        "{messages:,} messages, {lost} lost, {unexpected} unexpected, {recorded:,} frames read from recordings, "
        "{failed} rounds bad",
    ),
    "poison": Kind(
        "tests.poison",
        60,
        1_000,
        0,
        "poison | {kills} deaths by messages | {messages} messages, {letters} dead letters, {lost} lost, {failed} "
        "rounds bad",
    ),
    "ctrl-c": Kind(
        "tests.interrupting random",
        100,
        99_000,
        0,
        "ctrl-c | {kills} times Ctrl-C in {settings} calls | {interrupted} of them before the call was over, {failed} "
        "broken",
    ),
}


class Totals:
    """Sums of what rounds say: of numbers, of counts by name, and of all seconds."""

    def __init__(self) -> None:
        self.numbers = Counter[str]()
        self.counts = defaultdict[str, Counter[str]](Counter)
        self.seconds = defaultdict[str, list[float]](list)

    def add(self, result: dict[str, Any]) -> None:
        for name, value in result.items():
            if isinstance(value, dict):
                self.counts[name].update(value)
            elif isinstance(value, list):
                self.seconds[name] += value
            elif isinstance(value, int):
                self.numbers[name] += value

    def words(self) -> dict[str, Any]:
        """For a result, under the names of the rounds."""
        counts = {
            name: ", ".join(f"{number:,} {what}" for what, number in sorted(found.items()))
            for name, found in self.counts.items()
        }
        seconds = {
            name: f"median {median(found):.2f} s, max {max(found):.2f} s" if found else "none seen"
            for name, found in self.seconds.items()
        }
        words = {**self.numbers, **counts, **seconds, "settings": len(self.counts["rig"])}
        return defaultdict[str, Any](int, words)


def one_round(module: str, kills: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", *module.split(), directory, str(kills), str(seed)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return {"failed": 1, "error": f"it hangs: it has not ended in {LONGEST:g} s"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"failed": 1}
    return {**result, "failed": 1, "error": done.stderr[-LAST:]} if done.returncode or result["failed"] else result


def run(kind: Kind, kills: int, first: int) -> Totals:
    totals, pace, seeds = Totals(), list[float](), count(first)
    numbers = totals.numbers

    def rounds() -> None:
        while not numbers["failed"] and (numbers["begun"] < kills or numbers["messages"] < kind.messages * kills):
            seed, some = next(seeds), min(kind.round, max(LEAST, kills - numbers["begun"]))
            numbers["begun"] += some
            result = one_round(kind.module, some, seed)
            totals.add(result)
            numbers["rounds"] += 1
            pace.append(numbers["kills"])
            shown = {name: value for name, value in result.items() if not isinstance(value, list)}
            print(f"seed {seed}: {shown}", flush=True)

    with ThreadPoolExecutor() as pool:
        for running in [pool.submit(rounds) for _ in range(os.cpu_count() or 1)]:
            running.result()
    print(Graph("kills, as each round ends", pace).said())
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("kills", type=int, nargs="?")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    kind, began = KINDS[options.kind], time.monotonic()
    totals = run(kind, options.kills or kind.kills, options.seed)
    words = totals.words()
    times = "; ".join(f"{name}: {words[name]}" for name in totals.seconds)
    print(f"{totals.numbers['rounds']} rounds in {time.monotonic() - began:.0f} s; {times}")
    print(f"result: {kind.result.format_map(words)}")
    return int(totals.numbers["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())

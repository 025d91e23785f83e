"""Matrix of peers: every endpoint against every other one, over processes.

    python -m interop.matrix                          all pairs, all scenarios
    python -m interop.matrix asyncio js               these, each with each and with itself
    python -m interop.matrix asyncio js --pair        the first listens, the second dials
    python -m interop.matrix --scenario kills --kills 20
    python -m interop.matrix asyncio theirs --endpoint 'theirs=/path/to/endpoint --fast'
    python -m interop.matrix --write                  keeps what was run in docs/interop.json, and draws docs/interop.md
    python -m interop.matrix --page                   only draws it, from what is known

An endpoint is a command that keeps the contract of interop/README.md; `--endpoint NAME=COMMAND` adds one. For each
ordered pair the first listens and the second dials. A scenario runs on the first wire that both support, and each cell
is passed, failed or unsupported: an endpoint says so itself, by the exit status 127. Nothing else is asked of it, as
the judgement is made here, over what the two have said. A failure is told with its reason and the last words of both.
Each result kept has the day and the commit with each cell, so cells can be run some at a time.
Exit status 1 if a cell failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tolliver.certs import make_ca, make_certificate

from interop.pyodide import installed
from tests.ports import free_address

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "docs" / "interop.json", ROOT / "docs" / "interop.md"

WIRES = ("draft-2", "go-2026", "rust-2026")
"""In the order in which they are tried."""
UNSUPPORTED = 127
PATIENCE = 60.0  # seconds in which something new must be said
WINDOW = 32  # messages that an endpoint is asked for and has not answered
STEP = 0.002  # seconds between two looks
AGAIN = 0.05  # seconds until a message that nobody wanted is tried again
LAST_WORDS = 2000  # characters

NODE = ("node", "--no-warnings")
ENDPOINTS: dict[str, tuple[str, ...]] = {
    **{kind: ("python", "-m", "interop.endpoints.ours", kind) for kind in ("asyncio", "trio", "twisted", "blocking")},
    "js": (*NODE, "interop/endpoints/js.mjs"),
    "pyodide": (*NODE, "interop/pyodide/endpoint.mjs"),
    "go": ("python", "-m", "interop.endpoints.doubles", "go"),
    "rust": ("python", "-m", "interop.endpoints.doubles", "rust"),
}


class Scenario(NamedTuple):
    """The load of each way: how many messages, of which sizes in bytes, by which verb; kills of either side."""

    what: str
    messages: int
    sizes: tuple[int, ...]
    verb: str = "send"
    kills: int = 0


SCENARIOS = {
    "messages": Scenario("100 messages each way, empty ones to 60 KB", 100, (0, 10, 3_000, 60_000)),
    "unreliable": Scenario("100 unreliable messages each way", 100, (0, 10, 1_000), verb="tell"),
    "large": Scenario("2 messages each way, of 16 MiB and of 1 MiB and a byte", 2, (2**24, 2**20 + 1)),
    "kills": Scenario("messages each way while `kill -9` ends either side", 200, (0, 10, 3_000, 60_000), kills=3),
    "streams": Scenario("a stream of 500 elements each way, 16 at a time", 500, (), verb=""),
}
SIDES, ROLES = ("left", "right"), ("listen", "dial")
ANSWERS = {"send": "stored", "tell": "told"}


class Unsupported(Exception):
    """The side of that name has ended with 127."""


class Failed(Exception):
    """The fault, in words."""


class Process:
    """One life of an endpoint. Its words are in `said`, a line of words each, until somebody takes it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.said: deque[list[str]] = deque()
        self._name = name
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable if command[0] == "python" else command[0], *command[1:]],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # else a kill has cut it
                self.said.append(line.decode("utf-8", "replace").split())

    def wait_ready(self) -> None:
        """Raises Unsupported, Failed."""
        end = time.monotonic() + PATIENCE
        while not self.said:
            status = self._process.poll()
            if status is not None:
                self._reading.join()  # it may have been ready for a moment
            if status == UNSUPPORTED:
                raise Unsupported(self._name)
            if status is not None and not self.said:
                raise Failed(f"{self._name} ended with status {status} before it was ready")
            if time.monotonic() > end:
                raise Failed(f"{self._name} was not ready within {PATIENCE:g} s")
            time.sleep(STEP)
        if self.said.popleft() != ["ready"]:
            raise Failed(f"the first line of {self._name} is not `ready`")

    def ask(self, *words: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{' '.join(words)}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{self._name} ended by itself, with status {self._process.wait()}") from None

    def look(self) -> None:
        """Raises Failed where it has ended by itself."""
        if self._process.poll() is None:
            return
        self._reading.join()
        if not self.said:
            raise Failed(f"{self._name} ended by itself, with status {self._process.returncode}")

    def kill(self) -> None:
        """SIGKILL; what it had said before is said."""
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):  # it was asked for something and had ended
                if pipe is not None:
                    pipe.close()

    def ask_to_end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_ended(self) -> None:
        """Raises Failed where it does not end in order."""
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self._name} has not ended within {PATIENCE:g} s") from None
        if status:
            raise Failed(f"{self._name} ended with status {status}")


class Body(NamedTuple):
    """A file, and the SHA-256 of what is in it."""

    file: Path
    sha256: str


@dataclass
class Side:
    """One endpoint of a pair, over its lives: what it was asked for, and what it has said."""

    name: str
    start: Callable[[], Process]
    bodies: dict[str, Body]
    lives: list[Process] = field(default_factory=list)
    due: deque[tuple[float, str]] = field(init=False)
    """Keys that it is still to be asked for, and from when on."""
    asked: Counter[str] = field(default_factory=Counter)
    """Every key that it may have sent, and how often."""
    waiting: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    """Keys of messages that must come."""
    handled: Counter[str] = field(default_factory=Counter)
    elements: list[str] = field(default_factory=list)
    completed: bool = False

    def __post_init__(self) -> None:
        self.due = deque((0.0, key) for key in self.bodies)

    def begin(self) -> None:
        self.lives.append(self.start())
        self.process.wait_ready()

    @property
    def process(self) -> Process:
        return self.lives[-1]

    def hear(self, answer: str, other: Side) -> bool:
        """Take all that it has said. True if there was something. Raises Failed where that is wrong."""
        heard = False
        while self.process.said:
            heard = True
            match self.process.said.popleft():
                case ["handled", key, digest]:
                    if key not in other.asked:
                        raise Failed(f"{self.name} handled {key}, which was not sent")
                    if other.bodies[key].sha256 != digest:
                        raise Failed(f"{self.name} handled {key} with another body")
                    self.handled[key] += 1
                case [said, key] if said == answer:
                    self.waiting.discard(key)
                    self.kept.add(key)
                case ["nobody", key]:
                    self.waiting.discard(key)
                    self.due.append((time.monotonic() + AGAIN, key))
                case ["element", digest]:
                    self.elements.append(digest)
                case ["completed"]:
                    self.completed = True
                case words:
                    raise Failed(f"{self.name} said {' '.join(words)[:100]!r}")
        return heard

    def ask(self, verb: str) -> None:
        while self.due and len(self.waiting) < WINDOW and self.due[0][0] <= time.monotonic():
            _, key = self.due.popleft()
            self.asked[key] += 1
            self.waiting.add(key)
            self.process.ask(verb, key, str(self.bodies[key].file))

    @property
    def left(self) -> int:
        """Messages that it has not kept yet."""
        return len(self.due) + len(self.waiting)

    def kill(self, answer: str, other: Side) -> None:
        """Kill it, and start its next life. A command without an answer may be stored or not: it is not asked again."""
        self.process.kill()
        self.hear(answer, other)
        self.waiting.clear()
        self.begin()


class Counts(NamedTuple):
    """The record of a cell."""

    wire: str
    messages: int
    """Messages, or elements."""
    twice: int
    kills: int


def exchange(scenario: Scenario, left: Side, right: Side, rng: random.Random) -> None:
    """All messages pass, while either side is killed. Raises Failed where something is lost, wrong, or never comes."""
    answer, both = ANSWERS[scenario.verb], ((left, right), (right, left))
    total, kills, end = 2 * scenario.messages, 0, time.monotonic() + PATIENCE
    while any(one.left or not one.kept <= other.handled.keys() for one, other in both):
        for one, other in both:
            if one.hear(answer, other):
                end = time.monotonic() + PATIENCE
            one.process.look()
            one.ask(scenario.verb)
        if kills < scenario.kills and total - left.left - right.left > total * (kills + 1) // (scenario.kills + 1):
            kills += 1
            time.sleep(rng.uniform(0, 0.05))
            one, other = rng.choice(both)
            one.kill(answer, other)
        if time.monotonic() > end:
            missing = [f"{len(one.kept - other.handled.keys())} of {one.name} never came" for one, other in both]
            raise Failed(f"{', '.join(missing)}; {left.left + right.left} were not kept; nothing new in {PATIENCE:g} s")
        time.sleep(STEP)


def stream(left: Side, right: Side, elements: Mapping[str, Sequence[str]]) -> None:
    """Each has got the elements of the other, in order, and their end. Raises Failed."""
    both, end = ((left, right), (right, left)), time.monotonic() + PATIENCE
    while not (left.completed and right.completed):
        for one, other in both:
            if one.hear("", other):
                end = time.monotonic() + PATIENCE
            one.process.look()
        if time.monotonic() > end:
            raise Failed(
                f"{left.name} has {len(left.elements)} elements, {right.name} {len(right.elements)}: no more come"
            )
        time.sleep(STEP)
    for one, other in both:
        if one.elements != elements[other.name]:
            raise Failed(f"the elements of {other.name} came otherwise, or in another order")


class Rig:
    """Certificates, bodies and elements, made once for all cells; and the cells."""

    def __init__(self, directory: Path, scenarios: Mapping[str, Scenario]) -> None:
        self._directory = directory
        self._scenarios = scenarios
        self._unsupported: set[tuple[str, str, str, str]] = set()
        make_ca(directory / "certs")
        self._uuids = {name: make_certificate(directory / "certs", name).uuid for name in SIDES}
        self._bodies = {
            (scenario, name): dict(self._written(scenario, name)) for scenario, name in product(scenarios, SIDES)
        }
        self._elements = {name: self._lines(name) for name in SIDES}

    def _written(self, scenario: str, name: str) -> Iterator[tuple[str, Body]]:
        """The bodies that this side sends, each another one."""
        rng = random.Random(f"{scenario} {name}")
        (directory := self._directory / "bodies" / scenario).mkdir(parents=True, exist_ok=True)
        _, count, sizes, *_ = self._scenarios[scenario]
        for number in range(count if sizes else 0):
            key, body = f"{name}.{number}", rng.randbytes(sizes[number % len(sizes)])
            (directory / key).write_bytes(body)
            yield key, Body(directory / key, hashlib.sha256(body).hexdigest())

    def _lines(self, name: str) -> list[str]:
        """The digests of the elements that this side publishes."""
        rng = random.Random(name)
        lines = [rng.randbytes(rng.randrange(1, 100)).hex().encode() for _ in range(SCENARIOS["streams"].messages)]
        (self._directory / f"{name}.elements").write_bytes(b"".join(line + b"\n" for line in lines))
        return [hashlib.sha256(line).hexdigest() for line in lines]

    def cell(
        self, scenario: str, listener: str, dialler: str, commands: Mapping[str, Sequence[str]]
    ) -> Counts | str | None:
        """The record of a pair, why it failed, or None where one of them does not support it."""
        for wire in WIRES:
            roles = ((listener, "listen"), (dialler, "dial"))
            if any((name, role, scenario, wire) in self._unsupported for name, role in roles):
                continue
            with tempfile.TemporaryDirectory(dir=self._directory) as directory:
                try:
                    return self._play(scenario, wire, [commands[name] for name, _ in roles], Path(directory))
                except Unsupported as unsupported:
                    self._unsupported.add((*roles[SIDES.index(str(unsupported))], scenario, wire))
                except Failed as failure:
                    words = [
                        f"{log.stem}: {log.read_text('utf-8', 'replace')[-LAST_WORDS:]}"
                        for log in sorted(Path(directory).glob("*.log"))
                    ]
                    return "\n".join((str(failure), *words))
        return None

    def _play(self, scenario: str, wire: str, commands: Sequence[Sequence[str]], directory: Path) -> Counts:
        address = free_address()

        def starting(at: int) -> Callable[[], Process]:
            name, peer = SIDES[at], SIDES[1 - at]
            (state := directory / name).mkdir()
            environment = {
                "SCENARIO": scenario,
                "WIRE": wire,
                "ROLE": ROLES[at],
                "ADDRESS": address,
                "NAME": name,
                "UUID": str(self._uuids[name]),
                "PEER": peer,
                "PEER_UUID": str(self._uuids[peer]),
                "CERTS": str(self._directory / "certs"),
                "STATE": str(state),
                "ELEMENTS": str(self._directory / f"{name}.elements"),
            }
            given = {f"INTEROP_{name}": value for name, value in environment.items()}
            return lambda: Process(name, commands[at], given, directory / f"{name}.log")

        how = self._scenarios[scenario]
        left, right = both = [Side(name, starting(at), self._bodies[scenario, name]) for at, name in enumerate(SIDES)]
        with ending(both):
            for one in both:
                one.begin()
            if how.verb:
                exchange(how, left, right, random.Random(f"{scenario} {commands}"))
            else:
                stream(left, right, self._elements)
            for one in both:
                one.process.ask_to_end()
            for one in both:
                one.process.wait_ended()
        handled, asked = left.handled + right.handled, left.asked + right.asked
        twice = sum(handled[key] - 1 for key in handled if asked[key] == 1)
        return Counts(wire, len(handled) or len(left.elements) + len(right.elements), twice, how.kills)


@contextmanager
def ending(sides: Iterable[Side]) -> Iterator[None]:
    """No process of them outlives this."""
    try:
        yield
    finally:
        for one in sides:
            for life in one.lives:
                life.kill()


# Output.

Cells = dict[str, dict[str, Any]]
"""By "scenario listener dialler"."""


def play(
    commands: Mapping[str, Sequence[str]],
    scenarios: Mapping[str, Scenario],
    pairs: Iterable[tuple[str, str]] = (),
    jobs: int = 4,
) -> Cells:
    """Every cell of these pairs, or of all, so many at a time; each is told as it ends."""
    cells: Cells = {}
    with tempfile.TemporaryDirectory(prefix="interop-") as directory, ThreadPoolExecutor(jobs) as pool:
        rig = Rig(Path(directory), scenarios)
        wanted = [(scenario, *pair) for scenario in scenarios for pair in pairs or product(commands, commands)]
        outcomes = [pool.submit(rig.cell, *cell, commands) for cell in wanted]
        for cell, outcome in zip(wanted, outcomes, strict=True):
            found = outcome.result()
            name = " ".join(cell)
            match found:
                case None:
                    cells[name] = {"result": "unsupported"}
                case str():
                    cells[name] = {"result": "failed", "why": found.splitlines()[0]}
                case _:
                    cells[name] = {"result": "passed", **found._asdict()}
            print(
                f"{name}: {found if isinstance(found, str) else ' '.join(map(str, cells[name].values()))}", flush=True
            )
    return cells


def summary(cells: Cells) -> str:
    """The result, as `make proof` reads it."""
    results = Counter(cell["result"] for cell in cells.values())
    pairs = {tuple(name.split()[1:]) for name in cells}
    sums = {what: sum(cell.get(what, 0) for cell in cells.values()) for what in ("messages", "twice", "kills")}
    return (
        f"result: matrix | {len(pairs)} ordered pairs of {len({one for pair in pairs for one in pair})} endpoints, "
        f"{len({name.split()[0] for name in cells})} scenarios | {results['passed']} passed, {results['failed']} "
        f"failed, {results['unsupported']} unsupported; {sums['messages']:,} messages and elements, {sums['twice']:,} "
        f"of them twice, over {sums['kills']:,} kills"
    )


HEAD = """# Peers, each with each

Each endpoint listened for each other one, and for itself, and dialled it. A letter is a scenario that passed: a runner
found nothing lost, changed or made up in what both said, and both ended in order. A scenario without its letter is not
supported by one of the two; one that failed stands in **bold**.

{letters}

asyncio, trio, twisted and blocking are this program on its adapters; js is the
[peer in JavaScript](foreign.md#a-peer-in-javascript), pyodide the node in WebAssembly over the TLS sockets of Node.js;
go and rust are [doubles](foreign.md) of the Go and the Rust program of 2026, in the layouts of those programs, which js
does not speak. Rust's has no acknowledgements.

"""
TAIL = """
{figures}.

`python -m interop.matrix --write` keeps what it has run in `docs/interop.json`, each cell with its day and commit, and
draws this page: last on {date} at {commit}. To add an endpoint is to write a command that keeps the contract of
`interop/README.md`.
"""


def page(cells: Cells) -> str:
    """docs/interop.md."""
    letters = "\n".join(f"- `{name[0]}`: {name}, {scenario.what}" for name, scenario in SCENARIOS.items())

    def letter(scenario: str, listener: str, dialler: str) -> str:
        result = cells.get(f"{scenario} {listener} {dialler}", {"result": "unsupported"})["result"]
        return {"passed": scenario[0], "failed": f"**{scenario}**", "unsupported": ""}[result]

    def cell(listener: str, dialler: str) -> str:
        return " ".join(filter(None, (letter(scenario, listener, dialler) for scenario in SCENARIOS)))

    rows = [["listens, below; dials, right", *ENDPOINTS], ["---"] * (1 + len(ENDPOINTS))]
    rows += [[listener, *(cell(listener, dialler) for dialler in ENDPOINTS)] for listener in ENDPOINTS]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    last = max(cells.values(), key=lambda cell: str(cell["when"]))
    figures = summary(cells).rpartition(" | ")[2]
    return (
        HEAD.format(letters=letters)
        + table
        + TAIL.format(figures=figures, date=last["when"][:10], commit=last["commit"])
    )


def save(cells: Cells) -> None:
    """Keep these cells beside those that are known, and draw the page."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "?"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    known: Cells = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    known |= {name: {**cell, "when": now, "commit": commit} for name, cell in cells.items()}
    ordered = (" ".join(names) for names in product(SCENARIOS, ENDPOINTS, ENDPOINTS))
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in ordered if name in known]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    PAGE.write_text(page(known), "utf-8")


def available(names: Iterable[str]) -> dict[str, Sequence[str]]:
    """Commands of those that can run here; the others are named, with the reason."""
    lacks = {
        "js": lambda: None if shutil.which("node") else "node is not installed",
        "pyodide": installed.pyodide,
    }
    found: dict[str, Sequence[str]] = {}
    for name in names:
        reason = lacks.get(name, lambda: None)()
        if reason is None:
            found[name] = ENDPOINTS[name]
        else:
            print(f"left out: {name}, as {reason}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoints", nargs="*", metavar="ENDPOINT", help=f"of {', '.join(ENDPOINTS)}, or of --endpoint")
    parser.add_argument("--endpoint", action="append", default=[], metavar="NAME=COMMAND", help="one more endpoint")
    parser.add_argument("--scenario", action="append", choices=[*SCENARIOS], help="which ones (default: all)")
    parser.add_argument(
        "--kills", type=int, default=SCENARIOS["kills"].kills, help="of each cell (default: %(default)s)"
    )
    parser.add_argument("--pair", action="store_true", help="of two endpoints: the first listens, the second dials")
    parser.add_argument("--jobs", type=int, default=4, help="cells at a time (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="keep what was run in docs/interop.json")
    parser.add_argument("--page", action="store_true", help="only draw the page from what is known")
    options = parser.parse_args()
    if options.page:
        save({})
        return 0
    theirs = {name: shlex.split(command) for name, _, command in (each.partition("=") for each in options.endpoint)}
    names = options.endpoints or [*ENDPOINTS, *theirs]
    if unknown := set(names) - ENDPOINTS.keys() - theirs.keys():
        parser.error(f"no endpoint {', '.join(sorted(unknown))}: there are {', '.join((*ENDPOINTS, *theirs))}")
    commands = {**available(name for name in names if name not in theirs), **theirs}
    scenarios = {name: SCENARIOS[name] for name in options.scenario or SCENARIOS}
    if "kills" in scenarios:
        scenarios["kills"] = scenarios["kills"]._replace(kills=options.kills)
    pairs = [(names[0], names[-1])] if options.pair else []
    cells = play({name: commands[name] for name in names if name in commands}, scenarios, pairs, options.jobs)
    if options.write:
        save({name: cell for name, cell in cells.items() if not set(name.split()) & set(theirs)})
    print(summary(cells))
    return int(any(cell["result"] == "failed" for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())

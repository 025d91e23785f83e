"""Rooms of the code in their order, and their imports.

The order is data. A room may import from rooms on lower floors, never from one on its own floor or above: so no imports
run in a circle, and two adapters cannot know each other. `scripts/draw/rooms.py` draws the order and the arrows into
docs/architecture.md, `tests/test_rooms.py` holds every import against it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Room(NamedTuple):
    """A folder or module, and what it is for. A package's own name stands for its `__init__` alone."""

    name: str
    purpose: str


CORE: tuple[tuple[Room, ...], ...] = (
    (
        Room(
            "tolliver_proto._common",
            "shared by both protocols: errors, the words for transports, byte buffer, timers, rate limits",
        ),
    ),
    (Room("tolliver_proto._wire", "one connection: frames, layouts as data, codec, transition table, `Connection`"),),
    (
        Room("tolliver_proto._node", "many connections with one durable outbox: `Node`, and what it asks of a store"),
        Room("tolliver_proto.reactive", "the second protocol, Reactive Streams: frames, tables, `Connection`, `Hub`"),
        Room("tolliver_proto.recording", "recorded wire bytes: block layout and sidecar index"),
    ),
    (
        Room(
            "tolliver_proto._patterns",
            "what is built on a node by hooks and services: requests, queues, last values, message keys",
        ),
    ),
    (
        Room("tolliver_proto", "door: one connection, and the node"),
        Room("tolliver_proto.errors", "door: all errors"),
        Room("tolliver_proto.node", "door: what an adapter of the node needs, and the patterns"),
        Room("tolliver_proto.store", "door: what a store of one's own needs"),
        Room("tolliver_proto.layouts", "door: wire layouts and sets of ids, for programs that read or write in bulk"),
        Room("tolliver_proto._testing", "simulated networks of nodes with every fault, and the checks of the promises"),
    ),
    (
        Room("tolliver_proto.testing", "door: connection pairs, a store in memory, `SimNet`, programs of users"),
        Room("tolliver_proto.reactive._testing", "simulated networks of hubs, and the monitor of the wire"),
    ),
    (Room("tolliver_proto.reactive.testing", "door: connection pairs, `WireMonitor`, `StreamNet`"),),
)
"""Floors of the pure package, lowest first."""

TRANSPORTS: tuple[tuple[Room, ...], ...] = (
    (
        Room("tolliver._extras", "the extra that a door needs, and its names, each loaded when it is asked for"),
        Room("tolliver._private", "files: regular ones, that only their owner may read"),
        Room("tolliver.derived", "door: identities derived from a label (T-72a)"),
    ),
    (
        Room("tolliver", "door: values and errors of programs' calls"),
        Room("tolliver.reactive", "door: what programs with streams need beside an adapter"),
    ),
    (
        Room("tolliver._options", "options of instances and streams, checked before anything is opened"),
        Room("tolliver._store", "the durable store: one SQLite file, its lock, its checksums"),
        Room("tolliver._boxes", "tables in a program's own database: what was handled, what is to be sent"),
        Room("tolliver.codecs", "door: typed values as bodies of messages and elements of streams"),
    ),
    (
        Room("tolliver._tls", "TLS policy, TLS without I/O, and the reading of certificates"),
        Room("tolliver.certs", "door: a private CA and certificates in PEM files"),
        Room("tolliver.inbox", "door: effects in a program's own database, once for each message"),
        Room("tolliver.outbox", "door: messages put in a program's own transaction"),
        Room("tolliver.sqlite", "door: the store, for programs that drive a node without an adapter"),
    ),
    (Room("tolliver._driver", "adapter code common to both protocols and all loops"),),
    (
        Room(
            "tolliver._status",
            "snapshot of an instance, table of metrics, and the endpoint that serves them",
        ),
    ),
    (Room("tolliver._local", "local programs: the desk that takes what they hand over, and their side of it"),),
    (
        Room(
            "tolliver._messages",
            "messaging without a loop: calls, handlers, store jobs, recorder",
        ),
    ),
    (Room("tolliver._streams", "streams without a loop: publications, subscriptions, the bridge"),),
    (
        Room("tolliver.anyio", "door: adapter for asyncio and trio"),
        Room("tolliver.twisted", "door: adapter for Twisted"),
        Room("tolliver.blocking", "door: adapter for threads"),
        Room("tolliver.local", "door: programs of this machine, which hand over to a running instance"),
        Room("tolliver.events", "door: what `events()` and `on_event` tell"),
        Room("tolliver.status", "door: the snapshot's types, the table of metrics, Prometheus' text"),
        Room("tolliver.prometheus", "door: collector for Prometheus' own client library"),
        Room("tolliver.otel", "door: metrics and spans for OpenTelemetry"),
    ),
    (
        Room("tolliver.staging", "door: messages in files, each once, before they are acknowledged"),
        Room("tolliver._conform", "kit that plays a peer and judges another implementation, case by case"),
        Room("tolliver.django", "door: Django's tasks: a backend, and the worker that Django has not"),
        Room("tolliver.testing", "door: two connected instances, and a simulated network, for tests of programs"),
    ),
    (Room("tolliver.spark", "door: PySpark data sources, sink, streams with demand, audit"),),
    (
        Room("tolliver._cli", "commands of `tolliver`, one module each"),
        Room("pyspark_tolliver", "the name under which Spark finds the data source by itself"),
    ),
    (Room("tolliver.cli", "door: the `tolliver` command"),),
    (Room("tolliver.__main__", "door: the same as `python -m tolliver`"),),
)
"""Floors of the adapters and of all that is built on them, lowest first, all above the pure package."""

FLOORS = CORE + TRANSPORTS
_FLOOR = {room.name: number for number, floor in enumerate(FLOORS) for room in floor}
_PACKAGES = ("tolliver_proto", "transports/tolliver", "pyspark_tolliver")
_OUTSIDE = ("benchmarks", "examples", "fuzz", "scripts")
"""Folders that use the packages by their doors, as a user does. Tests are of the rooms, and look into them."""


KERNEL = "tolliver_proto._node"
PARTS = ("commits", "outboxes", "lists", "inboxes", "links")
"""Folders of the node's kernel, lowest first: a part imports from itself and from those before it."""
KERNEL_FILES = 53
KERNEL_FLOORS = 20
"""Files of the kernel, and modules on its longest chain of imports. Both may go down: a feature that adds a file takes
one out."""
ANCESTORS = {"tolliver_proto": 3, "tolliver": 4}
"""Classes of ours that a class of this package may descend from, all together; the tree of errors is not counted."""


class Insider(NamedTuple):
    """A file that has a reason to import private modules of a package that it is not in."""

    file: str
    modules: tuple[str, ...]
    reason: str


INSIDERS = (
    Insider("benchmarks/adapters.py", ("tolliver._tls.policy",), "its bare loops have an adapter's TLS"),
    Insider("benchmarks/pumps.py", ("tolliver._tls.pump",), "measures the pump alone"),
    Insider("benchmarks/recording.py", ("tolliver._messages.recorder",), "measures the recorder alone"),
    Insider("benchmarks/spark.py", ("tolliver._messages.recorder",), "writes what a recorder would"),
    Insider("fuzz/columns_bodies.py", ("tolliver.spark.read._columns",), "fuzzes this reader of frames"),
    Insider(
        "fuzz/node_program.py",
        (
            "tolliver_proto._node.subscriptions",
            "tolliver_proto._testing.invariants",
            "tolliver_proto._testing.inspection",
            "tolliver_proto._testing.world",
        ),
        "holds nodes to the checks of the simulator (I1 to I6), in its worlds",
    ),
    Insider("fuzz/node_bodies.py", ("tolliver_proto._testing.inspection",), "calls with connections that are there"),
    Insider("fuzz/ranges_bodies.py", ("tolliver.spark.read._ranges",), "fuzzes this reader of recordings"),
    Insider(
        "fuzz/staging_bodies.py",
        ("tolliver.staging._folder", "tolliver.staging._seen"),
        "damages what lies on the disk under a stage",
    ),
    Insider("fuzz/trust_bodies.py", ("tolliver._tls.x509",), "fuzzes this reader of certificates"),
    Insider("fuzz/words.py", ("tolliver_proto.reactive._varint",), "writes numbers as that protocol does"),
    Insider("scripts/draw/causes.py", ("tolliver._cli.causes",), "shows every cause that doctor names"),
    Insider(
        "scripts/draw/options.py",
        ("tolliver._cli.config", "tolliver._options.reading"),
        "shows every key that a file may have",
    ),
    Insider("scripts/release/reference.py", ("tolliver._cli.commands",), "shows every command as the program says it"),
    Insider(
        "scripts/draw/states.py",
        ("tolliver_proto._wire.state", "tolliver_proto.reactive._state"),
        "draws the transition tables",
    ),
    *(
        Insider(file, ("tolliver_proto._common.compiling",), "classes of ours inherit from its compiled class")
        for file in (
            "transports/tolliver/_driver/driver.py",
            "transports/tolliver/_driver/session.py",
            "transports/tolliver/_driver/socket_session.py",
        )
    ),
)


class When(Enum):
    """The moment at which an import happens."""

    LOADING = "when the module is loaded"
    CALLING = "within a function"
    CHECKING = "for the type checker alone"


class Arrow(NamedTuple):
    """An import, from module to module."""

    source: str
    target: str
    when: When
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.source} imports {self.target}"


def files(root: Path, folders: Iterable[str]) -> dict[str, Path]:
    """The modules in these folders, by the name under which they are imported."""
    found = {}
    for folder in folders:
        base = (root / folder).parent
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def packages(root: Path = ROOT) -> dict[str, Path]:
    return files(root, _PACKAGES)


def outside(root: Path = ROOT) -> dict[str, Path]:
    return files(root, _OUTSIDE)


def arrows(modules: Mapping[str, Path], known: Collection[str], root: Path = ROOT) -> list[Arrow]:
    """All imports of one of the `known` modules by one of these."""
    found = (
        Arrow(module, target, when, f"{path.relative_to(root)}:{line}")
        for module, path in modules.items()
        for name, when, line in _imports(ast.parse(path.read_text("utf-8")), _package(module, path), When.LOADING)
        if (target := _known_part(name, known)) is not None
    )
    return [*dict.fromkeys(found)]


def _package(module: str, path: Path) -> list[str]:
    parts = module.split(".")
    return parts if path.name == "__init__.py" else parts[:-1]


def _known_part(name: str, known: Collection[str]) -> str | None:
    """The module of a dotted name whose last part may be something in it."""
    for module in (name, name.rpartition(".")[0]):
        if module in known:
            return module
    return None


def _imports(node: ast.AST, package: list[str], when: When) -> Iterator[tuple[str, When, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, when, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            home = package[: len(package) - child.level + 1] if child.level else []
            parts = [*home, *([child.module] if child.module else [])]
            yield from ((".".join([*parts, alias.name]), when, child.lineno) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, package, When.CALLING)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from _imports(child, package, When.CHECKING)
        elif not isinstance(child, ast.expr):  # most of a tree, in which no import stands
            yield from _imports(child, package, when)


def room_of(module: str) -> str | None:
    """The room that a module is in."""
    if module in _FLOOR:
        return module
    above = module.rpartition(".")[0]
    return room_of(above) if "." in above else None


def upward(drawn: Iterable[Arrow]) -> list[Arrow]:
    """Returns the arrows that lead to a room on the same floor or above."""
    return [
        arrow
        for arrow in drawn
        if (source := room_of(arrow.source)) != (target := room_of(arrow.target))
        and (source is None or target is None or _FLOOR[source] <= _FLOOR[target])
    ]


def circle(drawn: Iterable[Arrow]) -> list[str]:
    """The modules of a circle, if there is one. An import within a function does not break a circle: it hides one."""
    try:
        TopologicalSorter(_goals(drawn)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def heights(drawn: Iterable[Arrow]) -> dict[str, int]:
    """Modules on the longest chain of imports below each module, itself among them. There must be no circle."""
    goals, found = _goals(drawn), dict[str, int]()
    for module in TopologicalSorter(goals).static_order():
        found[module] = 1 + max((found[goal] for goal in goals.get(module, ())), default=0)
    return found


def _goals(drawn: Iterable[Arrow]) -> dict[str, set[str]]:
    goals: dict[str, set[str]] = {}
    for arrow in drawn:
        goals.setdefault(arrow.source, set()).add(arrow.target)
    return goals


def private(drawn: Iterable[Arrow]) -> list[Arrow]:
    """Arrows into a package that do not come from it and do not end at one of its doors."""
    return [
        arrow
        for arrow in drawn
        if any(part.startswith("_") for part in arrow.target.split("."))
        and arrow.source.split(".")[0] != arrow.target.split(".")[0]
    ]


def calls(drawn: Iterable[Arrow]) -> dict[str, set[str]]:
    """From each room to those that it imports from, except itself."""
    found: dict[str, set[str]] = {room.name: set() for floor in FLOORS for room in floor}
    for arrow in drawn:
        source, target = room_of(arrow.source), room_of(arrow.target)
        if source is not None and target is not None and source != target:
            found[source].add(target)
    return found

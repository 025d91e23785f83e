"""Examples, links and tables of README.md and docs/.

Every example runs, every link leads somewhere, and the tables name all that there is. A block with `anyio.run(` or
`if __name__` is a program and runs alone. The other blocks of a page are one program in the order of the page, in which
`alice` and `bob` are two connected instances. A block that cannot run says why in the line before it: `<!-- not run:
reason -->`; one that serves the next program says so, too. Certificates lie in `certs/`, as the pages say; the default
ports are replaced by a free one.
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, get_args, get_origin

import attrs
import pytest
from tolliver import anyio, blocking, events, twisted
from tolliver._streams.stats import StreamsStats
from tolliver.anyio import InstanceOptions, StreamsOptions, Subscription
from tolliver.spark.read._options import OPTIONS
from tolliver.spark.read._schema import METADATA, OF_MESSAGES
from tolliver.spark.stream._options import LIVE_OPTIONS
from tolliver.status import METRICS

import tolliver_proto
from tests import zygote
from tests.certificates import Certificates
from tolliver_proto import NoticeKind
from tolliver_proto.node import DialCause, NodeStats, Snapshot

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE = 180  # seconds, far above what any of them takes
_BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_BESIDE = "<!-- runs beside the next program -->"
_AROUND = """
from typing import Any

import anyio
from tolliver.anyio import TLS, InstanceOptions, create_instance

def options(name: str, **more: Any) -> InstanceOptions:
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

async def main() -> None:
    async with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        async with create_instance(options("alice")) as alice:
            await alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

anyio.run(main)
"""

_AROUND_BLOCKING = """
from typing import Any

from tolliver.blocking import TLS, InstanceOptions, create_instance

def options(name: str, **more: Any) -> InstanceOptions:
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

def main() -> None:
    with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        with create_instance(options("alice")) as alice:
            alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

main()
"""
_AROUND_STREAMS = """
from typing import Any

import anyio
from tolliver.anyio import TLS, StreamsOptions, create_streams

def options(name: str, **more: Any) -> StreamsOptions:
    return StreamsOptions(tls=TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem"), **more)

async def main() -> None:
    async with create_streams(options("alice", listen="127.0.0.1:0")) as alice:
        async with create_streams(options("bob")) as bob:
            peer = await bob.connect(f"127.0.0.1:{{alice.port}}")
{fragments}

anyio.run(main)
"""
_AROUND_ON = {
    "README.md": "{fragments}",
    "blocking.md": _AROUND_BLOCKING,
    "embedding.md": "{fragments}",
    "spark.md": "{fragments}",
    "spark-connections.md": "{fragments}",
    "streams.md": _AROUND_STREAMS,
}
_IN_SPARK = ["spark.md:fragments", "spark-connections.md:fragments"]
"""Run by tests/spark/test_page.py, in the session that its tests share."""


class Example(NamedTuple):
    name: str
    code: str
    beside: str = ""
    """A program that serves this one."""


def programs(page: Path) -> list[Example]:
    """All that a page can run."""
    found, fragments, beside = [], [], ""
    text = f"\n{page.read_text()}"
    for block in _BLOCK.finditer(text):
        code, line = block["code"], text[: block.start("code")].count("\n")
        if _NOT_RUN.fullmatch(block["before"].strip()):
            continue
        if block["before"].strip() == _BESIDE:
            beside = code
        elif "anyio.run(" in code or "if __name__" in code:
            found.append(Example(f"{page.name}:{line}", code, beside))
            beside = ""
        else:
            fragments.append(code)
    if fragments:
        body = textwrap.indent("\n".join(fragments), " " * 12)
        found.append(Example(f"{page.name}:fragments", _AROUND_ON.get(page.name, _AROUND).format(fragments=body)))
    assert not beside, "no program comes after it"
    return found


EXAMPLES = [example for page in PAGES for example in programs(page)]


def wait_until_it_listens(server: subprocess.Popen[str], port: int) -> None:
    for _ in range(PATIENCE * 20):
        assert server.poll() is None, "it has ended"
        with socket.socket() as trial:
            if not trial.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


@contextmanager
def serving(directory: Path, code: str, port: int) -> Iterator[None]:
    """A program that runs until this is left; none, if there is no code."""
    if not code:
        yield
        return
    program = directory / "beside.py"
    program.write_text(code)
    with zygote.Process([sys.executable, "-W", "error", str(program)], cwd=directory, text=True) as server:
        try:
            wait_until_it_listens(server, port)
            yield
            assert server.poll() is None, "it has ended"
        finally:
            server.kill()


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.name not in _IN_SPARK], ids=lambda one: one.name)
def test_the_example_runs(example: Example, certs: Certificates, tmp_path: Path) -> None:
    for member in ("alice", "bob"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = tmp_path / "example.py"
    code, beside = (re.sub(r"\b701[12]\b", str(port), text) for text in (example.code, example.beside))
    program.write_text(textwrap.dedent(code))
    command = [sys.executable, "-W", "error", str(program)]
    with serving(tmp_path, beside, port):
        done = zygote.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, f"{example.name}:\n{done.stdout}{done.stderr}"


def test_the_pages_have_examples() -> None:
    pages = {example.name.partition(":")[0] for example in EXAMPLES}
    assert {
        "README.md",
        "anyio.md",
        "blocking.md",
        "embedding.md",
        "messaging.md",
        "security.md",
        "spark.md",
        "streams.md",
        "twisted.md",
    } <= pages


# Links.

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_ELSEWHERE = ("http:", "https:", "mailto:")


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Anchors that GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
    return named | {*re.findall(r'<a id="([\w-]+)">', page.read_text())}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in _LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if link.startswith(_ELSEWHERE):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_in_a_link_is_there(page: Path) -> None:
    named = re.findall(r"\[`(test_\w+)`\]\((\S+?\.py)\)", page.read_text("utf-8"))
    gone = [f"{path}::{name}" for name, path in named if f"def {name}(" not in (page.parent / path).read_text("utf-8")]
    assert gone == []


@pytest.mark.parametrize(
    ("link", "dead"), [("b.md#one-two-3", False), ("#here", False), ("c.md", True), ("b.md#one", True), ("#x", True)]
)
def test_a_dead_link_is_found(tmp_path: Path, link: str, dead: bool) -> None:
    (tmp_path / "b.md").write_text("## One, `two`: 3\n```\n# one\n```\n")
    page = tmp_path / "a.md"
    page.write_text(f"# Here\n[over\ntwo lines]({link}) and [out](https://example.org/#x)\n")
    assert dead_links(page) == ([link] if dead else [])


# Tables.

CORE = Path(tolliver_proto.__file__).parent


def in_tables(first_column: str, page: str = "messaging.md") -> set[str]:
    """The names in the first column of those tables of the page in which that column has this title."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    tables = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def counted(modules: str) -> set[str]:
    """Names that modules of the core count by."""
    sources = [path.read_text("utf-8") for path in CORE.glob(modules)]
    return {name for source in sources for name in re.findall(r'self\._counts\["(\w+)"', source)}


def names(snapshot: type[Snapshot]) -> set[str]:
    return {field.name for field in dataclasses.fields(snapshot)}  # type: ignore[arg-type]  # each is a dataclass


def test_every_notice_has_a_row() -> None:
    assert in_tables("kind") == set(NoticeKind)


def test_every_cause_of_a_failed_dial_has_a_row() -> None:
    assert in_tables("cause") == set(DialCause)


def test_every_counter_is_a_number_of_the_reference() -> None:
    assert names(NodeStats) <= {metric.name for metric in METRICS if metric.subject == "instance"}
    chosen = {"withheld", "unwanted"}  # one line counts either
    assert counted("_*/*.py") | chosen <= names(NodeStats), "it is counted, and nobody sees it"


def test_every_event_has_a_row() -> None:
    assert in_tables("event") == {kind.__name__ for kind in get_args(events.Event)}
    of_streams = {get_origin(kind) or kind for kind in get_args(events.StreamsEvent)}
    assert in_tables("event", "streams.md") == {kind.__name__ for kind in (*of_streams, events.EventsMissed)}
    told = {name for name in events.__all__ if isinstance(getattr(events, name), type)}
    assert in_tables("event") | in_tables("event", "streams.md") == told


def errors(door: str) -> set[type[BaseException]]:
    """Public ones of our own."""
    module = importlib.import_module(door)
    named = (getattr(module, name) for name in getattr(module, "__all__", ()))
    return {one for one in named if isinstance(one, type) and issubclass(one, BaseException)}


def test_every_error_has_a_row_with_its_cause_and_its_cure() -> None:
    doors = [f"tolliver.{name}" for name in ("anyio", "blocking", "twisted", "spark", "staging", "codecs")]
    found = {kind for door in ("tolliver_proto.errors", "tolliver_proto.reactive", *doors) for kind in errors(door)}
    rows = in_tables("error", "errors.md")
    assert {kind.__name__ for kind in found} - {"TolliverError"} - rows == set()
    assert {name for name in rows if not hasattr(builtins, name)} == {kind.__name__ for kind in found} - {
        "TolliverError"
    }


def test_every_error_is_raised_as_its_row_says() -> None:
    """A row that calls an error a kind of another one is right about it."""
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    known = {
        kind.__name__: kind for door in ("tolliver_proto.errors", "tolliver_proto.reactive") for kind in errors(door)
    }
    said = re.findall(r"^\| `(\w+)`, an? `(\w+)` \|", text, re.MULTILINE)
    assert len(said) > 5
    for name, base in said:
        assert issubclass(known[name], known.get(base) or getattr(builtins, base)), name


def test_the_help_of_options_has_each_and_the_page_has_no_other() -> None:
    options = {field.alias for field in attrs.fields(InstanceOptions)}
    assert options - {*re.findall(r"`(\w+)", InstanceOptions.__doc__ or "")} == set()
    assert in_tables("options") < options


def test_every_option_of_streams_has_a_row() -> None:
    assert in_tables("option", "streams.md") == {field.alias for field in attrs.fields(StreamsOptions)}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_call_of_streams_has_a_row_and_is_there() -> None:
    assert in_tables("call", "streams.md") | {"addresses", "port"} == public(anyio.Streams)
    assert in_tables("of a subscription", "streams.md") - {"async"} == public(Subscription)


def test_every_counter_of_streams_has_a_row() -> None:
    assert in_tables("count", "streams.md") == names(StreamsStats)
    assert counted("reactive/*.py") <= names(StreamsStats)


def test_every_option_of_reading_into_spark_has_a_row() -> None:
    assert in_tables("reading option", "spark.md") == {*OPTIONS} - {"path", "paths"}
    assert in_tables("streaming option", "spark-streams.md") == {name.split(".")[0] for name in LIVE_OPTIONS}
    assert in_tables("column", "spark.md") == {*OF_MESSAGES, *METADATA}


@pytest.mark.parametrize(
    "adapter", [anyio.Instance, blocking.Instance, twisted.Instance], ids=["anyio", "blocking", "twisted"]
)
def test_every_call_of_the_table_is_there(adapter: type) -> None:
    calls = in_tables("call")
    assert calls >= {"send", "subscribe", "stats"}
    assert [name for name in calls if not callable(getattr(adapter, name, None))] == []
    admin = in_tables("call of `admin`")
    assert admin >= {"forget_peer", "backup"}
    assert [name for name in admin if not callable(getattr(import_module(adapter.__module__).Admin, name, None))] == []

"""Every Python example in README.md and docs/ runs, every link leads somewhere, and the tables name all that there is.

The idea: a block with `anyio.run(` or `if __name__` is a program and runs alone. The other blocks of a page are one
program in the order of the page, in which `alice` and `bob` are two connected instances. A block that cannot run says
why in the line before it: `<!-- not run: reason -->`. Certificates lie in `certs/`, as the pages say; the default port
is replaced by a free one.
"""

from __future__ import annotations

import dataclasses
import random
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from uuid import UUID

import attrs
import pytest
from tolliver_transports import anyio, blocking, twisted
from tolliver_transports.anyio import InstanceOptions

import tolliver_proto
from tests.certificates import Certificates
from tolliver_proto import Limits, Node, NoticeKind, Policy

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE = 60  # seconds, far above what any of them takes
_BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_AROUND = """
import anyio
from tolliver_transports.anyio import TLS, InstanceOptions, create_instance

def options(name, **more):
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

async def main():
    async with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        async with create_instance(options("alice")) as alice:
            await alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

anyio.run(main)
"""

_AROUND_BLOCKING = """
from tolliver_transports.blocking import TLS, InstanceOptions, create_instance

def options(name, **more):
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

def main():
    with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        with create_instance(options("alice")) as alice:
            alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

main()
"""
_AROUND_ON = {"blocking.md": _AROUND_BLOCKING}


def programs(page: Path) -> list[tuple[str, str]]:
    """(name, code) of all that a page can run."""
    found, fragments = [], []
    text = "\n" + page.read_text()
    for block in _BLOCK.finditer(text):
        code, line = block["code"], text[: block.start("code")].count("\n")
        if _NOT_RUN.fullmatch(block["before"].strip()):
            continue
        if "anyio.run(" in code or "if __name__" in code:
            found.append((f"{page.name}:{line}", code))
        else:
            fragments.append(code)
    if fragments:
        body = textwrap.indent("\n".join(fragments), " " * 12)
        found.append((f"{page.name}:fragments", _AROUND_ON.get(page.name, _AROUND).format(fragments=body)))
    return found


EXAMPLES = [example for page in PAGES for example in programs(page)]


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(name: str, code: str, certs: Certificates, tmp_path: Path) -> None:
    for member in ("alice", "bob"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = tmp_path / "example.py"
    program.write_text(code.replace("7011", str(port)))
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"


def test_the_pages_have_examples() -> None:
    pages = {name.partition(":")[0] for name, _ in EXAMPLES}
    assert {
        "README.md",
        "anyio.md",
        "blocking.md",
        "embedding.md",
        "messaging.md",
        "security.md",
        "twisted.md",
    } <= pages


# Links.

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_ELSEWHERE = ("http:", "https:", "mailto:")


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


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


@pytest.mark.parametrize(
    ("link", "dead"), [("b.md#one-two-3", False), ("#here", False), ("c.md", True), ("b.md#one", True), ("#x", True)]
)
def test_a_dead_link_is_found(tmp_path: Path, link: str, dead: bool) -> None:
    (tmp_path / "b.md").write_text("## One, `two`: 3\n```\n# one\n```\n")
    page = tmp_path / "a.md"
    page.write_text(f"# Here\n[over\ntwo lines]({link}) and [out](https://example.org/#x)\n")
    assert dead_links(page) == ([link] if dead else [])


# Tables.

SOURCES = [path.read_text("utf-8") for path in Path(tolliver_proto.__file__).parent.glob("*.py")]


def in_tables(first_column: str, page: str = "messaging.md") -> set[str]:
    """The names in the first column of those tables of the page in which that column has this title."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    tables = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def counters() -> set[str]:
    """What the node counts by name, and the sizes that `stats` adds."""
    counted = {name for source in SOURCES for name in re.findall(r'self\._counts\["(\w+)"', source)}
    chosen = {"withheld", "unwanted"}  # one line counts either
    return counted | chosen | set(Node(instance_id=UUID(int=1), rng=random.Random(1)).stats())


def test_every_notice_has_a_row() -> None:
    assert in_tables("kind") == set(NoticeKind)


def test_every_counter_has_a_row() -> None:
    assert in_tables("name") == counters() | {"ignored_", "notices_"}


def test_every_option_has_a_row() -> None:
    assert in_tables("option") == {field.alias for field in attrs.fields(InstanceOptions)}


def test_every_limit_and_policy_has_a_row() -> None:
    fields = {*dataclasses.fields(Limits), *dataclasses.fields(Policy)}
    assert in_tables("field", "node.md") == {field.name for field in fields}


@pytest.mark.parametrize(
    "adapter", [anyio.Instance, blocking.Instance, twisted.Instance], ids=["anyio", "blocking", "twisted"]
)
def test_every_call_of_the_table_is_there(adapter: type) -> None:
    calls = in_tables("call")
    assert calls >= {"send", "subscribe", "stats"}
    assert [name for name in calls if not callable(getattr(adapter, name, None))] == []

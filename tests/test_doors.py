"""Doors: public names, and modules that nobody loads who does not ask for them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import tolliver_proto

DOORS = (
    "tolliver",
    "tolliver_proto",
    "tolliver_proto.errors",
    "tolliver_proto.node",
    "tolliver_proto.store",
    "tolliver.anyio",
    "tolliver.blocking",
    "tolliver.codecs",
    "tolliver.spark",
    "tolliver.twisted",
)
STREAMS = {"tolliver_proto.reactive", "tolliver._streams.streams", "tolliver._options.streams"}
RARE = {
    "cryptography",
    "email",
    "http",
    "opentelemetry",
    "prometheus_client",
    "tomllib",
    "pyarrow",
    "tolliver.certs",
    "tolliver_proto.recording",
}
CODED = {"msgspec", "cloudevents", "google", "grpc_tools", "subprocess", "attrs", "anyio", "asyncio"}
UNLOADED = {
    "import tolliver_proto": {"asyncio", "dataclasses", "inspect", "ssl", "uuid", "tolliver_proto._node.node"},
    "from tolliver_proto import Connection": {"asyncio", "ssl", "sqlite3", "tolliver_proto._node.node"},
    "from tolliver_proto import Node, Policy": {"asyncio", "ssl", "sqlite3", "socket", "logging"} | STREAMS | RARE,
    "from tolliver_proto.reactive import Hub": {"asyncio", "ssl", "socket", "tolliver_proto._node.node"} | RARE,
    "import tolliver.anyio": {"anyio", "asyncio", "attrs", "ssl", "sqlite3"} | STREAMS | RARE,
    "import tolliver.blocking": {"anyio", "asyncio", "attrs", "ssl", "sqlite3"} | STREAMS | RARE,
    "import tolliver.twisted": {"twisted", "anyio", "asyncio", "attrs", "ssl", "sqlite3"} | STREAMS | RARE,
    "import tolliver.codecs": CODED | {"json", "tolliver_proto._node.node"},
    "from tolliver.codecs import Json, Protobuf, decoding; Json(dict)": CODED,
    "import tolliver.django": {"django", "attrs", "ssl", "sqlite3", "tolliver_proto._node.node"},
    "import tolliver.spark": {"pyspark", "attrs", "ssl", "sqlite3", "tolliver_proto._node.node"},
    "from tolliver.anyio import TLS, InstanceOptions, Remote, create_instance": STREAMS | RARE,
    "from tolliver.blocking import TLS, InstanceOptions, Remote, create_instance": {"anyio", "asyncio"}
    | STREAMS
    | RARE,
    "from tolliver.blocking import BlockingConnection": {"anyio", "asyncio", "sqlite3"} | RARE,
    "from tolliver.twisted import InstanceOptions, create_instance": {"anyio", "tomllib"} | STREAMS,
    "import tolliver": {"asyncio", "attrs", "dataclasses", "ssl", "tolliver_proto._node.node"},
    "from tolliver import Limits": {"asyncio", "ssl", "sqlite3", "tolliver_proto._node.node"},
    "from tolliver import anyio, blocking": {"anyio", "asyncio", "attrs", "ssl", "sqlite3"} | STREAMS | RARE,
}
"""From what a program writes to modules that it does not get by that."""


def parsed(door: str) -> ast.Module:
    return ast.parse(Path(str(import_module(door).__file__)).read_text("utf-8"))


def said(door: str) -> set[tuple[str, str]]:
    """Modules and names, as the type checker reads them."""
    (block,) = (node for node in parsed(door).body if isinstance(node, ast.If))
    given = {
        ("." * node.level + (node.module or ""), alias.name + (f" as {alias.asname}" if alias.asname else ""))
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: home for home, name in given}
    renamed = {
        (homes[node.value.id], f"{node.value.id} as {target.id}")
        for node in block.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return given | renamed


def loaded(door: str) -> Iterator[tuple[str, str]]:
    """The same, as they are loaded."""
    (block,) = (node for node in parsed(door).body if isinstance(node, ast.If))
    (table,) = (node for one in block.orelse for node in ast.walk(one) if isinstance(node, ast.Dict))
    for home, names in ast.literal_eval(table).items():
        yield from ((home, name) for name in names.split(", "))


@pytest.mark.parametrize("door", DOORS)
def test_the_type_checker_reads_what_is_loaded(door: str) -> None:
    names = [*loaded(door)]
    assert len(names) == len(set(names))
    assert set(names) == said(door)
    public = [name.rpartition(" ")[2] for _, name in names]
    assert sorted(public) == sorted(import_module(door).__all__)


def test_the_door_of_the_core_leads_into_the_core() -> None:
    assert all(home.startswith("._") for home, _ in loaded("tolliver_proto"))


@pytest.mark.parametrize("door", DOORS)
def test_all_names_are_there(door: str) -> None:
    module = import_module(door)
    assert {*module.__all__} <= {*dir(module)}
    namespace: dict[str, object] = {}
    exec(f"from {door} import *", namespace)
    assert {*namespace} - {"__builtins__"} == {*module.__all__}
    for home, name in loaded(door):
        own, _, public = name.partition(" as ")
        assert namespace[public or own] is getattr(import_module(home, door), own)


@pytest.mark.parametrize("door", DOORS)
def test_others_are_not(door: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{door}' has no attribute 'missing'"):
        import_module(door).missing  # noqa: B018  # asking is the test
    with pytest.raises(ImportError):
        exec(f"from {door} import missing")


def test_a_name_is_looked_for_once() -> None:
    assert tolliver_proto.Limits is vars(tolliver_proto)["Limits"]


@pytest.mark.parametrize("program", UNLOADED)
def test_a_program_loads_nothing_that_it_did_not_ask_for(program: str) -> None:
    code = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert UNLOADED[program] & {*done.stdout.split()} == set()

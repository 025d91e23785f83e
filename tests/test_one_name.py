"""`tolliver`, the one name to import: names of the other packages, none of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from typing import assert_type

import pytest
import tolliver
import tolliver.reactive.testing
import tolliver_transports.anyio
import tolliver_transports.blocking
from tolliver import Limits, anyio, blocking, twisted

import tolliver_proto
import tolliver_proto.reactive
from scripts.rooms import FLOORS, packages

OTHERS = {"tolliver", "tolliver_transports", "tolliver_transports.cli", "pyspark_tolliver"}
"""Rooms with a public name that are no door of this one: two packages, a command, an entry point of Spark."""
HOMES = {
    "tolliver" + room.name.removeprefix("tolliver_proto").removeprefix("tolliver_transports"): room.name
    for floor in FLOORS
    for room in floor
    if "._" not in room.name and room.name not in OTHERS
}
MODULES = {name: path for name, path in packages().items() if name.partition(".")[0] == "tolliver"}
MISSING = [
    ("attrs", "anyio", "from tolliver import anyio"),
    ("anyio", "anyio", "from tolliver.anyio import create_instance"),
    ("attrs", "blocking", "import tolliver; tolliver.blocking"),
    ("twisted", "twisted", "import tolliver.twisted"),
    ("cryptography", "cli", "from tolliver.certs import make_ca"),
    ("pyspark", "spark", "from tolliver.spark import register"),
    ("pyarrow", "spark", "from tolliver.spark import encode_batches"),
    ("prometheus_client", "prometheus", "from tolliver.prometheus import Collector"),
    ("opentelemetry.trace", "otel", "from tolliver.otel import instrument"),
    ("msgspec", "msgspec", "from tolliver.codecs import Msgspec; Msgspec(dict)"),
]


def python(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("name", "home"), HOMES.items(), ids=HOMES)
def test_every_public_name_is_that_of_its_home(name: str, home: str) -> None:
    here, there = import_module(name), import_module(home)
    assert here.__all__ == there.__all__
    assert {*here.__all__} <= {*dir(here)}
    for public in here.__all__:
        assert getattr(here, public) is getattr(there, public)


def test_every_door_is_one_of_its_modules() -> None:
    assert {*MODULES} == {*HOMES, "tolliver._same"}
    assert {f"tolliver.{name}" for name in dir(tolliver)} >= {name for name in HOMES if name.count(".") == 1}


def test_it_defines_nothing() -> None:
    for module in HOMES:
        kinds = {type(node) for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8")))}
        assert kinds & {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef} == set(), module


def test_the_type_checker_sees_the_same() -> None:
    """mypy reads this, too: a name that it did not see would be an error there."""
    assert_type(Limits(), tolliver_proto.Limits)
    assert_type(tolliver.Limits(), tolliver_proto.Limits)
    given: type[tolliver_transports.blocking.Instance] = blocking.Instance
    options: type[tolliver_transports.anyio.InstanceOptions] = twisted.InstanceOptions
    hub: type[tolliver_proto.reactive.Hub] = tolliver.reactive.Hub
    net: type[tolliver.reactive.testing.StreamNet] = tolliver.reactive.testing.StreamNet
    assert all((given, options, hub, net))


@pytest.mark.parametrize(("missing", "extra", "program"), MISSING, ids=[program for *_, program in MISSING])
def test_a_missing_extra_says_which_one_to_install(missing: str, extra: str, program: str) -> None:
    done = python(f"import sys; sys.modules[{missing!r}] = None; {program}")
    [*_, said] = done.stderr.splitlines()
    assert said == f"ModuleNotFoundError: the module {missing} is missing: pip install 'tolliver-proto[{extra}]'"


def test_private_modules_have_no_second_name() -> None:
    """Their classes would exist twice."""
    for name in ("tolliver.anyio.instance", "tolliver.anyio._messages"):
        with pytest.raises(ModuleNotFoundError, match="not a package"):
            import_module(name)
    for module in (tolliver, anyio):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'missing'"):
            module.missing  # noqa: B018  # asking is the test
    with pytest.raises(ImportError):
        exec("from tolliver import missing")


def test_all_of_it_can_be_had_without_any_extra() -> None:
    """A star asks for names alone: a door would ask for its extra."""
    namespace: dict[str, object] = {}
    exec("from tolliver import *", namespace)
    assert {*namespace} - {"__builtins__"} == {*tolliver_proto.__all__}


def test_the_version_stands_in_one_place() -> None:
    assert tolliver.__version__ == tolliver_proto.__version__

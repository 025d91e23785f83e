"""`tolliver`, the one name to import beside the machines: values and errors of programs, and doors."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import tolliver
import tolliver.reactive
import tolliver.testing

import tolliver_proto

MISSING = [
    ("attrs", "anyio", "from tolliver import anyio"),
    ("anyio", "anyio", "from tolliver.anyio import create_instance"),
    ("attrs", "blocking", "import tolliver.blocking"),
    ("twisted", "twisted", "import tolliver.twisted"),
    ("cryptography", "cli", "from tolliver.certs import make_ca"),
    ("attrs", "anyio", "from tolliver.testing import pair"),
    ("pyspark", "spark", "from tolliver.spark import register"),
    ("pyarrow", "spark", "from tolliver.spark import encode_batches"),
    ("prometheus_client", "prometheus", "from tolliver.prometheus import Collector"),
    ("opentelemetry.trace", "otel", "from tolliver.otel import instrument"),
    ("django.tasks", "django", "from tolliver.django import TolliverBackend"),
    ("msgspec", "msgspec", "from tolliver.codecs import Msgspec; Msgspec(dict)"),
]
NAMES = 51  # a page
OF_ADAPTERS = {"SimulatedRelay", "pair", "relay"}
MACHINE = ("errors", "node", "store", "layouts")


def python(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_offers_a_page_of_names_and_defines_none() -> None:
    assert len(tolliver.__all__) <= NAMES
    for module in (tolliver, tolliver.reactive, tolliver.testing):
        kinds = {type(node) for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))}
        assert kinds & {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef} == set()


@pytest.mark.parametrize("door", ["tolliver", "tolliver.reactive", "tolliver.testing"])
def test_each_name_is_that_of_the_machine(door: str) -> None:
    here, there = import_module(door), door.replace("tolliver", "tolliver_proto")
    homes = [import_module(one) for one in (there, *(f"tolliver_proto.{name}" for name in MACHINE))]
    for name in {*here.__all__} - OF_ADAPTERS:
        assert getattr(here, name) in [getattr(home, name, None) for home in homes]


@pytest.mark.parametrize(("missing", "extra", "program"), MISSING, ids=[program for *_, program in MISSING])
def test_a_missing_extra_says_which_one_to_install(missing: str, extra: str, program: str) -> None:
    done = python(f"import sys; sys.modules[{missing!r}] = None; {program}")
    [*_, said] = done.stderr.splitlines()
    assert said == f"ModuleNotFoundError: the module {missing} is missing: pip install 'tolliver-proto[{extra}]'"


def test_the_names_can_be_had_without_any_extra() -> None:
    """A star asks for names alone: a door would ask for its extra."""
    namespace: dict[str, object] = {}
    exec("from tolliver import *", namespace)
    assert {*namespace} - {"__builtins__"} == {*tolliver.__all__}


def test_the_version_stands_in_one_place() -> None:
    assert tolliver.__version__ == tolliver_proto.__version__

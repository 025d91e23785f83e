"""Fixtures of all tests."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from scripts.coverage_core import ROOT
from scripts.coverage_core import TESTS as CORE
from tests.certificates import Certificates

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# A busy machine must not fail a test, and each run has other examples: `make thorough` takes 500.
settings.register_profile("tolliver", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=500)
# For planted bugs: the same examples each time, and what fails need not be made short.
settings.register_profile(
    "planted", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
# For coverage: a line that is seen by chance is one that is missed by chance.
settings.register_profile("watched", deadline=None, derandomize=True, database=None, max_examples=15)
settings.load_profile("tolliver")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA and its members, made once per test process: `.tls("alice")`, `.uuid("alice")`."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    if config.getvalue("dist") != "load":  # which is what `-n` alone means
        return None
    from tests.sharing import OneByOne

    return OneByOne(config, log)


CORE_PATHS = {ROOT / file for file in CORE}


def pytest_collection() -> None:
    """Collected tests stay: to look for garbage between is time lost, in each process of the suite."""
    gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The suite leaves out the core's tests. A file that has no other is not read: there are thousands of them."""
    without_core = str(config.getoption("markexpr")).startswith("not core and ")
    if without_core and collection_path in CORE_PATHS and "mark.search" not in collection_path.read_text("utf-8"):
        return True
    return None


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path in CORE_PATHS and not item.get_closest_marker("search"):
            item.add_marker("core")


def pytest_collection_finish() -> None:
    """All that is imported and collected by now stays: collecting garbage need not look at it each time."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)  # when the fixtures of the file are gone
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what the tests of a file have left: what they imported, and what they read once for all."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The counts of tests (`record_property`) are said at the end: a bounded search must tell how far it went."""
    counted: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        counted.update({name: value for name, value in report.user_properties if isinstance(value, int)})
    for name, total in sorted(counted.items()):
        terminalreporter.write_line(f"{total:,} {name}")

"""Fixtures of all tests."""

from __future__ import annotations

import gc
import signal
from collections import Counter

import pytest
from hypothesis import Phase, settings

from tests.certificates import Certificates

settings.register_profile("tolliver", deadline=None)  # a busy machine must not fail a test
# For planted bugs: the same examples each time, and what fails need not be made short.
settings.register_profile(
    "planted", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("tolliver")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA and its members, made once per test process: `.tls("alice")`, `.uuid("alice")`."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: collecting garbage need not look at all of it each time."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted (`record_property`) is said at the end: a bounded search must tell how far it went."""
    counted: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        counted.update({name: value for name, value in report.user_properties if isinstance(value, int)})
    for name, total in sorted(counted.items()):
        terminalreporter.write_line(f"{total:,} {name}")

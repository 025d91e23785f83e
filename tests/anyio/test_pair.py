"""`tolliver.testing.pair`: two connected instances, and the tests of docs/testing.md, run by pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tolliver.anyio import InstanceOptions
from tolliver.testing import pair

from tests.certificates import Certificates

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
SECONDS = 120
FIXTURE_USED = """

@pytest.mark.anyio
async def test_the_fixture(both: tuple[Instance, Instance]) -> None:
    alice, bob = both
    assert [one.stats().peers_up for one in both] == [1, 1]
"""


@pytest.mark.anyio
async def test_both_ends_are_connected_and_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with pair() as (alice, bob):
        assert [one.stats().peers_up for one in (alice, bob)] == [1, 1]
        for ours, theirs in ((alice, bob), (bob, alice)):
            async with theirs.messages("greetings") as greetings:
                await ours.wait_subscribed("greetings", timeout=30)
                receipt = await ours.send("greetings", "first", b"hello")
                greeting = await anext(greetings)
                assert greeting.body == b"hello"
                greeting.ack()
                await ours.wait_acked(receipt, timeout=30)
    assert os.listdir(tmp_path) == []


@pytest.mark.anyio
async def test_each_end_has_its_options(tmp_path: Path, certs: Certificates) -> None:
    options = {
        name: InstanceOptions(database=tmp_path / f"{name}.db", tls=certs.tls(name)) for name in ("alice", "bob")
    }
    async with pair(**options) as (alice, bob):
        assert alice.instance_id == certs.uuid("alice")
        assert bob.instance_id == certs.uuid("bob")


def test_pytest_runs_the_tests_of_the_page(tmp_path: Path) -> None:
    """As its reader saves them, without settings of this repository; the fixture has a test here."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    tests = [block for block in blocks if "import pytest" in block]
    assert len(tests) == 2
    for number, block in enumerate(tests):
        used = FIXTURE_USED if "@pytest.fixture" in block else ""
        (tmp_path / f"test_{number}.py").write_text(block + used, "utf-8")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^4 passed", done.stdout, re.MULTILINE), "two tests, on asyncio and on trio"


def test_the_test_of_the_page_has_ten_lines() -> None:
    (block,) = re.findall(r"## A unit test in ten lines\n\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) == 10

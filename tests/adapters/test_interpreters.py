"""Interpreters beside the main one, and processes whose standard descriptors are closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ISOLATED = """
import sys
try:
    import _interpreters
    error = _interpreters.run_string(_interpreters.create("isolated"), sys.argv[1])
    sys.exit(error and error.formatted)
except ImportError:
    import _xxsubinterpreters
    _xxsubinterpreters.run_string(_xxsubinterpreters.create(isolated=True), sys.argv[1])
"""
OPENED = {
    "anyio": """
import asyncio
async def main():
    await create_instance(options).__aenter__()
asyncio.run(main())""",
    "blocking": "create_instance(options).__enter__()",
    "twisted": """
from twisted.internet import defer, task
failed = []
task.react(lambda _: create_instance(options).addErrback(failed.append).addCallback(
    lambda _: (print(failed[0].getErrorMessage(), flush=True), os._exit(0))))""",
}
BEGIN = """
import os
from tolliver.{adapter} import InstanceOptions, create_instance
options = InstanceOptions(database={database!r}, listen="127.0.0.1:0", plaintext=True)
"""


@pytest.mark.parametrize("adapter", OPENED)
def test_an_isolated_subinterpreter_says_why_not(adapter: str, tmp_path: Path) -> None:
    """It may start no daemon threads, and before Python 3.12 no threads at all."""
    if adapter == "twisted" and sys.version_info < (3, 12):
        pytest.skip("Twisted's own threads do not start there, so it waits for them for ever")
    opening = BEGIN.format(adapter=adapter, database=str(tmp_path / "a.db")) + OPENED[adapter]
    if adapter != "twisted":
        lines = "".join(f"    {line}\n" for line in opening.strip().splitlines())
        opening = f"try:\n{lines}except Exception as error:\n    print(error, flush=True)\n    os._exit(0)"
    done = subprocess.run([sys.executable, "-c", ISOLATED, opening], capture_output=True, text=True, timeout=120)
    assert "an isolated subinterpreter may not start the threads that keep a store" in done.stdout, done.stderr
    assert "in the main interpreter, or in a process of its own" in done.stdout


STRICT = [sys.executable, "-X", "dev", "-W", "error"]
TALK = """
import sys, threading
from pathlib import Path
from tolliver.blocking import InstanceOptions, create_instance
directory, got = Path(sys.argv[1]), threading.Event()
one = InstanceOptions(database=directory / "a.db", listen="127.0.0.1:0", plaintext=True, record=directory / "a")
two = InstanceOptions(database=directory / "b.db", plaintext=True)
with create_instance(one) as receiver, create_instance(two) as sender:
    receiver.subscribe("\\N{SNOWMAN}", handler=lambda _delivery: got.set())
    sender.new_connection(f"127.0.0.1:{receiver.port}")
    sender.wait_subscribed("\\N{SNOWMAN}")
    sender.wait_acked(sender.send("\\N{SNOWMAN}", "k\\xf6ln", b"x"))
    sender.retain("a", "b", b"c")
    sender.work_queue("jobs").put(b"x")
    sender.admin.backup(directory / "copy.db")
    assert got.wait(60)
(directory / "done").write_text("\\N{SNOWMAN}", "utf-8")
"""
PLACES: dict[str, dict[str, str]] = {
    "usual": {},
    "C": {"LC_ALL": "C"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("place", PLACES)
def test_it_works_without_standard_descriptors_and_in_any_locale(place: str, closed: bool, tmp_path: Path) -> None:
    """Each warning is an error there, and a resource that nobody closed is told."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("LC_")} | PLACES[place]
    shut = "exec <&- >&- 2>&-; " if closed else ""
    command = ["sh", "-c", f'{shut}exec "$@"', "sh", *STRICT, "-c", TALK, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "done").exists()

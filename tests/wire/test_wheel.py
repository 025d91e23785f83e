"""Wheel without extras: the pure package needs nothing else."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from scripts.release.__main__ import wheel_problems

REPOSITORY = Path(__file__).parents[2]
FIRST_MESSAGE = """
import sys
before = {*sys.modules}
from pathlib import Path
from uuid import UUID
import tolliver_proto
from tolliver_proto import Closed, Connection, Established, HandshakeRequest, Message, Role, Subscription

client = Connection(Role.CLIENT, instance_id=UUID(int=1), subscriptions=[Subscription("weather", "")])
server = Connection(Role.SERVER, instance_id=UUID(int=2))

def carry(one, two):
    for unit in one.data_to_send():
        two.receive_data(unit)

carry(client, server)
assert isinstance(server.next_event(), HandshakeRequest)
server.accept()
assert server.next_event().subscriptions == (Subscription("weather", ""),)
carry(server, client)
assert [type(event).__name__ for event in client.events()] == ["HandshakeResponse", "Established"]
server.send(Message("weather", "oslo", b"rain", 7))
server.close()
carry(server, client)
client.receive_eof()
assert list(client.events()) == [Message("weather", "oslo", b"rain", 7), Closed()]
came = {name.split(".")[0] for name in {*sys.modules} - before}
foreign = came - set(sys.stdlib_module_names) - {"tolliver_proto"}
print(Path(tolliver_proto.__file__), sorted(name for name in foreign if not name.startswith("_")))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(out: Path) -> Path:
    """With the backend of this environment if it has one, else with one that pip fetches."""
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", out, REPOSITORY, cwd=out)
    [wheel] = out.glob("*.whl")
    return wheel


def test_the_wheel_needs_nothing(tmp_path: Path) -> None:
    wheel = build(tmp_path)
    assert "tolliver/_cli/tolliver.lua" in ZipFile(wheel).namelist()
    assert list(wheel_problems(wheel)) == []

    # Installed into an empty environment; with --no-index pip could not find a requirement if there were one.
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    python = home / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--no-index", wheel, cwd=tmp_path)
    listed = json.loads(run(*pip, "list", "--format", "json", cwd=tmp_path))
    assert [package["name"] for package in listed] == ["tolliver-proto"]
    said = run(python, "-I", "-c", FIRST_MESSAGE, cwd=tmp_path)
    assert said.startswith(str(home))
    assert said.endswith(" []\n")

    # Not installed at all: a wheel is a zip, and so an executor that installs nothing gets it.
    code = f"import sys; sys.path.insert(0, {str(wheel)!r})\n{FIRST_MESSAGE}"
    said = run(sys.executable, "-I", "-S", "-c", code, cwd=tmp_path)
    assert said.startswith(str(wheel))
    assert said.endswith(" []\n")

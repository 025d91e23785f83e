"""Without `fcntl`, as on Windows: an instance works, a stage is refused with words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MISSING = "import sys; sys.modules['fcntl'] = None\n"
MESSAGE = """
import anyio
from tolliver import StoreError
from tolliver.anyio import InstanceOptions, create_instance

def options(name, **more):
    return InstanceOptions(database=f"{name}.db", plaintext=True, **more)

async def main():
    async with create_instance(options("bob", listen="127.0.0.1:0")) as bob, create_instance(options("alice")) as alice:
        await bob.subscribe("greetings", handler=lambda delivery: print(delivery.body.decode()))
        await alice.new_connection(f"127.0.0.1:{bob.port}")
        await alice.wait_acked(await alice.send("greetings", "first", b"hello"))
        try:
            async with create_instance(options("bob")):
                print("a second instance has the database")
        except StoreError as error:
            print(error)

anyio.run(main)
"""
COMMAND = "from tolliver.cli import main; sys.argv[1:] = {words}; main()"


def python(program: str, where: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MISSING + program]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300, check=False)


def test_an_instance_has_its_database_for_itself(tmp_path: Path) -> None:
    done = python(MESSAGE, tmp_path)
    assert done.returncode == 0, done.stderr
    said, refused = done.stdout.splitlines()
    assert said == "hello"
    assert "another program holds a lock" in refused


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["stage", "here"], "a stage"),
        (["listen", "--plaintext", "--listen", "127.0.0.1:0", "--database", "a.db"], "a command that connects"),
    ],
    ids=["stage", "listen"],
)
def test_a_command_that_needs_posix_says_so(words: list[str], what: str, tmp_path: Path) -> None:
    done = python(COMMAND.format(words=words), tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"tolliver: {what} needs the file locks and signals of POSIX, and this system ({sys.platform}) has none: take "
        "Linux or macOS for it, or an instance in a Python program, which needs neither\n"
    )
    assert not [*tmp_path.iterdir()]


def test_a_command_that_connects_to_none_works(tmp_path: Path) -> None:
    done = python(COMMAND.format(words=["certs", "certs", "alice"]), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "certs/alice.pem").is_file()

"""Destinations of `tolliver run`: whatever a function does, and whoever else has a file."""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._cli.appending import append
from tolliver.blocking import TLS, Instance, InstanceOptions, create_instance

from tests.cli.commands import SECONDS, running, tolliver
from tests.cli.conftest import Who
from tests.cli.test_errors import the_line
from tests.cli.test_run import config, until_lines
from tolliver_proto import Delivery, Message

ENDS = """
import asyncio, pathlib, sys

class Odd(BaseException):
    pass

ERRORS = {
    "cancelled": asyncio.CancelledError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "odd": Odd,
    "group": lambda: BaseExceptionGroup("several", [KeyboardInterrupt(), SystemExit(3)]),
}

def plain(delivery):
    if delivery.attempt == 1:
        raise ERRORS[delivery.key]()
    with open(pathlib.Path(__file__).with_name("got"), "a") as out:
        print(delivery.channel, delivery.key, file=out)

async def waits(delivery):
    plain(delivery)

class Awaited:
    async def __call__(self, delivery):
        plain(delivery)

awaited = Awaited()
"""
KINDS = ("plain", "waits", "awaited")
ERRORS = ("cancelled", "exit", "interrupt", "odd", "group")


@pytest.mark.parametrize("concurrency", [1, 2])
def test_whatever_a_function_raises_is_a_failed_attempt(concurrency: int, who: Who, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    tables = "".join(
        f'[[deliver]]\nchannel = "{kind}"\npython = "ends:{kind}"\nconcurrency = {concurrency}\n' for kind in KINDS
    )
    path = config(tmp_path, who, "")
    path.write_text(path.read_text().replace('subscriptions = ["c"]\n', "") + tables)
    with running(tmp_path / "out", "run", path) as service, sender(tmp_path, who, service.address) as bob:
        names = [(kind, error) for kind in KINDS for error in ERRORS]
        bob.wait_acked(bob.send_many([(*one, b"x") for one in names], require_recipients=1), timeout=SECONDS)
        assert {*until_lines(tmp_path / "got", len(names))} == {" ".join(one) for one in names}
        said = "\n".join(service.until_said("handler_failed"))
        assert said.count("raised CancelledError") >= len(KINDS)  # more, where a slow machine lets one come again
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0


@contextmanager
def sender(tmp_path: Path, who: Who, *addresses: str) -> Iterator[Instance]:
    """Bob, who is connected."""
    who("bob")
    files = tmp_path / "certificates" / "bob"
    tls = TLS(files.with_suffix(".pem"), files.with_suffix(".key"), files.with_name("ca.pem"))
    options = InstanceOptions(database=files.with_suffix(".db"), tls=tls, retry_interval=0.2)
    with create_instance(options) as bob:
        for address in addresses:
            bob.new_connection(address, timeout=SECONDS)
        yield bob


# Files.

ONE_FILE = """
[[deliver]]
channel = "a"
file = "lines.jsonl"

[[deliver]]
channel = "b"
file = "same.jsonl"
"""


def lines(path: Path) -> list[tuple[str, str]]:
    """Channel and key of each; but null; a line that is no JSON fails."""
    return [(one["channel"], one["key"]) for one in map(json.loads, path.read_text().splitlines()) if one]


@pytest.mark.parametrize("alias", [Path.symlink_to, Path.hardlink_to])
def test_two_tables_write_one_file_and_a_full_disk_costs_nothing(
    alias: Callable[[Path, Path], None], who: Who, tmp_path: Path
) -> None:
    path = config(tmp_path, who, "")
    path.write_text(path.read_text().replace('subscriptions = ["c"]\n', "") + ONE_FILE)
    place = tmp_path / "lines.jsonl"
    place.touch(0o600)
    alias(tmp_path / "same.jsonl", place)
    with running(tmp_path / "out", "run", path) as service, sender(tmp_path, who, service.address) as bob:
        pid, (_, hard) = service.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
        names = [(("a", "b")[number % 2], f"k{number}") for number in range(400)]
        bob.wait_acked(bob.send_many([(*one, b"x") for one in names[:200]], require_recipients=1), timeout=SECONDS)
        kept = place.read_text()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (len(kept) + 700, hard))
        receipts = [bob.send(*one, b"x", require_recipients=1) for one in names[200:]]
        service.until_said("lines.jsonl cannot be written, its messages wait: File too large")
        full = place.read_text()
        assert full.startswith(kept)
        assert full.endswith("\n")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        for receipt in receipts:
            bob.wait_acked(receipt, timeout=SECONDS)
        assert place.read_text().startswith(full)
        assert {*lines(place)} == {*names}
        with place.open("a") as other:  # another process that locks the file
            fcntl.flock(other, fcntl.LOCK_EX)
            receipt = bob.send("a", "locked", b"x")
            service.until_said("lines.jsonl cannot be written, its messages wait: another process has locked it")
            other.write("null\n")
        bob.wait_acked(receipt, timeout=SECONDS)
        assert "null" in place.read_text().splitlines()
        assert ("a", "locked") in lines(place)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0


def test_a_pipe_is_refused_as_it_would_acknowledge_what_nobody_reads(tmp_path: Path) -> None:
    path, pipe = tmp_path / "a.toml", tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for name in ("pipe", "link", "."):
        path.write_text(f'plaintext = true\nsubscriptions = ["c"]\ndeliver.file = "{name}"')
        said = "deliver.command or deliver.socket for a program"
        assert said in the_line(tolliver("config", "check", path))
    with pytest.raises(OSError, match="is a pipe, and no regular file"):
        append(pipe, [run_of(b"one")])  # that came there after the start


def run_of(*bodies: bytes) -> list[Delivery]:
    peer = UUID("01890000-0000-7000-8000-000000000001")
    return [Delivery(1, peer, Message("c", "k", body, 7)) for body in bodies]


def test_what_could_be_written_in_part_only_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"torn')  # by a loss of power
    append(path, [run_of(b"one"), run_of(b"two")])
    torn, *whole = path.read_text().splitlines()
    assert (torn, len(whole)) == ('{"torn', 2)
    before, now = resource.getrlimit(resource.RLIMIT_FSIZE), path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(now) + 3, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            append(path, [run_of(b"three")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == now


def test_what_another_program_has_written_meanwhile_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n")

    def breaks(_fd: int) -> None:
        """A disk that fails at the sync, behind a program that knows no lock."""
        with path.open("ab") as out:
            out.write(b"theirs\n")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", breaks)
        with pytest.raises(OSError, match="Input/output error"):
            append(path, [run_of(b"one")])
    first, _ours, theirs = path.read_bytes().splitlines()
    assert (first, theirs) == (b"first", b"theirs")
    append(path, [run_of(b"one")])
    assert len(path.read_bytes().splitlines()) == 4


# Rotation.

SMALL = 1000
"""Bytes: a few lines of a short message."""


def bodies(path: Path) -> list[bytes]:
    """Bodies in the file and in those that were put aside, oldest first."""
    files = [*sorted(path.parent.glob("lines.[12]*.jsonl")), *([path] if path.exists() else [])]
    return [base64.b64decode(json.loads(line)["body"]) for one in files for line in one.read_text().splitlines()]


@pytest.mark.parametrize("link", [False, True])
def test_a_file_is_put_aside_before_it_is_too_large(link: bool, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    if link:
        (tmp_path / "link").symlink_to(path)
    names = [b"%d" % number for number in range(40)]
    for name in names:
        append(tmp_path / "link" if link else path, [run_of(name)], rotate_size=SMALL)
    assert bodies(path) == names
    aside = [one for one in tmp_path.glob("lines.2*.jsonl") if not one.is_symlink()]
    assert len(aside) > 2
    assert all(one.stat().st_size <= SMALL and one.stat().st_mode & 0o777 == 0o600 for one in [*aside, path])
    append(path, [run_of(b"x" * SMALL)], rotate_size=SMALL)
    assert path.stat().st_size > SMALL, "one batch is not divided"


def test_a_file_of_an_earlier_period_is_put_aside_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    for name in (b"1", b"2", b"3"):
        append(path, [run_of(name)], rotate_age=10**9)
        os.utime(path, (1, 1))  # as if it had been written in 1970, each time
    assert bodies(path) == [b"1", b"2", b"3"]
    assert len([*tmp_path.glob("lines.1970*.jsonl")]) == 2
    append(path, [run_of(b"4")])
    assert bodies(path)[-2:] == [b"3", b"4"]


@pytest.mark.parametrize("begun", [False, True])
def test_lines_do_not_go_to_a_file_that_another_process_has_put_aside(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flock = tmp_path / "lines.jsonl", fcntl.flock
    append(path, [run_of(b"first")])

    def late(fd: int, how: int) -> None:
        """It comes between the opening and the lock."""
        path.rename(tmp_path / "aside")
        if begun:
            path.touch(0o600)
        flock(fd, how)

    with monkeypatch.context() as raced:
        raced.setattr(fcntl, "flock", late)
        with pytest.raises(BlockingIOError, match="has just renamed it"):
            append(path, [run_of(b"second")])
    append(path, [run_of(b"second")])
    assert bodies(path) == [b"second"]


KILLED = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
from tolliver._cli.appending import append
from tolliver_proto import Delivery, Message

def killed(name, after):
    call = getattr(os, name)
    def dies(*given, **more):
        if after:
            call(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(os, name, dies)

def renames(*given):
    rename(*given)
    killed(name, moment == "after")

path, (moment, name), number, rename = Path(sys.argv[1]), sys.argv[2].split(), 0, os.rename
while True:
    delivery = Delivery(1, UUID(int=1), Message("c", "k", b"%d" % number, 7))
    if number == 12 and name == "rename":
        killed(name, moment == "after")
    elif number == 12:
        os.rename = renames
    append(path, [[delivery]], rotate_size=__SMALL__)
    print(number, flush=True)
    number += 1
""".replace("__SMALL__", str(SMALL))


@pytest.mark.parametrize("moment", ["before rename", "after rename", "before write", "after write", "after fsync"])
def test_a_kill_while_files_change_loses_nothing_that_was_acknowledged(moment: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, path, moment], capture_output=True, timeout=SECONDS, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    acknowledged = killed.stdout.split()
    assert len(acknowledged) >= 12
    append(path, [run_of(b"next")], rotate_size=SMALL)
    found = bodies(path)
    assert found[: len(acknowledged)] == acknowledged
    assert found[-1] == b"next"


def test_a_service_that_is_killed_while_it_rotates_has_all_that_it_acknowledged(who: Who, tmp_path: Path) -> None:
    path = config(tmp_path, who, "")
    path.write_text(f'{path.read_text()}[[deliver]]\nfile = "lines.jsonl"\nrotate_size = {SMALL}\n')
    place, sent = tmp_path / "lines.jsonl", [b"%d" % number for number in range(90)]
    for life in range(3):
        with running(tmp_path / f"out{life}", "run", path) as service, sender(tmp_path, who, service.address) as bob:
            for name in sent[30 * life : 30 * life + 30]:
                bob.wait_acked(bob.send("c", "k", name), timeout=SECONDS)
            bob.send_many([("c", "k", b"more")] * 30)
            service.process.kill()
            service.process.wait(SECONDS)
    found = bodies(place)
    assert [name for name in sent if name not in found] == []
    assert len([*tmp_path.glob("lines.2*.jsonl")]) > 3


HANGS = """
import pathlib, time

here = pathlib.Path(__file__).parent

def hangs(delivery):
    with open(here / "got", "a") as out:
        print("begins", delivery.key, delivery.attempt, file=out)
    while delivery.attempt == 1 and not (here / "go").exists():
        time.sleep(0.01)
    with open(here / "got", "a") as out:
        print("ends", delivery.key, delivery.attempt, file=out)
"""


def test_a_function_that_hangs_keeps_its_place(who: Who, tmp_path: Path) -> None:
    """No other call begins before its thread is back."""
    (tmp_path / "here.py").write_text(HANGS)
    path = config(tmp_path, who, 'deliver = { python = "here:hangs", timeout = 0.1, concurrency = 1 }')
    with running(tmp_path / "out", "run", path) as service, sender(tmp_path, who, service.address) as bob:
        receipt = bob.send("c", "k", b"")
        service.until_said("goes on after its timeout: 1 of 1 places are taken by such calls")
        time.sleep(1)  # four copies come
        (tmp_path / "go").touch()
        bob.wait_acked(receipt, timeout=SECONDS)
        assert service.interrupt() == 0
    assert (tmp_path / "got").read_text().splitlines()[:4] == ["begins k 1", "ends k 1", "begins k 2", "ends k 2"]


LEAVES = """
import os, pathlib, subprocess, sys

with open(sys.argv[1], "a") as out:
    print(os.environ["TOLLIVER_KEY"], os.environ["TOLLIVER_ATTEMPT"], file=out)
subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


def test_what_a_command_leaves_behind_repeats_nothing(who: Who, tmp_path: Path) -> None:
    """A child that holds the pipe open and reads nothing, a body that nobody has read, a name that no variable has."""
    (tmp_path / "leaves.py").write_text(LEAVES)
    command = json.dumps([sys.executable, str(tmp_path / "leaves.py"), str(tmp_path / "got")])
    path = config(tmp_path, who, f"deliver.command = {command}\ndeliver.timeout = 10.0")
    with running(tmp_path / "out", "run", path) as service, sender(tmp_path, who, service.address) as bob:
        for key, body in {"large": bytes(300_000), "a\0b": b"x", "small": b""}.items():
            bob.wait_acked(bob.send("c", key, body), timeout=SECONDS)
        assert service.interrupt() == 0
    assert {*(tmp_path / "got").read_text().splitlines()} == {"large 1", "a\\x00b 1", "small 1"}

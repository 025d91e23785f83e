"""`tolliver top`: the screen in a terminal, in front of a real instance, and its keys."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pyte
import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable
from tolliver._cli.endpoints import Endpoint, Look, Part
from tolliver._cli.figures import number, size, span, sparkline
from tolliver._cli.top import Top, Watchers, print_looks
from tolliver._cli.trail import Trail
from tolliver.blocking import InstanceOptions, create_instance
from tolliver.status import InstanceStatus

from tests.certificates import Certificates
from tests.cli.commands import COMMAND, SECONDS, tolliver
from tests.ports import free_address
from tests.status.samples import hostile, peer, snapshot
from tests.status.test_server import serving

COLUMNS, LINES = 80, 24


class Terminal:
    """A terminal of 80 by 24, and what runs in it."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._descriptor = descriptor
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def until(self, *texts: str, without: tuple[str, ...] = ()) -> None:
        """Wait for a screen with all of these texts, and with none of the others.

        A read may end within a frame, and leave the old lines below the new ones. So a text that has to go is waited
        for as one that has to come.
        """
        deadline = time.monotonic() + SECONDS
        while not all(one in self.text for one in texts) or any(one in self.text for one in without):
            assert time.monotonic() < deadline, self.text
            self._read()

    def ended(self) -> int:
        """Its exit status."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            self._read()
        return self.process.returncode

    def _read(self) -> None:
        if select.select([self._descriptor], [], [], 1.0)[0]:
            try:
                self._stream.feed(os.read(self._descriptor, 65536))
            except OSError:  # Linux says so at the end of a terminal
                self.process.wait(SECONDS)


@contextmanager
def terminal(*arguments: object) -> Iterator[Terminal]:
    """The command in a terminal of its own."""
    theirs, ours = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=ours,
        stdout=ours,
        stderr=ours,
        env=environment,
        start_new_session=True,
    )
    os.close(ours)
    try:
        yield Terminal(theirs, process)
    finally:
        process.kill()
        process.wait()
        os.close(theirs)


def test_an_instance_is_watched_as_it_goes_away_and_comes_back(certs: Certificates, tmp_path: Path) -> None:
    where = free_address()
    options = InstanceOptions(
        database=tmp_path / "alice.db",
        listen="127.0.0.1:0",
        tls=certs.tls("alice"),
        status=where,
        remotes=["127.0.0.1:1"],
    )
    with terminal("top", where, "--interval", 0.5) as shown:
        with create_instance(options):
            shown.until("1 instance, 1 ready", "No peer is known yet.", "dial_failed", "q quit")
            shown.type("2")
            shown.until("Remotes of alice", "127.0.0.1:1", "nobody listens there")
        shown.until("0 ready, 1 away", "alice is away", "nobody listens at")
        shown.type("?")
        shown.until("are sorted by")
        shown.type("?")
        with create_instance(options):
            shown.until("1 instance, 1 ready", "Remotes of alice, by state", without=("are sorted by", "away"))
            shown.type("q")
            assert shown.ended() == 0


Shown = Callable[[Pilot[None], Top], None]


def lines(app: Top, table: str = "table") -> list[list[str]]:
    """Cells of a table, a list for each row."""
    shown = app.query_one(f"#{table}", DataTable)
    return [[str(cell) for cell in shown.get_row_at(at)] for at in range(shown.row_count)]


def said(app: Top, name: str) -> str:
    """Text of one of the other parts."""
    return str(app.query_one(f"#{name}").render())


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)


def later(status: InstanceStatus, **changes: int) -> InstanceStatus:
    """Two seconds after, with these added to the counters."""
    counters = {name: value + changes.get(name, 0) for name, value in status.counters.items()}
    return replace(status, time=status.time + 2, uptime=status.uptime + 2, counters=counters)


def test_keys_choose_what_is_shown() -> None:
    carol = peer(
        uuid=UUID("01890000-0000-7000-8000-000000000003"),
        name="carol",
        connected=False,
        pending=1_234_567,
        oldest_unacknowledged=400.0,
        counters={},
    )
    asked = 0

    def ask(answered: Callable[[InstanceStatus], None]) -> None:
        nonlocal asked
        status = snapshot(peers=(peer(), carol))
        for _ in range(asked):
            status = later(status, acked=84)
        asked += 1
        answered(status)

    async def watch(first: str, second: str) -> None:
        app = Top(Watchers([Endpoint.parse(first), Endpoint.parse(second)], 0.5, 5.0))
        async with app.run_test(size=(COLUMNS, LINES)) as pilot:
            await until(pilot, lambda: len(lines(app)) == 3 and "acked/s         42" in said(app, "charts"))
            assert {row[1] for row in lines(app, "instances")} == {"ready", "not ready"}
            assert lines(app)[0][1] == "carol"
            assert lines(app)[0][2:5] == ["away", "1.2M", "6 min"]
            assert " by oldest ↓" in said(app, "heading")
            await pilot.press("n")
            assert " by peer ↑" in said(app, "heading")
            assert lines(app)[-1][1] == "carol"
            await pilot.press("n")
            assert lines(app)[0][1] == "carol"
            await pilot.press("z", "r")
            assert lines(app)[-1][1] == "carol"
            for key, title, cells in (
                ("2", "Remotes", 2),
                ("3", "Handlers", 2),
                ("4", "Work queues", 2),
                ("5", "Notices", 2),
            ):
                await pilot.press(key)
                assert said(app, "heading").startswith(f" {title} of all instances")
                assert len(lines(app)) == cells
            assert "is not ready: " in said(app, "tellings")
            assert "\u202e" not in said(app, "tellings") + str(lines(app))
            await pilot.press("shift+tab", "enter")
            assert said(app, "heading").startswith(" Notices of alice, by ago")
            assert len(lines(app)) == 1
            await pilot.press("escape", "1", "plus", "minus", "space")
            assert "every 1 s" in said(app, "title")
            assert "held" in said(app, "title")
            before = said(app, "title")
            found = asked
            await until(pilot, lambda: asked > found)
            await pilot.pause(0.3)
            assert said(app, "title") == before
            await pilot.press("space", "question_mark")
            assert "Peers are sorted by: n peer" in str(app.screen.query_one("#help Static").render())
            await pilot.press("x")
            assert len(lines(app)) == 3
            await pilot.press("question_mark", "q")
            await until(pilot, lambda: app.return_code == 0)

    with serving(ask) as one, serving(lambda answered: answered(hostile())) as other:
        asyncio.run(watch(*("{}:{}".format(*server.address) for server in (one, other))))


def test_without_a_screen_it_is_a_line_for_each_look() -> None:
    with serving() as server:
        where = "{}:{}".format(*server.address)
        told = tolliver("top", where, "--json", "--looks", 2, "--interval", 0.5)
        assert [json.loads(line)["name"] for line in told.stdout.splitlines()] == ["alice", "alice"]
        assert "top needs a terminal" in tolliver("top", where).stderr


def look_of(status: dict[str, object] | None) -> Look:
    return Look(Endpoint("a", 1), None if status is None else Part(status), "" if status is not None else "away")


def test_rates_begin_anew_with_the_instance_and_have_a_gap_while_it_is_away() -> None:
    trail = Trail(Endpoint("a", 1))

    def add(time: float, acked: int, uptime: float, uuid: str = "x") -> None:
        gauges = {"pending": acked}
        trail.add(
            look_of({"uuid": uuid, "time": time, "uptime": uptime, "gauges": gauges, "counters": {"acked": acked}})
        )

    add(10, 5, 1)
    add(12, 9, 3)
    add(12, 9, 3)  # the endpoint makes one in half a second
    trail.add(look_of(None))
    assert not trail.answers
    add(20, 20, 11)
    add(22, 24, 13)
    add(23, 0, 0.5)  # it was started again
    add(24, 10, 1.5)
    add(25, 30, 2.5, "another one")
    add(26, 20, 3.5, "another one")  # a counter cannot go back
    assert [*trail.history["acked"]] == [None, 2.0, None, None, 2.0, None, 10.0, None, None]
    assert [*trail.history["pending"]] == [5, 9, None, 20, 24, 0, 10, 30, 20]


def test_numbers_are_short() -> None:
    assert sparkline([None, 0, 1, None, 8], 7) == "   ▁▂ █"
    assert (sparkline([0.0], 1), sparkline([1, 2, 3], 2)) == ("▁", "▆█")
    assert [number(value) for value in (None, 0, 1.25, 12.5, 99_999, 123_456, 1.5e6, 2e9)] == [
        "-", "0", "1.2", "12", "99,999", "123k", "1.5M", "2.0G",
    ]  # fmt: skip
    assert [size(value) for value in (None, 5, 1536, 20_480, 3 * 2**40)] == ["-", "5 B", "1.5 KiB", "20 KiB", "3.0 TiB"]
    assert [span(value) for value in (None, 0, 2e-6, 0.0021, 0.25, 7, 90, 3599, 100_000, 4e5, -7)] == [
        "-", "0 s", "2 µs", "2.1 ms", "250 ms", "7.0 s", "90 s", "59 min", "27 h", "4 d", "-7.0 s",
    ]  # fmt: skip


def test_an_endpoint_that_hangs_holds_up_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda _answered: None, answer=SECONDS) as hanging, serving() as other:
        where = [Endpoint(*server.address) for server in (hanging, other)]
        print_looks(where, 0.5, 0.5, 1)
    told = {json.loads(line)["endpoint"]: json.loads(line)["error"] for line in capsys.readouterr().out.splitlines()}
    assert told[str(where[1])] is None

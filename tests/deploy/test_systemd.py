"""The unit for systemd, and what `tolliver run` tells a service manager."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tolliver._cli.manager import ServiceManager

from tests.cli.commands import SECONDS, running
from tests.ports import free_address

ROOT = Path(__file__).parent.parent.parent
UNIT = ROOT / "deploy" / "systemd" / "tolliver@.service"


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.heard: list[str] = []

    def until(self, line: str) -> list[str]:
        """Lines up to that one, from the last call on."""
        heard: list[str] = []
        while line not in heard:
            heard += self._sock.recv(4096).decode().split("\n")
        self.heard += heard
        return heard


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = tmp_path / "notify"
        sock.bind(str(path))
        sock.settimeout(SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        yield Manager(sock)


def test_a_service_manager_is_told_how_it_goes(tmp_path: Path, manager: Manager) -> None:
    path = tmp_path / "alice.toml"
    itself = free_address()
    path.write_text(f'database = "alice.db"\nplaintext = true\nlisten = "{itself}"\nremotes = ["{itself}"]\n')
    with running(tmp_path / "out", "run", path) as service:

        def until_given_up(times: int) -> None:
            deadline = time.monotonic() + SECONDS
            while sum("until this is read again" in line for line in service.until_said("")) < times:
                assert time.monotonic() < deadline
                manager.until("WATCHDOG=1")  # a queue that nobody empties would hold it up

        assert manager.until("READY=1") == ["READY=1"]
        assert "STATUS=0 peers connected, 0 messages to be sent" in manager.until("WATCHDOG=1")
        until_given_up(1)
        service.process.send_signal(signal.SIGHUP)
        manager.until("RELOADING=1")
        manager.until("READY=1")
        until_given_up(2)
        assert any(line.removeprefix("MONOTONIC_USEC=").isdigit() for line in manager.heard)
        service.process.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        assert service.process.wait(SECONDS) == 0


def test_a_manager_that_has_gone_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@tolliver-nobody")  # of the abstract namespace
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    ServiceManager().tell("READY=1")
    assert "the service manager is not told READY=1: Connection refused" in capsys.readouterr().err
    monkeypatch.delenv("NOTIFY_SOCKET")
    ServiceManager().tell("READY=1")
    assert capsys.readouterr().err == ""


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = shutil.which("true")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/tolliver/bin/tolliver", program or ""))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout


def test_the_unit_says_what_the_page_promises() -> None:
    lines = UNIT.read_text().splitlines()
    pair = {f"LoadCredential={name}.pem:/etc/tolliver/%i.{end}" for name, end in (("cert", "pem"), ("key", "key"))}
    assert {"Type=notify", "DynamicUser=yes", "UMask=0077", *pair} <= {*lines}
    page = (ROOT / "docs" / "service.md").read_text()
    for name in ("cert", "key"):
        assert f'{name} = "/run/credentials/tolliver@alice.service/{name}.pem"' in page

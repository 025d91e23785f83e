"""Web applications of examples/web: real servers with several workers hand over to one `tolliver run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.ports import free_port

FOLDER = Path(__file__).parents[2] / "examples" / "web"
PATIENCE = 90.0  # seconds, far above what anything here takes
SERVERS = {
    "uvicorn": ["-m", "uvicorn", "--workers", "2", "--host", "127.0.0.1", "--port", "{port}", "fastapi_app:app"],
    "gunicorn": [
        "-m",
        "gunicorn",
        "--workers",
        "2",
        "--threads",
        "4",
        "--bind",
        "127.0.0.1:{port}",
        "django_app:application",
    ],
}
NEEDS = {"uvicorn": ("uvicorn", "fastapi"), "gunicorn": ("gunicorn", "django")}


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return found


@contextmanager
def running(arguments: list[str], folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program; nothing that it started outlives it."""
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, *arguments]
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env=os.environ | {"HOME": str(folder)}
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Shop:
    """The web service, as its users see it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._count = 0

    def post(self, number: str) -> dict[str, Any] | None:
        """The answer; None where the service has none, such as while a worker is being replaced."""
        request = Request(f"http://127.0.0.1:{self._port}/orders/{number}", method="POST")
        try:
            with urlopen(request, timeout=20) as answer:
                assert answer.status == 202
                return dict(json.load(answer))
        except (URLError, OSError):
            return None

    def workers(self) -> set[int]:
        """Two workers that have answered."""
        found: set[int] = set()

        def both() -> bool:
            self._count += 1
            answer = self.post(f"look-{self._count}")
            found.update([] if answer is None else [answer["worker"]])
            return len(found) == 2

        until(both)
        return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A copy of the examples. Its path is short, as that of a Unix socket has to be."""
    with TemporaryDirectory() as made:
        for path in FOLDER.glob("*.*"):
            shutil.copy(path, made)
        yield Path(made)


@pytest.mark.parametrize("server", SERVERS)
def test_workers_hand_over_to_one_instance_and_killed_ones_are_replaced(server: str, folder: Path) -> None:
    missing = [name for name in NEEDS[server] if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    port = free_port()
    arguments = [one.format(port=port) for one in SERVERS[server]]
    shop = Shop(port)
    with running(["-m", "tolliver.cli", "run", "tolliver.toml"], folder, "instance"):
        until((folder / "tolliver.sock").exists)
        with running(arguments, folder, server):
            first = until(lambda: shop.post("4711"))
            assert (first["order"], first["repeated"]) == ("4711", False)
            before = shop.workers()
            for worker in before:
                os.kill(worker, signal.SIGKILL)
            assert not shop.workers() & before
            assert until(lambda: shop.post("4711"))["repeated"], "it is the first order, whichever worker asks"

"""Django's tasks: the project of examples/with_django, on a Django of its own, on SQLite and PostgreSQL.

Django with tasks needs Python 3.12. Where this Python is older, one that is found on PATH gets an environment in
build/, once; where there is none, the tests say so and are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.boxes.kinds import NO_SERVER
from tests.boxes.postgres import server

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
NEEDS = ("django>=6.0", "attrs>=23.2", "psycopg[binary]>=3.2")
TASKS = """
import os, signal, time
from pathlib import Path
from django.tasks import task

@task
def hold(folder):
    (Path(folder) / f"begun.{os.getpid()}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return "held"

@task(takes_context=True)
def attempt(context, odd):
    if context.attempt == 1:
        raise SystemExit("not yet")
    return [context.attempt, odd]

@task
def die():
    os.kill(os.getpid(), signal.SIGKILL)

@task
def unwritable():
    return object()
"""
HEAD = """
import asyncio, json, os, sys
from datetime import timedelta
import django
from django.db import transaction
from django.tasks import default_task_backend as backend
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.test import Client
from django.utils import timezone
django.setup(); from shop import more, tasks; from shop.models import Order

def known(id):
    try:
        return backend.get_result(id).status
    except TaskResultDoesNotExist:
        return None

def show(*ids):
    found = [backend.get_result(id) for id in ids]
    return [
        {
            "status": one.status, "value": one._return_value, "attempts": one.attempts, "workers": one.worker_ids,
            "errors": [[error.exception_class.__name__, error.traceback] for error in one.errors],
            "late": one.started_at and one.task.run_after and (one.started_at - one.task.run_after).total_seconds(),
        }
        for one in found
    ]

def answer(value):
    print(json.dumps(value))
"""
pytestmark = pytest.mark.thorough


def _found() -> str | None:
    """A Python that Django with tasks runs on. One that is on PATH may be no more than a name."""
    names = [sys.executable, *(path for name in ("3.12", "3.13", "3.14") if (path := shutil.which(f"python{name}")))]
    for name in names:
        asked = [name, "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return name
    return None


@pytest.fixture(scope="session")
def python() -> str:
    """The Python of an environment with Django."""
    base = _found()
    if base is None:
        pytest.skip("no Python 3.12 or later is on PATH, which Django needs for its tasks")
    version = subprocess.run([base, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    home = ROOT / "build" / f"django-{version}"
    if not (home / "ready").exists():
        subprocess.run([base, "-m", "venv", "--clear", home], check=True, timeout=300)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "-q", *NEEDS], check=True, timeout=300)
        (home / "ready").touch()
    return str(home / "bin" / "python")


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


class Shop:
    """A copy of the project, with more tasks, and the programs that run in it."""

    def __init__(self, folder: Path, python: str, postgres: str | None) -> None:
        self.folder = folder
        self._python = python
        paths = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "transports")])
        self._environment = {**os.environ, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "shop.settings"}
        self._environment |= {"PYTHONUNBUFFERED": "1"} | ({"POSTGRES": postgres} if postgres else {})
        shutil.copytree(ROOT / "examples" / "with_django", folder, dirs_exist_ok=True)
        (folder / "shop" / "more.py").write_text(TASKS)

    def manage(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [self._python, "manage.py", *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def ask(self, code: str, *arguments: str) -> Any:
        """The answer of a program of the project."""
        done = subprocess.run(
            [self._python, "-W", "error", "-c", HEAD + code, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def show(self, *ids: str) -> Any:
        return self.ask("answer(show(*sys.argv[1:]))", *ids)

    def wait(self, *ids: str) -> Any:
        """The results of these tasks, once they are finished."""
        code = """
import time
end = time.monotonic() + 50
while not all(backend.get_result(id).is_finished for id in sys.argv[1:]) and time.monotonic() < end:
    time.sleep(0.05)
answer(show(*sys.argv[1:]))
"""
        return self.ask(code, *ids)

    @contextmanager
    def worker(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker, which SIGTERM ends at the end, unless it has ended."""
        command = [self._python, "manage.py", "tolliver_worker", *arguments]
        with subprocess.Popen(command, cwd=self.folder, env=self._environment, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith(b"working on default")
                yield process
                if process.poll() is None:
                    process.terminate()
                    assert process.wait(PATIENCE) == 0
            finally:
                process.kill()

    def begun(self) -> list[Path]:
        return [*self.folder.glob("begun.*")]


@pytest.fixture
def shop(tmp_path: Path, python: str) -> Shop:
    made = Shop(tmp_path, python, None)
    made.manage("migrate", "--run-syncdb")
    return made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=NO_SERVER)])
def any_shop(request: pytest.FixtureRequest, tmp_path: Path, python: str) -> Iterator[Shop]:
    if request.param == "sqlite":
        yield request.getfixturevalue("shop")
        return
    with server() as place:
        made = Shop(tmp_path, python, place.partition("host=")[2].split()[0])
        made.manage("migrate", "--run-syncdb")
        yield made


ENQUEUE = """
try:
    with transaction.atomic():
        gone = tasks.thank.enqueue("nobody")
        inside = known(gone.id)
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
client = Client()
good, bad = (client.get("/order", {"what": what}).json() for what in ("apples", "nothing"))
soon = asyncio.run(tasks.thank.aenqueue(name="Bob"))
again, odd = more.attempt.enqueue(odd="\\u00e9"), more.unwritable.enqueue()
answer({
    "gone": [inside, known(gone.id)], "good": good, "bad": bad, "soon": soon.id, "again": again.id, "odd": odd.id,
    "ready": asyncio.run(backend.aget_result(soon.id)).status,
})
"""


def test_tasks_of_committed_transactions_are_done_and_others_never(any_shop: Shop) -> None:
    shop = any_shop
    put = shop.ask(ENQUEUE)
    assert (put["gone"], put["ready"]) == (["READY", None], "READY")
    with shop.worker():
        names = [put["good"]["pack"], put["good"]["thank"], put["bad"]["pack"], put["soon"], put["again"], put["odd"]]
        packed, thanked, failed, soon, again, odd = shop.wait(*names)
    assert (packed["status"], packed["value"], packed["attempts"]) == ("SUCCESSFUL", "packed apples", 1)
    assert shop.ask("answer([order.is_packed for order in Order.objects.order_by('id')])") == [True, False]
    assert (thanked["status"], thanked["value"]) == ("SUCCESSFUL", "thanks, Ada")
    assert thanked["late"] >= 0
    assert soon["value"] == "thanks, Bob"
    assert (failed["status"], failed["attempts"]) == ("FAILED", 2)
    assert [kind for kind, _ in failed["errors"]] == ["ValueError"] * 2
    assert failed["errors"][1][1].endswith("ValueError: there is nothing to pack\n")
    assert (again["status"], again["value"], again["attempts"]) == ("SUCCESSFUL", [2, "\u00e9"], 2)
    assert [kind for kind, _ in again["errors"]] == ["SystemExit"]
    assert [kind for kind, _ in odd["errors"]] == ["TypeError"] * 2
    assert shop.ask("from tolliver.django._tables import OUTBOX; answer(OUTBOX.waiting())") == {}


def test_a_task_whose_worker_is_killed_is_done_when_it_is_back(any_shop: Shop) -> None:
    shop = any_shop
    held, then = shop.ask("answer([more.hold.enqueue(sys.argv[1]).id, tasks.thank.enqueue('Cy').id])", str(shop.folder))
    with shop.worker() as process:
        until(shop.begun)
        assert [one["status"] for one in shop.show(held, then)] == ["RUNNING", "READY"]
        process.kill()
        process.wait()
    (shop.folder / "go").touch()
    with shop.worker():
        first, second = shop.wait(held, then)
    assert (first["status"], first["value"], first["attempts"]) == ("SUCCESSFUL", "held", 2)
    assert len({*first["workers"]}) == 1, "it is the same worker again"
    assert (second["status"], second["attempts"]) == ("SUCCESSFUL", 1)


def test_workers_with_names_share_the_tasks_and_a_signal_lets_them_end(shop: Shop) -> None:
    ids = shop.ask("answer([more.hold.enqueue(sys.argv[1]).id for _ in range(3)])", str(shop.folder))
    with shop.worker(), shop.worker("--name", "second", "--concurrency", "2") as second:
        until(lambda: len(shop.begun()) == 2)
        until(lambda: [one["status"] for one in shop.show(*ids)] == ["RUNNING"] * 3)
        second.terminate()
        time.sleep(0.5)
        assert second.poll() is None, "its tasks run"
        (shop.folder / "go").touch()
        assert second.wait(PATIENCE) == 0
        found = shop.wait(*ids)
        assert [(one["value"], one["attempts"]) for one in found] == [("held", 1)] * 3
        assert len({one["workers"][0] for one in found}) == 2
        assert "tasks.db" in shop.manage("tolliver_worker", fails=True), "there is one worker without a name"


def test_a_task_that_kills_its_worker_again_and_again_fails(shop: Shop) -> None:
    died, thanked = shop.ask("answer([more.die.enqueue().id, tasks.thank.enqueue('Di').id])")
    for _ in range(3):
        with shop.worker() as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL
    with shop.worker():
        first, second = shop.wait(died, thanked)
    assert (first["status"], first["attempts"]) == ("FAILED", 3)
    assert [kind for kind, _ in first["errors"]] == ["JobFailed"]
    assert "killed_its_process" in first["errors"][0][1]
    assert second["status"] == "SUCCESSFUL"


def test_old_results_go(shop: Shop) -> None:
    settings = shop.folder / "shop" / "settings.py"
    settings.write_text(settings.read_text() + 'TASKS["default"]["OPTIONS"]["result_ttl"] = 0.001\n')
    (name,) = shop.ask("answer([tasks.thank.enqueue('Ed').id])")
    with shop.worker():
        until(lambda: shop.ask("answer(known(sys.argv[1]))", name) in ("SUCCESSFUL", None))
    with shop.worker():
        until(lambda: shop.ask("answer(known(sys.argv[1]))", name) is None)


def test_what_is_not_supported_is_refused(shop: Shop) -> None:
    code = """
refused = []
for priority in (1, -1):
    try:
        tasks.thank.using(priority=priority)
    except InvalidTask as error:
        refused.append(str(error))
try:
    tasks.thank.enqueue(object())
except TypeError as error:
    refused.append("no JSON")
answer([refused, backend.supports_defer, backend.supports_async_task, backend.supports_get_result])
"""
    text = "Backend does not support setting priority of tasks."
    assert shop.ask(code) == [[text, text, "no JSON"], True, True, True]
    assert "No changes" in shop.manage("makemigrations", "--check", "--dry-run", "tolliver")
    assert "--concurrency 0" in shop.manage("tolliver_worker", "--concurrency", "0", fails=True)
    assert "--name 'a b'" in shop.manage("tolliver_worker", "--name", "a b", fails=True)
    assert "TASKS has default" in shop.manage("tolliver_worker", "--queue", "mail", fails=True)
    shop.manage("migrate", "tolliver", "zero")


def test_wrong_settings_are_told(shop: Shop) -> None:
    settings = shop.folder / "shop" / "settings.py"
    wrong = '{"QUEUES": [], "OPTIONS": {"attempts": 0, "result_ttl": -1, "tries": 3}}'
    settings.write_text(settings.read_text() + f'TASKS["default"] |= {wrong}\n')
    said = shop.manage("check", fails=True)
    for number, text in enumerate(('"directory"', "QUEUES is empty", "['tries']", "attempts=0", "result_ttl=-1"), 2):
        assert f"(tolliver.E00{number}) TASKS['default']" in said
        assert text in said

"""Backend of Django's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from .._extras import needed

needed("django", "attrs", "django.tasks")

from django.apps import apps
from django.core.checks import Error
from django.db import DEFAULT_DB_ALIAS, connections
from django.tasks import TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.json import normalize_json

from . import _tables
from ._untyped import BaseTaskBackend, CheckMessage, Task, TaskResult

_OPTIONS = frozenset({"attempts", "directory", "result_ttl"})
MOST_ATTEMPTS = 1000


class TolliverBackend(BaseTaskBackend):
    """Enqueues tasks in the transaction of the default database (SQLite or PostgreSQL), and finds their results there.

    `OPTIONS` of `TASKS`:

    - `directory`: where the workers of this machine have their databases and their socket; it must outlive restarts.
    - `attempts`: tries of a task that raises (1). The pauses between them double, from 1 s to 60 s.
    - `result_ttl`: seconds for which a finished task is kept (86400, a day).
    """

    supports_defer: ClassVar[bool] = True
    supports_async_task: ClassVar[bool] = True
    supports_get_result: ClassVar[bool] = True
    supports_priority: ClassVar[bool] = False  # jobs are done in the order in which they were put

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        """Called by Django with an entry of `TASKS`."""
        super().__init__(alias, params)
        self.directory: Path | None = Path(self.options["directory"]) if "directory" in self.options else None
        self.attempts: int = self.options.get("attempts", 1)
        self.result_ttl: float = self.options.get("result_ttl", 86_400.0)

    def channel(self, queue_name: str) -> str:
        """The channel of a queue's jobs."""
        return f"django.tasks/{self.alias}/{queue_name}"

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Enqueue a task, by the transaction that the thread is in; after a rollback there is none.

        Raises InvalidTask, TypeError for arguments that are not JSON, ImportError for a function that workers would not
        find by its name, and the errors of the database.
        """
        self.validate_task(task)
        stored = apps.get_model("tolliver", "StoredTask")(
            id=uuid4().hex,
            func=task.module_path,
            backend=self.alias,
            queue_name=task.queue_name,
            arguments=normalize_json({"args": [*args], "kwargs": {**kwargs}}),
            run_after=task.run_after,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
        )
        result = _tables.result_of(stored)  # raises here what would else be raised where it runs
        _tables.enqueue(stored, self.channel(task.queue_name))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """The task with this id, as far as it has come. Raises TaskResultDoesNotExist, also after `result_ttl`;
        ImportError where the task's function is gone; and the errors of the database.
        """
        found = _tables.find(self.alias, result_id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return _tables.result_of(found)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Faults of the settings, for `manage.py check`."""
        attempts, ttl = self.attempts, self.result_ttl
        wrong = {
            "E001": connections[DEFAULT_DB_ALIAS].vendor in ("sqlite", "postgresql")
            or "the default database is neither SQLite nor PostgreSQL: take one of them, or another backend",
            "E002": self.directory is not None
            or 'give OPTIONS a "directory" that outlives restarts, such as BASE_DIR / "tasks"',
            "E003": bool(self.queues) or "QUEUES is empty: name the queues, as each has a channel of its own",
            "E004": not {*self.options} - _OPTIONS
            or f"OPTIONS has {sorted({*self.options} - _OPTIONS)}: there are {sorted(_OPTIONS)}",
            "E005": (isinstance(attempts, int) and 1 <= attempts <= MOST_ATTEMPTS)
            or f"OPTIONS has attempts={attempts!r:.100}: give a number from 1 to {MOST_ATTEMPTS}",
            "E006": (isinstance(ttl, int | float) and ttl > 0)
            or f"OPTIONS has result_ttl={ttl!r:.100}: give seconds above 0",
        }
        told = {number: text for number, text in wrong.items() if isinstance(text, str)}
        return [Error(f"TASKS[{self.alias!r}]: {text}", id=f"tolliver.{number}") for number, text in told.items()]

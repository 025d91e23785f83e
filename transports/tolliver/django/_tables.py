"""Tables of tasks in the default database: results, and the outbox.

Theory. A task is a row of `StoredTask`, and a row of an outbox with its id, both put by the program's transaction. The
outbox's row becomes a job, and says no more than that a task is to be done: arguments and results stand in the table,
where every process that has Django's database finds them, with no instance of its own and while no worker runs.

State of a task: READY, then RUNNING; from there back to READY for another try, or to SUCCESSFUL or FAILED, which
nothing changes any more. So a job that comes twice, as its worker was killed before the acknowledgement, finds the task
finished and does nothing. A task that was killed within is RUNNING when its job comes again, and runs again.

Rejected: results as answers of jobs (P-83), kept in the producer's store. A result of Django has the task's arguments,
times and attempts, from the enqueueing on and before any answer; and web processes have no instance to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import F
from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.base import TaskError
from django.utils import timezone
from django.utils.module_loading import import_string

from ..outbox import Outbox

if TYPE_CHECKING:
    from .models import StoredTask


def _connect() -> Any:
    """A connection of the driver to the default database, which nothing else uses: none of Django's pool."""
    database = connections.create_connection(DEFAULT_DB_ALIAS)
    options = {name: value for name, value in database.settings_dict["OPTIONS"].items() if name != "pool"}
    database.settings_dict = {**database.settings_dict, "OPTIONS": options}
    return database.get_new_connection(database.get_connection_params())


_SAME = ("id", "backend", "enqueued_at", "started_at", "last_attempted_at", "finished_at", "worker_ids")
OUTBOX = Outbox(_connect, "tolliver_task_outbox")


def _tasks() -> Any:
    """The rows. Looked up late: a module with tasks may be loaded before Django's models are."""
    return apps.get_model("tolliver", "StoredTask").objects.using(DEFAULT_DB_ALIAS)


def enqueue(task: StoredTask, channel: str) -> None:
    """Put the task and its job into the transaction of the default database, or into one of their own."""
    with transaction.atomic(using=DEFAULT_DB_ALIAS):
        task.save(force_insert=True, using=DEFAULT_DB_ALIAS)
        due = task.run_after
        if due is not None and timezone.is_naive(due):
            due = timezone.make_aware(due)
        OUTBOX.put(connections[DEFAULT_DB_ALIAS].connection, channel, task.id, b"", not_before=due)


def find(backend: str, id: str) -> StoredTask | None:
    """The task with this id, None if there is none."""
    found: StoredTask | None = _tasks().filter(pk=id, backend=backend).first()
    return found


def change(id: str, change: Callable[[StoredTask], None]) -> StoredTask | None:
    """Change a task that is not finished; returns it. None if it is finished, or there is none."""
    with transaction.atomic(using=DEFAULT_DB_ALIAS):
        mine = _tasks().filter(pk=id, finished_at=None)
        if not mine.update(status=F("status")):  # the row is ours until the commit
            return None
        task: StoredTask = mine.get()
        change(task)
        task.save(using=DEFAULT_DB_ALIAS)
        return task


def begin(id: str, worker: str) -> StoredTask | None:
    """Note that this worker has begun the task; returns it. None if it is finished, or there is none."""

    def running(task: StoredTask) -> None:
        task.status = TaskResultStatus.RUNNING
        task.last_attempted_at = timezone.now()
        task.started_at = task.started_at or task.last_attempted_at
        task.worker_ids.append(worker)

    return change(id, running)


def succeed(id: str, value: object) -> StoredTask | None:
    """Note that the task has returned this value, of JSON."""

    def done(task: StoredTask) -> None:
        task.return_value = value
        _finish(task, TaskResultStatus.SUCCESSFUL)

    return change(id, done)


def fail(id: str, kind: str, traceback: str, attempts: int) -> StoredTask | None:
    """Note that the task has failed. It is READY again while it has failed less often than `attempts`."""

    def failed(task: StoredTask) -> None:
        text = traceback.encode(errors="backslashreplace").decode().replace("\0", "\\0")  # PostgreSQL takes neither
        task.errors.append({"exception_class_path": kind, "traceback": text})
        task.status = TaskResultStatus.READY
        if len(task.errors) >= attempts:
            _finish(task, TaskResultStatus.FAILED)

    return change(id, failed)


def _finish(task: StoredTask, status: TaskResultStatus) -> None:
    task.status, task.finished_at = status, timezone.now()


def forget(seconds: float) -> None:
    """Delete tasks that were finished longer ago than that."""
    _tasks().filter(finished_at__lt=timezone.now() - timedelta(seconds=seconds)).delete()


def result_of(found: StoredTask) -> TaskResult:
    """The task as Django shows it. Raises ImportError where its function is gone, InvalidTask where its queue is."""
    task = import_string(found.func)
    if not isinstance(task, Task):
        raise ImportError(f"{found.func} is no task any more")
    result = TaskResult(
        task=task.using(backend=found.backend, queue_name=found.queue_name, run_after=found.run_after),
        status=TaskResultStatus(found.status),
        errors=[TaskError(**error) for error in found.errors],
        **found.arguments,
        **{name: getattr(found, name) for name in _SAME},
    )
    object.__setattr__(result, "_return_value", found.return_value)
    return result

"""Worker of Django's tasks, with two instances in one process.

One has the jobs, and one does them. The first relays the outbox into work queues, one for each queue of the backend,
and listens on a Unix socket in the backend's directory. The second connects to it and works. Workers with a name are
processes with a second instance alone, so that a machine may have many, each in a process of its own; a worker that is
killed has its jobs given to others after the lease, or does them itself if it is back before.

A job is acknowledged once its task's end is in the table. While the database is away, a worker waits for it and gives
nothing up. A job that has killed its process again and again (T-47) is a dead letter of the instance, and its task
fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from traceback import format_exception
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections, connections
from django.tasks import TaskContext
from django.tasks.signals import logger, task_finished, task_started
from django.utils.json import normalize_json

from tolliver_proto import Delivery, Limits
from tolliver_proto.node import Retry

from .._private import make_directory
from ..blocking import Instance, InstanceOptions, Work, create_instance
from . import _tables
from ._backend import MOST_ATTEMPTS, TolliverBackend
from .models import StoredTask

T = TypeVar("T")
_GAVE_UP = "tolliver_proto.errors.JobFailed"
_LEASE = 10.0
_LOOK = 1.0  # seconds between two looks at what the instance gave up, and at a database that is away
_FORGET = 60  # looks from one for old results to the next
_STOP = 0.2  # seconds after which an idle thread sees that it is to end


class Worker:
    """Runs tasks, until `stop`."""

    def __init__(self, backend: TolliverBackend, directory: Path, name: str = "") -> None:
        """With a name it works alone, for the one without, which relays. Files are in the directory."""
        self._backend = backend
        self._directory = directory
        self._name = name
        self._over = threading.Event()

    def stop(self) -> None:
        """Begin no more tasks. Those that run may end."""
        self._over.set()

    def run(self, queues: Collection[str], concurrency: int) -> None:
        """Work on these queues until `stop`, so many tasks of each at a time. Raises TolliverError, TypeError,
        ValueError, and what a thread has failed with.
        """
        make_directory(self._directory)
        address = f"unix:{self._directory / 'tasks.sock'}"
        with ExitStack() as stack:
            if not self._name:
                stack.enter_context(self._relaying(address))
            worker = stack.enter_context(create_instance(self._options(self._name or "worker", remotes=[address])))
            pauses = Retry(attempts=MOST_ATTEMPTS)  # the table counts the tries
            work = partial(worker.work, concurrency=concurrency, lease=_LEASE, retry=pauses, timeout=_STOP)
            works = [stack.enter_context(work(self._backend.channel(queue))) for queue in queues]
            pool = stack.enter_context(ThreadPoolExecutor(len(works) * concurrency, "tolliver task"))
            stack.callback(self.stop)
            stack.enter_context(suppress(_Stopped))
            self._watch(worker, [pool.submit(self._work, worker, one) for one in works for _ in range(concurrency)])

    def _options(self, file: str, **more: Any) -> InstanceOptions:
        limits = Limits(redial_max=1.0, max_attempts=MOST_ATTEMPTS)
        return InstanceOptions(database=self._directory / f"{file}.db", plaintext=True, limits=limits, **more)

    @contextmanager
    def _relaying(self, address: str) -> Iterator[None]:
        with create_instance(self._options("tasks", listen=address)) as instance:
            for queue in self._backend.queues:
                instance.work_queue(self._backend.channel(queue), lease=_LEASE)
            with instance.relay(_tables.OUTBOX):
                yield

    def _watch(self, worker: Instance, threads: Collection[Future[None]]) -> None:
        """Look after what no job does, until the end. Raises what a thread has failed with."""
        for look in count():
            if self._over.wait(_LOOK):
                return
            for thread in threads:
                if thread.done():
                    thread.result()
            self._until_stored(lambda: self._take_dead_letters(worker))
            if not self._name and look % _FORGET == 0:
                self._until_stored(lambda: _tables.forget(self._backend.result_ttl))

    def _take_dead_letters(self, worker: Instance) -> None:
        for letter in worker.admin.dead_letters():
            self._tell(_tables.fail(letter.key, _GAVE_UP, letter.cause, attempts=0))
            worker.admin.drop_dead_letters([letter])

    # In the threads that work.

    def _work(self, worker: Instance, jobs: Work) -> None:
        try:
            while not self._over.is_set():
                for job in jobs:
                    self._do(str(worker.instance_id), job)
                    if self._over.is_set():
                        break
        except _Stopped:
            """The job is redelivered."""
        finally:
            connections.close_all()

    def _do(self, worker: str, job: Delivery) -> None:
        task = self._until_stored(lambda: _tables.begin(job.key, worker))
        if task is None:  # it was done already, or forgotten since
            job.ack()
            return
        close_old_connections()
        try:
            result = _tables.result_of(task)
            task_started.send_robust(type(self._backend), task_result=result)
            context = [TaskContext(task_result=result)] if result.task.takes_context else []
            value = normalize_json(result.task.call(*context, *result.args, **result.kwargs))
            ended = self._until_stored(lambda: _tables.succeed(job.key, value))
        except _Stopped:
            raise
        except BaseException as error:
            kind, text, attempts = type(error), "".join(format_exception(error)), self._backend.attempts
            path = f"{kind.__module__}.{kind.__qualname__}"
            ended = self._until_stored(lambda: _tables.fail(job.key, path, text, attempts))
            self._tell(ended)  # here, as log handlers look for the exception
        else:
            self._tell(ended)
        close_old_connections()
        if ended is not None and ended.finished_at is None:
            job.fail()
        else:
            job.ack()

    def _tell(self, task: StoredTask | None) -> None:
        """Send Django's signal that a task is finished, if it is."""
        if task is not None and task.finished_at is not None:
            try:
                result = _tables.result_of(task)
            except Exception:  # its module cannot be loaded, which is why it has failed
                logger.exception("Task id=%s path=%s state=%s", task.id, task.func, task.status)
            else:
                task_finished.send_robust(type(self._backend), task_result=result)

    def _until_stored(self, write: Callable[[], T]) -> T:
        """Do it, as soon as the database is there. Raises _Stopped if the worker is to end before."""
        while True:
            try:
                return write()
            except (OperationalError, InterfaceError) as error:
                logger.warning("the database is away, and the worker waits for it: %s", error)
                connections.close_all()
                if self._over.wait(_LOOK):
                    raise _Stopped from error


class _Stopped(Exception):
    """The worker is to end, and the database is away."""

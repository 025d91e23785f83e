"""`manage.py tolliver_worker`: runs tasks of a backend, and relays its outbox."""

from __future__ import annotations

import re
import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, task_backends

from tolliver_proto import TolliverError

from ..._backend import TolliverBackend
from ..._untyped import BaseCommand
from ..._worker import Worker


class Command(BaseCommand):
    """Works until SIGTERM or Ctrl-C; tasks that run may end. A second signal ends it at once."""

    help: str = "Runs tasks of tolliver.django.TolliverBackend, and without --name relays what was enqueued."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Called by Django."""
        parser.add_argument("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="alias in TASKS (%(default)s)")
        parser.add_argument("--queue", action="append", help="a queue to work on, may be repeated (all of the backend)")
        parser.add_argument("--concurrency", type=int, default=1, help="tasks of a queue at a time (%(default)s)")
        parser.add_argument("--name", default="", help="a worker beside the one that relays: letters, digits, - and _")

    def handle(self, *, backend: str, queue: list[str] | None, concurrency: int, name: str, **_options: Any) -> None:
        """Called by Django."""
        found = task_backends[backend]
        if not isinstance(found, TolliverBackend) or found.directory is None:
            raise CommandError(f"TASKS[{backend!r}] is no tolliver.django.TolliverBackend with a directory")
        if not 1 <= concurrency <= 256:
            raise CommandError(f"--concurrency {concurrency}: give a number from 1 to 256")
        if not re.fullmatch(r"[\w-]{0,48}", name, re.ASCII) or name in ("tasks", "worker"):
            raise CommandError(f"--name {name[:100]!r}: give letters, digits, - and _, 48 at most, not tasks or worker")
        queues = sorted(queue or found.queues)
        if not {*queues} <= found.queues:
            raise CommandError(f"--queue {', '.join(queues)}: TASKS has {', '.join(sorted(found.queues))}")
        worker = Worker(found, found.directory, name)

        def end(number: int, _frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)
            worker.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        self.stdout.write(f"working on {', '.join(queues)}; Ctrl-C ends it")
        try:
            worker.run(queues, concurrency)
        except (TolliverError, OSError, ValueError) as error:
            raise CommandError(f"{error}") from error

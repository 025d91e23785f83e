"""Table of tasks and their results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models

from ._untyped import Model


class StoredTask(Model):
    """A task that was enqueued, as far as it has come. The result that Django shows is made of it.

    `arguments` is {"args": [...], "kwargs": {...}}; `errors` has the fields of a TaskError each; `status` is a value of
    Django's TaskResultStatus.
    """

    id: str = models.CharField(primary_key=True, max_length=32)
    func: str = models.TextField()
    backend: str = models.TextField()
    queue_name: str = models.TextField()
    arguments: dict[str, Any] = models.JSONField()
    run_after: datetime | None = models.DateTimeField(null=True)
    status: str = models.CharField(max_length=10)
    enqueued_at: datetime = models.DateTimeField()
    started_at: datetime | None = models.DateTimeField(null=True)
    last_attempted_at: datetime | None = models.DateTimeField(null=True)
    finished_at: datetime | None = models.DateTimeField(null=True, db_index=True)
    worker_ids: list[str] = models.JSONField(default=list)
    errors: list[dict[str, str]] = models.JSONField(default=list)
    return_value: Any = models.JSONField(null=True)

    class Meta:
        """The table's name."""

        db_table: str = "tolliver_task"

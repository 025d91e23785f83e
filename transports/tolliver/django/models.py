"""Table of tasks and their results."""

from __future__ import annotations

from django.db import models


class StoredTask(models.Model):
    """A task that was enqueued, as far as it has come. The result that Django shows is made of it.

    `arguments` is {"args": [...], "kwargs": {...}}; `errors` has the fields of a TaskError each; `status` is a value of
    Django's TaskResultStatus.
    """

    id = models.CharField(primary_key=True, max_length=32)
    func = models.TextField()
    backend = models.TextField()
    queue_name = models.TextField()
    arguments = models.JSONField()
    run_after = models.DateTimeField(null=True)
    status = models.CharField(max_length=10)
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    last_attempted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)
    worker_ids = models.JSONField(default=list)
    errors = models.JSONField(default=list)
    return_value = models.JSONField(null=True)

    class Meta:
        """The table's name."""

        db_table = "tolliver_task"

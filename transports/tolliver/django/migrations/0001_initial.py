"""Tables of tasks, and those of their outbox in the default database."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django.db import DEFAULT_DB_ALIAS, migrations, models

from ..._boxes.databases import DIALECTS
from ..._boxes.outbox_table import statements
from .._untyped import Migration as BaseMigration

_OUTBOX = "tolliver_task_outbox"


def _statements(editor: Any) -> list[str]:
    connection = editor.connection
    return statements(_OUTBOX, DIALECTS[connection.vendor]) if connection.alias == DEFAULT_DB_ALIAS else []


def create(_apps: Any, editor: Any) -> None:
    """Create the tables of the outbox."""
    for statement in _statements(editor):
        editor.execute(statement)


def drop(_apps: Any, editor: Any) -> None:
    """Drop them."""
    for table in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", "".join(_statements(editor))):
        editor.execute(f"DROP TABLE IF EXISTS {table}")


class Migration(BaseMigration):
    """The first one."""

    initial: bool = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="StoredTask",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                *((name, models.TextField()) for name in ("func", "backend", "queue_name")),
                ("arguments", models.JSONField()),
                ("status", models.CharField(max_length=10)),
                ("enqueued_at", models.DateTimeField()),
                *((name, models.DateTimeField(null=True)) for name in ("run_after", "started_at", "last_attempted_at")),
                ("finished_at", models.DateTimeField(db_index=True, null=True)),
                *((name, models.JSONField(default=list)) for name in ("worker_ids", "errors")),
                ("return_value", models.JSONField(null=True)),
            ],
            options={"db_table": "tolliver_task"},
        ),
        migrations.RunPython(create, drop),
    ]

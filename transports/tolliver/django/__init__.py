"""Django's tasks: a backend, and the worker that Django has not.

Of Django 6.0 and later (`django.tasks`). `"BACKEND": "tolliver.django.TolliverBackend"` in `TASKS` enqueues in the
transaction of the default database, and `manage.py tolliver_worker` runs the tasks. Needs `"tolliver.django"` in
`INSTALLED_APPS`, and the [django] extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from ._backend import TolliverBackend
else:
    __getattr__, __dir__ = door(__name__, globals(), {"._backend": "TolliverBackend"})

__all__ = ["TolliverBackend"]

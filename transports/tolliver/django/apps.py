"""Application of Django: tables of tasks, and their worker."""

from __future__ import annotations

from importlib import import_module

from ._untyped import AppConfig


class TolliverConfig(AppConfig):
    """Has the label `tolliver`, under which `manage.py migrate` knows the tables."""

    name: str = "tolliver.django"
    label: str = "tolliver"

    def ready(self) -> None:
        """Called by Django. Has it check the settings of tasks, also of a project that has loaded none yet."""
        import_module("django.tasks")

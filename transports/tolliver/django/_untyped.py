"""Classes of Django, which has no types: `_untyped.pyi` has those used."""

from django.apps import AppConfig as AppConfig
from django.core.checks import CheckMessage as CheckMessage
from django.core.management.base import BaseCommand as BaseCommand
from django.db.migrations import Migration as Migration
from django.db.models import Model as Model
from django.tasks import Task as Task
from django.tasks import TaskResult as TaskResult
from django.tasks.backends.base import BaseTaskBackend as BaseTaskBackend

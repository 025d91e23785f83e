from collections.abc import Mapping
from typing import Any, TypeAlias

CheckMessage: TypeAlias = Any
Task: TypeAlias = Any
TaskResult: TypeAlias = Any

class AppConfig: ...

class BaseCommand:
    stdout: Any

class Migration: ...

class Model:
    def save(self, *, using: str, force_insert: bool = False) -> None: ...

class BaseTaskBackend:
    alias: str
    queues: set[str]
    options: dict[str, Any]
    def __init__(self, alias: str, params: Mapping[str, Any]) -> None: ...
    def validate_task(self, task: Task) -> None: ...

"""Snapshots of an instance, for metrics exporters on their own threads."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from .._status.snapshot import InstanceStatus
from .facade import BaseInstance
from .instance import BaseInstanceCore

ANSWERED_IN = 2.0  # seconds


class Snapshots:
    """Takes the status of one instance, on any thread, without keeping the instance alive.

    Create it on the thread of the instance's loop. There a snapshot is taken at once; another thread waits for the
    loop.
    """

    def __init__(self, instance: BaseInstance[Any]) -> None:
        self._core: weakref.ref[BaseInstanceCore] = weakref.ref(instance._core)
        self._thread = threading.get_ident()

    def take(self) -> InstanceStatus | None:
        """The status now; None if the instance is not open, or its loop does not answer within two seconds."""
        core = self._core()
        if core is None or not core.is_open:
            return None
        if threading.get_ident() == self._thread:
            with core.lock:
                return core.status()
        answered = threading.Event()
        told: list[InstanceStatus] = []

        def answer(status: InstanceStatus) -> None:
            told.append(status)
            answered.set()

        core._tell_status(answer)
        return told[0] if answered.wait(ANSWERED_IN) else None

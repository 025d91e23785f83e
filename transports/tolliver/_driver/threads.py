"""Threads that the system may refuse to start.

A process has them where something blocks: files, names, handlers. The system, a container or a service limits their
number, and Python then raises a RuntimeError without advice.
"""

from __future__ import annotations

import signal
import threading
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from tolliver_proto.errors import OutOfThreads


@contextmanager
def starting_thread() -> Iterator[None]:
    """Start of a thread: calls within do nothing else that fails with a RuntimeError. Raises OutOfThreads."""
    try:
        yield
    except RuntimeError as error:
        raise OutOfThreads(
            f"the system starts no further thread for this process ({error}): end what has many, or raise the limit "
            "(`ulimit -u`, the limit of the container or service, the memory), and try again"
        ) from error


def start(thread: threading.Thread) -> None:
    """Raises OutOfThreads."""
    with starting_thread():
        thread.start()


def interrupt_program() -> None:
    """As Ctrl-C does: in the main thread, whatever that is waiting for."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGINT)
    else:
        interrupt_main()

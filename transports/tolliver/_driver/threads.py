"""Starting threads, which the system may refuse.

Threads run what blocks: file access, name look-ups, handlers. The system, a container or a service manager limits their
number, and Python then raises a plain RuntimeError. Here that becomes an OutOfThreads with advice.
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
    """Context manager for starting a thread: turns RuntimeError into OutOfThreads. Use it around nothing else."""
    try:
        yield
    except RuntimeError as error:
        remedy = _NOT_HERE if "interpreter" in str(error) else _NO_MORE
        raise OutOfThreads(remedy.format(error)) from error


_NO_MORE = (
    "the system starts no further thread for this process ({}): end what has many, or raise the limit (`ulimit -u`, "
    "the limit of the container or service, the memory), and try again"
)
_NOT_HERE = (
    "an isolated subinterpreter may not start the threads that keep a store and look up names ({}): open it in the "
    "main interpreter, or in a process of its own"
)


def check_interpreter() -> None:
    """Raises OutOfThreads in an isolated subinterpreter. Before Python 3.12 only the start of a thread tells that."""
    with starting_thread():
        threading.Thread(daemon=True)


def start(thread: threading.Thread) -> None:
    """Start the thread. Raises OutOfThreads."""
    with starting_thread():
        thread.start()


def interrupt_program() -> None:
    """Interrupt the program as Ctrl-C does: raises KeyboardInterrupt in the main thread, even while that waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGINT)
    else:
        interrupt_main()

"""Instance in a process that gets no more threads, as a program.

    python -m tests.adapters.threadless KIND DIRECTORY

prints what opening says, and calls that need one, and that all goes on when there are some again. A process of its own,
as threads that nobody needs at the moment would be used again, and other tests leave some.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
from attrs import evolve
from tolliver._options.instance import InstanceOptions
from tolliver._options.streams import StreamsOptions

from tests.opening import is_free, no_more_threads
from tolliver_proto import Limits
from tolliver_proto.errors import OutOfThreads

from .facade import Facade, Opened
from .kinds import make_world


def _say(what: object) -> None:
    os.write(1, f"{what}\n".encode())


@contextmanager
def all_busy(world: Any) -> Iterator[None]:
    """The threads that this world has are at work: whoever needs one needs a new one."""
    free, begun = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        free.wait()

    pool = world._reactor.getThreadPool() if world.kind.startswith("twisted") else None
    if pool is not None:  # at its limit a job waits for a thread, and no new one is asked for
        pool.adjustPoolsize(maxthreads=1000)

    def occupy() -> Any:
        return anyio.to_thread.run_sync(work) if pool is None else pool.callInThread(work)

    busy = 0
    while busy < max(5, len(pool.threads) if pool else 0):  # one that has just done its work is not free yet
        world.start("a thread", occupy)
        assert begun.acquire(timeout=10)
        busy += 1
    try:
        yield
    finally:
        free.set()


def main(kind: str, directory: Path) -> None:
    world = make_world(kind)
    database = directory / "left.db"
    limits = Limits(redial_first=0.01)
    options = InstanceOptions(database=database, listen="localhost:0", plaintext=True, limits=limits)
    for one in (options, StreamsOptions(listen="localhost:0", plaintext=True)):
        with no_more_threads():
            _say(_error(Opened(world, one).__enter__))
    with Facade(world, options) as right, Facade(world, evolve(options, database=directory / "right.db")) as left:
        address = f"localhost:{right.port}"
        with all_busy(world), no_more_threads():
            _say(_error(lambda: left.backup(directory / "copy.db")))
            with suppress(TimeoutError):
                left.new_connection(address, timeout=0.1)
            _say(left.stats()["peers_up"])
        left.subscribe("news")
        left.new_connection(address)
        _say("all goes on")
        with all_busy(world), no_more_threads():
            left.close()
            right.close()
    _say(is_free(database))
    world.close()


def _error(call: Callable[[], object]) -> object:
    try:
        return call()
    except OutOfThreads as error:
        return error


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

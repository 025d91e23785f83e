"""Victim of attacks, in this process or in one of its own.

    python -m tests.adapters.victim KIND PROTOCOL LIMITS CERT KEY CA DIRECTORY

A scenario may ask it by a handful of methods with plain arguments and results. `Instance` and `Streams` have them over
a facade; the process reads calls as lines of JSON and prints what they return; `Apart` is that from outside.
"""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import psutil
from tolliver._options.instance import TLS, InstanceOptions
from tolliver._options.streams import StreamsOptions

from tolliver_proto import Limits
from tolliver_proto import reactive as rs
from tolliver_proto._node import notices

from . import facade
from .facade import PATIENCE, Facade, World, deadline
from .kinds import make_world
from .member import ROOT
from .streams import Published, StreamsFacade, Taken

ELEMENT = bytes(100)
BIG = bytes(64 * 2**10)
AnyLimits = Limits | rs.Limits
LOCAL = "127.0.0.1:0"
LATEST = 20  # notices
Of = Literal["messages", "streams"]


class Usage(NamedTuple):
    """Of a process: CPU seconds, bytes resident, descriptors, threads."""

    cpu: float
    memory: int
    descriptors: int
    threads: int

    def since(self, before: Usage) -> Usage:
        return Usage(
            self.cpu - before.cpu,
            self.memory - before.memory,
            self.descriptors - before.descriptors,
            self.threads - before.threads,
        )


def usage_of(process: psutil.Process) -> Usage:
    with process.oneshot():
        times = process.cpu_times()
        memory, threads = process.memory_info().rss, process.num_threads()
    return Usage(times.user + times.system, memory, process.num_fds(), threads)


class Victim(Protocol):
    """Use it as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def port(self) -> int: ...

    def stats(self) -> dict[str, int]: ...

    def said(self) -> list[str]:
        """Its latest notices; streams have none."""

    def offer(self, channel: str, count: int) -> None:
        """Send so many messages there; or take a stream of that name from the newest peer, with that demand."""

    def pulled(self, name: str) -> int:
        """Elements that were taken from its source of that name."""

    def usage(self) -> Usage: ...


class Relay(Protocol):
    """A victim whose streams are those of another one, named by the last two words: "mapped 1 in 2" is "in 2" there."""

    def relay(self, address: str) -> None:
        """Dial it, and give on what it gives: a subscription that a function returns, and a generator over one."""

    def give_itself(self, name: str, count: int) -> None:
        """So many subscriptions to that name, each published as it is: "itself 0 in 2" and so on."""

    def take_back(self) -> None:
        """Publish them no longer, and cancel those that nobody began."""

    def stats(self) -> dict[str, int]: ...

    def usage(self) -> Usage: ...


class _Here:
    def pulled(self, _name: str) -> int:
        return 0

    def usage(self) -> Usage:
        gc.collect()
        return usage_of(psutil.Process())


class Instance(_Here):
    """Handles "news". It tells every notice in full, as the outcome of each attack is read there."""

    def __init__(self, world: World, directory: Path, tls: TLS, limits: Limits) -> None:
        options = InstanceOptions(database=directory / "victim.db", listen=LOCAL, tls=tls, limits=limits)
        self.facade = Facade(world, options)

    def __enter__(self) -> Self:
        self._every, notices.EVERY = notices.EVERY, 0.0
        self.facade.__enter__()
        self.facade.subscribe("news", handler=lambda _delivery: None)
        return self

    def __exit__(self, *_error: object) -> None:
        notices.EVERY = self._every
        self.facade.close()

    def port(self) -> int:
        return self.facade.port or 0

    def stats(self) -> dict[str, int]:
        return dict(self.facade.stats())

    def said(self) -> list[str]:
        return [notice.detail for notice in self.facade.notices()[-LATEST:]]

    def offer(self, channel: str, count: int) -> None:
        self.facade.send_many([(channel, "", ELEMENT)] * count)


class Streams(_Here):
    """Publishes "numbers" and "big" without end, "empty", and "fixed", whose elements all have one size."""

    def __init__(self, world: World, _directory: Path, tls: TLS, limits: rs.Limits) -> None:
        self.facade = StreamsFacade(world, StreamsOptions(listen=LOCAL, tls=tls, limits=limits))
        self._taken: list[Taken] = []
        self._published: list[Published] = []
        self._pulled: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.facade.__enter__()
        for name, element in (("numbers", ELEMENT), ("big", BIG)):
            self.facade.publish(name, partial(self._endless, element))
        self.facade.publish("fixed", partial(self._endless, ELEMENT), element_size=len(ELEMENT))
        self.facade.publish("empty", ())
        return self

    def __exit__(self, *_error: object) -> None:
        self.facade.close()

    def relay(self, address: str) -> None:
        self._upstream = self.facade.connect(address)
        peer, world = self._upstream.itself, self.facade.world
        self.facade.publish("passed on *", lambda name: peer.subscribe(_upstream(name)))
        self.facade.publish("mapped *", lambda name: world.mapped(peer.subscribe(_upstream(name)), bytes.upper))

    def give_itself(self, name: str, count: int) -> None:
        self._taken = [self._upstream.subscribe(name) for _ in range(count)]
        self._published = [
            self.facade.publish(f"itself {number} {name}", one.itself) for number, one in enumerate(self._taken)
        ]

    def take_back(self) -> None:
        for publication, subscription in zip(self._published, self._taken, strict=True):
            publication.close()
            subscription.cancel()
        self._taken.clear()
        self._published.clear()

    def _endless(self, element: bytes, name: str) -> Iterator[bytes]:
        for one in repeat(element):
            self._pulled[name] += 1
            yield one

    def port(self) -> int:
        return self.facade.port or 0

    def stats(self) -> dict[str, int]:
        return dict(self.facade.stats())

    def said(self) -> list[str]:
        return []

    def offer(self, channel: str, count: int) -> None:
        self._taken = [self.facade.subscribe(channel, peer=self.facade.peers()[-1], demand=count)]

    def pulled(self, name: str) -> int:
        return self._pulled[name]


def _upstream(name: str) -> str:
    return " ".join(name.split()[-2:])


MAKERS: dict[Of, tuple[Callable[..., Any], type]] = {"messages": (Instance, Limits), "streams": (Streams, rs.Limits)}


def victim_of(of: Of, world: World, directory: Path, tls: TLS, limits: AnyLimits) -> Victim:
    made: Victim = MAKERS[of][0](world, directory, tls, limits)
    return made


class Watched(threading.Thread):
    """Looks at a process every few milliseconds, so that a peak is seen. Use it as a context manager."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._over = threading.Event()
        self._before = usage_of(process)
        self._began = time.monotonic()
        self.peak = 0
        """Bytes resident beyond those at the beginning."""
        self.cpu = self.seconds = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join()
        self._look()

    def run(self) -> None:
        while not self._over.wait(0.005):
            self._look()

    def now(self) -> float:
        """CPU seconds that it has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _look(self) -> None:
        self.seconds = time.monotonic() - self._began
        self.cpu = self.now() - self._before.cpu
        self.peak = max(self.peak, self._process.memory_info().rss - self._before.memory)


class Apart:
    """A victim in a process of its own."""

    def __init__(self, of: Of, kind: str, directory: Path, tls: TLS, limits: AnyLimits) -> None:
        said = json.dumps(asdict(limits))
        arguments = map(str, (kind, of, said, tls.cert, tls.key, tls.ca, directory))
        self._command = [sys.executable, "-m", __name__, *arguments]
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()  # where it has not ended; else nothing
            self._process.wait()
            self._process.stdout.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
            answer = self._process.stdout.readline()  # ends with the process
        if not answer:
            raise AssertionError("the victim has ended: what it wrote says why")
        return json.loads(answer)

    def port(self) -> int:
        return int(self._ask("port"))

    def stats(self) -> dict[str, int]:
        return dict(self._ask("stats"))

    def said(self) -> list[str]:
        return list(self._ask("said"))

    def offer(self, channel: str, count: int) -> None:
        self._ask("offer", channel, count)

    def pulled(self, name: str) -> int:
        return int(self._ask("pulled", name))

    def usage(self) -> Usage:
        return Usage(*self._ask("usage"))

    def relay(self, address: str) -> None:
        self._ask("relay", address)

    def give_itself(self, name: str, count: int) -> None:
        self._ask("give_itself", name, count)

    def take_back(self) -> None:
        self._ask("take_back")

    @contextmanager
    def watched(self) -> Iterator[Watched]:
        """Its usage meanwhile, looked at from outside."""
        watched = Watched(psutil.Process(self._process.pid))
        with watched:
            yield watched


def main(kind: str, of: Of, limits: str, cert: str, key: str, ca: str, directory: str) -> None:
    logging.getLogger("tolliver").setLevel(logging.ERROR)  # that peers are closed out is what is asked for
    world = make_world(kind)
    tls = TLS(Path(cert), Path(key), Path(ca))
    deadline.LIMIT = float("inf")  # of a test
    facade.PATIENCE = 300.0  # seconds: it is attacked, and shares its machine
    deadline.restart()
    with victim_of(of, world, Path(directory), tls, MAKERS[of][1](**json.loads(limits))) as victim:
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            sys.stdout.write(json.dumps(getattr(victim, name)(*arguments)) + "\n")
            sys.stdout.flush()
    world.close()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]  # as `Apart` gives them

"""A world for the real asyncio adapter in which nothing is left to chance: one seed, one history.

Clock, entropy, network and threads of a process are replaced before the product is imported; the product itself is not
changed. Nothing waits: the clock jumps to the next thing that is due.

- The loop is asyncio's own. Only its selector is ours, and what `select` returns is the order of the network.
- A socket has the calls that the adapter makes. Bytes arrive after a while, in pieces; a write takes as many as there
  is room for; a connection may be cut at any byte.
- A thread runs only when the loop's turn is given to it, until it waits for its next job. So the store's commits end
  at times that the seed chooses, and a thread never runs beside the loop.

`Clock` and `Entropy` patch modules of Python for the whole process. So a history runs in a process of its own, see
`scripts/prove/loop.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

START = 1_800_000_000.0  # seconds since 1970 at which each history begins
ROOM = 65536  # bytes that a connection holds, one way
TURNS = 200_000  # of the loop, in one history


class Stuck(Exception):
    """Everybody waits, and nothing is due: the program hangs."""


class World:
    """Clock, entropy and events of one history."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rng = random.Random(0)
        self.trace: list[str] = []
        self.turns = 0
        self.count = 0  # of what was ever due
        self._due: list[tuple[float, int, Callable[[], object]]] = []

    def begin(self, seed: int) -> None:
        self.now, self.turns, self.count = 0.0, 0, 0
        self.rng = random.Random(seed)
        self.trace.clear()
        self._due.clear()

    def at(self, delay: float, what: Callable[[], object]) -> None:
        self.at_moment(self.now + delay, what)

    def at_moment(self, moment: float, what: Callable[[], object]) -> None:
        self.count += 1
        heappush(self._due, (moment, self.count, what))

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None

    def run_due(self) -> None:
        while self._due and self._due[0][0] <= self.now:
            heappop(self._due)[2]()

    def tell(self, *words: object) -> None:
        self.trace.append(f"{self.now:.6f} {' '.join(map(str, words))}")

    def bytes(self, count: int) -> bytes:
        return self.rng.randbytes(count)


world = World()


# Clock and entropy.


def patch_clock_and_entropy() -> None:
    """Call before the product is imported, which takes functions out of these modules."""
    for name in ("monotonic", "perf_counter", "thread_time", "process_time"):
        setattr(time, name, lambda: world.now)
        setattr(time, f"{name}_ns", lambda: int(world.now * 1e9))
    time.time = lambda: START + world.now
    time.time_ns = lambda: int((START + world.now) * 1e9)
    time.clock_gettime = lambda _clock: world.now
    time.clock_gettime_ns = lambda _clock: int(world.now * 1e9)
    time.sleep = _sleep  # type: ignore[assignment]
    os.urandom = world.bytes
    random._urandom = world.bytes  # type: ignore[attr-defined]  # of SystemRandom, which `secrets` uses


def _sleep(seconds: float, /) -> None:
    world.now += seconds


# Threads.


class Thread(threading.Thread):
    """A thread that has a turn only while the loop waits for it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.daemon = True
        self._turn, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self._scheduled = self._ended = False

    def start(self) -> None:
        super().start()
        self._parked.acquire()  # until it waits for its first job

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._ended = True
            self._parked.release()

    def park(self) -> None:
        self._parked.release()
        self._turn.acquire()

    def wake_later(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            world.at(world.rng.choice((0.0, 0.0001, 0.002, 0.03)), self._step)

    def _step(self) -> None:
        self._scheduled = False
        if not self._ended:
            self._turn.release()
            self._parked.acquire()

    def join(self, timeout: float | None = None) -> None:
        for _ in range(10_000):
            if self._ended:
                super().join()
                return
            self._step()
        raise Stuck(f"the thread {self.name} does not end")


class SimpleQueue:
    """A queue whose reader has one job in each of its turns."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._reader: Thread | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._reader is not None:
            self._reader.wake_later()

    def get(self) -> Any:
        me = threading.current_thread()
        assert isinstance(me, Thread), "only a thread of the world waits"
        self._reader = me
        if self._items:
            me.wake_later()
        me.park()
        while not self._items:
            me.park()
        return self._items.popleft()


async def run_sync(job: Callable[..., Any], *args: Any, **_more: Any) -> Any:
    """In place of a worker thread: after a while, on the loop."""
    await asyncio.sleep(world.rng.choice((0.0, 0.001, 0.01)))
    return job(*args)


# Network.


class Socket:
    """One end of a connection, or a listener."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 0
    _fds = 1000

    def __init__(self, *_kind: object, **_more: object) -> None:
        Socket._fds += 1
        self._fd = Socket._fds
        network.sockets[self._fd] = self
        self.closed = self.ended = self.connecting = False
        self.error = 0
        self.port: int | None = None
        self.peer: Socket | None = None
        self.came = bytearray()
        self.in_the_air = 0
        self.waiting: deque[Socket] | None = None  # of a listener: who has dialled
        self._last_arrival = 0.0
        self.cut_after: int | None = None  # bytes that this end may still send before the connection breaks

    # Called by the loop.

    def fileno(self) -> int:
        return -1 if self.closed else self._fd

    def is_readable(self) -> bool:
        return bool(self.came or self.ended or self.error or self.waiting)

    def is_writable(self) -> bool:
        return not self.connecting and (bool(self.error) or self.room() > 0)

    def room(self) -> int:
        return ROOM - self.in_the_air - (len(self.peer.came) if self.peer is not None else 0)

    # Called by the adapter.

    def setblocking(self, _flag: bool) -> None: ...

    def setsockopt(self, *_args: object) -> None: ...

    def getsockopt(self, *_args: object) -> int:
        return self.error

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port or self._fd

    def getpeername(self) -> tuple[str, int]:
        if self.peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        return self.peer.getsockname()

    def connect_ex(self, where: tuple[str, int]) -> int:
        self.connecting = True
        world.at(network.latency(), lambda: self._connected(network.listeners.get(where[1])))
        return errno.EINPROGRESS

    def _connected(self, listener: Socket | None) -> None:
        self.connecting = False
        if self.closed:
            return
        if listener is None or listener.waiting is None or network.is_down:
            self.error = errno.ECONNREFUSED
            return
        other = Socket()
        other.port = listener.port
        self.peer, other.peer = other, self
        network.connections.append((self, other))
        for end in (self, other):
            end.cut_after = network.cut()
        listener.waiting.append(other)

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        accepted = self.waiting.popleft()
        return accepted, accepted.getpeername()

    def recv(self, size: int) -> bytes:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        if not self.came:
            if self.ended:
                return b""
            raise BlockingIOError
        count = min(size, len(self.came), world.rng.choice((1, 17, 1000, ROOM)))
        data = bytes(self.came[:count])
        del self.came[:count]
        return data

    def send(self, data: bytes | memoryview) -> int:
        if self.error:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        count = min(len(data), self.room(), world.rng.choice((7, 300, ROOM)))
        if count <= 0:
            raise BlockingIOError
        if self.cut_after is not None:
            count = min(count, self.cut_after)
            self.cut_after -= count
            if not self.cut_after:
                self.cut_after = None
                world.at(network.latency(), self.cut)
                if not count:
                    raise BlockingIOError
        self.in_the_air += count
        self._deliver(bytes(data[:count]))
        return count

    def _deliver(self, data: bytes | None) -> None:
        """None is the end."""
        self._last_arrival = max(self._last_arrival, world.now + network.latency())

        def arrive() -> None:
            other = self.peer
            self.in_the_air -= len(data or b"")
            if other is None or other.closed or other.error:
                return
            if data is None:
                other.ended = True
            else:
                other.came += data
            world.tell("arrives", other._fd, "end" if data is None else len(data))

        world.at_moment(self._last_arrival, arrive)

    def cut(self) -> None:
        """The connection breaks; what is on its way is lost."""
        world.tell("cut", self._fd)
        for end in (self, self.peer):
            if end is not None and not end.closed:
                end.error = end.error or errno.ECONNRESET
                end.came.clear()

    def shutdown(self, _how: int) -> None:
        if self.peer is None or self.error:
            raise OSError(errno.ENOTCONN, "not connected")
        self._deliver(None)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.waiting is not None and self.port is not None:
            network.listeners.pop(self.port, None)
            for one in self.waiting:
                one.cut()
        elif self.peer is not None and not self.error:
            self._deliver(None)

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Network:
    """In place of the module `socket` where the adapter opens sockets. Everything else is Python's."""

    def __init__(self) -> None:
        self.begin()

    socket = Socket

    def begin(self) -> None:
        self.listeners: dict[int, Socket] = {}
        self.sockets: dict[int, Socket] = {}
        self.connections: list[tuple[Socket, Socket]] = []
        self.is_down = self.is_calm = False
        Socket._fds = 1000

    def create_server(self, where: tuple[str, int], **_more: object) -> Socket:
        if where[1] in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        made = Socket()
        made.port, made.waiting = where[1], deque()
        self.listeners[where[1]] = made
        return made

    def latency(self) -> float:
        return world.rng.choice((0.00001, 0.0002, 0.001, 0.02, 0.3))

    def cut(self) -> int | None:
        return None if self.is_calm or world.rng.random() < 0.5 else world.rng.choice((1, 50, 400, 3000))

    def cut_some(self) -> None:
        open_ones = [one for one, other in self.connections if not (one.closed or one.error or other.closed)]
        if open_ones:
            world.rng.choice(open_ones).cut()

    def calm(self) -> None:
        """From now on nothing breaks."""
        self.is_calm, self.is_down = True, False
        for pair in self.connections:
            for end in pair:
                end.cut_after = None

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)


network = Network()


# The loop.


class Selector(selectors._BaseSelectorImpl):
    """Says which sockets are ready, in an order of the seed, and moves the clock where none is."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        world.turns += 1
        if world.turns > TURNS:
            raise Stuck(f"{TURNS} turns of the loop, and no end")
        end = None if timeout is None else world.now + max(0.0, timeout)
        world.run_due()
        while not (ready := self._ready()) and (end is None or world.now < end):
            dues = [at for at in (world.next_due(), end) if at is not None]
            if not dues:
                raise Stuck("everybody waits, and nothing is due")
            world.now = max(world.now, min(dues))
            before = world.count
            world.run_due()
            if world.count != before:  # something came of it, perhaps a callback of the loop
                break
        world.rng.shuffle(ready)
        return ready

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for key in sorted(self.get_map().values(), key=lambda one: one.fd):
            sock = network.sockets.get(key.fd)
            if sock is not None and not sock.closed:
                events = selectors.EVENT_READ * sock.is_readable() | selectors.EVENT_WRITE * sock.is_writable()
                if events & key.events:
                    found.append((key, events & key.events))
        return found


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, in the time of the world."""

    def __init__(self) -> None:
        super().__init__(Selector())

    def time(self) -> float:
        return world.now

    def _write_to_self(self) -> None:
        """Nobody else runs: the loop needs no byte to wake up."""


def patch_the_rest() -> None:
    """Call after the product is imported."""
    import anyio.to_thread
    from tolliver._driver import jobs, sockets

    anyio.to_thread.run_sync = run_sync  # type: ignore[assignment]
    sockets.socket = network  # type: ignore[attr-defined,assignment]
    jobs.queue = _Named(SimpleQueue=SimpleQueue)  # type: ignore[attr-defined,assignment]
    jobs.threading = _Named(Thread=Thread)  # type: ignore[attr-defined,assignment]


class _Named:
    def __init__(self, **names: object) -> None:
        self.__dict__ |= names

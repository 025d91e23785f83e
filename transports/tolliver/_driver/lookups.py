"""Looking up of names, for which the system sets no time limit.

A name is looked up on a daemon thread of ours, as the application's threads may all be busy, and neither closing nor
the end of the process may wait for a resolver that hangs. All who ask for one name share one thread, and at most MOST
threads run at a time. So a resolver that hangs costs one thread for each name, however often that is dialled.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress

from tolliver_proto.errors import OutOfThreads

from .sockets import Address, find_addresses
from .threads import start

MOST = 32  # threads
Name = tuple[str, int, int]
"""Host, port, and flags of getaddrinfo."""
Addresses = Future[list[Address]]


class LookUps:
    """The names that this process looks up, and who waits for them. Any thread may ask."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything, in a forked child: the threads are the parent's."""
        self._lock = threading.Lock()
        self._asking: dict[Name, set[Addresses]] = {}  # looked up now, or waiting for a thread
        self._waiting: deque[Name] = deque()
        self._free = MOST

    def ask(self, host: str, port: int, flags: int = 0) -> Addresses:
        """The addresses, as `find_addresses` gives them, or its OSError; at once where the host is numeric.

        Cancel the Future if its answer is not wanted any more.
        """
        answer: Addresses = Future()
        with suppress(OSError, UnicodeError):
            answer.set_result(find_addresses(host, port, flags | socket.AI_NUMERICHOST))
            return answer
        name = (host, port, flags)
        with self._lock:
            is_new = name not in self._asking
            self._asking.setdefault(name, set()).add(answer)
            starts = is_new and self._free > 0
            if starts:
                self._free -= 1
            elif is_new:
                self._waiting.append(name)
        answer.add_done_callback(lambda _: self._forget(name, answer))
        if starts:
            self._start(name)
        return answer

    def _start(self, name: Name) -> None:
        thread = threading.Thread(target=self._work, args=(name,), name="tolliver looks up a name", daemon=True)
        try:
            start(thread)
        except OutOfThreads as error:
            with self._lock:
                self._free += 1
            self._tell(name, [], OSError(errno.EAGAIN, str(error)))

    def _work(self, name: Name | None) -> None:
        while name is not None:
            found: list[Address] = []
            error: OSError | None = None
            try:
                found = find_addresses(*name)
            except OSError as failure:
                error = failure
            except UnicodeError as failure:  # no name by the rules of IDNA
                error = OSError(errno.EINVAL, str(failure))
            self._tell(name, found, error)
            with self._lock:
                name = self._waiting.popleft() if self._waiting else None
                self._free += name is None

    def _tell(self, name: Name, found: list[Address], error: OSError | None) -> None:
        with self._lock:
            asking = self._asking.pop(name)
        for answer in asking:
            if answer.set_running_or_notify_cancel():
                if error is None:
                    answer.set_result(found)
                else:
                    answer.set_exception(error)

    def _forget(self, name: Name, answer: Addresses) -> None:
        with self._lock:
            self._asking.get(name, set()).discard(answer)


look_ups = LookUps()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=look_ups.begin_anew)

"""Notifications to the service manager that started us (sd_notify(3)).

Each is a datagram of lines to the socket named by NOTIFY_SOCKET; without one nothing is sent. With a watchdog
(WATCHDOG_USEC) it is notified every half of its time, as long as the loop runs.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import anyio

from . import words

_STATUS_EVERY = 10.0  # seconds between two status lines


class ServiceManager:
    """Connection to the service manager that started this process, such as systemd; without one, its calls do
    nothing.
    """

    def __init__(self) -> None:
        path = os.environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path  # Linux's abstract namespace
        its_process = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog = int(os.environ.get("WATCHDOG_USEC", "0")) / 1e6 if its_process else 0.0

    def tell(self, *lines: str) -> None:
        """Send lines such as "READY=1". An unreachable manager is ignored."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.sendto("\n".join(lines).encode(), self._address)
            except OSError as error:
                words.say(f"the service manager is not told {lines[0]}: {error.strerror}")

    def tell_reloading(self) -> None:
        """Report the start of a reload; `READY=1` must follow."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    async def keep_told(self, status: Callable[[], str]) -> None:
        """For ever: notify the watchdog, and send a line for `systemctl status`."""
        pause = min(self._watchdog / 2 or _STATUS_EVERY, _STATUS_EVERY)
        while self._address:
            self.tell("WATCHDOG=1", f"STATUS={status()}")
            await anyio.sleep(pause)

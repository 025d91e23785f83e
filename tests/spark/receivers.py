"""Receivers for the sink: real instances over TLS."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tolliver.blocking import Instance, InstanceOptions, create_instance
from tolliver.spark.write._options import WriteOptions, write_options

from tests.certificates import Certificates
from tolliver_proto import Delivery, Policy

PATIENCE = 60.0  # seconds


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


class Inbox:
    """Handles what comes. `gate` holds it up until it is set; what would be more than `most` is refused."""

    def __init__(self, most: int | None = None) -> None:
        self.deliveries: list[Delivery] = []
        self.gate = threading.Event()
        self.gate.set()
        self.most = most
        self.refused = 0

    def __call__(self, delivery: Delivery) -> bool:
        if self.most is not None and len(self.deliveries) >= self.most:
            self.refused += 1
            return False
        self.deliveries.append(delivery)
        assert self.gate.wait(PATIENCE)
        return True

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.message.body for delivery in self.deliveries]

    @property
    def often(self) -> set[int]:
        """Number of times that bodies came."""
        return set(Counter(self.bodies).values())


class Receivers:
    """Opens receivers by name: a name is a certificate and a database."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self.directory = directory
        self.certs = certs

    @contextmanager
    def open(self, inbox: Inbox, *channels: str, name: str = "right", **options: Any) -> Iterator[Instance]:
        """One that has handled copies once, and subscribes to "rows" if nothing else is said."""
        chosen = {"listen": "127.0.0.1:0", "tls": self.certs.tls(name), "policy": Policy(dedupe=100_000), **options}
        with create_instance(InstanceOptions(database=self.directory / f"{name}.db", **chosen)) as instance:
            for channel in channels or ("rows",):
                instance.register_callback(channel, "", inbox)
                instance.subscribe(channel)
            yield instance

    def given(self, port: int | None, member: str = "job", **options: object) -> dict[str, str]:
        """The sink's options, as text."""
        tls = self.certs.tls(member)
        paths = {"tls.cert": tls.cert, "tls.key": tls.key, "tls.ca": tls.ca}
        given = {"connect": f"127.0.0.1:{port}", "ackTimeout": PATIENCE, **paths, **options}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

    def options(self, port: int | None, member: str = "job", **options: object) -> WriteOptions:
        return write_options(self.given(port, member, **options), streaming=False)

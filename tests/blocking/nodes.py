"""Instances on threads, over real sockets, TLS and databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tolliver.blocking import Instance, InstanceOptions, create_instance

from tests.certificates import Certificates

PATIENCE = 60.0  # seconds; what never comes fails instead of hanging


def until(true: Callable[[], object]) -> None:
    """Wait for it."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)


class Nodes:
    """Opens instances by name: a name is a certificate and a database."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self.directory = directory
        self.certs = certs

    def open(self, name: str, **options: Any) -> Instance:
        options = {"database": self.directory / f"{name}.db", "listen": "127.0.0.1:0", **options}
        if "plaintext" not in options:
            options["tls"] = self.certs.tls(name)
        return create_instance(InstanceOptions(**options))

    @contextmanager
    def pair(self, **options: Any) -> Iterator[tuple[Instance, Instance]]:
        """Two connected instances. The right one subscribes to "news", and nobody handles it yet."""
        with self.open("right", **options) as right, self.open("left", **options) as left:
            right.subscribe("news")
            left.new_connection(address(right))
            yield left, right


def address(instance: Instance) -> str:
    return f"127.0.0.1:{instance.port}"

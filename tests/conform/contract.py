"""Peer under the contract of the conformance kit: our implementation, on each adapter.

It subscribes to `conform.in`, and sends each body that it has handled back on `conform.out`, reliably. A body that
begins with `fail:N:` fails N times first; with `slow:S:` it takes S seconds.

    python -m tests.conform.contract ADAPTER listen|dial HOST:PORT --certs DIR --name NAME

ADAPTER is asyncio, trio, twisted or threads. It prints the address that it listens on or dials, and goes on until it
is interrupted or terminated.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, Literal, get_args

from attrs import evolve
from tolliver._options.instance import TLS, InstanceOptions

from tests.adapters.facade import Gate, World, deadline
from tests.adapters.kinds import make_world
from tolliver_proto import Delivery

Role = Literal["listen", "dial"]
IN, OUT = "conform.in", "conform.out"
ADAPTERS = {"asyncio": "asyncio", "trio": "trio", "twisted": "twisted", "threads": "blocking"}
"""By the name that a user gives: the kind of the tests."""

_TOLD = re.compile(rb"(?:fail:(?P<times>\d+)|slow:(?P<seconds>\d+(?:\.\d+)?)):")


class AskedTo(Exception):
    """The body said that it is to fail."""


class Work:
    """Wishes of bodies. A message is told from others by its peer, id and body."""

    def __init__(self) -> None:
        self._failed: Counter[tuple[Any, ...]] = Counter()

    def begin(self, delivery: Delivery) -> Gate | None:
        """The gate to wait for, if any. Raises AskedTo."""
        told = _TOLD.match(delivery.body)
        if told is None:
            return None
        if told["seconds"]:
            gate = Gate()
            Timer(float(told["seconds"]), gate.open).start()
            return gate
        message = delivery.peer_id, delivery.message_id, delivery.body
        if self._failed[message] < int(told["times"]):
            self._failed[message] += 1
            raise AskedTo(f"failure {self._failed[message]} of {told['times'].decode()}")
        return None


def _handler(world: World, instance: Any) -> Callable[[Delivery], Any]:
    work = Work()

    async def handle(delivery: Delivery) -> None:
        gate = work.begin(delivery)
        if gate is not None:
            await world.later(gate)
        await instance.send(OUT, "", delivery.body)

    def handle_on_a_thread(delivery: Delivery) -> None:
        gate = work.begin(delivery)
        if gate is not None:
            world.later(gate)
        instance.send(OUT, "", delivery.body)

    return handle_on_a_thread if world.kind == ADAPTERS["threads"] else handle


@contextmanager
def contract(adapter: str, options: InstanceOptions) -> Iterator[int | None]:
    """The port that it listens on, if it does. The contract's subscription comes in place of those of the options."""
    with closing(make_world(ADAPTERS[adapter])) as world:
        instance, close = world.open(evolve(options, subscriptions=[IN]))
        try:
            handler = _handler(world, instance)
            world.start("register", lambda: instance.register_callback(IN, "", handler)).wait()
            yield instance.port
        finally:
            deadline.restart()
            close().wait()


def options_for(
    role: Role, address: str, certs: Path, name: str, database: Path, retry_interval: float | None = None
) -> InstanceOptions:
    """Those of a peer that listens on the address, or dials it, with the certificate `name` of the directory."""
    tls = TLS(certs / f"{name}.pem", certs / f"{name}.key", certs / "ca.pem")
    end: dict[str, Any] = {"listen": address} if role == "listen" else {"remotes": [address]}
    if retry_interval is not None:
        end["retry_interval"] = retry_interval
    return InstanceOptions(database=database, tls=tls, **end)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="contract", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("adapter", choices=ADAPTERS)
    parser.add_argument("role", choices=get_args(Role))
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--certs", type=Path, required=True, metavar="DIR", help="as `tolliver certs` makes it")
    parser.add_argument("--name", required=True, help="of its certificate in DIR")
    parser.add_argument("--database", type=Path, metavar="FILE", help="by default one that goes with the process")
    parser.add_argument("--retry-interval", type=float, metavar="SECONDS", help="before the first resend")
    told = parser.parse_args(arguments)
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads, which inherit it
    with tempfile.TemporaryDirectory() as directory:
        database = told.database or Path(directory) / "contract.db"
        options = options_for(told.role, told.address, told.certs, told.name, database, told.retry_interval)
        with contract(told.adapter, options) as port:
            sys.stdout.write(f"{told.address.rpartition(':')[0]}:{port}\n" if port else f"{told.address}\n")
            sys.stdout.flush()
            signal.sigwait(ends)


if __name__ == "__main__":
    main()

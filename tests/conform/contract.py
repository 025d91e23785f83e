"""Peer under the contract of the conformance kit: our implementation, on each adapter.

It subscribes to `conform.in`, and sends each body that it has handled back on `conform.out`, reliably. A body that
begins with `fail:N:` fails N times first; with `slow:S:` it takes S seconds.

    python -m tests.conform.contract ADAPTER listen|dial HOST:PORT --certs DIR --name NAME

ADAPTER is asyncio, trio, twisted or threads. It prints the address that it listens on or dials, and goes on until it
is interrupted or terminated. One that listens may dial, too (`--remote HOST:PORT`), so that dials cross. With
`--streams` it is the contract's peer of Reactive Streams (`streams_contract`).
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
from typing import Any

from attrs import evolve
from tolliver._options.instance import TLS, InstanceOptions
from tolliver._options.streams import StreamsOptions

from tests.adapters.facade import Gate, World, deadline
from tests.adapters.kinds import make_world
from tolliver_proto import Delivery

from .streams_contract import ADAPTERS, streams_contract

IN, OUT = "conform.in", "conform.out"
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
        await instance.send(OUT, delivery.key, delivery.body)

    def handle_on_a_thread(delivery: Delivery) -> None:
        gate = work.begin(delivery)
        if gate is not None:
            world.later(gate)
        instance.send(OUT, delivery.key, delivery.body)

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


def tls_of(certs: Path, name: str) -> TLS:
    """The certificate of that name in the directory, as `tolliver certs` makes it."""
    return TLS(certs / f"{name}.pem", certs / f"{name}.key", certs / "ca.pem")


@contextmanager
def _messages(told: argparse.Namespace, ends: dict[str, Any]) -> Iterator[int | None]:
    with tempfile.TemporaryDirectory() as directory:
        ends["database"] = told.database or Path(directory) / "contract.db"
        if told.retry_interval is not None:
            ends["retry_interval"] = told.retry_interval
        with contract(told.adapter, InstanceOptions(**ends)) as port:
            yield port


@contextmanager
def _streams(told: argparse.Namespace, ends: dict[str, Any]) -> Iterator[int | None]:
    remotes = ends.pop("remotes")
    with streams_contract(told.adapter, StreamsOptions(**ends), remotes) as port:
        yield port


def _told(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="contract", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("adapter", choices=ADAPTERS)
    parser.add_argument("role", choices=("listen", "dial"))
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--certs", type=Path, required=True, metavar="DIR", help="as `tolliver certs` makes it")
    parser.add_argument("--name", required=True, help="of its certificate in DIR")
    parser.add_argument("--remote", action="append", default=[], metavar="HOST:PORT", help="to dial, beside listening")
    parser.add_argument("--streams", action="store_true", help="Reactive Streams in place of messages")
    parser.add_argument("--database", type=Path, metavar="FILE", help="by default one that goes with the process")
    parser.add_argument("--retry-interval", type=float, metavar="SECONDS", help="before the first resend")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    told = _told(arguments)
    listen = told.address if told.role == "listen" else None
    remotes = told.remote if listen else [told.address, *told.remote]
    open_as = _streams if told.streams else _messages
    over = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, over)  # before there are threads, which inherit it
    with open_as(told, {"tls": tls_of(told.certs, told.name), "listen": listen, "remotes": remotes}) as port:
        sys.stdout.write(f"{told.address.rpartition(':')[0]}:{port}\n" if listen else f"{told.address}\n")
        sys.stdout.flush()
        signal.sigwait(over)


if __name__ == "__main__":
    main()

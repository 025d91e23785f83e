"""Publishers over TLS for `format("tolliver-rs")`, with ledgers of demand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tolliver.blocking import Peer, Streams, StreamsOptions
from tolliver.blocking.streams_core import StreamsCore

from tests.certificates import Certificates
from tolliver_proto.reactive import Cancel, Request, Subscribe


class Ledger:
    """The demand of one subscription."""

    def __init__(self, name: str, who: Any, granted: int) -> None:
        self.name = name
        self.who = who
        """The subscriber's identity."""
        self.granted = self.most = granted
        """In all, and at one time beyond what was sent."""
        self.requests = 0
        self.cancelled = False

    def request(self, count: int, sent: int) -> None:
        self.requests += 1
        self.granted += count
        self.most = max(self.most, self.granted - sent)


class _LedgerCore(StreamsCore[Peer]):
    """Notes down the demand of each subscription."""

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(options)
        self.ledgers: list[Ledger] = []
        self._by_key: dict[tuple[int, int], Ledger] = {}

    def _on_subscribe(self, cid: int, event: Subscribe) -> None:
        made = Ledger(event.name, self._peers[cid].identity, event.initial_demand)
        self.ledgers.append(made)
        self._by_key[cid, event.subscriber_id] = made
        super()._on_subscribe(cid, event)

    def _on_request(self, cid: int, event: Request) -> None:
        stream: Any = self._outbound.get((cid, event.subscriber_id))
        if stream is not None:
            self._by_key[cid, event.subscriber_id].request(event.count, stream._sent)
        super()._on_request(cid, event)

    def _on_cancel(self, cid: int, event: Cancel) -> None:
        self._by_key[cid, event.subscriber_id].cancelled = True
        super()._on_cancel(cid, event)


class Publisher(Streams):
    """Streams that note down the demand of each subscription, in the order in which they came."""

    _core: _LedgerCore

    @property
    def ledgers(self) -> list[Ledger]:
        return self._core.ledgers


@contextmanager
def publishing(certs: Certificates, **sources: Any) -> Iterator[Publisher]:
    """A publisher of these; `listen` may say where."""
    where = sources.pop("listen", "127.0.0.1:0")
    with Publisher(_LedgerCore(StreamsOptions(listen=where, tls=certs.tls("publisher")))) as publisher:
        for name, source in sources.items():
            publisher.publish(name, source)
        yield publisher


def numbers(_name: str) -> Iterator[bytes]:
    """Without an end."""
    return (b"%d" % number for number in itertools.count())


def few(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def asking(certs: Certificates, publisher: Streams | int, publishers: str, **options: object) -> dict[str, str]:
    """The reader's options, as text."""
    tls = certs.tls("job")
    port = publisher if isinstance(publisher, int) else publisher.port
    files = {"tls.cert": tls.cert, "tls.key": tls.key, "tls.ca": tls.ca}
    given = {"connect": f"127.0.0.1:{port}", "publishers": publishers, **files, **options}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}

"""Workers' side of a work queue.

An instance takes jobs of a channel from every producer. The work is announced while it lasts, and not stored: after a
crash the instance announces nothing until it works again. Jobs that come while it does not work are left to their
producer, and never acknowledged. A producer that is away for longer than the lease gives its jobs to others: those that
were not begun here are released then.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from .._common.arguments import check_count
from .._common.derived_ids import is_derived
from .._common.errors import LocalProtocolError
from .._common.records import record
from .._node.actions import Handler, NoticeKind, TakeBack
from .._node.inboxes.inbox import Fate
from .._node.link import Link, peer_of
from .._node.node import Node
from .._node.pattern import Judgement, Pattern
from .._node.services import Services
from .._wire.events import Subscription
from .answers import JobAnswers
from .work_queue import CONCURRENCY, MOST_CONCURRENT, PREFETCH, check_queue


@record
class _Work:
    handler: Handler
    lease: float
    announced: tuple[Subscription, ...]


class QueueWork(Pattern):
    """Pattern of a worker: the work of this instance on the queues of others."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel = node, services
        services.on_timer("cut", self._on_cut_timeout)
        self._works: dict[str, _Work] = {}
        self._worked: set[str] = set()  # channels, in this run

    @staticmethod
    def is_stored(services: Services) -> bool:
        """False: the store has no data of this pattern."""
        return False

    def work(
        self,
        channel: str,
        handler: Handler,
        concurrency: int = 1,
        lease: float = 10.0,
        prefetch: int = 0,
        now: float | None = None,
    ) -> None:
        """Gives this handler jobs of the channel, from every producer, until `stop_work`.

        Producers are told that it works on `concurrency` jobs at a time and wants `prefetch` more in advance, and give
        it no more than those.

        `lease` is that of the producers, in seconds: when one of them has been away for so long, its jobs that the
        handler has not begun are released. Raises ReservedChannel, ValueError, OwnLimitExceeded, and LocalProtocolError
        if the instance works on the channel already or is a derived identity (T-72a).
        """
        self._kernel.tick(now)
        subscription = self._kernel.check(channel, "")
        check_queue(channel, lease)
        check_count("concurrency", concurrency, 1, MOST_CONCURRENT)
        check_count("prefetch", prefetch, 0, MOST_CONCURRENT)
        if channel in self._works:
            raise LocalProtocolError("at_work", f"this instance works on {channel!r:.100} already: share that iterator")
        if is_derived(self._kernel.instance_id):
            raise LocalProtocolError(
                "write_only", f"{self._kernel.instance_id} is a derived identity: it takes nothing (T-72a)"
            )
        numbers = (f"{PREFETCH}{prefetch}", f"{CONCURRENCY}{concurrency}")
        wanted = (*(self._kernel.check(channel, one) for one in numbers), subscription)  # no job before its number
        announced = tuple(one for one in wanted if one not in self._kernel.own)
        self._kernel.check_list(announced)
        self._node.use(JobAnswers)
        self._works[channel] = _Work(handler, lease, announced)
        self._worked.add(channel)
        self._kernel.announce(announced, True)
        self._node.register(channel, "", handler)
        self._node.hand_out_once(handler)

    def stop_work(self, channel: str, now: float | None = None) -> None:
        """Takes no more jobs of the channel. Jobs that the handler holds must still be settled."""
        self._kernel.tick(now)
        work = self._works.pop(channel)
        self._node.unregister(channel, "", work.handler)
        self._kernel.announce(reversed(work.announced), False)

    def judges(self, channel: str, key: str, judgement: Judgement) -> Judgement:
        """Implements `Pattern.judges`: jobs that come after the work has stopped are left to their producer, as an ack
        would say that they are done."""
        is_unwanted = judgement is Fate.UNWANTED or judgement is Fate.DOUBTFUL
        return Fate.STUCK if is_unwanted and channel in self._worked else judgement

    def own_changed(self, entry: Subscription) -> None:
        """Implements `Pattern.own_changed`: a subscription that the application has made itself stays when the work
        ends.
        """
        work = self._works.get(entry.channel)
        if work is not None:
            announced = tuple(one for one in work.announced if one != entry)
            self._works[entry.channel] = replace(work, announced=announced)

    # A producer that is cut off.

    def peer_up(self, link: Link) -> None:
        assert link.peer is not None
        for channel in self._works:
            self._kernel.timers.cancel(("cut", (channel, link.peer.uuid)))

    def peer_down(self, link: Link, was_up: bool) -> None:
        peer = peer_of(link)
        if was_up and peer.link is None:
            for channel, work in self._works.items():
                self._kernel.timers.set(("cut", (channel, peer.uuid)), self._kernel.now + work.lease)

    def _on_cut_timeout(self, whose: tuple[str, UUID]) -> None:
        channel, uuid = whose
        work, peer = self._works.get(channel), self._kernel.peers.get(uuid)
        if work is None or peer is None or peer.link is not None:
            return
        jobs = sum(one.channel == channel for one in peer.inbox.held.values())
        if jobs:
            self._kernel.tell(TakeBack(work.handler, uuid))
            self._kernel.notice(
                NoticeKind.LEASE_OVER,
                uuid,
                f"its connection has been down for {work.lease:g} s, and it gives its jobs of {channel!r:.100} to "
                f"others. {jobs} are here: those that were not begun are let go, the others may be done twice",
            )

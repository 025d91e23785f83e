"""Workers' side of a work queue.

An instance takes jobs of a channel, from whoever gives them. It is announced for as long as it is at work, and not
stored: after a crash it says nothing of a queue until it is at work again. Jobs that come when it is not are left to
their producer, and never acknowledged. A producer that is gone for longer than the lease gives its jobs to others:
those that were not begun here are let go then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from .._common.derived import is_derived
from .._common.errors import LocalProtocolError, TolliverError
from .._common.records import record
from .._wire.events import Established, Subscription
from .actions import Handler, NoticeKind, Receipt, TakeBack
from .link import Link
from .opening import Fate
from .queueing import Queueing
from .queues import CONCURRENCY, MOST_CONCURRENT


@record
class _Work:
    handler: Handler
    lease: float
    announced: tuple[Subscription, ...]


class Working(Queueing):
    """Work on the queues of others."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._works: dict[str, _Work] = {}
        self._worked: set[str] = set()  # channels; in this life

    def work(
        self, channel: str, handler: Handler, concurrency: int = 1, lease: float = 10.0, now: float | None = None
    ) -> None:
        """Give this handler jobs of the channel, from every producer, until `stop_work`.

        They are told that it works on `concurrency` jobs at a time: they give it twice as many.

        `lease` is the producers': jobs that it has not begun when one of them has been away for as long are taken back
        from it. Raises ReservedChannel, ValueError, OwnLimitExceeded, and LocalProtocolError where it works there
        already or is a derived identity (T-72a).
        """
        self._tick(now)
        subscription = self._checked(channel, "")
        if not channel or not 1 <= concurrency <= MOST_CONCURRENT or not lease > 0:
            raise ValueError(
                f"work on {channel!r:.100} with concurrency {concurrency!r} and a lease of {lease!r} s: give a "
                f"channel, 1 to {MOST_CONCURRENT} jobs, and seconds"
            )
        if channel in self._works:
            raise LocalProtocolError("at_work", f"this instance works on {channel!r:.100} already: share that iterator")
        if is_derived(self.instance_id):
            raise LocalProtocolError(
                "write_only", f"{self.instance_id} is a derived identity: it takes nothing (T-72a)"
            )
        wanted = (subscription, self._checked(channel, f"{CONCURRENCY}{concurrency}"))
        announced = tuple(one for one in wanted if one not in self._own)
        self._check_list(announced)
        self._works[channel] = _Work(handler, lease, announced)
        self._worked.add(channel)
        self._announce(announced, True)
        self.register(channel, "", handler)
        self.hand_out_once(handler)

    def stop_work(self, channel: str, now: float | None = None) -> None:
        """Take no more jobs of it. Those that its handler holds are to be settled."""
        self._tick(now)
        work = self._works.pop(channel)
        self.unregister(channel, "", work.handler)
        self._announce(work.announced, False)

    def _announce(self, subscriptions: Iterable[Subscription], wanted: bool) -> None:
        """Tell the peers that are connected, and those that connect; the store knows nothing of it."""
        for one in subscriptions:
            self._set_own(one, wanted)
            self._sync_own(one, None)
        self._verdicts.clear()

    def _judge(self, channel: str, key: str) -> tuple[Handler, ...] | Fate:
        """A job on its way to who stopped is left to its producer: an acknowledgement would say that it is done."""
        verdict = super()._judge(channel, key)
        if channel in self._worked and verdict in (Fate.UNWANTED, Fate.DOUBTFUL):
            verdict = self._verdicts[channel, key] = Fate.STUCK
        return verdict

    def subscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). `Stored` names the receipt."""
        receipt = super().subscribe(channel, key, now)
        work = self._works.get(channel)
        if work is not None:  # a stored one stays when the work ends
            announced = tuple(one for one in work.announced if one != (channel, key))
            self._works[channel] = replace(work, announced=announced)
        return receipt

    # A producer that is cut off.

    def _on_established(self, link: Link, event: Established) -> None:
        super()._on_established(link, event)
        assert link.peer is not None
        for channel in self._works:
            self._timers.cancel(("cut", (channel, link.peer.uuid)))

    def _take_down(self, link: Link, error: TolliverError | None) -> None:
        peer, was_up = link.peer, link.up
        super()._take_down(link, error)
        if peer is not None and was_up and peer.link is None:
            for channel, work in self._works.items():
                self._timers.set(("cut", (channel, peer.uuid)), self._now + work.lease)

    def _on_cut_timeout(self, whose: tuple[str, UUID]) -> None:
        channel, uuid = whose
        work, peer = self._works.get(channel), self._peers.get(uuid)
        if work is None or peer is None or peer.link is not None:
            return
        jobs = sum(one.channel == channel for one in peer.inbox.held.values())
        if jobs:
            self._actions.append(TakeBack(work.handler, uuid))
            self._notice(
                NoticeKind.LEASE_OVER,
                uuid,
                f"its connection has been down for {work.lease:g} s, and it gives its jobs of {channel!r:.100} to "
                f"others. {jobs} are here: those that were not begun are let go, the others may be done twice",
            )

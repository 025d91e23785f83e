"""Keepalive of connections: probes (T-80), and their greatest age (D-8).

Each connection has two timers. The first one sends a probe after a silence of our own: an ack that every peer ignores,
or a message on a channel that the peer does not want and so acknowledges at once. If such an answer can be had, it is
also asked for after a silence of the peer, as our own frames prove nothing about the peer. The second timer closes old
connections in order: the dialling end dials again, and shows a certificate that is valid now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from ..._common.errors import OutboxFull
from ..._common.timers import Timers
from ..._wire.events import PROBE_CHANNEL, Ack
from ..link import Link
from ..lists.control_sync import ControlSync
from ..policy import Policy
from ..subscriptions import matching

_GRACE = 0.1  # share of the time to answer: if our process slept, data that came is read before the last look
_AGE_JITTER = 0.1  # share of the age: connections that began together do not end together


class KeepAlive:
    """Timers that find out whether a quiet connection is alive: a probe is a message that the peer acknowledges at
    once. Sets the timers "probe" and "age" of each link; `look` is called when the first is due.

    `asks`: whether probes may take a message id. A derived identity's ids must be the same in every try of its job
    (T-72a).
    """

    def __init__(
        self, policy: Policy, asks: bool, jitter: Callable[[], float], timers: Timers, counts: defaultdict[str, int]
    ) -> None:
        self._policy = policy
        self._may_ask = asks
        self._asks = asks and policy.probe == "message"
        self._jitter = jitter
        self._timers = timers
        self._counts = counts

    def begin(self, link: Link, now: float) -> None:
        """Starts the timers of a link that is established."""
        link.sent_at = link.last_received = now
        if self._policy.probe != "off":
            self._timers.set(("probe", link.cid), now + self._policy.probe_interval)
        age = self._policy.max_connection_age
        if age is not None:
            self._timers.set(("age", link.cid), now + age * (1.0 - _AGE_JITTER * self._jitter()))

    def answered(self, link: Link) -> None:
        """Records that the peer has acknowledged a probe."""
        self._timers.set_earlier(("probe", link.cid), link.sent_at + self._policy.probe_interval)

    def look(self, link: Link, now: float) -> bool:
        """Called when a timer is due. After a silence sends a probe, which the caller writes. Returns False if the link
        is taken for dead.
        """
        control = _control(link)
        if control.probing and not self._may_be_unheard(link):
            if control.overdue:
                self._counts["probes_unanswered"] += 1
                return False
            control.overdue = True
            due = now + self._policy.probe_timeout * _GRACE
        else:
            control.overdue = False
            since = min(link.sent_at, link.last_received) if self._must_answer(link) else link.sent_at
            due = since + self._policy.probe_interval
            if link.in_transit:  # not silent: the socket still has bytes to send, and TCP watches those
                due = now + self._policy.probe_interval
            elif due <= now:
                due = now + self._probe(link)
        self._timers.set(("probe", link.cid), due)
        return True

    def is_mute(self, link: Link) -> bool:
        """True if the peer of this link gives no answer to a probe, so that it cannot be asked."""
        return not self._may_ask or self._wants_probes(link)

    def ask(self, link: Link, now: float) -> None:
        """Sends a probe now, if the peer can answer (T-70); the caller writes it."""
        is_live = link.connection is not None and link.connection.live
        if not is_live or self.is_mute(link) or _control(link).probing:
            return
        try:
            _control(link).probe()
        except OutboxFull:
            return
        self._counts["probes"] += 1
        if self._policy.probe != "off":
            self._timers.set(("probe", link.cid), now + self._policy.probe_timeout * (1.0 - _GRACE))

    def _may_be_unheard(self, link: Link) -> bool:
        """True if the lack of an answer proves nothing: it may have arrived but not been read, or the peer now
        subscribes to the probe channel.
        """
        return bool(link.holding) or link.paused or self._wants_probes(link)

    def _probe(self, link: Link) -> float:
        """Sends a probe; returns the seconds until `look` is due again."""
        assert link.connection is not None
        self._counts["probes"] += 1
        if self._must_answer(link) and not _control(link).probing:
            try:
                _control(link).probe()
                return self._policy.probe_timeout * (1.0 - _GRACE)
            except OutboxFull:
                pass  # every id is outstanding: an ack probe needs none
        if link.connection.can_send(Ack):
            link.connection.send_acks([link.connection.unreliable_id])
        return self._policy.probe_interval

    def _must_answer(self, link: Link) -> bool:
        return self._asks and not self._wants_probes(link)

    def _wants_probes(self, link: Link) -> bool:
        """True if no ack of a probe is to be expected: the peer would hand it to its application, or withhold the ack
        (T-46), or sends no acks.
        """
        assert link.peer is not None
        if not link.peer.outbox.takes_reliable:
            return True
        return any(one in link.peer.lists.subscriptions for one in matching(PROBE_CHANNEL, ""))


def _control(link: Link) -> ControlSync:
    assert link.lists.control is not None
    return link.lists.control

"""Connections that stand: is anybody still there (T-80), and how old may they become (D-8)?

The idea: two timers for each connection. One looks whether anything was sent lately and, where nothing was, says
something that costs the peer nothing: an ack that everybody ignores, or a message on a channel of which the peer wants
nothing, and which it therefore acknowledges at once. Where such an answer can be had, it is also asked for when nothing
was heard: what we say ourselves shows nothing of the peer. The other timer ends what is too old, in order: whoever
dialled dials again, and shows a certificate that is valid now.
"""

from __future__ import annotations

from .._common.derived import is_derived
from .._common.errors import ConnectionLost, OutboxFull
from .._common.link import LinkState
from .._common.transport import Abort
from .._wire.events import PROBE_CHANNEL, Established
from .ids import NO_ID
from .link import ControlSync, Link
from .maintenance import Upkeep
from .subscriptions import matching

_GRACE = 0.1  # of the time to answer: if it was we who slept, what has come meanwhile is read before the last look
_AGE_JITTER = 0.1  # of the age: what came up together does not end together


class Watching(Upkeep):
    """Probes and ages."""

    def _on_established(self, link: Link, event: Established) -> None:
        super()._on_established(link, event)
        if not link.up:
            return
        link.sent_at = link.last_received = self._now
        if self._policy.probe != "off":
            self._timers.set(("probe", link.cid), self._now + self._policy.probe_interval)
        age = self._policy.max_connection_age
        if age is not None:
            self._timers.set(("age", link.cid), self._now + age * (1.0 - _AGE_JITTER * self._rng.random()))

    def _on_age_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if link.up:
            self._counts["aged_out"] += 1
            self._end(link)

    def _on_probe_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if not link.up or link.state is not LinkState.OPEN:
            return
        if _control(link).probing and not self._may_be_unheard(link):
            self._on_no_answer(link)
            return
        link.overdue = False
        since = min(link.sent_at, link.last_received) if self._must_answer(link) else link.sent_at
        due = since + self._policy.probe_interval
        if link.in_transit:  # not silent: the socket still has bytes to send, and TCP watches those
            due = self._now + self._policy.probe_interval
        elif due <= self._now:
            due = self._now + self._probe(link)
        self._timers.set(("probe", cid), due)

    def _on_no_answer(self, link: Link) -> None:
        seconds = self._policy.probe_timeout
        if not link.overdue:
            link.overdue = True
            self._timers.set(("probe", link.cid), self._now + seconds * _GRACE)
            return
        self._counts["probes_unanswered"] += 1
        self._actions.append(Abort(link.cid))
        self._lost(link, ConnectionLost(f"the peer did not answer a probe within {seconds:g} s (T-80)"))

    def _may_be_unheard(self, link: Link) -> bool:
        """Whether the answer may be there, and unread, or the peer has begun to want what probes are made of."""
        return bool(link.holding) or link.paused or self._wants_probes(link)

    def _probe(self, link: Link) -> float:
        """Say something; returns the seconds until the next look."""
        self._counts["probes"] += 1
        self._writable[link] = None
        if self._can_be_answered(link):
            try:
                _control(link).probe()
                return self._policy.probe_timeout * (1.0 - _GRACE)
            except OutboxFull:
                pass  # every id is outstanding: one without will do
        self._ack(link, [NO_ID])
        return self._policy.probe_interval

    def _can_be_answered(self, link: Link) -> bool:
        return self._must_answer(link) and not _control(link).probing

    def _must_answer(self, link: Link) -> bool:
        # A derived identity's ids must come out the same in every try of its job (T-72a): a probe would take one.
        message = self._policy.probe == "message" and not is_derived(self.instance_id)
        return message and not self._wants_probes(link)

    def _wants_probes(self, link: Link) -> bool:
        """Whether the peer would hand a probe to its application, or withhold the ack (T-46)."""
        assert link.peer is not None
        return any(one in link.peer.subscriptions for one in matching(PROBE_CHANNEL, ""))


def _control(link: Link) -> ControlSync:
    assert link.control is not None
    return link.control

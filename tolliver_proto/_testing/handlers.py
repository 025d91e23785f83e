"""Simulated handlers (T-45, D-9).

Handlers are quick, slow, stuck for a while, failing, or do not end until the faults stop. The messages of a Deliver are
split among several handler calls, which queue. A message is never in two calls at once, unless the first call has
lasted for the handling timeout (T-48).
"""

from __future__ import annotations

from collections.abc import Sequence

from .._node.actions import Deliver, Delivery, TakeBack
from .invariants import WireWitness, check
from .value_checks import CHANNEL
from .world import Host, World


class Handlers(World):
    """World whose hosts have simulated handlers: each call takes a random time, and succeeds or fails at random."""

    again_chance: float = 0.0
    """Chance that a failed message is handled again by this instance, after `again_in` seconds (P-22)."""
    again_in: float = 3.0

    def _deliver(self, host: Host, action: Deliver) -> None:
        for delivery in action.deliveries:
            host.ledger.delivery(delivery, self._ledgers)
            if self._is_in_call(host, delivery):
                host.again.add(delivery.body)
        start = 0
        while start < len(action.deliveries):
            size = self._rng.randint(1, len(action.deliveries) - start)
            some = [*action.deliveries[start : start + size]]
            host.queued.append(some)
            self._at(self._delay(), self._begin, host, host.born, some)
            start += size

    def _take_back(self, host: Host, action: TakeBack) -> None:
        """Carries out a TakeBack: gives the queued messages of a peer back to the node, because the handler is
        stuck."""
        for some in [*host.queued]:
            gone = [one for one in some if one.peer_id == action.peer]
            some[:] = [one for one in some if one.peer_id != action.peer]
            self.counts["taken_back"] += len(gone)
            self._call(host, "let_go", gone)

    def _begin(self, host: Host, born: int, deliveries: list[Delivery]) -> None:
        """Begins one handler call for these deliveries, in the life `born` of the host."""
        if host.born != born:
            return
        host.queued.remove(deliveries)
        wait = self._delay()
        if self._chance(self._weather.handler_slow):
            wait = self._rng.random() * self._weather.handler_patience
        for one in deliveries:
            self._is_in_call(host, one)
            host.calls[one.peer_id, one.body] = host.time(self.now)
        self._call(host, "begin", "handler", deliveries)
        if self._chance(self._weather.handler_hangs):
            host.hanging.append((host.born, deliveries))
            self.counts["hung"] += 1
        else:
            self._at(wait, self._handle, host, host.born, deliveries)

    def _is_in_call(self, host: Host, delivery: Delivery) -> bool:
        """True if a handler call already has the message, which is allowed only after the handling timeout."""
        began, timeout = host.calls.get((delivery.peer_id, delivery.body)), self._policy.handling_timeout
        if began is None or delivery.channel == CHANNEL:  # a last value may be sent again as another message
            return False
        is_overdue = timeout is not None and began + timeout <= host.time(self.now)
        is_new = delivery.peer_id in host.ledger.forgot  # all messages of a forgotten peer count as new
        check(is_overdue or is_new, f"{delivery} is handed out while it is handled (T-48)")
        return True

    def _handle(self, host: Host, born: int, deliveries: Sequence[Delivery]) -> None:
        """Ends one handler call, if the life `born` of the host goes on: each message has succeeded, failed, or is to
        be handled again after a pause.
        """
        if host.born != born:
            return
        for one in deliveries:
            host.calls.pop((one.peer_id, one.body), None)
        failed = [one for one in deliveries if self._chance(self._weather.handler_fails)]
        handled = [one for one in deliveries if one not in failed]
        for one in handled:
            host.ledger.handled[one.body] += 1
            if self._policy.dedupe and one.reliable and one.body not in host.again and one.channel != CHANNEL:
                is_known = one.body in host.ledger.handled_in_this_life and one.peer_id not in host.ledger.forgot
                check(not is_known, f"{one} was handled before (T-48)")
            host.ledger.handled_in_this_life.add(one.body)
            end = host.ends.get(one.cid)
            if end is not None and one.message_id is not None:
                assert isinstance(end.witness, WireWitness)
                end.witness.acknowledged.add(one.message_id)
        self._call(host, "end", "handler", deliveries)
        again = [one for one in failed if self.again_chance and self._chance(self.again_chance)]
        if again:
            self.counts["again"] += len(again)
            self._call(host, "handle_again", again, self.again_in)
        self._call(host, "fail", [one for one in failed if one not in again])
        self._call(host, "acknowledge", handled)
        if handled and self._chance(0.02):
            self._call(host, "acknowledge", handled)  # a second call does nothing

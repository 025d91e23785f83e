"""Simulated networks with second instances, fresh disks, clones and restarts.

A second instance of an identity (a twin) is a host of its own. The two hosts share the facts that other peers see, and
neither knows of the other. If one of them goes for good, the messages that only its store owed are lost, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from .._wire.events import Revision, Subscription
from .._wire.limits import Limits
from .memory_store import MemoryStore
from .randomness import Dice
from .simnet import WORLDS, Simulation
from .world import LOSSY, SMALL_QUOTA, Copy, Host

_DEPLOYMENTS = (1, 5)  # the kinds of worlds with these operations
_LATEST = 4.5  # seconds until handlers come, at most: within the grace of T-46
_SUBSCRIBES_WITHIN = 20.0  # seconds until late subscriptions come, at most
_SHORT_HOLD = 15.0
_LIFE_OF_A_TWIN = 30.0
_LARGEST = 100  # bytes of the largest body that a peer takes, if it refuses larger ones


class Deployments(Simulation):
    """A simulation in which some worlds have twins, fresh disks and restarts. `never` names these operations too:
    "fresh", "second", "move", "copy", "restart", "loop", "forget", "drop"."""

    def __init__(self, seed: int, dice: Dice, *, refuse: bool = False, **scenario: Any) -> None:
        """Takes the arguments of `Simulation`. With `refuse` a peer refuses large messages until the faults stop."""
        super().__init__(seed, dice, **scenario)
        self._refuses = refuse and self.has_deployments
        if self.has_deployments:
            self._draw(scenario)

    def _draw(self, scenario: dict[str, Any]) -> None:
        """Draws at random the draft that the nodes speak, the time of holds, the quotas, and the peer that refuses
        large messages."""
        rng = self._rng
        self._revision = rng.choice((Revision.DRAFT_1, self._revision, self._revision))
        hold = rng.choice((3600.0, 3600.0, _SHORT_HOLD))
        bounds = rng.choice(({}, {}, SMALL_QUOTA, {"max_attempts": 3}))
        if scenario.get("policy") is None:
            self._set_policy(replace(LOSSY if bounds is SMALL_QUOTA else self._policy, unsubscribed_hold=hold))
        if scenario.get("limits") is None:
            for host in self._hosts:
                host.limits = replace(host.limits, **bounds)
        for index, host in enumerate(self._hosts):
            host.wishes = {(other, 0) for other in range(len(self._hosts)) if other != index and rng.random() < 0.6}
        if self._refuses:
            host = self._hosts[0]
            host.limits = replace(host.limits, max_body=_LARGEST)
            host.ledger.largest = _LARGEST
            self._seconds *= 3
            self._patience = 3600.0

    @property
    def has_deployments(self) -> bool:
        return self.seed % WORLDS in _DEPLOYMENTS

    def _by_weight(self) -> list[tuple[int, Callable[[Host], None]]]:
        operations = super()._by_weight()
        if not self.has_deployments:
            return operations
        unwanted = (self._op_jump, self._op_stop_clock)  # holds and graces depend on the clock
        return [
            *(one for one in operations if one[1] not in unwanted),
            (20, self._op_send),
            (1, self._op_fresh),
            (1, self._op_second),
            (1, self._op_move),
            (1, self._op_copy),
            (2, self._op_restart),
            (1, self._op_loop),
            (1, self._op_forget),
            (1, self._op_drop),
        ]

    # Openings: given subscriptions, and late ones (T-46).

    def _is_late(self, host: Host) -> bool:
        if not self.has_deployments:
            return super()._is_late(host)
        is_late = not self._calm and self._chance(3 * self._weather.late_handlers)
        if is_late and host.limits.inbox_messages < self._operations:  # more messages may come than the inbox takes
            host.ledger.ordered = False
        return is_late

    def _given(self, host: Host) -> Sequence[Subscription] | None:
        if not self.has_deployments:
            return super()._given(host)
        if not self._calm and self._chance(0.5):
            self._at(self._rng.random() * _SUBSCRIBES_WITHIN, self._subscribe_late, host, host.born)
            return None
        return sorted(host.wants)

    def _subscribe_late(self, host: Host, born: int) -> None:
        """Subscribes to all of a host's subscriptions, and tries again if they could not be stored. Does nothing if the
        life `born` of the host has ended.
        """
        if host.born != born or host.node is None or host.closing:
            return
        for subscription in sorted(host.wants.difference(host.node.subscriptions())):
            self._trace(f"{host.name} subscribes late to {subscription}")
            host.node.subscribe(*subscription, now=host.time(self.now))
        self._call(host, "handle_timeout")
        if not host.store.own_subscriptions >= host.wants:
            self._at(1.0, self._subscribe_late, host, born)

    def _change_own(self, host: Host, call: str) -> None:
        """Makes the node's `call`, "subscribe" or "unsubscribe", for the host's own subscriptions. While the list is
        incomplete, nothing is unsubscribed: that drops messages on their way, also those that an entry wants which is
        still to come (T-46); and in DRAFT_1 nothing is subscribed: a peer takes the list as the whole (T-61).
        """
        assert host.node is not None
        may_change = self._can_unsubscribe and call == "subscribe"
        if may_change or host.ledger.permanent.issubset(host.node.subscriptions()):
            super()._change_own(host, call)

    # Second instances.

    def _op_second(self, host: Host) -> None:
        """Starts a second program with the same certificate and an empty database, which sends messages and ends
        (T-61)."""
        self._add_twin(host, MemoryStore(), frozenset())

    def _op_move(self, host: Host) -> None:
        """Starts a second program of the host's identity, with an empty database and the same subscriptions, while the
        host's own still runs. Later one of the two ends for good.
        """
        self._add_twin(host, MemoryStore(), host.wants)

    def _op_copy(self, host: Host) -> None:
        """Starts a second program of the host's identity on a copy of its database, while the host's own still runs
        (T-70).
        """
        self._add_twin(host, host.store.snapshot(), host.wants)

    def _add_twin(self, host: Host, store: MemoryStore, wants: frozenset[Subscription]) -> None:
        if host.twin is not None or host in self._twins:
            return
        self.counts["twins"] += 1
        host.ledger.forked, host.ledger.ordered, host.ledger.rolled_back = True, False, True
        host.ledger.said_gone.clear()
        twin = Host(f"{host.name}+{self.counts['twins']}", host.ledger.twin(), store, host.limits, host.version)
        twin.wants, twin.wishes, twin.island = wants, set(host.wishes), host.island
        twin.ledger.holds(store, self.now)
        host.twin = twin
        self._twins.append(twin)
        self._trace(f"{twin.name} is another {host.name}")
        self._start(twin)
        self._at(self._rng.random() * _LIFE_OF_A_TWIN, self._retire, host, twin)

    def _retire(self, host: Host, twin: Host) -> None:
        """Ends the second program `twin` for good. At times `host` is stopped as well, and goes on with the store of
        `twin`.
        """
        if twin.retired:
            return
        host.twin, twin.retired = None, True
        self._twins.remove(twin)
        self._stop(twin)
        if twin.wants and self._chance(0.3):
            self._trace(f"{twin.name} takes the place of {host.name}")
            self._stop(host)
            self._put_back(host, Copy(twin.store, self._ledgers))
            self._at(self._delay(), self._start, host)
            return
        for uuid in self._ledgers:
            for body in (twin.store.owed(uuid) | twin.store.held()) - host.store.owed(uuid):
                host.ledger.sent[body].lost_for.add(uuid)

    def _op_fresh(self, host: Host) -> None:
        """Replaces a host's database by an empty one (T-61, T-46)."""
        self.counts["fresh"] += 1
        self._trace(f"{host.name} loses its database")
        self._stop(host)
        self._put_back(host, Copy(MemoryStore(), self._ledgers))
        self._at(self._delay(), self._start, host)

    # Restarts.

    def _op_restart(self, host: Host) -> None:
        """Restarts a program, which is back at once."""
        self.counts["restarts"] += 1
        self._end_program(host, 0)

    def _op_loop(self, host: Host) -> None:
        """Restarts a program several times, soon after each start (T-09)."""
        self.counts["loops"] += 1
        self._end_program(host, self._rng.randint(3, 15))

    def _end_program(self, host: Host, times: int) -> None:
        if self._chance(0.7):
            self._trace(f"{host.name} is restarted")
            host.closing = True
            self._call(host, "close")
            self._at(self._rng.random(), self._restart, host, host.born, times)
        else:
            self._restart(host, host.born, times)

    def _restart(self, host: Host, born: int, times: int) -> None:
        if host.born != born or self._calm or host.retired:
            return
        self._stop(host)
        self._start(host)
        if times:
            self._at(self._rng.random() * 2, self._end_again, host, host.born, times - 1)

    def _end_again(self, host: Host, born: int, times: int) -> None:
        if host.born == born and not host.closing and not self._calm:
            self._end_program(host, times)

    # Messages that the operator gives up.

    def _other(self, host: Host) -> UUID:
        return self._rng.choice(sorted(self._ledgers.keys() - {host.ledger.uuid}))

    def _op_forget(self, host: Host) -> None:
        peer = self._other(host)
        self._trace(f"{host.name} forgets {peer}")
        self._forgets(host, peer)
        self._call(host, "forget_peer", peer)

    def _op_drop(self, host: Host) -> None:
        """Gives up the parked messages of a peer (T-09)."""
        peer = self._other(host)
        self._trace(f"{host.name} drops what it has set aside for {peer}")
        host.ledger.told_to_drop.add(peer)
        self._call(host, "drop_parked", peer)

    # The end.

    def _become_calm(self) -> None:
        for host in self._hosts:
            if host.twin is not None:
                self._retire(host, host.twin)
        if self._refuses:
            host = self._hosts[0]
            self._trace(f"{host.name} takes large messages from now on")
            host.limits = replace(host.limits, max_body=Limits().max_body)
            self._stop(host)
        super()._become_calm()
        if not self._can_unsubscribe:
            self._at(_SUBSCRIBES_WITHIN, self._reconnect)

    def _reconnect(self) -> None:
        """Breaks all connections: in DRAFT_1 only a handshake tells that a subscription has ended (T-21)."""
        for host in self._hosts:
            for end in list(host.ends.values()):
                self._lose_later(end)

    def _unfinished(self) -> list[str]:
        lacking = [host.name for host in self._hosts if not host.store.own_subscriptions >= host.wants]
        return [*super()._unfinished(), *(f"{name} has not subscribed yet" for name in lacking)]

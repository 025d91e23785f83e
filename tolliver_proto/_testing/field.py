"""Simulated networks as they are in the field.

There are second databases, fresh disks, clones, and programs that start again. A second instance of an identity is a
host of its own beside the first. Both share what others see of them, and neither knows of the other. When one goes for
good, what only its store owed is lost with it, and no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from .._wire.events import Revision, Subscription
from .._wire.limits import Limits
from .dice import Dice
from .memory import MemoryStore
from .simnet import WORLDS, Simulation
from .world import LOSSY, SMALL_QUOTA, Copy, Host

_FIELD = (1, 5)  # of the worlds
_LATEST = 4.5  # seconds until handlers come, which T-46 waits for
_SUBSCRIBES_WITHIN = 20.0  # and subscriptions, where none were given
_SHORT_HOLD = 15.0
_LIFE_OF_A_TWIN = 30.0
_LARGEST = 100  # bytes of a body, to a peer that refuses larger ones


class Field(Simulation):
    """A simulation in which some worlds are a field. `never` names its operations too: "fresh", "second", "move",
    "copy", "restart", "loop", "forget", "drop"."""

    def __init__(self, seed: int, dice: Dice, *, refuse: bool = False, **scenario: Any) -> None:
        """With `refuse` a peer takes no large messages until the faults stop."""
        super().__init__(seed, dice, **scenario)
        self._refuses = refuse and self.in_field
        if self.in_field:
            self._draw(scenario)

    def _draw(self, scenario: dict[str, Any]) -> None:
        """Its draft, the time of its holds, its quotas, and whether a peer takes no large messages."""
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
    def in_field(self) -> bool:
        return self.seed % WORLDS in _FIELD

    def _by_weight(self) -> list[tuple[int, Callable[[Host], None]]]:
        operations = super()._by_weight()
        if not self.in_field:
            return operations
        unwanted = (self._op_jump, self._op_stop_clock)  # holds and first moments are times
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

    # Openings: subscriptions that are given, and those that come late (T-46).

    def _is_late(self, host: Host) -> bool:
        if not self.in_field:
            return super()._is_late(host)
        is_late = not self._calm and self._chance(3 * self._weather.late_handlers)
        if is_late and host.limits.inbox_messages < self._operations:  # more may come than there is credit for
            host.ledger.ordered = False
        return is_late

    def _given(self, host: Host) -> Sequence[Subscription] | None:
        if not self.in_field:
            return super()._given(host)
        if not self._calm and self._chance(0.5):
            self._at(self._rng.random() * _SUBSCRIBES_WITHIN, self._subscribe_late, host, host.born)
            return None
        return sorted(host.wants)

    def _subscribe_late(self, host: Host, born: int) -> None:
        """All at once; and once more where that could not be stored."""
        if host.born != born or host.node is None or host.closing:
            return
        for subscription in sorted(host.wants.difference(host.node.subscriptions())):
            self._trace(f"{host.name} subscribes late to {subscription}")
            host.node.subscribe(*subscription, now=host.time(self.now))
        self._call(host, "handle_timeout")
        if not host.store.load().own_subscriptions >= host.wants:
            self._at(1.0, self._subscribe_late, host, born)

    def _change_own(self, host: Host, call: str) -> None:
        """In the first draft a list that is not empty is all that a peer wants (T-61): one that comes late is whole."""
        assert host.node is not None
        if self._can_unsubscribe or host.ledger.permanent.issubset(host.node.subscriptions()):
            super()._change_own(host, call)

    # Second instances.

    def _op_second(self, host: Host) -> None:
        """A program with the same certificate and an empty database sends something and goes (T-61)."""
        self._add_twin(host, MemoryStore(), frozenset())

    def _op_move(self, host: Host) -> None:
        """It is started on another disk while the first still runs."""
        self._add_twin(host, MemoryStore(), host.wants)

    def _op_copy(self, host: Host) -> None:
        """Its machine is cloned, and both go on (T-70)."""
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
        """One of the two goes for good."""
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
        """Its disk is gone: it comes back with an empty database (T-61, T-46)."""
        self.counts["fresh"] += 1
        self._trace(f"{host.name} loses its database")
        self._stop(host)
        self._put_back(host, Copy(MemoryStore(), self._ledgers))
        self._at(self._delay(), self._start, host)

    # Restarts.

    def _op_restart(self, host: Host) -> None:
        """Its program is restarted in order, and is back at once."""
        self.counts["restarts"] += 1
        self._end_program(host, 0)

    def _op_loop(self, host: Host) -> None:
        """Its program ends soon after each start (T-09)."""
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

    # Given up, as the operator asks for.

    def _other(self, host: Host) -> UUID:
        return self._rng.choice(sorted(self._ledgers.keys() - {host.ledger.uuid}))

    def _op_forget(self, host: Host) -> None:
        peer = self._other(host)
        self._trace(f"{host.name} forgets {peer}")
        self._forgets(host, peer)
        self._call(host, "forget_peer", peer)

    def _op_drop(self, host: Host) -> None:
        """Parked messages of a peer are given up (T-09)."""
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
        """New handshakes say what the first draft has no message for (T-21)."""
        for host in self._hosts:
            for end in list(host.ends.values()):
                self._lose_later(end)

    def _unfinished(self) -> list[str]:
        lacking = [host.name for host in self._hosts if not host.store.load().own_subscriptions >= host.wants]
        return [*super()._unfinished(), *(f"{name} has not subscribed yet" for name in lacking)]

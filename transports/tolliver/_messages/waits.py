"""Calls that wait for a condition, such as a connected peer.

An event that happens once, such as a commit or a reply, is reported by an action that names its call. A condition, such
as "this peer is connected", comes and goes: it is a question that can be put to the node at any time. `WAKES` lists the
actions after which the answer may differ. A call waits only if the condition is false when it is made.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from tolliver_proto import Action, Node, TolliverError
from tolliver_proto.node import PeersMoved, Requests

from .._driver.pending import PendingCall, as_it_is, closed


class Condition(Hashable, Protocol):
    """Condition of a node that a call waits for, such as a connected peer."""

    def answer(self, node: Node) -> Any:
        """The result of the call, or None while the condition is false."""


@dataclass(frozen=True)
class Connected:
    """The peer at this remote is connected. With `keeps_trying` a call is failed by fewer kinds of errors (T-73)."""

    remote: Hashable
    keeps_trying: bool

    def answer(self, node: Node) -> UUID | None:
        return node.peer_at(self.remote)


@dataclass(frozen=True)
class Subscribed:
    """At least `peers` peers subscribe to this channel and key; with `is_connected` only connected peers count."""

    channel: str
    key: str
    peers: int
    is_connected: bool

    def answer(self, node: Node) -> int | None:
        found = node.subscribed(self.channel, self.key, self.is_connected)
        return found if found >= self.peers else None


@dataclass(frozen=True)
class Responded:
    """At least `peers` connected peers respond to requests for this channel and key."""

    channel: str
    key: str
    peers: int

    def answer(self, node: Node) -> int | None:
        found = node.use(Requests).responders(self.channel, self.key)
        return found if found >= self.peers else None


WAKES: Mapping[type[Action], tuple[type[Condition], ...]] = {PeersMoved: (Connected, Subscribed, Responded)}
"""By type of action: the conditions that may have become true."""


class Waits:
    """Pending calls that wait for a condition of the node, such as a connected peer, which is still false."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[Condition, PendingCall[Any]] = {}

    def of(self, condition: Condition) -> PendingCall[Any]:
        """The call that is answered once the condition is true: at once if it is. Raises what `condition.answer`
        raises."""
        found = condition.answer(self._node)
        call = self._waiting.get(condition)
        if call is None:
            call = self._waiting[condition] = PendingCall(as_it_is)
            call.abandoned = lambda: self._waiting.pop(condition, None)
        if found is not None:
            self.settle(condition, found)
        return call

    def look_again(self, action: Action) -> None:
        """Check the conditions that this action may have changed."""
        kinds = WAKES[type(action)]
        for condition in [one for one in self._waiting if isinstance(one, kinds)]:
            found = condition.answer(self._node)
            if found is not None:
                self.settle(condition, found)

    def settle(self, condition: Condition, answer: Any, error: TolliverError | None = None) -> None:
        """Answer the call that waits for the condition, if there is one; with an error if the condition cannot become
        true."""
        call = self._waiting.pop(condition, None)
        if call is None:
            return
        if error is None:
            call.resolve(answer)
        else:
            call.fail(error)

    def give_up(self) -> None:
        """Fail all calls, because the instance is closed."""
        for condition in [*self._waiting]:
            self.settle(condition, None, closed())

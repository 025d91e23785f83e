"""Calls that wait for a condition, and what wakes them.

An answer that comes once, such as a commit, an acknowledgement or a reply, has an action that names its call. A
condition comes and goes with the peers: each is a question that may be asked of the node at any time, and `WAKES` says
after which actions the answer may be another one. A call is left waiting only where the question, asked now, would be
answered with "not yet".
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
    """Something that a call waits for."""

    def answer(self, node: Node) -> Any:
        """The result of the call, or None where it is not so yet."""


@dataclass(frozen=True)
class Connected:
    """The peer at this remote is connected. Those who keep trying learn of fewer errors (T-73)."""

    remote: Hashable
    keeps_trying: bool

    def answer(self, node: Node) -> UUID | None:
        return node.peer_at(self.remote)


@dataclass(frozen=True)
class Subscribed:
    """A message with these names would go to so many peers, of which each is to be connected or may be away."""

    channel: str
    key: str
    peers: int
    is_connected: bool

    def answer(self, node: Node) -> int | None:
        found = node.subscribed(self.channel, self.key, self.is_connected)
        return found if found >= self.peers else None


@dataclass(frozen=True)
class Responded:
    """So many connected peers respond to requests for these names."""

    channel: str
    key: str
    peers: int

    def answer(self, node: Node) -> int | None:
        found = node.use(Requests).responders(self.channel, self.key)
        return found if found >= self.peers else None


WAKES: Mapping[type[Action], tuple[type[Condition], ...]] = {PeersMoved: (Connected, Subscribed, Responded)}
"""By action: the conditions that may have come true."""


class Waits:
    """Calls whose condition is not true yet."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[Condition, PendingCall[Any]] = {}

    def of(self, condition: Condition) -> PendingCall[Any]:
        """Answered once it is true: now, if it is. Raises what asking for it raises."""
        found = condition.answer(self._node)
        call = self._waiting.get(condition)
        if call is None:
            call = self._waiting[condition] = PendingCall(as_it_is)
            call.abandoned = lambda: self._waiting.pop(condition, None)
        if found is not None:
            self.settle(condition, found)
        return call

    def look_again(self, action: Action) -> None:
        """After this action."""
        kinds = WAKES[type(action)]
        for condition in [one for one in self._waiting if isinstance(one, kinds)]:
            found = condition.answer(self._node)
            if found is not None:
                self.settle(condition, found)

    def settle(self, condition: Condition, answer: Any, error: TolliverError | None = None) -> None:
        """It has come true, or, with an error, never will. Nothing where nobody waits for it."""
        call = self._waiting.pop(condition, None)
        if call is None:
            return
        if error is None:
            call.resolve(answer)
        else:
            call.fail(error)

    def give_up(self) -> None:
        """The instance is closed: nobody is left waiting."""
        for condition in [*self._waiting]:
            self.settle(condition, None, closed())

"""Services of a node for its patterns, beside its public calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from .._wire.events import Message
from .batch import GoOn
from .flushing import Flushing
from .link import Link, Recipients
from .opening import Fate


class Services:
    """One for all patterns of a node. The tables are the node's own: a pattern reads them."""

    def __init__(self, node: Flushing, on_timer: dict[str, Callable[[Any], None]]) -> None:
        self._node = node
        self._on_timer = on_timer
        self.instance_id, self.limits, self.rng = node.instance_id, node.limits, node._rng
        self.links, self.peers, self.own = node._links, node._peers, node._own
        self.timers, self.counts = node._timers, node._counts
        self.tell = node._actions.append
        self.tick, self.check, self.size = node._tick, node._checked, node._size
        self.ack, self.keep_early, self.withhold = node._ack, node._keep_early, node._withhold

    @property
    def now(self) -> float:
        return self._node._now

    def on_timer(self, name: str, due: Callable[[Any], None]) -> None:
        """A timer `(name, subject)`, or `name` alone, calls this with its subject or None."""
        self._on_timer[name] = due

    def after_commit(self, go_on: GoOn) -> None:
        """Call this when what gathers now is durable, or with what prevented it."""
        self._node._batch.then.append(go_on)

    def recipients(self, channel: str, key: str, to: frozenset[UUID] | None) -> Recipients:
        """Peers that a reliable message with these names is for, or those of them."""
        node = self._node
        return node._routes.match(channel, key) if to is None else node._narrow(channel, key, to)

    def write(self, link: Link) -> None:
        """Its connection has something to send."""
        self._node._writable[link] = None

    def leave(self, link: Link, message: Message, fate: Fate) -> None:
        """Do with a message that has no handler as if there were no pattern."""
        self._node._leave_to_sender(link, message, fate)

    def has_handler(self, channel: str, key: str) -> bool:
        """True if some handler is registered for exactly these names."""
        return self._node._handlers.has(self._node._checked(channel, key))

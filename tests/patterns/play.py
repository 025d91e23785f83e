"""Stage for a node that patterns are used on, and the answers to what they ask of the store."""

from __future__ import annotations

from typing import Any

from tolliver_proto import Action, Fetch, StoreError
from tolliver_proto.node import PATTERNS, LastValues, MessageKeys, Queues, QueueWork, Requests
from tolliver_proto.store import Find, is_keeper

from ..node.play import HIGH, LOW, ME, OTHER, Dice, Wire, deliveries, every, notices, only, subscribed
from ..node.play import Play as KernelPlay

__all__ = ["HIGH", "LOW", "ME", "OTHER", "Dice", "Play", "Wire", "deliveries", "every", "notices", "only", "subscribed"]


class Play(KernelPlay):
    """One node, which may use each pattern, its store and its stage."""

    def __init__(self, **options: Any) -> None:
        self.hold_looks = False
        self.looks: list[Fetch | Find] = []
        self.look_error: StoreError | None = None
        super().__init__(patterns=PATTERNS, **options)

    @property
    def requests(self) -> Requests:
        return self.node.use(Requests)

    @property
    def queues(self) -> Queues:
        return self.node.use(Queues)

    @property
    def works(self) -> QueueWork:
        return self.node.use(QueueWork)

    @property
    def keys(self) -> MessageKeys:
        return self.node.use(MessageKeys)

    @property
    def values(self) -> LastValues:
        return self.node.use(LastValues)

    def call(self, name: str, *arguments: Any) -> list[Action]:
        """A call of the node or, where it is theirs, of a pattern."""
        kind = next((one for one in PATTERNS if name in vars(one)), None)
        if kind is None:
            return super().call(name, *arguments)
        getattr(self.node.use(kind), name)(*arguments, now=self.now)
        return self.run()

    def seen(self) -> list[Action]:
        """The read of last values, or of message keys, that was held back is done."""
        self._look()
        return self.run()

    def _takes(self, action: Action) -> bool:
        if not isinstance(action, Fetch | Find) or action.peer is None or not is_keeper(action.peer):
            return False
        self.looks.append(action)
        if not self.hold_looks:
            self._look()
        return True

    def _look(self) -> None:
        look = self.looks.pop(0)
        self.store.now = self.begun + self.now
        if isinstance(look, Find):
            found = look.ask(self.store) if self.look_error is None else []
            self.node.found(look.search_id, found, self.look_error, now=self.now)
        elif self.look_error is None:
            rows = self.store.fetch(look.peer, look.after_seq, look.max_count, look.max_bytes)
            self.node.fetched(look.peer, rows, now=self.now)
        else:
            self.node.fetch_failed(look.peer, self.look_error, now=self.now)

"""From a run of deliveries to what its handlers say of it.

The idea: a message is acknowledged when every matching handler has handled it well (T-45), and a handler is a
callback or an iterator. A `Settlement` counts, for one run, what they say; `Received` and `Run` are what an iterator
hands to the application, with the two words that settle it. A `Mailbox` takes runs without waiting and keeps them for
whoever takes them. It needs no bound of its own: what is handed out and not settled is the connection's credit, and the
node stops reading when it is spent (D-9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol
from uuid import UUID

from tolliver_proto import Delivery, Message, Node, NoticeKind

Settle = Callable[[Collection[Delivery], bool], None]


class Handler(Protocol):
    """Whoever takes deliveries: a callback or an iterator."""

    def put(self, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        """Take a run; say of each delivery, sooner or later, whether it was handled well."""


class Settlement:
    """What the handlers of one run say of each delivery."""

    __slots__ = ("_failed", "_settle", "_waiting")

    def __init__(self, settle: Settle, deliveries: Iterable[Delivery], handlers: int) -> None:
        self._settle = settle
        self._waiting = dict.fromkeys(deliveries, handlers) if handlers > 1 else None
        self._failed: set[Delivery] = set()

    def settle(self, deliveries: Collection[Delivery], well: bool) -> None:
        """One handler is through with these. It says so once of each; saying it again changes nothing."""
        if self._waiting is None:
            self._settle(deliveries, well)
            return
        done = [one for one in deliveries if self._is_last(one, well)]
        self._settle([one for one in done if one not in self._failed], True)
        self._settle([one for one in done if one in self._failed], False)

    def _is_last(self, delivery: Delivery, well: bool) -> bool:
        assert self._waiting is not None
        if not well:
            self._failed.add(delivery)
        self._waiting[delivery] -= 1
        return self._waiting[delivery] == 0


class Received:
    """A message that an iterator handed out: call `ack()` when it is handled, or `fail()` to have it sent again."""

    __slots__ = ("_run", "delivery")

    def __init__(self, delivery: Delivery, run: Run) -> None:
        self.delivery = delivery
        self._run = run

    def ack(self) -> None:
        """Handled: the sender may forget it. Does nothing the second time."""
        self._run.settle((self.delivery,), True)

    def fail(self) -> None:
        """Not handled: the sender keeps it and sends it again after its resend interval (T-50)."""
        self._run.settle((self.delivery,), False)

    @property
    def message(self) -> Message:
        return self.delivery.message

    @property
    def channel(self) -> str:
        return self.delivery.message.channel

    @property
    def key(self) -> str:
        return self.delivery.message.key

    @property
    def body(self) -> bytes:
        return self.delivery.message.body

    @property
    def message_id(self) -> int | None:
        return self.delivery.message.message_id

    @property
    def reliable(self) -> bool:
        return self.delivery.message.message_id is not None

    @property
    def peer_id(self) -> UUID:
        return self.delivery.peer_id

    @property
    def attempt(self) -> int:
        return self.delivery.attempt

    def __repr__(self) -> str:
        return f"Received({self.channel!r:.100}, {self.key!r:.100}, {len(self.body)} bytes, id={self.message_id})"


class Run(Sequence[Delivery]):
    """Messages that came together, for bulk work. `ack()` and `fail()` settle all that is not settled yet."""

    def __init__(self, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        self._deliveries = deliveries
        self._settlement = settlement
        self._open: dict[Delivery, None] | None = None  # until one is settled by itself, all are open

    def __len__(self) -> int:
        return len(self._deliveries)

    def __getitem__(self, index: int) -> Delivery:  # type: ignore[override]  # a run is not sliced
        return self._deliveries[index]

    def ack(self) -> None:
        self.settle(self._deliveries, True)

    def fail(self) -> None:
        self.settle(self._deliveries, False)

    def settle(self, deliveries: Iterable[Delivery], well: bool) -> None:
        """Say it of these, once each."""
        if self._open is None:
            if deliveries is self._deliveries:
                self._open = {}
                self._settlement.settle(self._deliveries, well)
                return
            self._open = dict.fromkeys(self._deliveries)
        fresh = [one for one in deliveries if one in self._open]
        for one in fresh:
            del self._open[one]
        if fresh:
            self._settlement.settle(fresh, well)

    @property
    def settled(self) -> bool:
        return self._open is not None and not self._open


class Bell(Protocol):
    """Tells one listener, on the adapter's loop, to look again."""

    def ring(self) -> None: ...


class Owner(Protocol):
    """What a mailbox asks of its instance."""

    node: Node
    mailboxes: set[Mailbox]

    def bell(self) -> Any:
        """A new bell, in the form that the adapter can listen to."""

    def turn(self) -> None: ...

    def abandon(self, mailbox: Mailbox) -> None: ...

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str) -> None: ...


class Mailbox:
    """What matches one registration. This is what the node knows as a handler."""

    def __init__(self, instance: Owner, channel: str, key: str) -> None:
        instance.node.register(channel, key, self)
        self.bell = instance.bell()
        self.closed = False
        self._instance = instance
        self._names = (channel, key)
        self._runs: deque[Run] = deque()
        self._held: list[Run] = []
        instance.mailboxes.add(self)

    def put(self, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        self._runs.append(Run(deliveries, settlement))
        self.bell.ring()

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._runs)

    def take(self) -> Run | None:
        """The next messages that came together, if there are any."""
        if not self._runs:
            return None
        run = self._runs.popleft()
        self._held = [one for one in self._held if not one.settled]
        self._held.append(run)
        return run

    def close(self) -> None:
        """Take no more, and fail what is not settled, so that it comes again."""
        if self.closed:
            return
        self.closed = True
        self._instance.mailboxes.discard(self)
        self._instance.node.unregister(*self._names, self)
        for run in (*self._held, *self._runs):
            run.fail()
        self._runs.clear()
        self.bell.ring()


Callback = Callable[[Delivery], Any]


class Calls:
    """What a callback says of one run, delivery by delivery; `end()` settles what went well together."""

    def __init__(self, instance: Owner, run: Run) -> None:
        self._instance = instance
        self._run = run
        self._well: list[Delivery] = []

    def returned(self, delivery: Delivery, result: object) -> None:
        """None or a true value is success, anything else failure (T-45)."""
        if result is None or result:
            self._well.append(delivery)
        else:
            self._failed(delivery, f"returned {result!r:.200}")

    def raised(self, delivery: Delivery, error: Exception) -> None:
        self._failed(delivery, f"raised {error!r:.200}")

    def end(self) -> None:
        if self._well:
            self._run.settle(self._well, True)
            self._well = []

    def _failed(self, delivery: Delivery, text: str) -> None:
        self._instance.complain(NoticeKind.HANDLER_FAILED, delivery, text)
        self._run.settle((delivery,), False)

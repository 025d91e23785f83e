"""Mailboxes: deliveries to one handler, and their acknowledgements back.

A message is acknowledged when every matching handler has handled it well (T-45); a handler is a function or an
iterator. A `Run` is what came together for one handler, and knows what of it is not settled. A `Mailbox` takes runs
without waiting. It needs no bound of its own: what is handed out and not settled is the peer's credit, and the node
stops reading when that is used up. It says which messages its handler is at, and gives the others back when that one is
stuck (D-9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from tolliver_proto import BodyNotDecoded, Delivery, GiveUp, HandleAgain, Node, NoticeKind, Verdict

from .._driver.adapter import Wakeup
from .._driver.ends import is_interrupt, shown, told
from .channels import ChannelTable

Handler = Callable[[Delivery], object]
"""A function of a delivery: None or a true value means handled. On a loop, its result may be awaitable."""


class _Settled:
    """Settler of deliveries that are settled already: saying it again changes nothing."""

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        pass


_SETTLED = _Settled()


class Run(Sequence[Delivery]):
    """Deliveries that came together, for bulk work. `ack()` and `fail()` settle all that is not settled yet, and so do
    those of each delivery."""

    __slots__ = ("_box", "_deliveries", "_given", "_left")

    def __init__(self, deliveries: Sequence[Delivery], box: Mailbox) -> None:
        self._deliveries = deliveries
        self._box = box
        self._left = len(deliveries)  # those that are not settled
        self._given = 0  # those that were taken out one by one, or all
        for one in deliveries:
            one.settler = self

    def __len__(self) -> int:
        return len(self._deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    def __getitem__(self, index: int) -> Delivery:  # type: ignore[override]  # a run is not sliced
        return self._deliveries[index]

    def __repr__(self) -> str:
        return f"Run({len(self)} deliveries, {'settled' if self.settled else 'not settled'})"

    def ack(self) -> None:
        """Handled: the senders may forget them (T-45)."""
        self.settle(self._deliveries, True)

    def fail(self, retry_in: float | None = None) -> None:
        """Not handled: the senders keep them, and send them again (T-50). `retry_in` is as of a delivery (P-22)."""
        self.settle(self._deliveries, False if retry_in is None else HandleAgain(retry_in))

    def give_up(self, reason: str) -> None:
        """Not handled, and trying again is no use: kept as dead letters, and acknowledged (T-47, P-23)."""
        self.settle(self._deliveries, GiveUp(reason))

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        """Say it of these, once each."""
        with self._box.core.lock:
            fresh = []
            for one in deliveries:
                if one.settler is self:
                    one.settler = _SETTLED  # which held this run, as the run holds it
                    fresh.append(one)
            if fresh:
                self._left -= len(fresh)
                self._box.settled(fresh, verdict)

    @property
    def settled(self) -> bool:
        """True if all of it is."""
        return not self._left

    # Handing out.

    def next(self) -> Delivery | None:
        """The next of them that is to be handled, for whoever takes one after the other."""
        while self._given < len(self._deliveries):
            delivery = self._deliveries[self._given]
            self._given += 1
            if delivery.settler is self:
                return delivery
        return None

    def next_begun(self) -> Delivery | None:
        """As `next`, and from now on it is being handled (D-9)."""
        delivery = self.next()
        if delivery is not None:
            self._box.begin((delivery,))
        return delivery

    def begin_all(self) -> None:
        """All of it is handed out, and being handled from now on."""
        self._given = len(self._deliveries)
        self._box.begin(self._deliveries)

    def let_go(self) -> None:
        """Let go what nobody has begun."""
        self.settle([*self._deliveries[self._given :]], None)

    def take_back(self, peer: UUID) -> None:
        """Let go what nobody has begun and came from this peer: its bodies are needed no more."""
        left = [*self._deliveries[self._given :]]
        gone = [one for one in left if one.peer_id == peer]
        self.settle(gone, None)
        self._deliveries = [*self._deliveries[: self._given], *(one for one in left if one.peer_id != peer)]


def settle(delivery: Delivery, verdict: Verdict) -> None:
    """Say it of one that is in a run."""
    assert delivery.settler is not None
    delivery.settler.settle((delivery,), verdict)


class Core(Protocol):
    """An instance's core, as far as mailboxes and those who take from them know it."""

    node: Node
    mailboxes: set[Mailbox]
    channels: ChannelTable

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The machine's; nothing where one thread has it all."""

    def check_open(self) -> None: ...

    def run_actions(self) -> None: ...

    def abandon(self, dropped: Any) -> None: ...

    @property
    def begin(self) -> Callable[[Mailbox, Sequence[Delivery]], None]:
        """Says that the handler is at these from now on (D-9)."""

    @property
    def end(self) -> Callable[[Mailbox, Sequence[Delivery]], None]:
        """Says that the handler has ended with these, settled or not."""

    @property
    def settle(self) -> Callable[[Sequence[Delivery], Verdict], None]:
        """Says of these deliveries, which are of one run, what became of them."""

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str, error: BaseException | None) -> None: ...


class Mailbox:
    """Deliveries that match one registration. The node knows it as a handler from `open` to `close`."""

    _run_of: Callable[[Sequence[Delivery], Any], Run] = Run

    def __init__(
        self, core: Core, channel: str, key: str, wakeup: Wakeup, calls: str = "", pending: int | None = None
    ) -> None:
        """`calls` is the function that gets them, in words; none for an iterator, whose calls end with settling.

        `pending` is as `Node.register` has it.
        """
        self.channel = channel
        self.key = key
        self.wakeup = wakeup
        self.closed = True  # until it is opened
        self.is_timed = True
        self._ends_by_settling = not calls
        self.core = core
        self._calls = calls
        self._pending = pending
        self._runs: dict[UUID, deque[Run]] = {}  # by their peers, who take turns
        self._served: UUID | None = None  # the peer that had the last turn
        self._held: list[Run] = []

    def open(self) -> None:
        """Take from now on. Deliveries that wait already come within this call: the taker is to be ready for them."""
        with self.core.lock:
            self.core.check_open()
            self._register()
            self.closed = False
            self.core.mailboxes.add(self)
            self._counts = self.core.channels.begin(self.channel)
            self.core.run_actions()

    def __str__(self) -> str:
        return f"{self._calls or 'an iterator'} for {self.channel!r:.100} {self.key!r:.100}"

    def _register(self) -> None:
        self.core.node.register(self.channel, self.key, self, self._pending)

    def _unregister(self) -> None:
        self.core.node.unregister(self.channel, self.key, self)

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """These have come together. They are in no other mailbox: where several handlers match, each has copies."""
        run = self._run_of(deliveries, self)
        self._counts.queued += len(deliveries)
        self._runs.setdefault(deliveries[0].peer_id, deque()).append(run)
        self.wakeup.set()

    @property
    def waiting(self) -> bool:
        """True if there is something to take."""
        return bool(self._runs)

    def take(self) -> Run | None:
        """The next deliveries that came together, if there are any. Peers take turns: none waits for another's lot."""
        if not self._runs:
            return None
        for peer in self._runs:
            if peer != self._served:
                break
        self._served = peer  # the same again where there is no other
        runs = self._runs.pop(peer)
        run = runs.popleft()
        if runs:
            self._runs[peer] = runs
        self._held = [one for one in self._held if not one.settled]
        self._held.append(run)
        return run

    # Calls (D-9).

    def be_patient(self) -> None:
        """Deliveries may take their time here: their user is never stuck, and no copy is handed out (D-9, T-48)."""
        self.is_timed = False
        with self.core.lock:
            self.core.node.hand_out_once(self)

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Its handler is at these from now on."""
        if self.is_timed:
            self.core.begin(self, deliveries)

    def end(self, deliveries: Sequence[Delivery]) -> None:
        """Its handler has ended with these, settled or not: for calls that do not end with settling."""
        self.core.end(self, deliveries)

    def settled(self, deliveries: Sequence[Delivery], verdict: Verdict) -> None:
        """These of one run are, each for the first time."""
        counts = self._counts
        counts.queued -= len(deliveries)
        if verdict is True:
            counts.handled += len(deliveries)
        elif verdict is not None:  # a message that is let go was not begun: neither handled nor failed
            counts.failed += len(deliveries)
        if self._ends_by_settling:
            self.end(deliveries)
        self.core.settle(deliveries, verdict)

    def is_well(self, delivery: Delivery, result: object) -> bool:
        """True if its handler, which has returned this, has handled it well. Else it has failed, and that is told.

        None or a true value is success, anything else failure, and so is one whose truth cannot be had (T-45).
        """
        if result is None or result is True:
            return True
        try:
            if result:
                return True
        except BaseException as error:
            if is_interrupt(error):
                raise
            text = f"returned {shown(result)}, and whether that is true raises {told(error)}: return None or a bool"
            self._failed(delivery, text, error)
        else:
            self._failed(delivery, f"returned {shown(result)}")
        return False

    def raised(self, delivery: Delivery, error: BaseException) -> None:
        """Its handler has: it has failed, and that is told."""
        text = f"did not get it: {error}" if isinstance(error, BodyNotDecoded) else f"raised {told(error)}"
        self._failed(delivery, text, error)

    def _failed(self, delivery: Delivery, text: str, error: BaseException | None = None) -> None:
        self.core.complain(NoticeKind.HANDLER_FAILED, delivery, text, error)
        delivery.fail()

    def took(self, seconds: float, calls: int) -> None:
        """So many calls of the handler have lasted for so long in all."""
        if calls:
            self._counts.seconds.add(seconds / calls, calls)

    def take_back(self, peer: UUID) -> None:
        """Let go what nobody has begun and came from this peer: others need its credit."""
        for run in self._held:
            run.take_back(peer)
        self._take_back_waiting(peer)

    def _take_back_waiting(self, peer: UUID) -> None:
        runs = self._runs.pop(peer, deque())
        for run in runs:
            run.take_back(peer)
        if left := deque(run for run in runs if not run.settled):
            self._runs[peer] = left

    def close(self) -> None:
        """Take no more, and fail what is not settled, so that it is sent again."""
        with self.core.lock:
            if self.closed:
                return
            self.closed = True
            self.core.mailboxes.discard(self)
            self._unregister()
            self._leave([*self._held, *(one for runs in self._runs.values() for one in runs)])
            self._runs.clear()
            self._counts.handlers -= 1
            self.wakeup.set()

    def _leave(self, runs: Iterable[Run]) -> None:
        for run in runs:
            run.fail()


class GatheringCore(Core, Protocol):
    """The core of an instance on a loop, which has ends of turns."""

    ends_soon: bool

    def tell_at_end(self, telling: Any) -> None:
        """Have it tell at the end of this turn of the loop."""


class GatheredRun(Run):
    """A run that is taken one by one on a loop: what is acknowledged is told together at the end of the turn."""

    __slots__ = ("_told", "_well")

    _box: GatheringMailbox

    def __init__(self, deliveries: Sequence[Delivery], box: GatheringMailbox) -> None:
        super().__init__(deliveries, box)
        self._told = 0  # of those that were taken out
        self._well: list[Delivery] = []  # acknowledged, and not told

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        if verdict is True and (self._box.gathers or self._box.gather()):
            for one in deliveries:
                if one.settler is self:
                    one.settler = _SETTLED
                    self._well.append(one)
        else:
            self._box.tell()
            super().settle(deliveries, verdict)

    def next_begun(self) -> Delivery | None:
        deliveries, box = self._deliveries, self._box
        while self._given < len(deliveries):  # as `next`, once for each message
            delivery = deliveries[self._given]
            self._given += 1
            if delivery.settler is self:
                if not (box.gathers or box.gather()):
                    self.tell()
                return delivery
        return None

    def tell(self) -> None:
        """Tell the node what was acknowledged, and what was taken out and is not settled."""
        if self._well:
            well, self._well = self._well, []
            self._left -= len(well)
            self._box.settled(well, True)
        if self._told < self._given:
            begun = [one for one in self._deliveries[self._told : self._given] if one.settler is self]
            self._told = self._given
            if begun:
                self._box.begin(begun)


class GatheringMailbox(Mailbox):
    """Mailbox of an iterator on a loop, which gathers what is begun and acknowledged in one turn of the loop.

    The first of a turn is told at once, so that it does not wait, and the others together when the turn ends: before a
    timer, an end of a connection, and the close. A message that is begun and acknowledged in one turn is never told as
    begun: nobody can be stuck on it.
    """

    core: GatheringCore
    _run_of = GatheredRun

    def __init__(self, core: GatheringCore, channel: str, key: str, wakeup: Wakeup) -> None:
        self.gathers = False
        super().__init__(core, channel, key, wakeup)

    def gather(self) -> bool:
        """Gather from now on, until the end of this turn; False where it has not begun yet."""
        if self.core.ends_soon:
            self.gathers = True
            self.core.tell_at_end(self)
        return self.gathers

    def tell(self) -> None:
        """All that was gathered."""
        if self.gathers:
            self.gathers = False
            for run in self._held:
                if isinstance(run, GatheredRun):
                    run.tell()

    def close(self) -> None:
        self.tell()
        super().close()

    def take_back(self, peer: UUID) -> None:
        self.tell()
        super().take_back(peer)

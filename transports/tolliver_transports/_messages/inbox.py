"""Mailboxes: deliveries to one handler, and their acknowledgements back.

A message is acknowledged when every matching handler has handled it well (T-45); a handler is a function or an
iterator. A `Run` is what came together for one handler, and knows what of it is not settled. A `Mailbox` takes runs
without waiting. It needs no bound of its own: what is handed out and not settled is the peer's credit, and the node
stops reading when that is used up. It says which messages its handler is at, and gives the others back when that one is
stuck (D-9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from tolliver_proto import BodyNotDecoded, Delivery, GiveUp, HandleAgain, Node, NoticeKind, Verdict

from .._driver.adapter import Wakeup
from .._driver.ends import is_interrupt, shown, told
from .channels import ChannelTable

Handler = Callable[[Delivery], object]
"""A function of a delivery: None or a true value means handled. On a loop, its result may be awaitable."""

Settle = Callable[[Collection[Delivery], Verdict], None]
"""Says of these deliveries what became of them."""
Lock = AbstractContextManager[object]


class _Settled:
    """Settler of deliveries that are settled already: saying it again changes nothing."""

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        pass


_SETTLED = _Settled()


class Run(Sequence[Delivery]):
    """Deliveries that came together, for bulk work. `ack()` and `fail()` settle all that is not settled yet."""

    __slots__ = ("_deliveries", "_given", "_left", "_lock", "_originals", "_settle", "calls")

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        settle: Settle,
        lock: Lock | None = None,
        originals: Mapping[Delivery, Delivery] | None = None,
    ) -> None:
        self._deliveries = deliveries
        self._settle = settle
        self._lock = lock  # where any thread may settle
        self._originals = originals  # the node's, where each handler has copies of its own
        self._left = len(deliveries)  # those that are not settled
        self._given = 0  # those that were taken out one by one, or all
        self.calls: Calls | None = None  # told when its deliveries are begun; an iterator's when they are settled, too

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
        if self._lock is None:
            self._settle_open(deliveries, verdict)
        else:
            with self._lock:
                self._settle_open(deliveries, verdict)

    @property
    def settled(self) -> bool:
        """True if all of it is."""
        return not self._left

    def _settle_open(self, deliveries: Collection[Delivery], verdict: Verdict) -> None:
        fresh = deliveries
        if deliveries is not self._deliveries or self._left < len(deliveries):
            fresh = [one for one in deliveries if one.settler is self or one.settler is None]
        for one in fresh:
            one.settler = _SETTLED  # which held this run, as the run holds it
        if fresh:
            self._tell(fresh, verdict)

    def _tell(self, fresh: Collection[Delivery], verdict: Verdict) -> None:
        """Tell the node of these, which are marked as settled."""
        self._left -= len(fresh)
        if self.calls is not None:
            self.calls.settled(len(fresh), verdict)
            if self.calls.end_with_settling:
                self.calls.end(fresh if self._originals is None else self.originals(fresh))
        self._settle(fresh, verdict)

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
        if delivery is not None and self.calls is not None:
            self.calls.begin((delivery,) if self._originals is None else self.originals((delivery,)))
        return delivery

    def begin_all(self) -> None:
        """All of it is handed out, and being handled from now on."""
        self._given = len(self._deliveries)
        self.begin(self._deliveries)

    def begin(self, deliveries: Collection[Delivery]) -> None:
        """Its handler is at these from now on."""
        if self.calls is not None:
            self.calls.begin(self.originals(deliveries))

    def end(self, deliveries: Collection[Delivery]) -> None:
        """And is no more, settled or not: for calls that do not end with settling."""
        if self.calls is not None:
            self.calls.end(self.originals(deliveries))

    def originals(self, deliveries: Collection[Delivery]) -> Collection[Delivery]:
        """These, as the node knows them."""
        if self._originals is None:
            return deliveries
        return [self._originals[one] for one in deliveries]

    def let_go(self) -> None:
        """Let go what nobody has begun."""
        self.settle([*self._deliveries[self._given :]], None)

    def take_back(self, peer: UUID) -> None:
        """Let go what nobody has begun and came from this peer: its bodies are needed no more."""
        left = [*self._deliveries[self._given :]]
        gone = [one for one in left if one.peer_id == peer]
        self.settle(gone, None)
        self._deliveries = [*self._deliveries[: self._given], *(one for one in left if one.peer_id != peer)]


def hand_out(run: Run) -> Run:
    """Each delivery of the run can be settled by itself from now on, with `ack()` and `fail()` of its own."""
    for one in run._deliveries:
        one.settler = run
    return run


class Votes:
    """Settlement of deliveries that several handlers get: each settles a copy of its own, the last vote decides."""

    def __init__(self, settle: Settle, deliveries: Sequence[Delivery], handlers: int) -> None:
        self._settle = settle
        self._deliveries = deliveries
        self._waiting = dict.fromkeys(deliveries, handlers)
        self._verdicts: dict[Delivery, Verdict] = {}  # of those that were not handled well by all so far

    def ballot(self) -> tuple[Sequence[Delivery], Settle, Mapping[Delivery, Delivery]]:
        """One handler's copies, its way to settle each of them once, and their originals."""
        copies = [Delivery(one.cid, one.peer_id, one.message, one.attempt) for one in self._deliveries]
        originals = dict(zip(copies, self._deliveries, strict=True))
        return copies, lambda voted, verdict: self._cast([originals[one] for one in voted], verdict), originals

    def _cast(self, deliveries: Iterable[Delivery], verdict: Verdict) -> None:
        done: dict[Verdict, list[Delivery]] = {}
        for one in deliveries:
            if self._is_last(one, verdict):
                done.setdefault(self._verdicts.pop(one, True), []).append(one)
        for final, voted in done.items():
            self._settle(voted, final)

    def _is_last(self, delivery: Delivery, verdict: Verdict) -> bool:
        if verdict is not True:
            self._verdicts[delivery] = _graver(self._verdicts.get(delivery, True), verdict)
        self._waiting[delivery] -= 1
        return self._waiting[delivery] == 0


def _graver(one: Verdict, other: Verdict) -> Verdict:
    """The verdict on a message of which two handlers say these.

    One failure is one (T-45), and where one handler wants it again later, that is when it is tried again. A message
    that one handler never had has not failed there, and comes again.
    """
    first, second = _gravity(one), _gravity(other)
    return one if first >= second else other


def _gravity(verdict: Verdict) -> tuple[int, float]:
    if isinstance(verdict, GiveUp):
        return 4, 0.0
    if isinstance(verdict, HandleAgain):
        return 3, verdict.seconds
    return (0 if verdict else 1 if verdict is None else 2), 0.0


class Core(Protocol):
    """An instance's core, as far as mailboxes and those who take from them know it."""

    node: Node
    mailboxes: set[Mailbox]
    channels: ChannelTable
    run_lock: Lock | None
    """Lock around settling, if any thread may settle."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The machine's; nothing where one thread has it all."""

    def check_open(self) -> None: ...

    def run_actions(self) -> None: ...

    def abandon(self, dropped: Any) -> None: ...

    @property
    def begin(self) -> Callable[[Mailbox, Collection[Delivery]], None]:
        """Says that the handler is at these from now on (D-9)."""

    @property
    def end(self) -> Callable[[Mailbox, Collection[Delivery]], None]:
        """And is no more."""

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str, error: BaseException | None) -> None: ...


class Mailbox:
    """Deliveries that match one registration. The node knows it as a handler from `open` to `close`."""

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
        self.end_with_settling = not calls
        self._core = core
        self._calls = calls
        self._pending = pending
        self._runs: dict[UUID, deque[Run]] = {}  # by their peers, who take turns
        self._served: UUID | None = None  # the peer that had the last turn
        self._held: list[Run] = []

    def open(self) -> None:
        """Take from now on. Deliveries that wait already come within this call: the taker is to be ready for them."""
        with self._core.lock:
            self._core.check_open()
            self._register()
            self.closed = False
            self._core.mailboxes.add(self)
            self._counts = self._core.channels.begin(self.channel)
            self.settled = self._counts.settled
            self._core.run_actions()

    def __str__(self) -> str:
        return f"{self._calls or 'an iterator'} for {self.channel!r:.100} {self.key!r:.100}"

    def _register(self) -> None:
        self._core.node.register(self.channel, self.key, self, self._pending)

    def _unregister(self) -> None:
        self._core.node.unregister(self.channel, self.key, self)

    def put(
        self, deliveries: Sequence[Delivery], settle: Settle, originals: Mapping[Delivery, Delivery] | None = None
    ) -> None:
        run = self._run(deliveries, settle, originals)
        run.calls = self
        self._counts.queued += len(deliveries)
        self._runs.setdefault(deliveries[0].peer_id, deque()).append(run)
        self.wakeup.set()

    def _run(
        self, deliveries: Sequence[Delivery], settle: Settle, originals: Mapping[Delivery, Delivery] | None
    ) -> Run:
        return Run(deliveries, settle, self._core.run_lock, originals)

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
        with self._core.lock:
            self._core.node.hand_out_once(self)

    def begin(self, deliveries: Collection[Delivery]) -> None:
        if self.is_timed:
            self._core.begin(self, deliveries)

    def end(self, deliveries: Collection[Delivery]) -> None:
        self._core.end(self, deliveries)

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
        with self._core.lock:
            if self.closed:
                return
            self.closed = True
            self._core.mailboxes.discard(self)
            self._unregister()
            self._leave([*self._held, *(one for runs in self._runs.values() for one in runs)])
            self._runs.clear()
            self._counts.handlers -= 1
            self.wakeup.set()

    def _leave(self, runs: Iterable[Run]) -> None:
        for run in runs:
            run.fail()


class Calls(Protocol):
    """Calls of a handler, as a run knows them."""

    @property
    def end_with_settling(self) -> bool:
        """True for an iterator's: its user says with settling that it is through."""

    def begin(self, deliveries: Collection[Delivery]) -> None: ...

    def end(self, deliveries: Collection[Delivery]) -> None: ...

    def settled(self, count: int, verdict: Verdict) -> None: ...


class GatheringCore(Core, Protocol):
    """The core of an instance on a loop, which has ends of turns."""

    ends_soon: bool

    def tell_at_end(self, telling: Any) -> None:
        """Have it tell at the end of this turn of the loop."""


class GatheredRun(Run):
    """A run that is taken one by one on a loop: what is acknowledged is told together at the end of the turn."""

    __slots__ = ("_box", "_told", "_well")

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        settle: Settle,
        lock: Lock | None,
        originals: Mapping[Delivery, Delivery] | None,
        box: GatheringMailbox,
    ) -> None:
        super().__init__(deliveries, settle, lock, originals)
        self._box = box
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
            self._settle_open(deliveries, verdict)

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
            self._tell(well, True)
        if self._told < self._given:
            begun = [one for one in self._deliveries[self._told : self._given] if one.settler is self]
            self._told = self._given
            if begun:
                self.begin(begun)


class GatheringMailbox(Mailbox):
    """Mailbox of an iterator on a loop, which gathers what is begun and acknowledged in one turn of the loop.

    The first of a turn is told at once, so that it does not wait, and the others together when the turn ends: before a
    timer, an end of a connection, and the close. A message that is begun and acknowledged in one turn is never told as
    begun: nobody can be stuck on it.
    """

    _core: GatheringCore

    def __init__(self, core: GatheringCore, channel: str, key: str, wakeup: Wakeup) -> None:
        self.gathers = False
        super().__init__(core, channel, key, wakeup)

    def _run(
        self, deliveries: Sequence[Delivery], settle: Settle, originals: Mapping[Delivery, Delivery] | None
    ) -> Run:
        return GatheredRun(deliveries, settle, self._core.run_lock, originals, self)

    def gather(self) -> bool:
        """Gather from now on, until the end of this turn; False where it has not begun yet."""
        if self._core.ends_soon:
            self.gathers = True
            self._core.tell_at_end(self)
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


class Verdicts:
    """The outcome of a handler's calls for one run; `end()` settles together what went well."""

    def __init__(self, core: Core, run: Run) -> None:
        self._core = core
        self._run = run
        self.well: list[Delivery] = []
        """Handled well, and not settled yet."""

    def returned(self, delivery: Delivery, result: object) -> None:
        """None or a true value is success, anything else failure, and so is one whose truth cannot be had (T-45)."""
        if result is None or result is True:
            self.well.append(delivery)
            return
        try:
            well = bool(result)
        except BaseException as error:
            if is_interrupt(error):
                raise
            text = f"returned {shown(result)}, and whether that is true raises {told(error)}: return None or a bool"
            self._failed(delivery, text, error)
            return
        if well:
            self.well.append(delivery)
        else:
            self._failed(delivery, f"returned {shown(result)}")

    def raised(self, delivery: Delivery, error: BaseException) -> None:
        text = f"did not get it: {error}" if isinstance(error, BodyNotDecoded) else f"raised {told(error)}"
        self._failed(delivery, text, error)

    def end(self) -> None:
        if len(self.well) == len(self._run):
            self._run.ack()
        elif self.well:
            self._run.settle(self.well, True)
        self.well = []

    def _failed(self, delivery: Delivery, text: str, error: BaseException | None = None) -> None:
        self._core.complain(NoticeKind.HANDLER_FAILED, delivery, text, error)
        self._run.settle((delivery,), False)

"""Mailboxes: deliveries to one handler, and their acknowledgements back.

A message is acknowledged when every matching handler has handled it well (T-45); a handler is a function or an
iterator. There is one mailbox for all of them, and a `Policy` says in data what differs. Its state: runs that wait, by
their peers, who take turns; of one run, or of the lanes, what is to be handed out next; and what is out, that is handed
out and not settled. A delivery is in one of these, and settling takes what is out: so it counts once.

A mailbox takes runs without waiting. It needs no bound of its own: what is handed out and not settled is the peer's
credit, and the node stops reading when that is used up. It says which messages its handler is at, and gives the others
back when that one is stuck (D-9).

An iterator on a loop gathers: the first verdict of a turn is told at once, so that it does not wait, and the others
together when the turn ends: before a timer, an end of a connection, and the close. A message that is begun and
acknowledged in one turn is never told as begun: no handler can be stuck on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tolliver_proto import Delivery, Node, NoticeKind
from tolliver_proto.errors import BodyNotDecoded
from tolliver_proto.node import GiveUp, HandleAgain, Lanes, Verdict

from .._driver.adapter import Wakeup
from .._driver.ends import is_interrupt, shown, told
from .channels import ChannelTable

Handler = Callable[[Delivery], object]
"""A function of a delivery: None or a true value means handled. On a loop, its result may be awaitable."""


class Run(Sequence[Delivery]):
    """Deliveries that came together, for bulk work. `ack()` and `fail()` settle all that is not settled yet, and so do
    those of each delivery."""

    __slots__ = ("_box", "_deliveries")

    def __init__(self, deliveries: Sequence[Delivery], box: Mailbox) -> None:
        self._deliveries = deliveries
        self._box = box

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
        self._box.settle(deliveries, verdict)

    @property
    def settled(self) -> bool:
        """True if all of it is."""
        return not any(map(self._box.is_out, self._deliveries))


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
        """Says of these deliveries what became of them."""

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str, error: BaseException | None) -> None: ...


class Turns(Protocol):
    """The turns of a loop, at whose ends a mailbox may tell what it has gathered."""

    ends_soon: bool

    def tell_at_end(self, telling: Any) -> None:
        """Have it tell at the end of this turn of the loop."""


class Timed(Enum):
    """The calls that the node times, as a handler may be stuck in them (D-9)."""

    EACH = "each"
    FULL = "full"  # the last place is taken: one slow call of many holds up no other
    NONE = "none"


def _register(box: Mailbox) -> None:
    box.core.node.register(box.channel, box.key, box, box.policy.pending)


def _unregister(box: Mailbox, is_over: bool) -> None:
    box.core.node.unregister(box.channel, box.key, box)


def _judge(box: Mailbox, delivery: Delivery, result: object) -> bool:
    return box.is_well(delivery, result)


def _returned(box: Mailbox, delivery: Delivery, is_well: object) -> None:
    if is_well:
        box.settle((delivery,), True)


def _raised(box: Mailbox, delivery: Delivery, error: BaseException) -> None:
    text = f"did not get it: {error}" if isinstance(error, BodyNotDecoded) else f"raised {told(error)}"
    box.failed(delivery, text, error)


class Policy(NamedTuple):
    """The differences of mailboxes. `taker` is in words; `pending` is as `Node.register` has it. The functions are of
    the pattern: how the node knows the mailbox, and what the calls of its handler say."""

    taker: str = "an iterator"
    pending: int | None = None
    places: int | None = None  # deliveries that are out at once; without them, as many as are taken
    is_ordered: bool = False  # inside a key: the next one is handed out when the call of the one before has ended
    timed: Timed = Timed.EACH
    ends_by_settling: bool = True  # calls end with it; else the taker says so
    turns: Turns | None = None  # at whose ends acknowledgements are told; without them, at once
    lets_go: bool = False  # when it is closed, of what was not handed out; else that fails
    register: Callable[[Mailbox], None] = _register
    unregister: Callable[[Mailbox, bool], None] = _unregister
    judge: Callable[[Mailbox, Delivery, object], object] = _judge  # outside the lock: it runs the application's code
    returned: Callable[[Mailbox, Delivery, object], None] = _returned  # with what was judged
    raised: Callable[[Mailbox, Delivery, BaseException], None] = _raised


class Mailbox:
    """Deliveries that match one registration. The node knows it as a handler from `open` to `close`."""

    def __init__(self, core: Core, channel: str, key: str, wakeup: Wakeup, policy: Policy) -> None:
        self.core = core
        self.channel = channel
        self.key = key
        self.wakeup = wakeup
        self.closed: bool = True  # until it is opened
        self.policy = policy
        self._timed = policy.timed
        self._turns = policy.turns
        self._waiting: dict[UUID, deque[Sequence[Delivery]]] = {}  # by their peers, who take turns
        self._served: UUID | None = None  # the peer that had the last turn
        self._next: deque[Delivery] = deque()  # its run, where there are no places
        self._places: Lanes[Delivery] | None = None
        self._last: Delivery | None = None  # it has the last place, where that is timed
        self._out: dict[Delivery, bool] = {}  # handed out, and not settled
        self._gathers = False  # the end of this turn tells the rest of it
        self._well: list[Delivery] = []  # acknowledged, and not told
        self._begun: list[Delivery] = []  # and not told

    def open(self) -> None:
        """Take from now on. Deliveries that wait already come within this call: the taker is to be ready for them."""
        with self.core.lock:
            self.core.check_open()
            self.policy.register(self)
            if self.policy.places is not None:  # which it has checked
                self._places = Lanes(self.policy.places, attrgetter("key") if self.policy.is_ordered else None)
            self.closed = False
            self.core.mailboxes.add(self)
            self._counts = self.core.channels.begin(self.channel)
            self.core.run_actions()

    def __str__(self) -> str:
        return f"{self.policy.taker} for {self.channel!r:.100} {self.key!r:.100}"

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """These have come together. They are in no other mailbox: where several handlers match, each has copies."""
        for one in deliveries:
            one.settler = self
        self._counts.queued += len(deliveries)
        self._waiting.setdefault(deliveries[0].peer_id, deque()).append(deliveries)
        self.wakeup.set()

    # Handing out.

    @property
    def waiting(self) -> bool:
        """True if there is something to take."""
        if self._places is None:
            return bool(self._next or self._waiting)
        return self._places.may_begin or bool(self._waiting and self._places.has_place)

    def take(self) -> Delivery | None:
        """The next delivery; None where there is none, or no place. Its taker settles it."""
        if self._places is None:
            if not self._next:
                if not self._waiting:
                    return None
                self._next.extend(self._take_waiting())
            delivery = self._next.popleft()
        else:
            while (head := self._places.begin()) is None:
                if not (self._waiting and self._places.has_place):
                    return None
                for one in self._take_waiting():
                    self._places.add(one)
            delivery = head
        self._out[delivery] = True
        return delivery

    def take_begun(self) -> Delivery | None:
        """As `take`, and from now on it is being handled (D-9)."""
        delivery = self.take()
        if self._gathers and delivery is not None:
            self._begun.append(delivery)
        elif delivery is not None:
            self.begin((delivery,))
        return delivery

    def take_run(self) -> Run | None:
        """The next deliveries that came together, if there are any; all of them are being handled from now on."""
        if not self._waiting:
            return None
        deliveries = self._take_waiting()
        self._out.update(dict.fromkeys(deliveries, True))
        self.begin(deliveries)
        return Run(deliveries, self)

    def _take_waiting(self) -> Sequence[Delivery]:
        """Peers take turns: none waits for another's lot."""
        for peer in self._waiting:
            if peer != self._served:
                break
        self._served = peer  # the same again where there is no other
        runs = self._waiting.pop(peer)
        run = runs.popleft()
        if runs:
            self._waiting[peer] = runs
        return run

    def take_back(self, peer: UUID) -> None:
        """Let go what nobody has begun and came from this peer: others need its credit."""
        self.tell()
        self._say(self._take_out(lambda one: one.peer_id == peer), None)

    def _take_out(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        """Those of these that were not handed out."""
        left, self._waiting = self._waiting, {}
        gone = [] if self._places is None else self._places.take_out(wanted)
        gone += filter(wanted, self._next)
        self._next = deque(one for one in self._next if not wanted(one))
        for peer, runs in left.items():
            gone += [one for run in runs for one in run if wanted(one)]
            kept = [rest for run in runs if (rest := [one for one in run if not wanted(one)])]
            if kept:
                self._waiting[peer] = deque(kept)
        return gone

    # Calls (D-9).

    def be_patient(self) -> None:
        """Deliveries may take their time here: their user is never stuck, and no copy is handed out (D-9, T-48)."""
        self._timed = Timed.NONE
        with self.core.lock:
            self.core.node.hand_out_once(self)

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Its handler is at these from now on."""
        if self._timed is Timed.EACH:
            if self._gather():
                self._begun += deliveries
            else:
                self.core.begin(self, deliveries)
        elif self._timed is Timed.FULL and self._places is not None and not self._places.has_place:
            self._last = deliveries[0]
            self.core.begin(self, deliveries)

    def end(self, deliveries: Sequence[Delivery]) -> None:
        """Its handler has ended with these, settled or not."""
        if self._places is not None:
            for one in deliveries:
                self._places.end(one)
        if self.policy.timed is Timed.EACH:
            self.core.end(self, deliveries)
        elif self._last is not None:
            self.core.end(self, (self._last,))
            self._last = None

    # Verdicts.

    def is_out(self, delivery: Delivery) -> bool:
        """True if it is handed out, and not settled."""
        return delivery in self._out

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        """Say it of those of these that are out: what is settled already stays so."""
        with self.core.lock:
            fresh = [one for one in deliveries if self._out.pop(one, False)]
            if verdict is True and self._turns is not None and (self._gathers or self._gather()):
                self._well += fresh
            elif fresh:
                self.tell()
                self._say(fresh, verdict)

    def _gather(self) -> bool:
        """Gather from now on, until the end of this turn; False where it has not begun yet."""
        turns = self._turns
        if turns is not None and turns.ends_soon:
            self._gathers = True
            turns.tell_at_end(self)
        return self._gathers

    def tell(self) -> None:
        """All that was gathered in this turn."""
        if not self._gathers:
            return
        self._gathers = False
        well, self._well = self._well, []
        self._say(well, True)
        begun, self._begun = [one for one in self._begun if one in self._out], []
        if begun and self._timed is Timed.EACH:  # its user may be patient since
            self.core.begin(self, begun)

    def _say(self, deliveries: Sequence[Delivery], verdict: Verdict) -> None:
        if not deliveries:
            return
        counts = self._counts
        counts.queued -= len(deliveries)
        if verdict is True:
            counts.handled += len(deliveries)
        elif verdict is not None:  # a message that is let go was not begun: neither handled nor failed
            counts.failed += len(deliveries)
        if self.policy.ends_by_settling:
            self.end(deliveries)
            if self._places is not None:
                self.wakeup.set()  # one is free
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
            self.failed(delivery, text, error)
        else:
            self.failed(delivery, f"returned {shown(result)}")
        return False

    def failed(self, delivery: Delivery, text: str, error: BaseException | None = None) -> None:
        """Its handler has not handled it, and that is told."""
        self.core.complain(NoticeKind.HANDLER_FAILED, delivery, text, error)
        self.settle((delivery,), False)

    def returned(self, delivery: Delivery, result: object) -> None:
        """Its handler has, and this says what becomes of it."""
        self.policy.returned(self, delivery, self.policy.judge(self, delivery, result))

    def raised(self, delivery: Delivery, error: BaseException) -> None:
        """Its handler has: it has failed."""
        self.policy.raised(self, delivery, error)

    def took(self, seconds: float, calls: int) -> None:
        """So many calls of the handler have lasted for so long in all."""
        if calls:
            self._counts.seconds.add(seconds / calls, calls)

    def close(self, is_over: bool = True) -> None:
        """Take no more, and fail what is not settled, so that it is sent again.

        Its user wants no more, or, where it is not over, the instance closes, and the next one goes on.
        """
        with self.core.lock:
            if self.closed:
                return
            self.tell()
            self.closed = True
            self.core.mailboxes.discard(self)
            self.policy.unregister(self, is_over)
            out, self._out = [*self._out], {}
            left = self._take_out(lambda _one: True)
            self._say(out, False)
            self._say(left, None if self.policy.lets_go else False)
            self._counts.handlers -= 1
            self.wakeup.set()

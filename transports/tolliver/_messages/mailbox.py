"""Mailboxes: deliveries waiting for one handler, and their acknowledgements.

A message is acknowledged once every matching handler has handled it successfully (T-45); here a handler is a callback
or an iterator. All kinds share this class, and a `Policy` holds their differences as data.

State of a delivery. It is in exactly one place, so it is settled once: first in `_waiting`, a queue of runs for each
peer, served in turn; then in `_next`, the rest of the current run, or in `_places`, if several calls may run at once;
then in `_out`, handed out and not settled. Settling removes it from there.

A mailbox accepts runs without waiting and needs no bound: unsettled messages use up the peer's credit, and without
credit the node stops reading from that peer. The mailbox reports which messages its handler is processing, and returns
the others to the node when that handler is stuck (D-9).

An iterator on a loop reports acknowledgements in batches: the first of a turn at once, so that it is not delayed; the
others together at the end of the turn, and before a timer, the end of a connection and the close. A message that is
handed out and acknowledged within one turn is never reported as begun, as no handler can be stuck on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from operator import attrgetter
from random import random
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tolliver_proto import Delivery, Node, NoticeKind
from tolliver_proto.errors import BodyNotDecoded
from tolliver_proto.node import Answer, GiveUp, HandleAgain, Lanes, Retry, Verdict

from .._driver.adapter import Wakeup
from .._driver.ends import is_interrupt, shown, told
from .._store.begun import RUN, Begun
from ..inbox import Inbox
from .channels import ChannelTable
from .marking import Inboxes

Handler = Callable[[Delivery], object]
"""A callback for a delivery. It returns None or a true value for success. On a loop its result may be awaitable."""


class Core(Protocol):
    """The part of an instance that mailboxes and their consumers use: the lock, and the reports to the node."""

    node: Node
    mailboxes: set[Mailbox]
    channels: ChannelTable
    begun: Begun | None
    inboxes: Inboxes

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The machine's lock. Without threads it does nothing."""

    def check_open(self) -> None: ...

    def run_actions(self) -> None: ...

    def abandon(self, dropped: Any) -> None: ...

    @property
    def begin(self) -> Callable[[Mailbox, Sequence[Delivery]], None]:
        """Reports that the handler processes these deliveries from now on (D-9)."""

    @property
    def end(self) -> Callable[[Mailbox, Sequence[Delivery], Delivery | None], None]:
        """Reports that the handler has finished with these deliveries, settled or not, and what is left (`leave`)."""

    @property
    def leave(self) -> Callable[[Mailbox, Delivery], None]:
        """Reports that this delivery waits for an iterator that has nothing in hand and takes nothing (D-9)."""

    @property
    def take_up(self) -> Callable[[Mailbox], None]:
        """Reports that the iterator takes what waits for it again."""

    @property
    def settle(self) -> Callable[[Sequence[Delivery], Verdict], None]:
        """Reports the verdict on these deliveries."""

    @property
    def receive(self) -> Callable[[Delivery], None]:
        """Reports that this delivery is acknowledged on receipt."""

    @property
    def judge(self) -> Callable[[Delivery, bool], None]:
        """Reports whether the handler of a delivery that was acknowledged on receipt has ended well."""

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str, error: BaseException | None) -> None: ...


class Turns(Protocol):
    """The turns of an event loop, at whose ends a mailbox may report acknowledgements in a batch."""

    ends_soon: bool

    def tell_at_end(self, telling: Any) -> None:
        """Have `telling.tell()` called at the end of this turn of the loop."""


class Timed(Enum):
    """Selects the handler calls whose duration the node watches, to detect a stuck handler (D-9)."""

    EACH = "each"
    FULL = "full"  # only while all places are taken: until then a slow call holds up no other
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
    """Differences between kinds of mailboxes: of handlers, of iterators, of workers, of responders.

    `taker` names the consumer in texts; `pending` is the limit of `Node.register`. This and `places` are a program's
    numbers, checked by their users. The functions belong to the pattern: registering with the node, and the meaning of
    a handler's result.
    """

    taker: str = "an iterator"
    retry: Retry | None = None  # of what fails; None: its sender resends it
    pending: Any = None
    places: Any = None  # most deliveries handed out at once; None: no limit
    is_ordered: bool = False  # one delivery of each key at a time
    timed: Timed = Timed.EACH
    ends_by_settling: bool = True  # a call ends when its delivery is settled; else with `end`
    turns: Turns | None = None  # to report acknowledgements in batches; None: at once
    lets_go: bool = False  # closing releases deliveries not handed out, instead of failing them
    register: Callable[[Mailbox], None] = _register
    unregister: Callable[[Mailbox, bool], None] = _unregister
    judge: Callable[[Mailbox, Delivery, object], object] = _judge  # runs application code: without the lock
    returned: Callable[[Mailbox, Delivery, object], None] = _returned  # given the result of `judge`
    raised: Callable[[Mailbox, Delivery, BaseException], None] = _raised


class _Note:
    """Place of a note of what has begun, and how many of its deliveries are not settled."""

    __slots__ = ("left", "place")

    def __init__(self, place: int, left: int) -> None:
        self.place = place
        self.left = left


_CAUSE = 1000
"""Characters of an error's text that a dead letter keeps."""


def _after_failure(retry: Retry, delivery: Delivery) -> Verdict:
    pause = retry.pause(delivery.attempt, random())
    return GiveUp(delivery.cause or f"failed {delivery.attempt} times") if pause is None else HandleAgain(pause)


class Mailbox:
    """Queue between the node and one handler or iterator: the deliveries that match its channel and key, and have not
    been taken, and those taken and not settled. The node knows it as a handler from `open` to `close`.
    """

    def __init__(self, core: Core, channel: Any, key: Any, wakeup: Wakeup, policy: Policy) -> None:
        """`channel` and `key` are a program's: `open` refuses what is no name."""
        self.core = core
        self.channel = channel
        self.key = key
        self.wakeup = wakeup
        self.closed: bool = True  # until `open`
        self.awaited: int = 0  # calls on a loop whose results are awaited, after `close`, too
        self.policy = policy
        self._timed = policy.timed
        self._turns = policy.turns
        self._waiting: dict[UUID, deque[Sequence[Delivery]]] = {}  # runs by peer, in turn
        self._served: UUID | None = None  # the peer that was served last
        self._next: deque[Delivery] = deque()  # rest of the current run, without `places`
        self._places: Lanes[Delivery] | None = None
        self._last: Delivery | None = None  # the delivery reported as begun, with Timed.FULL
        self._notes = core.begun  # None: nothing is noted
        self._noted: dict[Delivery, _Note] = {}
        self._out: dict[Delivery, bool] = {}  # handed out and not settled
        self._received: dict[Delivery, bool] = {}  # acknowledged on receipt, and its handler has not ended
        self._gathers = False  # True while verdicts are collected until the end of the turn
        self._well: list[Delivery] = []  # acknowledged, to be reported
        self._begun: list[Delivery] = []  # and not told
        self._left = False  # the node knows that messages wait and nobody takes one

    def open(self) -> None:
        """Start receiving. Waiting messages are delivered within this call, so the consumer must be ready."""
        with self.core.lock:
            self.core.check_open()
            retry, most = self.policy.retry, self.core.node.limits.max_attempts
            if retry is not None and retry.attempts > most:
                raise ValueError(f"Retry.attempts={retry.attempts}: Limits.max_attempts is {most}, so raise that, too")
            self.policy.register(self)
            if self.policy.places is not None:  # `Lanes` validates the number
                self._places = Lanes(self.policy.places, attrgetter("key") if self.policy.is_ordered else None)
            self.closed = False
            self.core.mailboxes.add(self)
            self._counts = self.core.channels.begin(self.channel)
            self.core.run_actions()

    def __str__(self) -> str:
        return f"{self.policy.taker} for {self.channel!r:.100} {self.key!r:.100}"

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add deliveries that arrived together. Each is in one mailbox only: several matching handlers get copies."""
        for one in deliveries:
            one.settler = self
        self._counts.queued += len(deliveries)
        self._waiting.setdefault(deliveries[0].peer_id, deque()).append(deliveries)
        left = self._leave()  # as `_look_at_reader`, which would be a call more for each message
        if left is not None:
            self.core.leave(self, left)
        self.wakeup.set()

    def watch(self, inbox: Inbox) -> None:
        """Have the table of this inbox, which notes deliveries of this mailbox, marked (P-76)."""
        self.core.inboxes.watch(inbox, self._counts)

    # Handing out.

    @property
    def waiting(self) -> bool:
        """True if the consumer can take a delivery now."""
        if self._places is None:
            return bool(self._next or self._waiting)
        return self._places.may_begin or bool(self._waiting and self._places.has_place)

    def take(self, run: bool = False) -> Delivery | None:
        """Hand out the next delivery, which the consumer must settle. None if there is none, or no free place.

        `run`: the consumer goes on with the others that came together at once, so they are noted together (T-47).
        """
        if self._left and (self._gathers or not (self._next or self._waiting)):
            self._take_up()  # else `begin` tells the node
        if self._places is None:
            if not self._next:
                if not self._waiting:
                    return None
                taken = self._take_waiting()
                if run and self._notes is not None:
                    self._note(taken)
                self._next.extend(taken)
            delivery = self._next.popleft()
        else:
            while (head := self._places.begin()) is None:
                if not (self._waiting and self._places.has_place):
                    return None
                for one in self._take_waiting():
                    self._places.add(one)
            delivery = head
        if self._notes is not None and not run:
            self._note((delivery,))
        self._out[delivery] = True
        return delivery

    def take_begun(self) -> Delivery | None:
        """Like `take`, and report the delivery as being processed from now on (D-9)."""
        delivery = self.take()
        if self._gathers and delivery is not None:
            self._begun.append(delivery)
        elif delivery is not None:
            self.begin((delivery,))
        return delivery

    def take_run(self) -> Sequence[Delivery]:
        """Hand out the next run, all of it reported as being processed from now on. Empty if there is none."""
        if self._left and not self._waiting:
            self._take_up()
        if not self._waiting:
            return ()
        deliveries = self._take_waiting()
        if self._notes is not None:
            self._note(deliveries)
        self._out.update(dict.fromkeys(deliveries, True))
        self.begin(deliveries)
        return deliveries

    def _take_waiting(self) -> Sequence[Delivery]:
        """Remove the next run, deliveries of one peer. Peers take turns, so that none waits for all messages of
        another.
        """
        for peer in self._waiting:
            if peer != self._served:
                break
        self._served = peer  # again the same one if there is no other
        runs = self._waiting.pop(peer)
        run = runs.popleft()
        if len(run) > RUN:
            runs.appendleft(run[RUN:])
            run = run[:RUN]
        if runs:
            self._waiting[peer] = runs
        return run

    def take_back(self, peer: UUID) -> None:
        """Release deliveries of this peer that were not handed out: other handlers need the peer's credit."""
        self.tell()
        self._say(self._take_out(lambda one: one.peer_id == peer), None)

    def _take_out(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove and return the wanted deliveries among those not handed out."""
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

    # Notes of what has begun (T-47).

    def _note(self, deliveries: Sequence[Delivery]) -> None:
        """Note that the handler begins these deliveries of one peer; unreliable ones and replays are left out."""
        if deliveries[0] in self._noted:
            return  # with its run
        known = {one: one_id for one in deliveries if one.cid and (one_id := one.message.message_id) is not None}
        if known:
            assert self._notes is not None
            place = self._notes.note(deliveries[0].peer_id, [*known.values()])
            self._noted.update(dict.fromkeys(known, _Note(place, len(known))))

    def _end_notes(self, notes: Begun, deliveries: Sequence[Delivery]) -> None:
        for one in deliveries:
            note = self._noted.pop(one, None)
            if note is None:
                continue
            note.left -= 1
            if not note.left:
                notes.end(note.place)
            if notes.suspects:
                notes.forget(one.peer_id, one.message.message_id or 0)

    # Handler calls (D-9).

    def be_patient(self) -> None:
        """Allow any processing time: the consumer is never reported as stuck, and no second copy is delivered (D-9,
        T-48)."""
        self._timed = Timed.NONE
        self._notes = None
        with self.core.lock:
            if self._left:
                self._take_up()
            self.core.node.hand_out_once(self)

    def _look_at_reader(self) -> None:
        """Report to the node that messages wait for an iterator that has nothing in hand."""
        left = self._leave()
        if left is not None:
            self.core.leave(self, left)

    def _leave(self) -> Delivery | None:
        """The first delivery that waits for an iterator that has nothing in hand, to be reported; None if there is
        none, or if the node knows. Calls take by themselves."""
        is_read = self._out or self._left or self._timed is not Timed.EACH or not self.policy.ends_by_settling
        if is_read or not (self._next or self._waiting):
            return None
        self._left = True
        return self._next[0] if self._next else next(iter(self._waiting.values()))[0][0]

    def _take_up(self) -> None:
        self._left = False
        self.core.take_up(self)

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Note that the handler processes these deliveries from now on."""
        if self._timed is Timed.EACH:
            if self._gather():
                self._begun += deliveries
                if self._left:
                    self._take_up()
            else:
                self._left = False
                self.core.begin(self, deliveries)
        elif self._timed is Timed.FULL and self._places is not None and not self._places.has_place:
            self._last = deliveries[0]
            self.core.begin(self, deliveries)

    def end(self, deliveries: Sequence[Delivery]) -> None:
        """Note that the handler has finished with these deliveries, settled or not."""
        if self._places is not None:
            for one in deliveries:
                self._places.end(one)
        if self.policy.timed is Timed.EACH:
            self.core.end(self, deliveries, self._leave())
        elif self._last is not None:
            self.core.end(self, (self._last,), None)
            self._last = None

    # Verdicts.

    def is_out(self, delivery: Delivery) -> bool:
        """True if the delivery is handed out and not settled."""
        return delivery in self._out

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        """Settle these deliveries with this verdict. Those that are settled already are left out."""
        with self.core.lock:
            if self._received:
                self._judge(deliveries, verdict is True)
            fresh = [one for one in deliveries if self._out.pop(one, False)]
            if verdict is True and self._turns is not None and (self._gathers or self._gather()):
                self._well += fresh
            elif fresh:
                self.tell()
                if verdict is False and self.policy.retry is not None:
                    for one in fresh:
                        self._say((one,), _after_failure(self.policy.retry, one))
                else:
                    self._say(fresh, verdict)

    def receive(self, delivery: Delivery) -> None:
        """Acknowledge the delivery, which is handed out, at once (T-45): its verdict is only counted."""
        with self.core.lock:
            if self._out.pop(delivery, False):
                self._received[delivery] = True
                self._counts.queued -= 1
                if self._noted and self._notes is not None:
                    self._end_notes(self._notes, (delivery,))
                self.core.receive(delivery)
                self.core.run_actions()

    def _judge(self, deliveries: Collection[Delivery], is_well: bool) -> None:
        """Count those of the deliveries that were acknowledged on receipt."""
        for one in deliveries:
            if self._received.pop(one, False):
                self._counts.handled += is_well
                self._counts.failed += not is_well
                self.core.judge(one, is_well)

    def _gather(self) -> bool:
        """Collect verdicts from now to the end of this turn of the loop. False if no end of turn is scheduled yet."""
        turns = self._turns
        if turns is not None and turns.ends_soon:
            self._gathers = True
            turns.tell_at_end(self)
        return self._gathers

    def tell(self) -> None:
        """Report to the node all verdicts that were collected in this turn of the loop."""
        if not self._gathers:
            return
        self._gathers = False
        well, self._well = self._well, []
        self._say(well, True)
        begun, self._begun = [one for one in self._begun if one in self._out], []
        if begun and self._timed is Timed.EACH:  # False after `be_patient`
            self.core.begin(self, begun)
        self._look_at_reader()

    def _say(self, deliveries: Sequence[Delivery], verdict: Verdict) -> None:
        if not deliveries:
            return
        counts = self._counts
        counts.queued -= len(deliveries)
        if verdict is True or isinstance(verdict, Answer):
            counts.handled += len(deliveries)
        elif verdict is not None:  # None: released before its handler began, so not counted
            counts.failed += len(deliveries)
        if self.policy.ends_by_settling:
            self.end(deliveries)
            if self._places is not None:
                self.wakeup.set()  # a place is free
        if self._noted and self._notes is not None:
            self._end_notes(self._notes, deliveries)
        self.core.settle(deliveries, verdict)

    def is_well(self, delivery: Delivery, result: object) -> bool:
        """True if the handler's result means success. Else settles the delivery as failed, with a notice.

        None or a true value is success. Any other value is failure, and so is one whose truth cannot be determined
        (T-45).
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
        """Settle the delivery as failed, with a notice of this text; `error` is the handler's exception, if it raised
        one.
        """
        settled = "acknowledged on receipt" if delivery in self._received else "it was settled before"
        end = "not acknowledged" if self.is_out(delivery) else settled
        self.core.complain(NoticeKind.HANDLER_FAILED, delivery, f"{text}: {end}", error)
        delivery.cause = text if error is None else told(error, _CAUSE)
        self.settle((delivery,), False)

    def returned(self, delivery: Delivery, result: object) -> None:
        """Settle the delivery by the result that its handler returned."""
        self.policy.returned(self, delivery, self.policy.judge(self, delivery, result))

    def raised(self, delivery: Delivery, error: BaseException) -> None:
        """Settle the delivery as failed by `error`, the exception that its handler raised."""
        self.policy.raised(self, delivery, error)

    def took(self, seconds: float, calls: int) -> None:
        """Count the duration of `calls` handler calls, which took `seconds` in all."""
        if calls:
            self._counts.seconds.add(seconds / calls, calls)

    def close(self, is_over: bool = True) -> None:
        """Stop receiving, and fail unsettled deliveries, so that their senders resend them.

        `is_over` is False when the whole instance closes: its next run goes on with the same subscriptions.
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
            self._judge([*self._received], False)
            self._say(out, False)
            self._say(left, None if self.policy.lets_go else False)
            if self._left:
                self._take_up()
            self._counts.handlers -= 1
            self.wakeup.set()

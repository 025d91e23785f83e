"""Wire monitor: holds each side to the rules of Reactive Streams.

Most rules hold at every moment: no more elements were sent than requested (1.1); the signals of an id are subscribed,
elements, one end (1.3, 1.7, 1.9); no signal follows a cancel that was processed (1.8). The monitor is told the bytes
that each side emitted, and how many of them the other side has processed. It has its own decoder and its own ledgers,
so that it shares no state with the connections that it judges.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from ..._common.errors import RemoteProtocolError
from ..._common.transport import Role
from .._events import (
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from .._frames import Decoder
from .._layout import DRAFT, Layout
from .._sign_of_life import SIGN_OF_LIFE, Ping, Pong
from .._varint import MAX_LONG

_HELLO = {Role.CLIENT: ClientHello, Role.SERVER: ServerHello}
_KNOWN = DRAFT.extended(SIGN_OF_LIFE.forms)
_OTHER = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}


class RuleBroken(AssertionError):
    """A side broke a rule on the wire. `rule` is a number of Reactive Streams, or a ruling such as R-18."""

    def __init__(self, rule: str, side: Role, text: str) -> None:
        super().__init__(f"{rule}: the {side.value} {text}")
        self.rule = rule


@dataclass(slots=True)
class _Ledger:
    """Demand and progress of one stream, as its publisher knows them from the bytes that it has processed. `generation`
    is the number of the subscription on the connection.
    """

    generation: int
    demand: int
    answered: bool = False


class _Side:
    """State of one side of the connection: the frames that it has emitted and the other has not processed, its streams,
    and its offset in bytes.
    """

    def __init__(self, role: Role, layout: Layout) -> None:
        self.role = role
        self.decoder = Decoder(layout=layout)
        self.emitted: deque[tuple[int, Any, int]] = deque()  # (end, frame, generation) of frames not processed yet
        self.processed = 0  # bytes of the other side that this side has processed
        self.greeted = self.left = self.heard = self.dismissed = False
        self.has_sign = self.may_sign = False  # it has announced the sign of life; it knows that the other has, too
        self.active: dict[int, int] = {}  # as a subscriber: id -> generation
        self.ledgers: dict[int, _Ledger] = {}  # as a publisher, by the other's ids
        self.owed: defaultdict[int, deque[tuple[type, int]]] = defaultdict(deque)


class WireMonitor:
    """Checker of the bytes of both sides of a connection. Raises RuleBroken if a side that is in `checked` breaks a
    rule."""

    def __init__(self, layout: Layout = _KNOWN, checked: Collection[Role] = (Role.CLIENT, Role.SERVER)) -> None:
        self.frames: int = 0
        self.elements: int = 0
        self._checked = set(checked)
        self._sides = {role: _Side(role, layout) for role in Role}
        self._generation = 0
        self._emits: dict[type, Callable[[_Side, Any], int]] = {
            Subscribe: self._emit_subscribe,
            Request: self._emit_request,
            Cancel: self._emit_cancel,
            **dict.fromkeys((Subscribed, OnNext, OnNextPacked, OnComplete, OnError), self._emit_signal),
        }
        self._processes: dict[type, Callable[[_Side, Any, int], None]] = {
            Subscribe: self._process_subscribe,
            Request: self._process_request,
            Cancel: self._process_cancel,
            OnComplete: self._process_end,
            OnError: self._process_end,
        }

    def excuse(self, role: Role) -> None:
        """Stops judging a side that breaks rules on purpose from now on."""
        self._checked.discard(role)

    def emitted(self, by: Role, data: bytes) -> None:
        """Judges `data`, bytes that the side `by` emits; `processed` was called before for all input that it has
        processed.
        """
        side, checked = self._sides[by], by in self._checked
        side.decoder.feed(data)
        try:
            while (frame := side.decoder.next_frame()) is not None:
                self.frames += 1
                side.emitted.append((side.decoder.offset, frame, self._generation_of(side, frame, checked)))
        except RemoteProtocolError as error:
            if checked:
                self._broken("R-02", side, f"sends what is no frame: {error}")

    def processed(self, by: Role, upto: int) -> None:
        """Notes that the side `by` has processed the other side's first `upto` bytes."""
        side, other = self._sides[by], self._sides[_OTHER[by]]
        while other.emitted and other.emitted[0][0] <= upto:
            _, frame, generation = other.emitted.popleft()
            self._process(side, frame, generation)

    # Rules for emitting.

    def _broken(self, rule: str, side: _Side, text: str) -> NoReturn:
        raise RuleBroken(rule, side.role, text)

    def _generation_of(self, side: _Side, frame: Any, checked: bool) -> int:
        """Returns the number of the subscription that a frame begins or belongs to; 0 if there is none, or if a side
        that is not judged breaks a rule. `checked` is True if `side` is judged.
        """
        try:
            return self._emit(side, frame)
        except RuleBroken:
            if checked:
                raise
            return 0

    def _emit(self, side: _Side, frame: Any) -> int:
        kind = type(frame)
        if side.left:
            self._broken("R-28", side, f"sends {kind.__name__} after its goodbye")
        if (kind is _HELLO[side.role]) is side.greeted:
            self._broken("R-25", side, f"sends {kind.__name__}: its hello comes first, and once")
        side.greeted = True
        if isinstance(frame, ClientHello | ServerHello):
            side.has_sign = SIGN_OF_LIFE.extension_id in frame.extensions
        if kind is Goodbye:
            side.left = True
            return 0
        if side.dismissed and kind not in (_HELLO[side.role], Pong):  # a pong answers a ping that came before
            self._broken("R-29", side, f"sends {kind.__name__} after it processed a goodbye")
        if side.role is Role.SERVER and not side.heard and kind is not ServerHello:
            self._broken("R-25", side, f"sends {kind.__name__} before it processed the client's hello")
        if kind in (Ping, Pong) and not (side.has_sign and side.may_sign):
            self._broken("R-40", side, f"sends {kind.__name__}, which both hellos have not announced")
        emit = self._emits.get(kind)
        return emit(side, frame) if emit else 0

    def _emit_subscribe(self, side: _Side, frame: Subscribe) -> int:
        if frame.subscriber_id in side.active:
            self._broken("1.10", side, f"subscribes with id {frame.subscriber_id}, which is active")
        self._generation += 1
        side.active[frame.subscriber_id] = self._generation
        return self._generation

    def _emit_request(self, side: _Side, frame: Request) -> int:
        if frame.subscriber_id not in side.active:
            self._broken("3.6", side, f"requests on id {frame.subscriber_id}, which is over")
        if frame.count <= 0:
            self._broken("3.9", side, f"requests {frame.count} elements")
        return 0

    def _emit_cancel(self, side: _Side, frame: Cancel) -> int:
        if side.active.pop(frame.subscriber_id, None) is None:
            self._broken("3.7", side, f"cancels id {frame.subscriber_id}, which is over")
        return 0

    def _emit_signal(self, side: _Side, frame: Any) -> int:
        subscriber_id, kind = frame.subscriber_id, type(frame)
        owed = side.owed.get(subscriber_id)
        if owed:
            wanted, generation = owed.popleft()
            if kind is not wanted:
                self._broken(
                    "1.9", side, f"sends {kind.__name__} for id {subscriber_id} where it owes {wanted.__name__}"
                )
            if not owed:
                del side.owed[subscriber_id]
            return generation
        ledger = side.ledgers.get(subscriber_id)
        if ledger is None:
            self._broken("1.7", side, f"sends {kind.__name__} for id {subscriber_id}, which is over")
        if (kind is Subscribed) is ledger.answered:
            self._broken("1.9", side, f"sends {kind.__name__} for id {subscriber_id}: subscribed comes first, and once")
        ledger.answered = True
        if kind in (OnComplete, OnError):
            del side.ledgers[subscriber_id]
        elif kind in (OnNext, OnNextPacked):
            self._spend(side, ledger, frame)
        return ledger.generation

    def _spend(self, side: _Side, ledger: _Ledger, frame: OnNext | OnNextPacked) -> None:
        count = len(frame.elements) if isinstance(frame, OnNextPacked) else 1
        self.elements += count
        if not count:
            self._broken("R-22", side, "packs no elements")
        if count > ledger.demand:
            self._broken(
                "1.1", side, f"sends {count} elements for id {frame.subscriber_id}, wanted are {ledger.demand}"
            )
        if ledger.demand != MAX_LONG:
            ledger.demand -= count

    # State after a frame was processed.

    def _process(self, side: _Side, frame: Any, generation: int) -> None:
        side.heard = True
        side.dismissed |= type(frame) is Goodbye
        if isinstance(frame, ClientHello | ServerHello):
            side.may_sign = SIGN_OF_LIFE.extension_id in frame.extensions
        process = self._processes.get(type(frame))
        if process:
            process(side, frame, generation)

    def _process_subscribe(self, side: _Side, frame: Subscribe, generation: int) -> None:
        side.ledgers[frame.subscriber_id] = _Ledger(generation, frame.initial_demand)
        if frame.initial_demand < 0:
            self._refuse(side, frame.subscriber_id)

    def _process_request(self, side: _Side, frame: Request, _generation: int) -> None:
        ledger = side.ledgers.get(frame.subscriber_id)
        if ledger is None:
            return
        if frame.count > 0:
            ledger.demand = min(ledger.demand + frame.count, MAX_LONG)
        else:
            self._refuse(side, frame.subscriber_id)

    def _refuse(self, side: _Side, subscriber_id: int) -> None:
        """Notes that the stream of this id must end with an error now: its subscriber has requested less than 1 (rule
        3.9).
        """
        generation = side.ledgers[subscriber_id].generation
        self._close(side, subscriber_id)
        side.owed[subscriber_id].append((OnError, generation))

    def _process_cancel(self, side: _Side, frame: Cancel, _generation: int) -> None:
        if frame.subscriber_id in side.ledgers:
            self._close(side, frame.subscriber_id)

    def _close(self, side: _Side, subscriber_id: int) -> None:
        ledger = side.ledgers.pop(subscriber_id)
        if not ledger.answered:
            side.owed[subscriber_id].append((Subscribed, ledger.generation))

    def _process_end(self, side: _Side, frame: OnComplete | OnError, generation: int) -> None:
        if side.active.get(frame.subscriber_id) == generation:
            del side.active[frame.subscriber_id]

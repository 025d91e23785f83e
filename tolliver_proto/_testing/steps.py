"""Steps of simulated nodes, for a checker outside of the product.

A step is a dict of plain values, so that a trace is a file of JSON lines: who did what, on which connection, with which
id. A message is named by its checksum. A trace has calls, frames, commits of the store, and starts and ends of
processes; it has nothing that a node says of itself.

Invariant: a step is written before the node or the store learns of it, so that a check of the simulator that fails
leaves a trace with the step that made it fail. Without a writer nothing is looked at (`NO_STEPS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from .._common.transport import Abort, Transmit
from .._node.actions import Acked, Action, Commit, Deliver, Delivery, Receipt, Stored
from .._node.message_set import checksum_of
from .._node.store import (
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    ForgetPeer,
    Operation,
    ParkDelivery,
    RememberHandled,
    RemoveDeliveries,
    RemoveMessages,
    RemoveOwnSubscription,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    ReserveIds,
    StoreMessages,
    UnparkDeliveries,
)
from .._wire.events import (
    Ack,
    Decoded,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from .._wire.frames import Decoder
from .._wire.layouts import LAYOUTS
from .memory_store import MemoryStore

Step = dict[str, Any]
Life = tuple[str, int]

_OUT = {"message": "Transmit", "ack": "Settle"}
_IN = {"message": "Receive", "ack": "GetAck", "list": "Connect"}
_VERDICTS = {"acknowledge": "Handle", "fail": "Fail", "let_go": "Fail", "handle_again": "Fail"}
_OF_PEERS = {"forget_peer": "Forgets", "drop_parked": "Drops"}


class Steps:
    """Takes what happens to simulated nodes, and writes nothing."""

    def began(self, host: Any, grace: float, retry: float, policy: Any) -> None:
        """A process has opened the store; `grace` and `retry` are in seconds."""

    def sends(self, host: Any, receipt: Receipt | None, messages: Iterable[tuple[str, str, bytes]]) -> None:
        """The application has called `send`; without a receipt it retains a value, and asks for no answer."""

    def called(self, host: Any, name: str, arguments: Sequence[Any]) -> None:
        """The adapter is about to call the node."""

    def acted(self, host: Any, action: Action) -> None:
        """The adapter is about to carry out an action of the node."""

    def joined(self, near: Any, far: Any) -> None:
        """A connection has two ends."""

    def stores(self, host: Any, commit: Commit, is_refused: bool) -> None:
        """The store takes a commit, or refuses it."""

    def put_back(self, host: Any) -> None:
        """Another database stands in the place of the host's."""

    def ended(self, host: Any) -> None:
        """A process has ended."""

    def over(self) -> None:
        """The run has ended, and nothing should be owed."""


NO_STEPS = Steps()


class StepWriter(Steps):
    """Gives each step to `write`."""

    def __init__(
        self, write: Callable[[Step], object], now: Callable[[], float], revision: Callable[[], Revision]
    ) -> None:
        self._write = write
        self._now = now
        self._revision = revision
        self._decoders: dict[tuple[Life, int, bool], Decoder] = {}
        self._receipts: dict[Receipt, int] = {}
        self._open: set[Delivery] = set()
        self._count = 0

    def _step(self, host: Any, do: str, **what: Any) -> None:
        now = self._now()
        self._put({"node": host.name, "do": do, "clock": round(host.time(now), 4), **what})

    def _put(self, step: Step) -> None:
        self._count += 1
        self._write({"step": self._count, "at": round(self._now(), 4), **step})

    def began(self, host: Any, grace: float, retry: float, policy: Any) -> None:
        if host.born == 1 and host.store.commits:
            self.put_back(host)
        self._step(
            host,
            "Open",
            uuid=str(host.uuid),
            grace=grace,
            hold=policy.unsubscribed_hold,
            unsubscribes=Unsubscribe in LAYOUTS[self._revision()].controls,
            dedupe=policy.dedupe,
            durable=policy.dedupe_durable,
            timeout=policy.handling_timeout,
            retry=retry,
            drops=str(policy.quota_policy) == "drop_oldest",
            database=_contents(host.store),
        )

    def sends(self, host: Any, receipt: Receipt | None, messages: Iterable[tuple[str, str, bytes]]) -> None:
        number = 0
        if receipt is not None:
            self._receipts[receipt] = number = len(self._receipts) + 1
        self._step(host, "Call", receipt=number, messages=[checksum_of(Message(*one)) for one in messages])

    def called(self, host: Any, name: str, arguments: Sequence[Any]) -> None:
        if name == "receive_data":
            self._frames(host, arguments[0], False, [arguments[1]])
        elif name == "committed":
            self._step(host, "Learn", commit=arguments[0])
        elif name == "lost":
            self._step(host, "Cut", cid=arguments[0])
        elif name in _VERDICTS:
            for one in arguments[0]:
                if one in self._open:
                    self._open.discard(one)
                    self._step(host, _VERDICTS[name], **_delivery(one))
        elif name in _OF_PEERS:
            self._step(host, _OF_PEERS[name], peer=str(arguments[0]))
        elif name == "unsubscribe":
            self._step(host, "Leaves", entry=[*arguments])

    def acted(self, host: Any, action: Action) -> None:
        if isinstance(action, Transmit):
            self._frames(host, action.cid, True, action.units)
        elif isinstance(action, Abort) and action.cid in host.ends:
            self._step(host, "Cut", cid=action.cid)
        elif isinstance(action, Deliver):
            for one in action.deliveries:
                if one.reliable:
                    self._open.add(one)
                    self._step(host, "HandOut", **_delivery(one))
        elif isinstance(action, Commit):
            self._sends(host, action)
        elif isinstance(action, Stored | Acked):
            self._answers(host, action)

    def joined(self, near: Any, far: Any) -> None:
        for one, other in ((near, far), (far, near)):
            self._step(one.host, "Join", cid=one.cid, to=[other.host.name, other.cid])

    def stores(self, host: Any, commit: Commit, is_refused: bool) -> None:
        if is_refused:
            self._step(host, "Refuse", commit=commit.batch_id)
            return
        self._step(host, "Write", commit=commit.batch_id, changes=[_change(one) for one in commit.operations])
        self._step(host, "Sync", commit=commit.batch_id)

    def put_back(self, host: Any) -> None:
        self._step(host, "Restore", database=_contents(host.store))

    def ended(self, host: Any) -> None:
        if host.node is not None:
            self._step(host, "Kill")

    def over(self) -> None:
        self._put({"do": "End"})

    def _frames(self, host: Any, cid: int, is_out: bool, units: Iterable[bytes]) -> None:
        whose = (host.name, host.born), cid, is_out
        decoder = self._decoders.get(whose)
        if decoder is None:
            decoder = self._decoders[whose] = Decoder(self._revision())
        for unit in units:
            decoder.feed(unit)
        names, usual = (_OUT, "Say") if is_out else (_IN, "Hear")
        while (frame := decoder.next_frame()) is not None:
            what = _frame(frame)
            self._step(host, names.get(what["frame"], usual), cid=cid, **what)

    def _sends(self, host: Any, commit: Commit) -> None:
        for operation in commit.operations:
            if isinstance(operation, StoreMessages):
                for message, to in zip(operation.messages, operation.recipients, strict=True):
                    row = _row(message, to)
                    self._step(host, "Send", commit=commit.batch_id, kept=message.seq in operation.held, **row)

    def _answers(self, host: Any, action: Stored | Acked) -> None:
        is_acked = isinstance(action, Acked)
        for one in action.tokens:
            number = self._receipts.get(one)
            if number is None:
                continue
            undelivered = sum(lost.count for lost in one.undelivered)
            self._step(
                host,
                "Told" if is_acked else "Return",
                receipt=number,
                rows=[one.first_seq, one.last_seq],
                counts=list(one.counts),
                undelivered=undelivered,
                error=None if action.error is None else str(getattr(action.error, "reason", "refused")),
            )


def _delivery(one: Delivery) -> Step:
    return {"cid": one.cid, "peer": str(one.peer_id), "id": one.message_id, "message": checksum_of(one.message)}


def _row(message: Any, to: Iterable[UUID]) -> Step:
    name = Message(message.channel, message.key, message.body)
    return {
        "seq": message.seq,
        "id": message.wire_id,
        "message": checksum_of(name),
        "entry": [message.channel, message.key],
        "to": [str(one) for one in to],
    }


def _entries(entries: Iterable[Subscription]) -> list[list[str]]:
    return [list(one) for one in sorted(entries)]


def _frame(frame: Decoded) -> Step:
    if isinstance(frame, Message):
        names = [frame.channel, frame.key]
        return {"frame": "message", "id": frame.message_id, "message": checksum_of(frame), "entry": names}
    if isinstance(frame, Ack):
        return {"frame": "ack", "id": frame.message_id}
    if isinstance(frame, HandshakeRequest | HandshakeResponse):
        listed = _entries(frame.subscriptions)
        return {
            "frame": "list",
            "peer": str(frame.instance_id),
            "entries": listed,
            "status": getattr(frame, "status", 0),
        }
    if isinstance(frame, Subscribe | Unsubscribe):
        wanted = isinstance(frame, Subscribe)
        return {"frame": "control", "id": frame.message_id, "wanted": wanted, "entry": [frame.channel, frame.key]}
    return {"frame": type(frame).__name__}


def _change(one: Operation) -> list[Any]:
    """Returns the change that an operation makes, its name in front."""
    peer = str(getattr(one, "peer", ""))
    spans = [list(span) for span in getattr(one, "spans", ())]
    match one:
        case StoreMessages():
            return ["rows", [message.seq for message in one.messages]]
        case AddDeliveries():
            return ["give", peer, [seq for seq, _, _ in one.deliveries]]
        case RemoveDeliveries():
            return ["take", peer, spans]
        case RemoveMessages():
            return ["drop", spans]
        case ParkDelivery():
            return ["park", peer, spans]
        case UnparkDeliveries():
            return ["unpark", peer, spans]
        case ReplacePeerSubscriptions():
            return ["list", peer, _entries(one.subscriptions), _entries(one.held)]
        case AddPeerSubscription() | RemovePeerSubscription():
            return ["hear", peer, isinstance(one, AddPeerSubscription), list(one.subscription)]
        case AddOwnSubscription() | RemoveOwnSubscription():
            return ["own", isinstance(one, AddOwnSubscription), list(one.subscription)]
        case ForgetPeer():
            return ["forget", peer]
        case AddDeadLetter():
            letter = one.letter
            name = checksum_of(Message(letter.channel, letter.key, letter.body))
            return ["letter", str(letter.peer), letter.message_id, name]
        case RememberHandled():
            return ["note", [[str(uuid), number, name] for uuid, number, name in one.messages], one.keep]
        case ReserveIds():
            return ["ids", one.first, one.count, one.keep]
    return ["other", type(one).__name__]


def _contents(store: MemoryStore) -> Step:
    loaded = store.load()
    owners: dict[int, list[UUID]] = {}
    for uuid in loaded.peers:
        for seq in store.deliveries(uuid):
            owners.setdefault(seq, []).append(uuid)
    return {
        "rows": [_row(message, owners.get(message.seq, ())) for message in store.messages],
        "lists": {str(uuid): [_entries(one.subscriptions), _entries(one.held)] for uuid, one in loaded.peers.items()},
        "own": _entries(loaded.own_subscriptions),
        "notes": [[str(uuid), number, name] for uuid, number, name in loaded.handled],
        "ids": [list(one) for one in loaded.id_spans],
    }

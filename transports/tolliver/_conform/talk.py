"""Verbs of messages: one connection, and the sessions of one case."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Ack,
    Decoder,
    Frame,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)

from .._tls.pump import AnyPump
from .cases import Failed, Role
from .kit import Kit, Session
from .wire import QUIET, Wire

IN, OUT, PROBE, RESERVED = "conform.in", "conform.out", "tolliver.probe", "tolliver"
UNRELIABLE = 2**31 - 1
LARGEST = 2**31 - 2
VERSION = 1
_NUMBERS = itertools.count(1)


class Talk(Wire):
    """A connection of messages. It acknowledges what is reliable, unless `withholds`."""

    def __init__(self, stream: socket.socket, pump: AnyPump, patience: float) -> None:
        super().__init__(stream, pump, Decoder(Revision.DRAFT_2), patience)
        self.withholds = False
        self.over = False
        """True once the handshake may be over: acks as probes are passed over from then on."""
        self.plain = False
        """True where the list that the kit gave is the usual one."""
        self.key = ""
        self.uuid = UUID(int=0)
        self.peer = UUID(int=0)
        self.subscriptions: tuple[Subscription, ...] = ()
        """The list of the peer's handshake."""
        self.ids: Iterator[int] = itertools.count(1)

    def arrived(self, frame: Any) -> bool:
        if isinstance(frame, Ack) and frame.message_id == UNRELIABLE and self.over:
            return False  # a probe (T-80)
        if isinstance(frame, Message | Subscribe | Unsubscribe) and frame.message_id is not None:
            private = not isinstance(frame, Message) or frame.channel == PROBE
            if private or not self.withholds:
                self.write(encode(Ack(frame.message_id)))
            return not private
        return True

    # Said by the kit.

    def say(self, *parts: Frame | bytes) -> None:
        """Frames, or any bytes, in one write."""
        self.send(b"".join(part if isinstance(part, bytes) else encode(part) for part in parts))

    def drip(self, data: bytes, size: int = 1) -> None:
        """Piece by piece, each in a write of its own."""
        for at in range(0, len(data), size):
            self.send(data[at : at + size])

    def message(self, body: bytes, *, key: str | None = None, number: int | None = None, channel: str = IN) -> Message:
        """A reliable message of the kit, under a new id."""
        return Message(channel, self.key if key is None else key, body, next(self.ids) if number is None else number)

    def tell(self, body: bytes, *, key: str | None = None, number: int | None = None) -> int:
        """Sends a reliable message to the peer's handler. Returns its id."""
        said = self.message(body, key=key, number=number)
        self.say(said)
        assert said.message_id is not None
        return said.message_id

    def control(self, verb: type[Subscribe | Unsubscribe], key: str, channel: str = OUT) -> None:
        """Subscribes or unsubscribes, and awaits the ack."""
        number = next(self.ids)
        self.say(verb(channel, key, number))
        self.acked(number)

    def subscribe(self, key: str, channel: str = OUT) -> None:
        self.control(Subscribe, key, channel)

    def unsubscribe(self, key: str, channel: str = OUT) -> None:
        self.control(Unsubscribe, key, channel)

    # To be said by the peer.

    def acked(self, number: int, patience: float | None = None) -> Ack:
        found: Ack = self.expect(f"an ack of {number}", lambda frame: frame == Ack(number), patience)
        return found

    def echoed(self, body: bytes, key: str | None = None, patience: float | None = None) -> Message:
        """This body comes back, reliable, under this key."""
        key = self.key if key is None else key
        found: Message = self.expect(
            f"{_some(body)} back on {OUT}, key {key!r}", lambda frame: is_echo(frame, body, key), patience
        )
        if found.message_id is None:
            raise Failed("a reliable message", f"the unreliable id on {OUT}")
        if not 1 <= found.message_id <= LARGEST:
            raise Failed("an id from 1 to 2^31-2 (T-40)", f"{found.message_id}")
        return found

    def handles(self, body: bytes, key: str | None = None) -> None:
        """A message is acknowledged, and its body comes back."""
        number = self.tell(body, key=key)
        self.echoed(body, key)
        self.acked(number)

    def lives(self) -> None:
        """The connection goes on: a new message is handled."""
        self.handles(f"alive {next(_NUMBERS)}".encode())

    def no_ack(self, number: int, seconds: float = QUIET) -> None:
        self.quiet(f"no ack of {number}", lambda frame: frame == Ack(number), seconds)

    def no_echo(self, body: bytes | None = None, key: str | None = None, seconds: float = QUIET) -> None:
        """Nothing comes back: not this body, or none at all."""
        self.quiet(
            f"nothing on {OUT}",
            lambda frame: isinstance(frame, Message) and (body is None or is_echo(frame, body, key)),
            seconds,
        )

    def ends_without_a_word(self) -> None:
        """Closed without a frame (T-67)."""
        self.ends()
        if self.frames:
            raise self.failed("an end without a frame before it")


def is_echo(frame: object, body: bytes, key: str | None = None) -> bool:
    return (
        isinstance(frame, Message) and frame.channel == OUT and frame.body == body and (key is None or frame.key == key)
    )


def _some(body: bytes) -> str:
    return f"{body!r}" if len(body) < 40 else f"{body[:30]!r}... ({len(body):,} bytes)"


class Messages(Session[Talk]):
    """One case of messages: a UUID and a key of its own."""

    def __init__(self, kit: Kit, role: Role) -> None:
        super().__init__(kit, role, Talk)
        self.key = f"key {self.uuid.hex[:8]}"
        self.ids: dict[UUID, Iterator[int]] = {}

    def beside(self) -> UUID:
        """A second UUID of the case."""
        return UUID(int=self.uuid.int ^ 1)

    def mine(self, *keys: str) -> list[Subscription]:
        """Subscriptions to what comes back, under the case's key or these."""
        return [Subscription(OUT, key) for key in keys or (self.key,)]

    def stranger(self, **options: Any) -> Talk:
        """TLS stands, and no frame has gone."""
        return self.dress(self.transport(**options))

    def dress(self, talk: Talk, uuid: UUID | None = None) -> Talk:
        """Gives it the case's key, and the ids of a UUID."""
        talk.uuid, talk.key = uuid or self.uuid, self.key
        talk.ids = self.ids.setdefault(talk.uuid, itertools.count(1))
        return talk

    def request(self, talk: Talk, version: int = VERSION, listed: Iterable[Subscription] | None = None) -> bytes:
        return encode(HandshakeRequest(version, talk.uuid, tuple(self.mine() if listed is None else listed)))

    def response(
        self,
        talk: Talk,
        version: int = VERSION,
        status: HandshakeStatus = HandshakeStatus.SAME_VERSION,
        listed: Iterable[Subscription] | None = None,
    ) -> bytes:
        listed = tuple(self.mine() if listed is None else listed)
        talk.over = True
        return encode(HandshakeResponse(version, talk.uuid, status, listed))

    def requested(self, talk: Talk) -> HandshakeRequest:
        """The peer that dialled says its request."""
        found: HandshakeRequest = talk.expect("a request", lambda frame: isinstance(frame, HandshakeRequest))
        talk.peer, talk.subscriptions = found.instance_id, found.subscriptions
        return found

    def responded(self, talk: Talk, status: HandshakeStatus = HandshakeStatus.SAME_VERSION) -> HandshakeResponse:
        """The peer answers our request with this status."""
        found: HandshakeResponse = talk.expect("a response", lambda frame: isinstance(frame, HandshakeResponse))
        if found.status is not status:
            raise Failed(f"the status {status.value}", f"{found.status.value}")
        talk.peer, talk.subscriptions, talk.over = found.instance_id, found.subscriptions, True
        return found

    def meet(
        self, *, uuid: UUID | None = None, listed: Iterable[Subscription] | None = None, role: Role | None = None,
        before: Callable[[Talk], None] | None = None, **options: Any,
    ) -> Talk:  # fmt: skip
        """A new connection, with the handshake over. `before` is done to it before the handshake."""
        role = role or self.role
        talk = self.dress(self.transport(role=role, **options), uuid)
        talk.plain = listed is None
        if before is not None:
            before(talk)
        if role is Role.DIAL:
            talk.say(self.request(talk, listed=listed))
            self.responded(talk)
        else:
            self.requested(talk)
            talk.say(self.response(talk, listed=listed))
        return talk

    def live(self) -> Talk:
        """Any connection with the handshake over; the one that stands, where the peer dials."""
        stands = self.kit.standing
        if self.role is Role.LISTEN and isinstance(stands, Talk) and stands.end is None:
            self.uuid, self.ids[stands.uuid] = stands.uuid, stands.ids
            stands.key, stands.frames[:] = self.key, []
            self.opened.append(stands)
            self.kit.standing = None
            stands.subscribe(self.key)
            return stands
        return self.meet()

    def again(self, talk: Talk, **options: Any) -> Talk:
        """Ends this connection in order, and makes the next one of the same UUID."""
        talk.close()
        return self.meet(uuid=talk.uuid, **options)

    def goes_on(self) -> None:
        """The peer is as before: it can be met anew, and handles a message."""
        for talk in self.opened:
            talk.close()
        self.meet(uuid=self.beside()).lives()

    def keep(self) -> None:
        """A connection that the peer dialled, and that the case left as it was, stands on."""
        last = self.opened[-1] if self.opened else None
        if self.role is Role.LISTEN and last is not None and last.plain and not last.withholds:
            last.wait(lambda: last.end is not None, 0.0)
            if last.end is None:
                self.kit.standing = last

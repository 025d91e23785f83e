"""Requests and replies, in both directions (P-10 to P-18).

State, requester: outstanding requests (`OpenRequests`), those without a responder so far (`seeking`), and those that
wait for our subscription to replies (`_unready`). State, responder: replies being stored (`_replied`), and replies held
for a requester that does not subscribe to replies yet (`_held_replies`). Both sides: frames that wait for a connection
above its high-water mark (`_waiting`).

Protocol: a request is a message on a channel of its own, and so is its reply. Subscriptions say which peers respond;
the wire protocol knows of neither.

Invariants: each request ends once: with an answer, a failure, no responders, or its deadline. A request goes out only
behind our subscription to replies, so that no reply comes too soon. A durable request is acknowledged when its reply is
stored (P-16). Each request for which there is no handler is answered too, as its requester waits.

Rejected: dropping frames above the high-water mark, as for other unreliable messages. A caller waits for each request
and reply, so they wait in order, within a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from .._common.arguments import check_count, check_seconds, check_type
from .._common.errors import (
    SHOWN,
    ConnectionClosing,
    ConnectionLost,
    LocalProtocolError,
    NoResponders,
    OutboxFull,
    RequestFailed,
    TolliverError,
)
from .._common.owner_ids import hashed
from .._common.reserved import REQUESTS, is_envelope
from .._node.actions import Answered, Asked, Delivery, Handler, Receipt, Reply
from .._node.inboxes.inbox import Fate
from .._node.link import Link, Peer, peer_of
from .._node.node import Node
from .._node.outboxes.routing import connected
from .._node.outboxes.sender import To, uuids_of
from .._node.pattern import Judgement, Pattern
from .._node.services import Services
from .._wire.events import Message, Subscription
from .envelopes import LAST_REQUEST_ID, Status, id_in, read_reply, reply_body, reply_channel, request_body
from .message_keys import MessageKeys
from .open_requests import OpenRequests, WaitingFrames

_LOST = "the connection ended before the answer came: the request may have been handled"
HELD_FOR = 5.0
"""Seconds for which a reply is held for a requester that does not subscribe to replies yet (P-15)."""
_CHANNELS_KNOWN = 4096
_RequestKey = tuple[UUID, int | None]
"""The requester, and its id of the request's message."""


class Requests(Pattern):
    """Pattern of requests: those of the application, and its replies to requests of peers."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel = node, services
        self._limits, self._timers, self._counts = services.limits, services.timers, services.counts
        self._open = OpenRequests(services.rng)
        self._reply_to = _reply_to(services.instance_id)
        self._hears_replies = self._reply_to in services.own  # a stored subscription
        self._moved: dict[Peer, None] = {}  # peers whose moves are not handled yet
        self._unready: list[Asked] = []  # requests that wait for the subscription to replies
        self._request_channels: dict[str, str] = {}
        self._replied: dict[_RequestKey, Delivery | None] = {}  # requests whose replies are being stored
        self._reply_channels: dict[int, Subscription] = {}  # by UUID, as a number
        self._held_replies: dict[Peer, deque[tuple[float, bytes]]] = {}  # with the end of each hold
        self._waiting: dict[Link, WaitingFrames] = {}
        services.on_timer("requests", self._on_requests_timeout)
        services.on_timer("asked", self._on_asked_timeout)
        services.on_timer("replies", self._on_replies_timeout)

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if an earlier opening has sent or answered requests: late replies or requests may be in flight."""
        return any(is_envelope(one.channel) for one in services.own)

    def stats(self) -> Mapping[str, int]:
        return {"requests_outstanding": len(self._open)}

    # The requester.

    def request(
        self,
        channel: str,
        key: str,
        body: bytes,
        timeout: float,
        now: float | None = None,
        *,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        gathers: bool = False,
        wait: bool = True,
        message_key: str | None = None,
    ) -> Asked:
        """Asks the peers that respond to these names, of those in `to` if given; Answered names the request, once.

        The first answer ends the request; with `gathers` all answers, or those that came within `timeout` seconds.
        Without a responder the request waits for one, within `timeout` (P-13). A `durable` request is stored, as by
        `send`, and so is its reply: peers that are away count (P-16). With `request_id`, which the program chooses and
        remembers, it can repeat the request after a restart. With a `message_key` the request is stored once, like a
        send with that key; a repeated one waits for the reply to the first, and its id is made of the key (P-66).
        Raises, before anything changes, OutboxFull, ReservedChannel, OwnLimitExceeded, LocalProtocolError,
        ConnectionClosing, ValueError, TypeError, without `wait` NoResponders, and Undelivered if the first request with
        the message key was given up.
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was asked")
        check_seconds("timeout", timeout, is_endless=True)
        table = self._open
        if message_key is not None:
            request_id = self._id_of(channel, message_key, durable and request_id is None)
        request_id = table.new_id() if request_id is None else self._checked_id(request_id)
        self._kernel.name_size(channel)
        channel = self._request_channels.get(channel) or self._request_channel(channel)
        self._kernel.check_body(channel, body)
        framed = request_body(request_id, body)
        self._kernel.size(channel, key, framed)
        whom = None if to is None else uuids_of(to)
        asked = Asked(request_id, channel, key, framed, durable, gathers, whom, wait, message_key)
        peers = self._responders(asked)
        if not (peers or wait):
            raise _nobody(asked)
        self._begin_request(asked, peers)
        due = self._kernel.now + timeout
        table.add(asked, due)
        self._timers.set_earlier("requests", due)
        self._counts["requests"] += 1
        return asked

    def responders(self, channel: str, key: str) -> int:
        """Number of connected peers that respond to these names, which `request` would ask. Raises ReservedChannel,
        OwnLimitExceeded, LocalProtocolError."""
        return self._node.subscribed(self._request_channel(channel), key, is_connected=True)

    def _begin_request(self, asked: Asked, peers: Sequence[Peer]) -> None:
        """Asks these peers, or waits for a responder if there are none. Raises as `_ask` does."""
        if not peers:
            self._open.seeking[asked] = None
            return
        self._open.seeking.pop(asked, None)
        if self._hears_replies:
            self._ask(asked, peers)
        else:
            self._hear_replies()
            self._unready.append(asked)

    def peer_moved(self, peer: Peer) -> None:
        self._moved[peer] = None
        self._kernel.ask_turn(self)

    def turn(self) -> None:
        """Implements `Pattern.turn`: looks for responders among the peers that have moved, for requests without one."""
        moved, self._moved = self._moved, {}
        for asked in [*self._open.seeking]:
            asked.not_there.difference_update(moved)
            self._go_on_asking(asked)

    def _go_on_asking(self, asked: Asked) -> None:
        """Asks again for a request that has found no responder with a handler so far."""
        peers = self._responders(asked)
        if not (peers or asked.waits):
            self._end_request(asked)
            return
        try:
            self._begin_request(asked, peers)
        except TolliverError as error:
            self._end_request(asked, error)

    def cancel_request(self, asked: Asked, now: float | None = None) -> None:
        """Ends this request without an Answered; its reply is late (P-14).

        The responder is not told, and a durable request that is stored still goes to it. Does nothing for a request
        that has ended.
        """
        self._kernel.tick(now)
        if self._is_outstanding(asked):
            self._open.end(asked)
            self._counts["requests_cancelled"] += 1

    def _is_outstanding(self, asked: Asked) -> bool:
        return self._open.by_id.get(asked.request_id) is asked

    def _id_of(self, channel: str, message_key: str, is_allowed: bool) -> int:
        """Returns the id of requests with this key: after a restart, the reply to the first finds the later one."""
        check_type("message_key", message_key, str, "a text that names the request")
        if not is_allowed:
            raise ValueError("message_key: give durable=True with it, and no request_id")
        return hashed(f"{channel}\0{message_key}")

    def _checked_id(self, request_id: int) -> int:
        check_count("request_id", request_id, 0, LAST_REQUEST_ID)
        if request_id in self._open.by_id:
            raise LocalProtocolError("request_id_in_use", f"the request {request_id} is outstanding: wait for its end")
        return request_id

    def _request_channel(self, channel: str) -> str:
        """The channel on which requests for this channel travel."""
        self._kernel.check(channel, "")
        if not channel:
            raise LocalProtocolError("no_channel", "a request needs a channel: there is no wildcard for requests")
        if len(self._request_channels) >= _CHANNELS_KNOWN:
            self._request_channels.clear()
        name = self._request_channels[channel] = REQUESTS + channel
        return name

    def _responders(self, asked: Asked) -> Sequence[Peer]:
        """Peers that would get the request now."""
        channel, key = asked.channel, asked.key
        recipients = self._kernel.recipients(channel, key, asked.to)
        if asked.durable:
            return recipients.peers
        return [peer for peer in connected(recipients, channel, key) if peer not in asked.not_there]

    def _hear_replies(self) -> None:
        """Subscribes to replies, once: requests go out after the subscription, so that no reply comes too soon."""
        if not self._unready:
            self._node.subscribe(*self._reply_to)
            self._kernel.after_commit(self._on_hearing_replies)

    def _on_hearing_replies(self, error: TolliverError | None) -> None:
        self._hears_replies = error is None
        unready, self._unready = self._unready, []
        for asked in unready:
            if not self._is_outstanding(asked):
                continue  # timed out or cancelled
            if error is None:
                self._go_on_asking(asked)
            else:
                self._end_request(asked, error)

    def _ask(self, asked: Asked, peers: Sequence[Peer]) -> None:
        """Sends the request to these peers. Raises OutboxFull and the errors of `send`."""
        framed = asked.body
        if asked.durable or not asked.waits:
            asked.body = b""
        if asked.durable:
            receipt = self._store(asked, framed, frozenset(peer.uuid for peer in peers))
            if receipt.repeats and receipt.failure is not None:
                raise receipt.failure
            for peer in peers:
                self._open.ask(asked, peer)
            if not receipt.repeats:
                self._watch_storing(asked, receipt)
            return
        marked, frame = None, b""
        for peer in peers:
            link = peer.link
            assert link is not None
            assert link.connection is not None
            if link.connection.unreliable_id != marked or not frame:
                marked = link.connection.unreliable_id
                frame = link.connection.unreliable_frame(asked.channel, asked.key, framed)
            if self._say(link, frame, asked.request_id, self._limits.outbox_bytes):
                self._open.ask(asked, peer)
        if not asked.left:
            raise OutboxFull(f"{self._limits.outbox_bytes} bytes of requests wait for each peer that would answer this")

    def _store(self, asked: Asked, framed: bytes, to: frozenset[UUID]) -> Receipt:
        if asked.message_key is None:
            return self._node.send(asked.channel, asked.key, framed, to=to)
        return self._node.use(MessageKeys).send(asked.channel, asked.key, framed, asked.message_key, to=to)

    def _watch_storing(self, asked: Asked, receipt: Receipt) -> None:
        """Ends the request if its commit fails. A request that waits inside the node can only time out."""
        if receipt.counts:

            def stored(error: TolliverError | None) -> None:
                if error is not None and self._is_outstanding(asked):
                    self._end_request(asked, error)

            self._kernel.after_commit(stored)

    def _on_reply(self, link: Link, message: Message) -> None:
        if message.message_id is not None:
            self._kernel.ack(link, [message.message_id])
        reply, peer = read_reply(message.body), link.peer
        asked = self._open.by_id.get(reply[0]) if reply is not None else None
        if reply is None or asked is None or peer not in asked.left:
            self._counts["late_replies"] += 1
            return
        assert peer is not None
        _, status, body = reply
        self._open.heard(asked, peer)
        if status == Status.ANSWER:
            asked.replies.append(Reply(peer.uuid, body))
        elif status == Status.NOBODY:
            asked.not_there.add(peer)
        else:
            failure = RequestFailed(peer.uuid, body[: 4 * SHOWN + 4].decode(errors="replace"))
            asked.error = asked.error or failure
            if asked.gathers:
                asked.replies.append(Reply(peer.uuid, b"", failure))
        if asked.left and (asked.gathers or not asked.replies):
            return
        if asked.waits and not (asked.replies or asked.error or asked.lost):
            self._go_on_asking(asked)  # no asked peer has a handler: waits for a responder
        else:
            self._end_request(asked)

    def _end_request(self, asked: Asked, error: TolliverError | TimeoutError | None = None) -> None:
        """Removes the request from the table and reports its end: with its replies, or with `error`."""
        self._open.end(asked)
        if error is None and not asked.replies:
            error = asked.error or (ConnectionLost(_LOST) if asked.lost else _nobody(asked))
        if error is None:
            self._counts["requests_answered"] += 1
        else:
            self._counts["requests_timed_out" if isinstance(error, TimeoutError) else "requests_failed"] += 1
        self._kernel.tell(Answered(asked, asked.replies, error))

    def closing(self) -> None:
        for asked in [*self._open.by_id.values()]:
            self._end_request(asked, ConnectionClosing("the instance was closed before an answer came"))

    def _on_requests_timeout(self, _subject: None) -> None:
        for asked in self._open.due(self._kernel.now):
            if asked in self._open.seeking:
                self._end_request(asked, _nobody(asked))
            elif asked.gathers:
                self._open.end(asked)
                self._counts["requests_answered" if asked.replies else "requests_timed_out"] += 1
                self._kernel.tell(Answered(asked, asked.replies))
            else:
                self._end_request(asked, asked.error or self._late(asked))
        due = self._open.next_deadline()
        if due is not None:
            self._timers.set_earlier("requests", due)

    def _late(self, asked: Asked) -> TimeoutError:
        whom = ", ".join(sorted(str(peer.uuid) for peer in asked.left if isinstance(peer, Peer)))
        return TimeoutError(
            f"the request {asked.request_id} for {asked.channel.removeprefix(REQUESTS)!r:.100} {asked.key!r:.100} has "
            f"no answer in time from {whom or 'anybody'}: it may be handled yet"
        )

    def peer_down(self, link: Link, was_up: bool) -> None:
        self._waiting.pop(link, None)
        peer = peer_of(link)
        if self._open.by_peer.get(peer):
            # A timer, as another connection may take over first.
            self._timers.set(("asked", peer), self._kernel.now)

    def _on_asked_timeout(self, peer: Peer) -> None:
        if peer.link is None:
            for asked in self._open.lose(peer):
                self._end_request(asked)

    # The responder.

    def respond(self, channel: str, key: str, handler: Handler, now: float | None = None) -> Receipt:
        """Gives requests for these names to this handler; "" is any key. `reply` or `refuse` each, then settle it.

        Subscribes, which is how requesters find the responder. Raises as `subscribe` does.
        """
        names = self._request_channel(channel)
        receipt = self._node.subscribe(names, key, now)
        self._node.register(names, key, handler)
        self._node.hand_out_once(handler)
        return receipt

    def stop_responding(
        self, channel: str, key: str, handler: Handler, now: float | None = None, *, is_over: bool = True
    ) -> None:
        """Gives this handler no more requests. With `is_over`, the last handler of these names ends the
        subscription."""
        names = self._request_channel(channel)
        self._node.unregister(names, key, handler)
        if is_over and not self._kernel.has_handler(names, key):
            self._node.unsubscribe(names, key, now)

    def reply(self, delivery: Delivery, body: bytes, now: float | None = None) -> bool:
        """Answers this request. True: acknowledge it now; False: call `let_go`, so that the requester resends it
        (P-16).

        Raises LocalProtocolError, OwnLimitExceeded, and, for a durable request, the errors of `send`: refuse the
        request instead, or call `let_go`.
        """
        if not isinstance(body, bytes):
            raise LocalProtocolError("not_bytes", f"a reply must be bytes, not {type(body).__name__}: encode it first")
        self._kernel.tick(now)
        return self._answer(delivery, Status.ANSWER, body)

    def refuse(self, delivery: Delivery, text: str, now: float | None = None) -> bool:
        """Like `reply`, for a handler that failed: the requester gets RequestFailed with this text. The result is that
        of `reply`.
        """
        self._kernel.tick(now)
        return self._answer(delivery, Status.FAILED, text.encode(errors="replace"))

    def _answer(self, delivery: Delivery, status: Status, body: bytes) -> bool:
        message = delivery.message
        request_id = id_in(message.body)
        if request_id is None:
            return True  # without an id there is no requester to answer
        link = self._kernel.links.get(delivery.cid)
        peer = link.peer if link is not None else self._kernel.peers.get(delivery.peer_id)
        if peer is None:
            self._counts["replies_dropped"] += 1
            return True
        names = self._reply_channels.get(peer.uuid.int) or self._reply_channel(peer)
        framed = reply_body(request_id, status, body)
        self._kernel.size(*names, framed)
        if message.message_id is not None:
            return self.answer_durably(delivery, names, framed)
        if names not in peer.outbox.routed or (peer.lists.kept_back and peer.lists.holds(*names)):
            self._hold_reply(peer, framed)
        else:
            self._say_reply(peer, names, framed)
        return True

    def _reply_channel(self, peer: Peer) -> Subscription:
        if len(self._reply_channels) >= _CHANNELS_KNOWN:
            self._reply_channels.clear()
        names = self._reply_channels[peer.uuid.int] = Subscription(reply_channel(peer.uuid), "")
        return names

    def answer_durably(
        self, delivery: Delivery, names: Subscription, framed: bytes, *, is_settled: bool = False
    ) -> bool:
        """Stores a reply to the sender of this delivery, and acknowledges the delivery after that; one that the
        application has not settled yet, once it has. Returns False if the sender would not get the reply."""
        receipt = self._node.send(*names, framed, to=delivery.peer_id)
        if not receipt.recipients:
            self._counts["replies_dropped"] += 1
            return False
        self._counts["replies"] += 1
        self._replied[_key_of(delivery)] = delivery if is_settled else None
        self._kernel.after_commit(partial(self._on_reply_stored, _key_of(delivery)))
        return True

    def _on_reply_stored(self, key: _RequestKey, error: TolliverError | None) -> None:
        delivery = self._replied.pop(key, None)
        if delivery is not None:
            (self._node.acknowledge if error is None else self._node.let_go)([delivery])

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Implements `Pattern.acknowledges`: keeps durable requests until their replies are committed (P-16), and
        returns all other deliveries."""
        return self._keep_replied(deliveries) if self._replied else deliveries

    def _keep_replied(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        for one in deliveries:
            if _key_of(one) in self._replied:
                self._replied[_key_of(one)] = one
            else:
                yield one

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        """Implements `Pattern.unhandled`: answers unreliable requests with a failure; durable ones are resent."""
        for one in deliveries:
            self._replied.pop(_key_of(one), None)
            if one.message.message_id is None and one.channel.startswith(REQUESTS):
                self._answer(one, Status.FAILED, b"the responder was closed, or is stuck: it was not handled")

    def leaves(self, link: Link, message: Message, fate: Fate) -> bool:
        """Implements `Pattern.leaves`: takes replies, and requests without a handler here, which get an answer."""
        if message.channel == self._reply_to.channel:
            self._on_reply(link, message)
            return True
        if message.message_id is not None or not message.channel.startswith(REQUESTS):
            return False
        if fate is Fate.WANTED and not self._node.closing and self._kernel.keep_early(link, message):
            return True  # the responder may be a moment late, like any handler (T-46)
        self._kernel.leave(link, message, fate)
        assert link.peer is not None
        if fate is Fate.WANTED:
            self._kernel.withhold(link.peer, message)
        status = Status.FAILED if fate is Fate.STUCK else Status.NOBODY
        text = b"the responder is stuck: it was not handled" if fate is Fate.STUCK else b""
        self._answer(Delivery(link.cid, link.peer.uuid, message), status, text)
        return True

    def judges(self, channel: str, key: str, judgement: Judgement) -> Judgement:
        return Fate.OWN if channel == self._reply_to.channel else judgement

    # Replies on their way.

    def _say_reply(self, peer: Peer, names: Subscription, framed: bytes) -> None:
        link = peer.link
        is_said = False
        if link is not None and link.connection is not None and link.connection.live:
            frame = link.connection.unreliable_frame(*names, framed)
            is_said = self._say(link, frame, None, self._limits.inbox_bytes)
        self._counts["replies" if is_said else "replies_dropped"] += 1

    def _say(self, link: Link, frame: bytes, request_id: int | None, most: int) -> bool:
        """Sends the frame, of a request with this id or of a reply (None), or queues it in order. Returns False if more
        than `most` bytes would wait.
        """
        connection = link.connection
        assert connection is not None
        if link not in self._waiting:
            if connection.unsent_bytes + link.in_transit < self._limits.high_water:
                connection.send_encoded(frame)
                self._kernel.write(link)
                return True
            self._waiting[link] = WaitingFrames()
        waiting = self._waiting[link]
        if waiting.size + len(frame) > most:
            return False
        waiting.add(frame, request_id)
        return True

    def sent(self, link: Link) -> None:
        if link in self._waiting:
            self._send_waiting(link)

    def _send_waiting(self, link: Link) -> None:
        """Sends queued frames while there is room, as nothing is in transit; drops requests that have ended."""
        connection, waiting = link.connection, self._waiting[link]
        assert connection is not None
        while waiting and connection.live and connection.unsent_bytes < self._limits.high_water:
            request_id, frame = waiting.take()
            if request_id is None or request_id in self._open.by_id:
                connection.send_encoded(frame)
        if not waiting:
            del self._waiting[link]
        self._kernel.write(link)

    def _hold_reply(self, peer: Peer, framed: bytes) -> None:
        held = self._held_replies.get(peer)
        if held is None:
            held = self._held_replies[peer] = deque()
            self._timers.set(("replies", peer), self._kernel.now + HELD_FOR)
        if sum(len(one) for _, one in held) + len(framed) > self._limits.low_water:
            self._counts["replies_dropped"] += 1
            return
        held.append((self._kernel.now + HELD_FOR, framed))

    def rerouted(self, peer: Peer) -> None:
        if peer in self._held_replies:
            self._send_held(peer)

    def _send_held(self, peer: Peer) -> None:
        names = self._reply_channel(peer)
        if names in peer.outbox.routed and peer.link is not None:
            for _, framed in self._held_replies.pop(peer):
                self._say_reply(peer, names, framed)
            self._timers.cancel(("replies", peer))

    def _on_replies_timeout(self, peer: Peer) -> None:
        held = self._held_replies[peer]
        while held and held[0][0] <= self._kernel.now:
            held.popleft()
            self._counts["replies_dropped"] += 1
        if held:
            self._timers.set(("replies", peer), held[0][0])
        else:
            del self._held_replies[peer]


def _reply_to(instance_id: UUID) -> Subscription:
    return Subscription(reply_channel(instance_id), "")


def _nobody(asked: Asked) -> NoResponders:
    return NoResponders(asked.channel.removeprefix(REQUESTS), asked.key)


def _key_of(delivery: Delivery) -> _RequestKey:
    return delivery.peer_id, delivery.message.message_id

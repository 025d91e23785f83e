"""Calls of an instance on Twisted, which answer with Deferreds.

Drawn by scripts/draw/facades.py from `anyio/instance.py`: change that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Generic, TypeVar, overload
from uuid import UUID

from twisted.internet.defer import Deferred, maybeDeferred

from tolliver_proto import Receipt
from tolliver_proto.node import Job, Reply, RetainedValue
from tolliver_proto.store import DeadLetter

from .._messages.channel import BaseChannel
from .._messages.events import Event
from .._messages.facade import BaseAdmin, BaseInstance
from .._messages.instance import Item, RequestTerms, To
from .._messages.iterators import Messages, Registration, Runs
from .._messages.mailbox import Handler
from .._messages.queues import BaseQueue, Named, Work, numbers_of
from .._messages.responding import CONCURRENCY, Responder, Responding
from .._messages.side_by_side import OrderedBy, chosen, chosen_with
from .._messages.typed import TypedMessages, TypedRuns, TypedWork
from .._options.instance import Remote
from ..codecs._bodies import TypedHandler
from ..codecs._codec import BYTES, AnyCodec
from ..codecs._requests import TypedReply, TypedResponding
from ..codecs._retained import TypedRetainedValue
from .core import InstanceCore
from .endpoint import Entered
from .events import Events

T = TypeVar("T")
R = TypeVar("R")


class Instance(Entered[InstanceCore], BaseInstance[InstanceCore]):
    """A running instance, from `create_instance` to `close`. Its calls belong on the reactor's thread.

    A call that waits returns a Deferred: where its text says that it returns, the Deferred fires, and where it raises,
    the Deferred fails; such a call raises nothing itself. A Deferred that is cancelled fires at once; what was asked
    for goes on. Every call but `close`, `peers`, `notices`, `stats` and `subscriptions` fails with ConnectionClosing
    where the instance is not open.
    """

    @property
    def admin(self) -> Admin:
        """The calls of an operator: peers to forget, dead letters, backup, certificates, access rules."""
        return Admin(self._core)

    def new_connection(
        self, remote: str | Remote, *, timeout: float | None = None, keep_trying: bool = False
    ) -> Deferred[UUID]:
        """Connect, keep the connection, and return the peer's UUID.

        Tries for ever, or for `timeout` seconds (then TimeoutError; the dialling goes on until `remove_connection`).
        Raises CertificateError, HandshakeRejected, IdentityConflict, AccessDenied, SelfConnection where one of the two
        sides refuses the other, and RemoteProtocolError (MalformedFrame, UnexpectedFrame, LimitExceeded) where what
        answers is no peer of this protocol or contradicts itself, unless `keep_trying` (T-73). The dialling ends with
        that, but for a remote of the options, one that was once up, and one given with `keep_trying`: these are dialled
        on, after a refusal every 1 to 5 minutes, and at once by this call, `admin.reload_tls` and `admin.set_acl`.
        Connected already: returns that peer. Raises ValueError for plaintext beyond this machine (D-15).
        """
        return self._core.answer(lambda: self._core.new_connection(remote, keep_trying), timeout)

    @overload
    def channel(self, name: str) -> Channel[bytes, bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T]) -> Channel[T, T]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T], reply_codec: AnyCodec[R]) -> Channel[T, R]: ...

    def channel(
        self, name: str, *, codec: AnyCodec[Any] | None = None, reply_codec: AnyCodec[Any] | None = None
    ) -> Channel[Any, Any]:
        """The calls of one channel, with values that the codec makes bytes of, and values out of what comes.

        Replies to requests have the `reply_codec` where that is another one. Without a codec, values are bytes.
        Nothing is sent or subscribed to by this call. Raises TypeError where a codec is none.
        """
        return Channel(self, name, codec, reply_codec)

    def subscribe(
        self,
        channel: str,
        key: str = "",
        handler: Handler | None = None,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Deferred[None]:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). Returns when it is stored.

        `handler` and its choices are registered first, as by `register_callback`. Raises ReservedChannel,
        OwnLimitExceeded, StoreError, TypeError.
        """
        return self._core.answer(
            lambda: self._core.subscribe_with(
                channel, key, handler, chosen_with(handler, concurrency, ordered_by, pending)
            )
        )

    def unsubscribe(self, channel: str, key: str = "") -> Deferred[None]:
        """No longer: removes exactly this entry (T-26). Returns when it is stored. Raises StoreError."""
        return self._core.answer(lambda: self._core.unsubscribe(channel, key))

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Deferred[Receipt]:
        """Store a message for every peer that subscribes to it, with fsync, and return its receipt (T-54).

        `to`, a peer's UUID or several, narrows it to them; one that does not subscribe is no recipient (P-25).
        Seconds after it was stored, `expire_after`, a message that is not acknowledged is given up (P-27).
        `receipt.recipients` says how many that are; 0 means that nobody was subscribed and nothing was kept (T-53).
        Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError, OutboxFull, StoreError, and TooFewRecipients where
        fewer than `require_recipients` are subscribed: then nothing was stored.
        """
        return self._core.answer(lambda: self._core.send(channel, key, body, require_recipients, to, expire_after))

    def send_many(
        self, items: Iterable[Item], *, require_recipients: int = 0, to: To = None, expire_after: float | None = None
    ) -> Deferred[Receipt]:
        """Store (channel, key, body) items in one commit, all or none; raises as `send`.

        `receipt.counts` has each one's recipients; `require_recipients` is for each of them.
        """
        return self._core.answer(lambda: self._core.send_many(tuple(items), require_recipients, to, expire_after))

    def retain(self, channel: str, key: str, body: bytes | None) -> Deferred[Receipt]:
        """Send this to whoever subscribes, as `send`, and keep it for whoever does so later: the newest of each name.

        A peer gets it once for each subscription that it had not, before whatever is sent later under that name (P-30).
        None clears the name and sends nothing. Returns when all is stored, with the receipt of the send. Raises as
        `send` does, and OwnLimitExceeded where `Limits.max_retained` or `max_retained_bytes` would be passed.
        """
        return self._core.answer(lambda: self._core.retain(channel, key, body))

    def retained(
        self, after: tuple[str, str] | None = None, count: int = 1000, *, channel: str = ""
    ) -> Deferred[list[RetainedValue]]:
        """Values that are kept, by channel and key: at most `count` after the name `after`, (channel, key).

        Each has `channel`, `key`, `body` and `stored_at`, seconds since 1970. `channel` has those of one channel
        alone. Raises StoreError.
        """
        return self._core.answer(lambda: self._core.retained(after, count, channel))

    def unreliable_send(self, channel: str, key: str, body: bytes, *, to: To = None) -> int:
        """Send to the connected subscribers, unstored, without waiting; returns how many (T-55).

        `to` narrows them as with `send`. Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError.
        """
        return self._core.unreliable_send(channel, key, body, to)

    def register_callback(
        self,
        channel: str,
        key: str,
        handler: Handler,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Registration:
        """Call `handler(delivery)`, plain or async, for what matches; "" is a wildcard. Does not subscribe (T-57).

        None or a true value means handled: the message is acknowledged once all matching handlers say so. A false
        value or an exception means failed: it is sent again (T-45). One call at a time for each registration, or
        `concurrency` of them; with `ordered_by="key"` one follows the other inside a key (P-20, P-21).
        `pending` is how many messages it may have that are not settled; then reading of their senders pauses (P-24).
        """
        return self._core.handle(channel, key, handler, chosen(concurrency, ordered_by, pending))

    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Messages:
        """`async for delivery in instance.messages(...)`: settle each with `delivery.ack()` or `delivery.fail()`.

        Subscribes with the first one that is asked for, and raises there what that raises.
        """
        return Messages(self._core, channel, key, subscribe)

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Runs:
        """As `messages`, for bulk: runs of what came together, settled with `run.ack()` or `run.fail()`."""
        return Runs(self._core, channel, key, subscribe)

    def work_queue(self, channel: str, *, lease: float = 10.0) -> WorkQueue[bytes]:
        """Make this channel a work queue: each job that is put there goes to one of the workers, and to another one
        where it is cut off for `lease` seconds. Jobs of earlier lives go on.

        Raises ReservedChannel, ValueError, TypeError, LocalProtocolError.
        """
        self._core.work_queue(channel, lease)
        return WorkQueue(self._core, channel, BYTES)

    def work(self, channel: str, *, concurrency: int = 1, lease: float = 10.0) -> Work:
        """`async with instance.work(...) as jobs`, `async for job in jobs`: `job.ack()` when it is done.

        At most `concurrency` jobs that are not settled are handed out, and about as many more are fetched ahead. When a
        producer has been away for `lease` seconds, which is to be its own, what it gave and was not handed out is let
        go. Raises ReservedChannel, ValueError, OwnLimitExceeded, LocalProtocolError where it works there already.
        """
        return Work(self._core, channel, concurrency, lease)

    def wait_subscribed(
        self, channel: str, key: str = "", *, peers: int = 1, connected: bool = False, timeout: float | None = None
    ) -> Deferred[int]:
        """Return once a message with these names would go to that many peers; returns how many.

        Peers that are away count, as the message waits for them; with `connected` they do not. A subscription that is
        held does not count, as in `require_recipients` (T-61). Raises TimeoutError after `timeout` seconds.
        """
        return self._core.answer(lambda: self._core.wait_subscribed(channel, key, peers, connected), timeout)

    def wait_responder(
        self, channel: str, key: str = "", *, peers: int = 1, timeout: float | None = None
    ) -> Deferred[int]:
        """Return once that many connected peers respond to requests for these names (P-13); returns how many.

        A request waits for one by itself: this is for who wants to know before it asks, or gathers from several.
        Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError, and TimeoutError after `timeout` seconds.
        """
        return self._core.answer(lambda: self._core.wait_responder(channel, key, peers), timeout)

    def events(self) -> Events[Event]:
        """`async for event in instance.events()`: what happens from now on, until the instance is closed.

        PeerUp, PeerDown (`error` says why), SubscriptionsChanged, Notice. One that is read too slowly keeps the newest
        thousand and has EventsMissed in place of the others.
        """
        return Events(self._core, self._core.feed)

    def flush(self, *, timeout: float | None = None) -> Deferred[None]:
        """Wait until what was sent so far, unreliable messages too, is given to the sockets of the connected peers.

        It has left this process then, and says nothing of its arrival: that is `wait_acked`. Messages for peers that
        are away are not waited for. A peer that reads nothing holds it up: raises TimeoutError after `timeout`
        seconds, which says who it is, and what was sent still goes out.
        """
        return self._core.answer(lambda: self._core.flush(), timeout)

    def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> Deferred[None]:
        """Wait until every recipient has acknowledged all of it (T-54).

        An acknowledgement says that its handlers handled the message, that it keeps it as a dead letter, or that its
        own rules refuse it: the wire cannot tell which. Raises Undelivered as soon as some of it was given up for a
        peer, and whenever it is asked again; `receipt.undelivered` has all of that. Where some of it had no recipients,
        raises Undelivered with None for the peer once all else is acknowledged: what is kept for a
        remote that connects may have one yet (T-53, T-62). Raises TimeoutError after `timeout` seconds.
        """
        return self._core.answer(lambda: self._core.wait_acked(receipt), timeout)

    def request(
        self,
        channel: str,
        body: bytes,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> Deferred[Reply]:
        """Ask the peers that `respond` to these names and return the first answer: `reply.body`, `reply.peer_id`.

        Where nobody responds it waits for a connected peer that does, within `timeout` seconds; with `wait=False` it
        does not (P-13). `to`, a peer's UUID or several, asks of them only these. A `durable` request is stored, as by
        `send`, and so is its reply; with a `request_id` of its own a program asks the same again after a restart
        (P-16). Raises NoResponders where nobody was there in time, RequestFailed with the words of a handler that
        raised, ConnectionLost where the connection ended first, and TimeoutError after `timeout` seconds. Raises
        OutboxFull, StoreError, ReservedChannel, OwnLimitExceeded, LocalProtocolError where it could not be sent.
        """
        terms = RequestTerms(timeout=timeout, to=to, durable=durable, request_id=request_id, wait=wait)
        return self._core.answer(lambda: self._core.request(channel, key, body, terms))

    def gather(
        self,
        channel: str,
        body: bytes,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> Deferred[list[Reply]]:
        """As `request`, of everybody: the replies of all that were asked, or those that came within `timeout` seconds.
        It waits for one responder, and asks those who are there then.

        A handler that failed is a reply with an `error`. Raises as `request` does, but no TimeoutError.
        """
        terms = RequestTerms(timeout=timeout, to=to, durable=durable, request_id=request_id, wait=wait)
        return self._core.answer(lambda: self._core.gather(channel, key, body, terms))

    def respond(self, channel: str, handler: Responding, key: str = "", *, concurrency: int = CONCURRENCY) -> Responder:
        """Answer requests with what `handler(request)`, plain or async, returns: the reply's body, bytes.

        Subscribes to them; "" is any key. An exception of it reaches the requester as RequestFailed. At most
        `concurrency` requests are awaited at once. `close()` ends it. Raises ReservedChannel, OwnLimitExceeded,
        LocalProtocolError, TypeError, ValueError.
        """
        return self._core.respond(channel, key, handler, concurrency)


class Channel(BaseChannel[T, R], Generic[T, R]):
    """One channel of an instance, with values of type T, and replies of type R: `instance.channel(name, codec=codec)`.

    Its calls are those of the instance without the channel's name, and raise what these raise; a value that the codec
    does not encode raises BodyNotEncoded before anything is stored.
    """

    _instance: Instance

    def subscribe(
        self,
        key: str = "",
        handler: TypedHandler[T] | None = None,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Deferred[None]:
        """As `Instance.subscribe`; deliveries have a `value`, and a body that does not decode is a failure."""
        return maybeDeferred(
            lambda: self._instance.subscribe(
                self._name,
                key,
                self._decoding(handler),
                concurrency=concurrency,
                ordered_by=ordered_by,
                pending=pending,
            )
        )

    def unsubscribe(self, key: str = "") -> Deferred[None]:
        """As `Instance.unsubscribe`."""
        return maybeDeferred(lambda: self._instance.unsubscribe(self._name, key))

    def send(
        self,
        key: str,
        value: T,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Deferred[Receipt]:
        """Store a value for every peer that subscribes to it, and return its receipt, as `Instance.send`."""
        return maybeDeferred(
            lambda: self._instance.send(
                self._name,
                key,
                self._encoded(key, value),
                require_recipients=require_recipients,
                to=to,
                expire_after=expire_after,
            )
        )

    def send_many(
        self,
        items: Iterable[tuple[str, T]],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Deferred[Receipt]:
        """Store (key, value) items in one commit, all or none, as `Instance.send_many`."""
        return maybeDeferred(
            lambda: self._instance.send_many(
                self._items(items), require_recipients=require_recipients, to=to, expire_after=expire_after
            )
        )

    def retain(self, key: str, value: T | None) -> Deferred[Receipt]:
        """As `Instance.retain`; None clears the name, whatever the codec makes of it."""
        return maybeDeferred(
            lambda: self._instance.retain(self._name, key, None if value is None else self._encoded(key, value))
        )

    def retained(self, after: str | None = None, count: int = 1000) -> Deferred[list[TypedRetainedValue[T]]]:
        """Values of this channel that are kept, by key: at most `count` after the key `after`.

        Each has a `value`, too, which raises BodyNotDecoded where it does not decode (P-48). Raises StoreError.
        """
        return maybeDeferred(
            lambda: self._instance.retained(None if after is None else (self._name, after), count, channel=self._name)
        ).addCallback(lambda answer: self._opened(answer))

    def unreliable_send(self, key: str, value: T, *, to: To = None) -> int:
        """Send to the connected subscribers, unstored; returns how many, as `Instance.unreliable_send`."""
        return self._instance.unreliable_send(self._name, key, self._encoded(key, value), to=to)

    def register_callback(
        self,
        key: str,
        handler: TypedHandler[T],
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Registration:
        """As `Instance.register_callback`; a body that does not decode is a failure of the handler."""
        return self._instance.register_callback(
            self._name,
            key,
            self._decoding(handler),
            concurrency=concurrency,
            ordered_by=ordered_by,
            pending=pending,
        )

    def messages(self, key: str = "", *, subscribe: bool = True) -> TypedMessages[T]:
        """As `Instance.messages`; deliveries have a `value`. One that does not decode is failed, told by a notice, and
        not handed out."""
        return TypedMessages(self._codec, self._instance.messages(self._name, key, subscribe=subscribe))

    def runs(self, key: str = "", *, subscribe: bool = True) -> TypedRuns[T]:
        """As `messages`, for bulk: runs of what came together."""
        return TypedRuns(self._codec, self._instance.message_runs(self._name, key, subscribe=subscribe))

    def request(
        self,
        value: T,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> Deferred[TypedReply[R]]:
        """As `Instance.request`; the reply has a `value`, and one that does not decode is RequestFailed (P-46)."""
        return maybeDeferred(
            lambda: self._instance.request(
                self._name,
                self._encoded(key, value),
                key,
                timeout=timeout,
                to=to,
                durable=durable,
                request_id=request_id,
                wait=wait,
            )
        ).addCallback(
            lambda answer: self._reply(
                key,
                answer,
            )
        )

    def gather(
        self,
        value: T,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> Deferred[list[TypedReply[R]]]:
        """As `Instance.gather`; the `value` of a reply that does not decode raises RequestFailed."""
        return maybeDeferred(
            lambda: self._instance.gather(
                self._name,
                self._encoded(key, value),
                key,
                timeout=timeout,
                to=to,
                durable=durable,
                request_id=request_id,
                wait=wait,
            )
        ).addCallback(
            lambda answer: self._replies(
                key,
                answer,
            )
        )

    def respond(self, handler: TypedResponding[T, R], key: str = "", *, concurrency: int = CONCURRENCY) -> Responder:
        """As `Instance.respond`: the request has a `value`, and what the handler returns is one.

        A request that does not decode is RequestFailed for its requester (P-46).
        """
        return self._instance.respond(self._name, self._answering(handler), key, concurrency=concurrency)

    def queue(self, *, lease: float = 10.0) -> WorkQueue[T]:
        """As `Instance.work_queue`, of values."""
        return self._instance.work_queue(self._name, lease=lease).of(self._codec)

    def work(self, *, concurrency: int = 1, lease: float = 10.0) -> TypedWork[T]:
        """As `Instance.work`; jobs have a `value`. One that does not decode is failed, told, and left out (P-42)."""
        return TypedWork(self._codec, self._instance.work(self._name, concurrency=concurrency, lease=lease))


class Admin(BaseAdmin[InstanceCore]):
    """The calls of an operator, `instance.admin`. They raise ConnectionClosing where the instance is not open."""

    def forget_peer(self, peer: UUID) -> Deferred[None]:
        """Purge what waits for it, its subscriptions and its pin, and close its connection (T-77).

        Raises StoreError.
        """
        return self._core.answer(lambda: self._core.forget_peer(peer))

    def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> Deferred[None]:
        """The peer has a new key: this one (SHA-256 of its SPKI), or if None whichever it shows next (D-3).

        Raises StoreError.
        """
        return self._core.answer(lambda: self._core.repin(peer, spki_sha256))

    def retry(self, peer: UUID) -> Deferred[int]:
        """Send what was set aside for this peer once more (T-09); returns how many messages. Raises StoreError."""
        return self._core.answer(lambda: self._core.retry(peer))

    def drop_parked(self, peer: UUID) -> Deferred[int]:
        """Give up what was set aside for this peer; returns how many messages. Raises StoreError."""
        return self._core.answer(lambda: self._core.drop_parked(peer))

    def dead_letters(self, after: int = 0, count: int = 1000) -> Deferred[list[DeadLetter]]:
        """Messages that our handlers failed too often (T-47), oldest first: at most `count` after number `after`.

        Raises StoreError.
        """
        return self._core.answer(lambda: self._core.dead_letters(after, count))

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int]) -> Deferred[int]:
        """Give up these dead letters, or those of these numbers; returns how many were there. Raises StoreError."""
        return self._core.answer(lambda: self._core.drop_dead_letters(tuple(letters)))

    def backup(self, path: str | os.PathLike[str]) -> Deferred[None]:
        """Copy the database as it is now to a new file, while everything goes on; returns when that is on disk.

        The file opens as a database and is whole once it has its name. Closing the instance gives it up. Raises
        StoreError: there is such a file, no space is left, or it cannot be written.
        """
        return self._core.answer(lambda: self._core.backup(path))

    def reload_tls(self) -> Deferred[None]:
        """Read the certificate files again, for connections that are made from now on. Those that live stay, but for
        peers whose certificate the list of revoked ones (`TLS(crl=...)`) has by now.

        Raises CertificateError where a file is missing or peers would refuse it, and IdentityConflict where the
        certificate is not this instance's: then the old ones stay in use.
        """
        return self._core.answer(lambda: self._core.reload_tls())


class WorkQueue(BaseQueue[T], Generic[T]):
    """A work queue: each job that is put is for one of the workers. Its jobs are bytes, or values of a channel's codec.

    Every call raises ConnectionClosing where the instance is not open, and StoreError.
    """

    _core: InstanceCore

    def of(self, codec: AnyCodec[R]) -> WorkQueue[R]:
        """The same queue, of values of this codec."""
        return WorkQueue(self._core, self._channel, codec)

    def put(self, body: T, key: str = "") -> Deferred[Receipt]:
        """Store a job, with fsync, and return its receipt: `wait_acked(receipt)` returns when it is done.

        It waits on disk for as long as there is no worker. Raises BodyNotEncoded, OwnLimitExceeded, LocalProtocolError,
        and OutboxFull where too many jobs wait that nobody has.
        """
        return self._core.answer(lambda: self._core.put_jobs(self._channel, self._jobs([(key, body)])))

    def put_many(self, jobs: Iterable[T | tuple[str, T]]) -> Deferred[Receipt]:
        """Store jobs in one commit, all or none; raises as `put`.

        Each is (key, body), or bytes alone. With a codec each is (key, value), as a value may be a tuple itself;
        raises TypeError for what is no such pair.
        """
        return self._core.answer(lambda: self._core.put_jobs(self._channel, self._jobs(jobs)))

    def pending(self, count: int = 1000) -> Deferred[list[Job]]:
        """The first `count` jobs that are not done, in order, each with the UUID of its worker, None for nobody."""
        return self._core.answer(lambda: self._core.pending_jobs(self._channel, count))

    def reassign(self, worker: UUID) -> Deferred[int]:
        """Take all jobs from this worker and give them to others; returns how many.

        It gets nothing more until it connects again. A job that it is at goes on there, and may be done twice.
        """
        return self._core.answer(lambda: self._core.reassign(self._channel, worker))

    def cancel(self, jobs: Named) -> Deferred[int]:
        """Give up jobs: those of a receipt, or Jobs or their numbers; returns how many were not done.

        `wait_acked` raises Undelivered for them, with the reason `cancelled`. A worker that is at one goes on.
        """
        return self._core.answer(lambda: self._core.cancel_jobs(self._channel, numbers_of(jobs)))

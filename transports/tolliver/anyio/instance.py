"""Calls of an instance on asyncio and trio, as coroutines.

The signatures and docstrings of all adapters are written here. `scripts/draw/facades.py` generates those of Twisted and
of threads from this file. So each call that waits is a single awaited expression, its last statement.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar, overload
from uuid import UUID

from tolliver_proto import Receipt
from tolliver_proto.node import Job, Reply, RetainedValue, Retry, listed
from tolliver_proto.store import DeadLetter

from .._driver.events import Events
from .._messages.channel import BaseChannel
from .._messages.events import Event
from .._messages.facade import BaseAdmin, BaseInstance
from .._messages.instance import Item, RequestTerms, To
from .._messages.iterators import Messages, Registration, Runs
from .._messages.mailbox import Handler
from .._messages.queues import BaseQueue, Named, Work, numbers_of
from .._messages.responding import CONCURRENCY, Responder, Responding
from .._messages.side_by_side import Ack, OrderedBy, chosen, chosen_with
from .._messages.typed import TypedMessages, TypedRuns, TypedWork
from .._options.instance import Remote
from ..codecs._bodies import TypedHandler
from ..codecs._codec import BYTES, AnyCodec
from ..codecs._requests import TypedReply, TypedResponding
from ..codecs._retained import TypedRetainedValue
from .core import InstanceCore
from .endpoint import Entered

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
W = TypeVar("W")


class Instance(Entered[InstanceCore], BaseInstance[InstanceCore]):
    """A running instance: use `async with create_instance(options) as instance`.

    Cancelling a waiting call does not undo its operation. Every call except `peers`, `notices`, `stats` and
    `subscriptions` raises ConnectionClosing if the instance is not open. A wrong argument raises TypeError, or
    ValueError for a number out of range, before anything changes.
    """

    @property
    def admin(self) -> Admin:
        """Operator calls: forget peers, dead letters, backup, certificates, access rules."""
        return Admin(self._core)

    async def new_connection(
        self, remote: str | Remote, *, timeout: float | None = None, keep_trying: bool = False
    ) -> UUID:
        """Connect, keep the connection, and return the peer's UUID, at once if it is connected already.

        Tries for ever, or for `timeout` seconds, then raises TimeoutError; dialling goes on until `remove_connection`.

        Unless `keep_trying` (T-73), raises CertificateError, HandshakeRejected, IdentityConflict, AccessDenied or
        SelfConnection if one of the two sides refuses the other, and RemoteProtocolError (MalformedFrame,
        UnexpectedFrame, LimitExceeded) if the other side does not speak this protocol. Such an error ends the dialling,
        except for a remote of the options, one that was once connected, and one given with `keep_trying`: these are
        dialled every 1 to 5 minutes, and at once by this call, `admin.reload_tls` and `admin.set_acl`. Raises
        ValueError for plaintext to another machine (D-15).
        """
        return await self._core.ask(partial(self._core.new_connection, remote, keep_trying), timeout)

    @overload
    def channel(self, name: str, *, keep: bool = False) -> Channel[bytes, bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T], keep: bool = False) -> Channel[T, T]: ...

    @overload
    def channel(
        self, name: str, *, codec: AnyCodec[T], reply_codec: AnyCodec[R], keep: bool = False
    ) -> Channel[T, R]: ...

    def channel(
        self,
        name: str,
        *,
        codec: AnyCodec[Any] | None = None,
        reply_codec: AnyCodec[Any] | None = None,
        keep: bool = False,
    ) -> Channel[Any, Any]:
        """A channel with typed values, which the codec encodes and decodes.

        Replies to requests use `reply_codec` if it is given. Without a codec, values are bytes. Nothing is sent or
        subscribed to by this call. With `keep`, what is sent reliably from now on while nobody subscribes waits on disk
        for the first subscriber, within the bounds of a peer's queue (P-95). Raises TypeError for an invalid codec.
        """
        return Channel(self, name, codec, reply_codec, keep)

    async def subscribe(
        self,
        channel: str,
        key: str = "",
        handler: Handler | None = None,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        retry: Retry | None = None,
        ack: Ack = "handled",
    ) -> None:
        """Subscribe to a channel and key at every peer, now and after a restart; "" is a wildcard (T-24).

        Returns when the subscription is stored. `handler` and its options are registered first, as by
        `register_callback`. Raises ReservedChannel, OwnLimitExceeded, StoreError, TypeError.
        """
        await self._core.wait(
            self._core.subscribe_with(
                channel, key, handler, chosen_with(handler, concurrency, ordered_by, pending, retry, ack)
            )
        )

    async def unsubscribe(self, channel: str, key: str = "") -> None:
        """Remove exactly this subscription (T-26). Returns when that is stored. Raises StoreError."""
        await self._core.wait(self._core.unsubscribe(channel, key))

    async def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store a message, with fsync, for every peer that subscribes to it, and return its receipt (T-54).

        - `require_recipients`: with fewer recipients, raises TooFewRecipients, and stores nothing.
        - `to`: a peer's UUID or several; only those of them that subscribe are recipients (P-25).
        - `expire_after`: seconds; if not acknowledged by then, the message is given up (P-27).
        - `message_key`: your name for the message. The channel stores one message for each, for `Policy.key_window`: a
          later send with the name stores nothing, and its receipt `repeats`, with the first one's `state` (P-60).
        - `after`, `not_before`: seconds, or an aware datetime, until which the message waits on disk. Then it goes to
          those who subscribe at that time; the receipt counts it as `later` until then (P-90).

        `receipt.recipients` is their number; with 0 no peer is subscribed, and nothing is stored (T-53). Raises
        ReservedChannel, OwnLimitExceeded, LocalProtocolError, OutboxFull, StoreError.
        """
        return await self._core.wait(
            self._core.send(channel, key, body, require_recipients, to, expire_after, message_key, after, not_before)
        )

    async def send_many(
        self,
        items: Iterable[Item],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store (channel, key, body) items in one commit, all or none. Raises like `send`.

        `receipt.counts` has the number of recipients of each item; `require_recipients` applies to each, and so does
        the time of `after` or `not_before`.
        """
        return await self._core.wait(
            self._core.send_many(listed("items", items), require_recipients, to, expire_after, after, not_before)
        )

    async def retain(self, channel: str, key: str, body: bytes | None) -> Receipt:
        """Send a message like `send`, and keep it for later subscribers: the newest for each channel and key.

        A peer gets it once for each new subscription, before later messages of that channel and key (P-30). None
        removes the kept message and sends nothing. Returns when all is stored, with the receipt of the send. Raises
        like `send`, and OwnLimitExceeded above `Limits.max_retained` or `max_retained_bytes`.
        """
        return await self._core.wait(self._core.retain(channel, key, body))

    async def retained(
        self, after: tuple[str, str] | None = None, count: int = 1000, *, channel: str | None = None
    ) -> list[RetainedValue]:
        """Retained messages in order of (channel, key): at most `count` after the pair `after`.

        Each has `channel`, `key`, `body` and `stored_at` (seconds since 1970; whole seconds on disk, so the fraction
        is lost at a restart). `channel` restricts them to one channel. Raises StoreError.
        """
        return await self._core.wait(self._core.retained(after, count, channel))

    async def ask_retained(self, channel: str) -> None:
        """Ask all peers for the last values that they retain and we subscribe to, once more; "" is for all channels.

        They come to the handlers as after a new subscription, also from peers that connect later (P-37). Returns when
        that is stored. Raises LocalProtocolError if nothing of the channel is subscribed to, OwnLimitExceeded,
        StoreError.
        """
        await self._core.wait(self._core.ask_retained(channel))

    def unreliable_send(self, channel: str, key: str, body: bytes, *, to: To = None) -> int:
        """Send to the connected subscribers, without storing or waiting; returns their number (T-55).

        `to` restricts them as for `send`. Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError.
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
        retry: Retry | None = None,
        ack: Ack = "handled",
    ) -> Registration:
        """Call `handler(delivery)`, plain or async, for matching messages; "" is a wildcard. Does not subscribe (T-57).

        None or a true value means success: the message is acknowledged once all matching handlers succeed. A false
        value or an exception means failure: the message is resent (T-45).

        - `concurrency`: calls of this handler at a time.
        - `ordered_by`: "key" makes the calls of each key one after the other (P-20, P-21).
        - `pending`: most unsettled messages of this handler; above it, reading from their senders pauses (P-24).
        - `retry`: tries and pauses of what it fails with; None leaves both to the senders (T-50).
        - `ack`: "received" acknowledges a message as its call begins: what fails is told, and not resent (T-45).
        """
        return self._core.handle(channel, key, handler, chosen(concurrency, ordered_by, pending, retry, ack))

    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Messages:
        """Iterate over matching messages: `async for delivery in instance.messages(...)`.

        Settle each with `delivery.ack()` or `delivery.fail()`. Subscribes when the first message is asked for, which
        raises like `subscribe`; with `subscribe=False` it does not.
        """
        return Messages(self._core, channel, key, subscribe)

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Runs:
        """Like `messages`, but yields runs of messages that arrived together: settle with `run.ack()` or
        `run.fail()`."""
        return Runs(self._core, channel, key, subscribe)

    def work_queue(self, channel: str, *, lease: float = 10.0) -> WorkQueue[bytes, bytes]:
        """The work queue on this channel: each job put there goes to one worker.

        A job goes to another worker if its worker is disconnected for `lease` seconds. Jobs of earlier runs of the
        program go on. Raises ReservedChannel, ValueError, TypeError, LocalProtocolError.
        """
        self._core.work_queue(channel, lease)
        return WorkQueue(self._core, channel, BYTES, BYTES)

    def work(
        self, channel: str, *, concurrency: int = 1, lease: float = 10.0, prefetch: int = 0, retry: Retry | None = None
    ) -> Work:
        """Work on jobs: `async with instance.work(...) as jobs`, `async for job in jobs`: `job.ack()` when it is done,
        or `job.answer(body)` for a `call`.

        At most `concurrency` unsettled jobs are handed out; `prefetch` more are here in advance, and wait for a free
        hand here though another worker may be idle. `lease` must be the producer's: when a producer has been
        disconnected for that long, its jobs not handed out are released. `retry` has the tries and pauses of a job that
        fails; after the last it is a dead letter here, and done for its producer.
        Raises ReservedChannel, ValueError, OwnLimitExceeded, and LocalProtocolError if a worker exists here already.
        """
        return Work(self._core, channel, concurrency, lease, prefetch, retry)

    async def wait_subscribed(
        self, channel: str, key: str = "", *, peers: int = 1, connected: bool = False, timeout: float | None = None
    ) -> int:
        """Wait until a message to this channel and key would have at least `peers` recipients; returns their number.

        Disconnected peers count, as messages are kept for them, unless `connected`. Held subscriptions do not count, as
        for `require_recipients` (T-61). Raises TimeoutError after `timeout` seconds.
        """
        return await self._core.ask(partial(self._core.wait_subscribed, channel, key, peers, connected), timeout)

    async def wait_responder(self, channel: str, key: str = "", *, peers: int = 1, timeout: float | None = None) -> int:
        """Wait until at least `peers` connected peers respond to requests for these names (P-13); returns their number.

        `request` waits for one by itself: this is for knowing in advance, and before `gather`. Raises ReservedChannel,
        OwnLimitExceeded, LocalProtocolError, and TimeoutError after `timeout` seconds.
        """
        return await self._core.ask(partial(self._core.wait_responder, channel, key, peers), timeout)

    def events(self) -> Events[Event]:
        """Iterate over events from now on: `async for event in instance.events()`. Ends when the instance is closed.

        Events are PeerUp, PeerDown (with its `error`), SubscriptionsChanged, DialFailed, CertificateExpires and Notice.
        An iterator that is read too slowly keeps the newest 1000, and yields EventsMissed in place of the others.
        """
        return Events(self._core, self._core.feed)

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until everything sent so far, unreliable messages too, is written to the sockets of the connected peers.

        It may not have arrived yet: `wait_acked` waits for that. Messages for disconnected peers are not waited for. A
        peer that does not read delays this call: after `timeout` seconds it raises TimeoutError, which names the peer.
        """
        await self._core.ask(self._core.flush, timeout)

    async def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        """Wait until every recipient has acknowledged every message of the receipt (T-54).

        An acknowledgement means that the peer's handlers succeeded, that the peer stored the message as a dead letter,
        or that its own rules refuse the message: the protocol does not tell which.

        Raises Undelivered as soon as a message was given up for a peer; `receipt.undelivered` lists them. A message
        without recipients raises Undelivered with None as the peer, after all others are acknowledged: until then a
        remote may connect and become its recipient (T-53, T-62). Raises TimeoutError after `timeout` seconds.
        """
        await self._core.ask(partial(self._core.wait_acked, receipt), timeout)

    async def request(
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
        message_key: str | None = None,
    ) -> Reply:
        """Ask the peers that `respond` to this channel and key; returns the first reply, with `body` and `peer_id`.

        - `timeout`: seconds, including the wait for a responder to connect. `wait=False` does not wait for one (P-13).
        - `to`: a peer's UUID or several; only these are asked.
        - `durable`: store the request, as by `send`, and its reply.
        - `request_id`: your number for a durable request, to ask for the same reply after a restart (P-16).
        - `message_key`: your name for a durable request, which is stored once, as by `send`; a repeated one waits for
          the reply to the first (P-66).

        Raises NoResponders if none connected in time, RequestFailed with the text of the handler's exception,
        ConnectionLost if the connection ended first, and TimeoutError. Raises OutboxFull, StoreError, ReservedChannel,
        OwnLimitExceeded, LocalProtocolError if the request could not be sent, and Undelivered if the first request with
        the message key was given up.
        """
        terms = RequestTerms(
            timeout=timeout, to=to, durable=durable, request_id=request_id, wait=wait, message_key=message_key
        )
        return await self._core.wait(self._core.request(channel, key, body, terms))

    async def gather(
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
    ) -> list[Reply]:
        """Like `request`, but returns the replies of all responders, or those that came within `timeout` seconds.

        Waits for one responder, then asks all that are connected. A failed handler gives a reply with an `error`.
        Raises like `request`, except TimeoutError.
        """
        terms = RequestTerms(timeout=timeout, to=to, durable=durable, request_id=request_id, wait=wait)
        return await self._core.wait(self._core.gather(channel, key, body, terms))

    def respond(self, channel: str, handler: Responding, key: str = "", *, concurrency: int = CONCURRENCY) -> Responder:
        """Call `handler(request)`, plain or async, for each request; it returns the reply's body (bytes).

        Subscribes to the channel and key; "" is any key. An exception of the handler reaches the requester as
        RequestFailed. At most `concurrency` requests are processed at a time. `close()` ends it. Raises
        ReservedChannel, OwnLimitExceeded, LocalProtocolError, TypeError, ValueError.
        """
        return self._core.respond(channel, key, handler, concurrency)


class Channel(BaseChannel[T, R], Generic[T, R]):
    """One channel of an instance, with values of type T and replies of type R: `instance.channel(name, codec=codec)`.

    Its calls are those of the instance, without the channel's name, and raise the same errors. A value that the codec
    cannot encode raises BodyNotEncoded before anything is stored.
    """

    _instance: Instance

    async def subscribe(
        self,
        key: str = "",
        handler: TypedHandler[T] | None = None,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        retry: Retry | None = None,
        ack: Ack = "handled",
    ) -> None:
        """Like `Instance.subscribe`; deliveries have a decoded `value`. A body that does not decode counts as
        failed."""
        await self._instance.subscribe(
            self._name,
            key,
            self._decoding(handler),
            concurrency=concurrency,
            ordered_by=ordered_by,
            pending=pending,
            retry=retry,
            ack=ack,
        )

    async def unsubscribe(self, key: str = "") -> None:
        """Like `Instance.unsubscribe`."""
        await self._instance.unsubscribe(self._name, key)

    async def send(
        self,
        key: str,
        value: T,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store a value for every peer that subscribes to it, and return its receipt, like `Instance.send`."""
        return await self._instance.send(
            self._name,
            key,
            self._encoded(key, value),
            require_recipients=require_recipients,
            to=to,
            expire_after=expire_after,
            message_key=message_key,
            after=after,
            not_before=not_before,
        )

    async def send_many(
        self,
        items: Iterable[tuple[str, T]],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store (key, value) items in one commit, all or none, like `Instance.send_many`."""
        return await self._instance.send_many(
            self._items(items),
            require_recipients=require_recipients,
            to=to,
            expire_after=expire_after,
            after=after,
            not_before=not_before,
        )

    async def retain(self, key: str, value: T | None) -> Receipt:
        """Like `Instance.retain`. None removes the kept value, even if the codec could encode None."""
        return await self._instance.retain(self._name, key, None if value is None else self._encoded(key, value))

    async def retained(self, after: str | None = None, count: int = 1000) -> list[TypedRetainedValue[T]]:
        """Retained values of this channel in order of their keys: at most `count` after the key `after`.

        Each has a decoded `value`, which raises BodyNotDecoded if it does not decode (P-48). Raises StoreError.
        """
        return self._opened(
            await self._instance.retained(None if after is None else (self._name, after), count, channel=self._name)
        )

    async def ask_retained(self) -> None:
        """Like `Instance.ask_retained`."""
        await self._instance.ask_retained(self._name)

    def unreliable_send(self, key: str, value: T, *, to: To = None) -> int:
        """Send to the connected subscribers, without storing; returns their number, like `Instance.unreliable_send`."""
        return self._instance.unreliable_send(self._name, key, self._encoded(key, value), to=to)

    def register_callback(
        self,
        key: str,
        handler: TypedHandler[T],
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        retry: Retry | None = None,
        ack: Ack = "handled",
    ) -> Registration:
        """Like `Instance.register_callback`. A body that does not decode counts as a failure of the handler."""
        return self._instance.register_callback(
            self._name,
            key,
            self._decoding(handler),
            concurrency=concurrency,
            ordered_by=ordered_by,
            pending=pending,
            retry=retry,
            ack=ack,
        )

    def messages(self, key: str = "", *, subscribe: bool = True) -> TypedMessages[T]:
        """Like `Instance.messages`; deliveries have a decoded `value`. A body that does not decode is failed, with a
        notice, and skipped."""
        return TypedMessages(self._codec, self._instance.messages(self._name, key, subscribe=subscribe))

    def runs(self, key: str = "", *, subscribe: bool = True) -> TypedRuns[T]:
        """Like `messages`, but yields runs of messages that arrived together."""
        return TypedRuns(self._codec, self._instance.message_runs(self._name, key, subscribe=subscribe))

    async def request(
        self,
        value: T,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
        message_key: str | None = None,
    ) -> TypedReply[R]:
        """Like `Instance.request`; the reply has a decoded `value`. If it does not decode, raises RequestFailed
        (P-46)."""
        return self._reply(
            key,
            await self._instance.request(
                self._name,
                self._encoded(key, value),
                key,
                timeout=timeout,
                to=to,
                durable=durable,
                request_id=request_id,
                wait=wait,
                message_key=message_key,
            ),
        )

    async def gather(
        self,
        value: T,
        key: str = "",
        *,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> list[TypedReply[R]]:
        """Like `Instance.gather`; replies have a decoded `value`, which raises RequestFailed if it does not decode."""
        return self._replies(
            key,
            await self._instance.gather(
                self._name,
                self._encoded(key, value),
                key,
                timeout=timeout,
                to=to,
                durable=durable,
                request_id=request_id,
                wait=wait,
            ),
        )

    def respond(self, handler: TypedResponding[T, R], key: str = "", *, concurrency: int = CONCURRENCY) -> Responder:
        """Like `Instance.respond`; the request has a decoded `value`, and the handler returns a value.

        A request that does not decode raises RequestFailed at its requester (P-46).
        """
        return self._instance.respond(self._name, self._answering(handler), key, concurrency=concurrency)

    def queue(self, *, lease: float = 10.0) -> WorkQueue[T, R]:
        """Like `Instance.work_queue`, with values as jobs; the answers use the channel's `reply_codec`."""
        return self._instance.work_queue(self._name, lease=lease).of(self._codec, self._reply_codec)

    def work(
        self, *, concurrency: int = 1, lease: float = 10.0, prefetch: int = 0, retry: Retry | None = None
    ) -> TypedWork[T, R]:
        """Like `Instance.work`; jobs have a decoded `value`, and `answer(value)`. A job that does not decode is failed,
        with a notice, and skipped (P-42)."""
        return TypedWork(
            self._codec,
            self._reply_codec,
            self._instance.work(self._name, concurrency=concurrency, lease=lease, prefetch=prefetch, retry=retry),
        )


class Admin(BaseAdmin[InstanceCore]):
    """Operator calls, as `instance.admin`. They raise ConnectionClosing if the instance is not open."""

    async def forget_peer(self, peer: UUID) -> None:
        """Delete a peer's waiting messages, its subscriptions and its pinned key, and close its connection (T-77).

        Raises StoreError.
        """
        await self._core.wait(self._core.forget_peer(peer))

    async def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> None:
        """Pin a new key for a peer: this SHA-256 of its SPKI, or None for the key that it shows next (D-3).

        Raises StoreError.
        """
        await self._core.wait(self._core.repin(peer, spki_sha256))

    async def retry(self, peer: UUID) -> int:
        """Send the messages parked for this peer again (T-09); returns their number. Raises StoreError."""
        return await self._core.wait(self._core.retry(peer))

    async def drop_parked(self, peer: UUID) -> int:
        """Delete the messages parked for this peer; returns their number. Raises StoreError."""
        return await self._core.wait(self._core.drop_parked(peer))

    async def dead_letters(self, after: int = 0, count: int = 1000) -> list[DeadLetter]:
        """Messages that our handlers failed too often (T-47), oldest first: at most `count` after number `after`.

        Raises StoreError.
        """
        return await self._core.wait(self._core.dead_letters(after, count))

    async def drop_dead_letters(self, letters: Iterable[DeadLetter | int]) -> int:
        """Delete these dead letters, given as objects or numbers; returns how many existed. Raises StoreError."""
        return await self._core.wait(self._core.drop_dead_letters(listed("letters", letters)))

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the database to a new file while the instance runs; returns when the file is on disk.

        The file is a valid database, and gets its name once it is complete. Closing the instance cancels the copy.
        Raises StoreError if the file exists, cannot be written, or no space is left.
        """
        await self._core.wait(self._core.backup(path))

    async def reload_tls(self) -> None:
        """Load the certificate files again, for new connections. Existing connections stay open, except to peers whose
        certificate is now on the revocation list (`TLS(crl=...)`).

        Raises CertificateError if a file is missing or peers would refuse it, and IdentityConflict if the certificate
        is not this instance's; the old files stay in use then.
        """
        await self._core.wait(self._core.reload_tls())


class WorkQueue(BaseQueue[T, R], Generic[T, R]):
    """A work queue: each job that is put goes to one of the workers. Jobs and answers are bytes, or values with a
    channel's codecs.

    Every call raises ConnectionClosing if the instance is not open, and StoreError.
    """

    _core: InstanceCore

    def of(self, codec: AnyCodec[V], reply_codec: AnyCodec[W]) -> WorkQueue[V, W]:
        """The same queue, with values of these codecs as jobs and as their answers."""
        return WorkQueue(self._core, self._channel, codec, reply_codec)

    async def put(
        self,
        body: T,
        key: str = "",
        *,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store a job, with fsync, and return its receipt: `wait_acked(receipt)` waits until it is done.

        Without a worker the job waits on disk. The queue stores one job for each `message_key`, and with `after` or
        `not_before` it is put at that time, like `Instance.send`.
        Raises BodyNotEncoded, OwnLimitExceeded, LocalProtocolError, and OutboxFull if too many jobs wait for a worker.
        """
        return await self._core.wait(
            self._core.put_jobs(self._channel, self._jobs([(key, body)]), message_key, after, not_before)
        )

    async def call(self, body: T, key: str = "", *, timeout: float = 60.0, message_key: str | None = None) -> R:
        """Store a job, as `put` does, and wait for what its worker answers: `job.answer(value)`.

        - `timeout`: seconds; then TimeoutError is raised, and the job goes on.
        - `message_key`: your name for the job, which is stored once. Its answer is kept here for `Policy.result_ttl` (a
          day): a later call with the name, after a restart too, returns that, or waits for it (P-83). Without a name
          nobody can ask again: an answer that no call waits for is dropped.

        Raises JobFailed with the reason if the worker gave the job up or failed too often, Undelivered if it was
        cancelled here, and what `put` raises.
        """
        return self._value(
            key,
            await self._core.wait(self._core.call_job(self._channel, self._job(body, key), timeout, message_key)),
        )

    async def put_many(
        self,
        jobs: Iterable[T | tuple[str, T]],
        *,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> Receipt:
        """Store jobs in one commit, all or none, to be put at one time, if that is given. Raises like `put`.

        Each job is (key, body), or bytes alone. With a codec each must be (key, value), as a value may be a tuple
        itself; raises TypeError for any other job.
        """
        return await self._core.wait(self._core.put_jobs(self._channel, self._jobs(jobs), None, after, not_before))

    async def pending(self, count: int = 1000) -> list[Job]:
        """The first `count` jobs that are not done, in order, each with the UUID of its worker, or None."""
        return await self._core.wait(self._core.pending_jobs(self._channel, count))

    async def reassign(self, worker: UUID) -> int:
        """Take all jobs of this worker and give them to others; returns their number.

        The worker gets no jobs until it connects again. It may still finish a job that it works on, so that is done
        twice.
        """
        return await self._core.wait(self._core.reassign(self._channel, worker))

    async def cancel(self, jobs: Named) -> int:
        """Give up jobs: a receipt, or Jobs or their numbers; returns how many were not done.

        `wait_acked` raises Undelivered for them, with the reason `cancelled`. A worker that works on one continues.
        """
        return await self._core.wait(self._core.cancel_jobs(self._channel, numbers_of(jobs)))

"""Instance on threads: every call blocks until it is answered.

Calls may come from any thread. The thread with the sockets and the lock of the machine are the endpoint's; the core has
one thread beside it, for the database. A call takes the lock for the moment in which it puts its question, lets it go,
and waits for the answer. Handlers have threads of their own, so they may wait for whatever they like, calls to their
instance included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload
from uuid import UUID

from tolliver_proto import DeadLetter, Receipt, Reply, RetainedValue, TolliverError

from .._driver.adapter import Done, Job
from .._driver.events import OnEvent
from .._driver.jobs import Jobs, perform
from .._driver.threads import start
from .._messages.events import Event
from .._messages.facade import BaseInstance
from .._messages.inbox import Handler
from .._messages.instance import BaseInstanceCore, Item, RequestTerms, To, checked
from .._messages.responding import Responder, Responding, checked_responder
from .._messages.side_by_side import OrderedBy, SideBySide, chosen, chosen_with
from .._messages.typed import Opening
from .._options.instance import InstanceOptions, Registering, Remote, RespondingTo
from ..codecs._bodies import TypedHandler, decoding, encoded, encoded_items
from ..codecs._codec import AnyCodec
from ..codecs._requests import Asking, TypedReply, TypedResponding
from ..codecs._retained import TypedRetainedValue, opened_values
from .endpoint import Endpoint, Worker
from .events import Events, call_on_thread
from .interrupts import made
from .iterators import Messages, Registration, Runs
from .process import thread_of
from .queues import TypedWorkQueue, Work, WorkQueue
from .responding import CONCURRENCY, ThreadResponder
from .side_by_side import Registrations
from .typed import TypedMessages, TypedRuns, TypedWork

T = TypeVar("T")
R = TypeVar("R")
GOES_ON = "it is not withdrawn, and may still be stored"


class InstanceCore(Endpoint, BaseInstanceCore):
    """A running instance without its calls, and the thread that keeps its store."""

    def __init__(self, options: InstanceOptions) -> None:  # for the type: an endpoint takes any options
        super().__init__(options)

    def subscribe_and_wait(self, channel: str, key: str, timeout: float | None = None) -> None:
        self.ask(lambda: self.subscribe(channel, key), timeout, f"the subscription is not on disk yet: {GOES_ON}")

    # The store.

    def _prepare(self) -> None:
        super()._prepare()
        self._jobs = Jobs(self._stored)

    def _more_workers(self) -> dict[str, Worker]:
        return {"database": self._jobs}

    def _stored(self, result: Any, error: TolliverError | None, done: Done) -> None:
        self.tell(lambda: done(result, error))

    def handle(self, channel: str, key: str, handler: Handler, how: SideBySide) -> Registration | Registrations:
        if how.is_one:
            return made(lambda: Registration(self, channel, key, checked(handler), how.pending), Registration.close)
        return made(lambda: Registrations(self, channel, key, checked(handler), how), Registrations.close)

    def respond(
        self,
        channel: str,
        key: str,
        handler: Responding,
        codec: AnyCodec[Any] | None = None,
        reply_codec: AnyCodec[Any] | None = None,
        concurrency: int = CONCURRENCY,
    ) -> Responder:
        terms = checked_responder(handler, codec, reply_codec, concurrency)
        return made(lambda: ThreadResponder(self, channel, key, *terms), Responder.close)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_thread(self, self.feed, function)

    def store(self, job: Job, done: Done) -> None:
        self._jobs.put(job, done)

    def beside(self, job: Job, done: Done) -> None:
        def work() -> None:
            result, error = perform(job)
            with self._lock:
                if self._open:  # nobody waits for it: a large database takes its time
                    done(result, error)
                    self.run_actions()

        start(thread_of("beside", work, self._fail))


class Instance(BaseInstance[InstanceCore]):
    """A running instance: use `with create_instance(options) as instance`. Every call may come from any thread.

    `timeout` is in seconds, None waits for as long as it takes. When it is over, TimeoutError is raised, and what was
    asked for goes on. Every call but `close`, `peers`, `notices`, `stats` and `subscriptions` raises ConnectionClosing
    where the instance is not open, and each of them in a forked child (T-79).
    """

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(InstanceCore(options))

    def __enter__(self) -> Self:
        self._core.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._core.close()

    def close(self) -> None:
        """End every connection in order, and then everything else: what leaving the `with` block does.

        Takes at most `Limits.close_timeout` and a second. A second call, or one from a forked child, does nothing.
        Handlers that are running are not waited for.
        """
        self._core.close()

    def new_connection(self, remote: str | Remote, *, timeout: float | None = None, keep_trying: bool = False) -> UUID:
        """Connect, keep the connection, and return the peer's UUID.

        Tries for ever, or for `timeout` seconds (then TimeoutError; the dialling goes on until `remove_connection`).
        Raises CertificateError, HandshakeRejected, IdentityConflict, AccessDenied, SelfConnection where one of the two
        sides refuses the other, and RemoteProtocolError (MalformedFrame, UnexpectedFrame, LimitExceeded) where what
        answers is no peer of this protocol or contradicts itself, unless `keep_trying` (T-73). The dialling ends with
        that, but for a remote of the options, one that was once up, and one given with `keep_trying`: these are dialled
        on, after a refusal every 1 to 5 minutes, and at once by this call, `reload_tls` and `set_acl`. Connected
        already: returns that peer. Raises ValueError for plaintext beyond this machine (D-15).
        """
        return self._core.ask(lambda: self._core.new_connection(remote, keep_trying), timeout)

    @overload
    def subscribe(
        self,
        channel: str,
        key: str = "",
        handler: Handler | None = None,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        timeout: float | None = None,
    ) -> None: ...

    @overload
    def subscribe(
        self,
        channel: str,
        key: str = "",
        *,
        handler: TypedHandler[T],
        codec: AnyCodec[T],
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        timeout: float | None = None,
    ) -> None: ...

    def subscribe(
        self,
        channel: str,
        key: str = "",
        handler: Any = None,
        *,
        codec: AnyCodec[T] | None = None,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). Returns when it is stored.

        `handler`, its `codec` and its choices are registered first, as by `register_callback`. Raises ReservedChannel,
        OwnLimitExceeded, StoreError, TypeError.
        """
        if codec is not None:
            handler = decoding(codec, handler)
        how = chosen_with(handler, concurrency, ordered_by, pending)
        if handler is not None:
            self._core.handle(channel, key, handler, how)
        self._core.subscribe_and_wait(channel, key, timeout)

    def unsubscribe(self, channel: str, key: str = "", *, timeout: float | None = None) -> None:
        """No longer: removes exactly this entry (T-26). Returns when it is stored. Raises StoreError."""
        late = f"the end of the subscription is not on disk yet: {GOES_ON}"
        self._core.ask(lambda: self._core.unsubscribe(channel, key), timeout, late)

    @overload
    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    @overload
    def send(
        self,
        channel: str,
        key: str,
        body: T,
        *,
        codec: AnyCodec[T],
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    def send(
        self,
        channel: str,
        key: str,
        body: Any,
        *,
        codec: AnyCodec[T] | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Store a message for every peer that subscribes to it, with fsync, and return its receipt (T-54).

        `to`, a peer's UUID or several, narrows it to them; one that does not subscribe is no recipient (P-25).
        Seconds after it was stored, `expire_after`, a message that is not acknowledged is given up (P-27).
        `receipt.recipients` says how many that are; 0 means that nobody was subscribed and nothing was kept (T-53).
        With a `codec`, `body` is a value that it encodes. Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError,
        OutboxFull, StoreError, BodyNotEncoded, and TooFewRecipients where fewer than `require_recipients` are
        subscribed: then nothing was stored.
        """
        item = (channel, key, body)
        items = (item,) if codec is None else encoded_items(codec, (item,))
        return self._send(items, require_recipients, to, expire_after, timeout)

    @overload
    def send_many(
        self,
        items: Iterable[Item],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    @overload
    def send_many(
        self,
        items: Iterable[tuple[str, str, T]],
        *,
        codec: AnyCodec[T],
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    def send_many(
        self,
        items: Iterable[Any],
        *,
        codec: AnyCodec[T] | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Store (channel, key, body) items in one commit, all or none; raises as `send`.

        `receipt.counts` has each one's recipients; `codec` and `require_recipients` are for each of them.
        """
        # A generator may take its time: not under the lock.
        items = tuple(items) if codec is None else encoded_items(codec, items)
        return self._send(items, require_recipients, to, expire_after, timeout)

    def _send(
        self,
        items: Sequence[Item],
        require_recipients: int,
        to: To,
        expire_after: float | None,
        timeout: float | None,
    ) -> Receipt:
        late = f"the message is not on disk yet: {GOES_ON}"
        return self._core.ask(lambda: self._core.send_many(items, require_recipients, to, expire_after), timeout, late)

    @overload
    def retain(self, channel: str, key: str, body: bytes | None, *, timeout: float | None = None) -> Receipt: ...

    @overload
    def retain(
        self, channel: str, key: str, body: T | None, *, codec: AnyCodec[T], timeout: float | None = None
    ) -> Receipt: ...

    def retain(
        self, channel: str, key: str, body: Any, *, codec: AnyCodec[T] | None = None, timeout: float | None = None
    ) -> Receipt:
        """Send this to whoever subscribes, as `send`, and keep it for whoever does so later: the newest of each name.

        A peer gets it once for each subscription that it had not, before whatever is sent later under that name (P-30).
        None clears the name and sends nothing. With a `codec`, `body` is a value that it encodes, and None clears the
        name all the same. Returns when all is stored, with the receipt of the send. Raises as `send` does, and
        OwnLimitExceeded where `Limits.max_retained` or `max_retained_bytes` would be passed.
        """
        if codec is not None and body is not None:
            body = encoded(codec, channel, key, body)
        late = f"the value is not on disk yet: {GOES_ON}"
        return self._core.ask(lambda: self._core.retain(channel, key, body), timeout, late)

    @overload
    def retained(
        self, after: tuple[str, str] | None = None, count: int = 1000, *, timeout: float | None = None
    ) -> list[RetainedValue]: ...

    @overload
    def retained(
        self,
        after: tuple[str, str] | None = None,
        count: int = 1000,
        *,
        codec: AnyCodec[T],
        timeout: float | None = None,
    ) -> list[TypedRetainedValue[T]]: ...

    def retained(
        self,
        after: tuple[str, str] | None = None,
        count: int = 1000,
        *,
        codec: AnyCodec[T] | None = None,
        timeout: float | None = None,
    ) -> list[RetainedValue] | list[TypedRetainedValue[T]]:
        """Values that are kept, by channel and key: at most `count` after the name `after`, (channel, key).

        Each has `channel`, `key`, `body` and `stored_at`, seconds since 1970. With a `codec` each has a `value`, too,
        which raises BodyNotDecoded where it has none (P-48). Raises StoreError.
        """
        late = "the database has not answered: ask again"
        values = self._core.ask(lambda: self._core.retained(after, count), timeout, late)
        return values if codec is None else opened_values(codec, self.instance_id, values)

    @overload
    def unreliable_send(self, channel: str, key: str, body: bytes, *, to: To = None) -> int: ...

    @overload
    def unreliable_send(self, channel: str, key: str, body: T, *, codec: AnyCodec[T], to: To = None) -> int: ...

    def unreliable_send(
        self, channel: str, key: str, body: Any, *, codec: AnyCodec[T] | None = None, to: To = None
    ) -> int:
        """Send to the connected subscribers, unstored, without waiting; returns how many (T-55).

        `to` narrows them as with `send`. With a `codec`, `body` is a value that it encodes. Raises ReservedChannel,
        OwnLimitExceeded, LocalProtocolError, BodyNotEncoded.
        """
        if codec is not None:
            body = encoded(codec, channel, key, body)
        with self._core.lock:
            return self._core.unreliable_send(channel, key, body, to)

    @overload
    def register_callback(
        self,
        channel: str,
        key: str,
        handler: Handler,
        *,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Registration | Registrations: ...

    @overload
    def register_callback(
        self,
        channel: str,
        key: str,
        handler: TypedHandler[T],
        *,
        codec: AnyCodec[T],
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Registration | Registrations: ...

    def register_callback(
        self,
        channel: str,
        key: str,
        handler: Any,
        *,
        codec: AnyCodec[T] | None = None,
        concurrency: int = 1,
        ordered_by: OrderedBy = None,
        pending: int | None = None,
    ) -> Registration | Registrations:
        """Call `handler(delivery)` for what matches, on a thread of its own; "" is a wildcard (T-57).

        Does not subscribe. None or a true value means handled: the message is acknowledged once all matching handlers
        say so. A false value or an exception means failed: it is sent again (T-45). One call at a time for each
        registration, or `concurrency` of them, on as many threads; with `ordered_by="key"` one follows the other inside
        a key (P-20, P-21). Raises TypeError for an async handler.
        `pending` is how many messages it may have that are not settled; then reading of their senders pauses (P-24).
        With a `codec`, deliveries have a `value`, and a body that does not decode is a failure too.
        """
        if codec is not None:
            handler = decoding(codec, handler)
        return self._core.handle(channel, key, handler, chosen(concurrency, ordered_by, pending))

    @overload
    def messages(
        self, channel: str, key: str = "", *, subscribe: bool = True, timeout: float | None = None
    ) -> Messages: ...

    @overload
    def messages(
        self,
        channel: str,
        key: str = "",
        *,
        codec: AnyCodec[T],
        subscribe: bool = True,
        timeout: float | None = None,
    ) -> TypedMessages[T]: ...

    def messages(
        self,
        channel: str,
        key: str = "",
        *,
        codec: AnyCodec[T] | None = None,
        subscribe: bool = True,
        timeout: float | None = None,
    ) -> Messages | TypedMessages[T]:
        """`for delivery in instance.messages(...)`: settle each with `delivery.ack()` or `delivery.fail()`.

        The loop ends when no message has come for `timeout` seconds. Subscribes first; raises what that raises. With a
        `codec`, deliveries have a `value`; one whose body does not decode is failed, told by a notice, and not handed
        out.
        """
        if codec is not None:
            return TypedMessages(
                Opening(self._core, codec), self.messages(channel, key, subscribe=subscribe, timeout=timeout)
            )
        return made(lambda: Messages(self._core, channel, key, subscribe, timeout), Messages.close)

    @overload
    def message_runs(
        self, channel: str, key: str = "", *, subscribe: bool = True, timeout: float | None = None
    ) -> Runs: ...

    @overload
    def message_runs(
        self,
        channel: str,
        key: str = "",
        *,
        codec: AnyCodec[T],
        subscribe: bool = True,
        timeout: float | None = None,
    ) -> TypedRuns[T]: ...

    def message_runs(
        self,
        channel: str,
        key: str = "",
        *,
        codec: AnyCodec[T] | None = None,
        subscribe: bool = True,
        timeout: float | None = None,
    ) -> Runs | TypedRuns[T]:
        """As `messages`, for bulk: runs of what came together, settled with `run.ack()` or `run.fail()`."""
        if codec is not None:
            return TypedRuns(
                Opening(self._core, codec), self.message_runs(channel, key, subscribe=subscribe, timeout=timeout)
            )
        return made(lambda: Runs(self._core, channel, key, subscribe, timeout), Runs.close)

    @overload
    def work_queue(self, channel: str, *, lease: float = 10.0) -> WorkQueue: ...

    @overload
    def work_queue(self, channel: str, *, codec: AnyCodec[T], lease: float = 10.0) -> TypedWorkQueue[T]: ...

    def work_queue(
        self, channel: str, *, codec: AnyCodec[T] | None = None, lease: float = 10.0
    ) -> WorkQueue | TypedWorkQueue[T]:
        """Make this channel a work queue: each job that is put there goes to one of the workers, and to another one
        where it is cut off for `lease` seconds. Jobs of earlier lives go on.

        With a `codec` values are put, which it encodes. Raises ReservedChannel, ValueError, TypeError,
        LocalProtocolError.
        """
        queue = WorkQueue(self._core, channel) if codec is None else TypedWorkQueue(self._core, channel, codec)
        with self._core.lock:
            self._core.work_queue(channel, lease)
        return queue

    @overload
    def work(
        self, channel: str, *, concurrency: int = 1, lease: float = 10.0, timeout: float | None = None
    ) -> Work: ...

    @overload
    def work(
        self,
        channel: str,
        *,
        codec: AnyCodec[T],
        concurrency: int = 1,
        lease: float = 10.0,
        timeout: float | None = None,
    ) -> TypedWork[T]: ...

    def work(
        self,
        channel: str,
        *,
        codec: AnyCodec[T] | None = None,
        concurrency: int = 1,
        lease: float = 10.0,
        timeout: float | None = None,
    ) -> Work | TypedWork[T]:
        """`with instance.work(...) as jobs`, `for job in jobs`: `job.ack()` when it is done.

        At most `concurrency` jobs that are not settled are handed out, and about as many more are fetched ahead. When a
        producer has been away for `lease` seconds, which is to be its own, what it gave and was not handed out is let
        go. With a `codec` jobs have a `value`; one that does not decode is failed, told, and left out (P-42). The loop
        ends when no job has come for `timeout` seconds. Raises ReservedChannel, ValueError, OwnLimitExceeded,
        LocalProtocolError where it works there already.
        """
        if codec is not None:
            return TypedWork(
                Opening(self._core, codec), self.work(channel, concurrency=concurrency, lease=lease, timeout=timeout)
            )
        return made(lambda: Work(self._core, channel, concurrency, lease, timeout), Work.close)

    def wait_subscribed(
        self, channel: str, key: str = "", *, peers: int = 1, connected: bool = False, timeout: float | None = None
    ) -> int:
        """Return once a message with these names would go to that many peers; returns how many.

        Peers that are away count, as the message waits for them; with `connected` they do not. A subscription that is
        held does not count, as in `require_recipients` (T-61). Raises TimeoutError after `timeout` seconds.
        """
        return self._core.ask(lambda: self._core.wait_subscribed(channel, key, peers, connected), timeout)

    def wait_responder(self, channel: str, key: str = "", *, peers: int = 1, timeout: float | None = None) -> int:
        """Return once that many connected peers respond to requests for these names (P-13); returns how many.

        A request waits for one by itself: this is for who wants to know before it asks, or gathers from several.
        Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError, and TimeoutError after `timeout` seconds.
        """
        return self._core.ask(lambda: self._core.wait_responder(channel, key, peers), timeout)

    def events(self, *, timeout: float | None = None) -> Events[Event]:
        """`for event in instance.events()`: what happens from now on, until the instance is closed.

        PeerUp, PeerDown (`error` says why), SubscriptionsChanged, Notice. The loop ends, too, when nothing has happened
        for `timeout` seconds. One that is read too slowly keeps the newest thousand and has EventsMissed in place of
        the others.
        """
        return made(lambda: Events(self._core, self._core.feed, timeout), Events.close)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until what was sent so far, unreliable messages too, is given to the sockets of the connected peers.

        It has left this process then, and says nothing of its arrival: that is `wait_acked`. Messages for peers that
        are away are not waited for. A peer that reads nothing holds it up: raises TimeoutError after `timeout`
        seconds, which says who it is, and what was sent still goes out.
        """
        self._core.ask(self._core.flush, timeout)

    def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        """Wait until every recipient has acknowledged all of it (T-54).

        An acknowledgement says that its handlers handled the message, that it keeps it as a dead letter, or that its
        own rules refuse it: the wire cannot tell which. Raises Undelivered as soon as some of it was given up for a
        peer, and whenever it is asked again; `receipt.undelivered` has all of that. Where some of it had no recipients,
        raises Undelivered with None for the peer once all else is acknowledged: what is kept for a
        remote that connects may have one yet (T-53, T-62). Raises TimeoutError after `timeout` seconds.
        """
        self._core.ask(lambda: self._core.wait_acked(receipt), timeout)

    @overload
    def request(self, channel: str, body: bytes, key: str = "", **terms: Unpack[RequestTerms]) -> Reply: ...

    @overload
    def request(
        self, channel: str, body: T, key: str = "", *, codec: AnyCodec[T], **terms: Unpack[RequestTerms]
    ) -> TypedReply[T]: ...

    @overload
    def request(
        self,
        channel: str,
        body: T,
        key: str = "",
        *,
        codec: AnyCodec[T],
        reply_codec: AnyCodec[R],
        **terms: Unpack[RequestTerms],
    ) -> TypedReply[R]: ...

    def request(
        self,
        channel: str,
        body: Any,
        key: str = "",
        *,
        codec: AnyCodec[Any] | None = None,
        reply_codec: AnyCodec[Any] | None = None,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> Reply | TypedReply[Any]:
        """Ask the peers that `respond` to these names and return the first answer: `reply.body`, `reply.peer_id`.

        Where nobody responds it waits for a connected peer that does, within `timeout` seconds; with `wait=False` it
        does not (P-13). `to`, a peer's UUID or several, asks of them only these. A `durable` request is stored, as by
        `send`, and so is its reply; with a `request_id` of its own a program asks the same again after a restart
        (P-16). Raises NoResponders where nobody was there in time, RequestFailed with the words of a handler that
        raised, ConnectionLost where the connection ended first, and TimeoutError after `timeout` seconds. Raises
        OutboxFull, StoreError, ReservedChannel, OwnLimitExceeded, LocalProtocolError where it could not be sent.

        With a `codec`, `body` is a value that it encodes, and the reply has a `value`, of the `reply_codec` where that
        is another one. A reply that does not decode is RequestFailed (P-46). Raises BodyNotEncoded, TypeError.
        """
        terms: RequestTerms = {
            "timeout": timeout,
            "to": to,
            "durable": durable,
            "request_id": request_id,
            "wait": wait,
        }
        asking = None if codec is None and reply_codec is None else Asking(codec, reply_codec, channel, key)
        if asking is not None:
            body = asking.body(body)
        reply = self._core.ask(lambda: self._core.request(channel, key, body, terms), None)
        return reply if asking is None else asking.first(reply)

    @overload
    def gather(self, channel: str, body: bytes, key: str = "", **terms: Unpack[RequestTerms]) -> list[Reply]: ...

    @overload
    def gather(
        self, channel: str, body: T, key: str = "", *, codec: AnyCodec[T], **terms: Unpack[RequestTerms]
    ) -> list[TypedReply[T]]: ...

    @overload
    def gather(
        self,
        channel: str,
        body: T,
        key: str = "",
        *,
        codec: AnyCodec[T],
        reply_codec: AnyCodec[R],
        **terms: Unpack[RequestTerms],
    ) -> list[TypedReply[R]]: ...

    def gather(
        self,
        channel: str,
        body: Any,
        key: str = "",
        *,
        codec: AnyCodec[Any] | None = None,
        reply_codec: AnyCodec[Any] | None = None,
        timeout: float = 5.0,
        to: To = None,
        durable: bool = False,
        request_id: int | None = None,
        wait: bool = True,
    ) -> list[Reply] | list[TypedReply[Any]]:
        """As `request`, of everybody: the replies of all that were asked, or those that came within `timeout` seconds.
        It waits for one responder, and asks those who are there then.

        A handler that failed is a reply with an `error`, and so is, with a `codec`, a reply that does not decode: its
        `value` raises that. Raises as `request` does, but no TimeoutError.
        """
        terms: RequestTerms = {
            "timeout": timeout,
            "to": to,
            "durable": durable,
            "request_id": request_id,
            "wait": wait,
        }
        asking = None if codec is None and reply_codec is None else Asking(codec, reply_codec, channel, key)
        if asking is not None:
            body = asking.body(body)
        replies = self._core.ask(lambda: self._core.gather(channel, key, body, terms), None)
        return replies if asking is None else asking.each(replies)

    @overload
    def respond(
        self, channel: str, handler: Responding, key: str = "", *, concurrency: int = CONCURRENCY
    ) -> Responder: ...

    @overload
    def respond(
        self,
        channel: str,
        handler: TypedResponding[T, T],
        key: str = "",
        *,
        codec: AnyCodec[T],
        concurrency: int = CONCURRENCY,
    ) -> Responder: ...

    @overload
    def respond(
        self,
        channel: str,
        handler: TypedResponding[T, R],
        key: str = "",
        *,
        codec: AnyCodec[T],
        reply_codec: AnyCodec[R],
        concurrency: int = CONCURRENCY,
    ) -> Responder: ...

    def respond(
        self,
        channel: str,
        handler: Any,
        key: str = "",
        *,
        codec: AnyCodec[Any] | None = None,
        reply_codec: AnyCodec[Any] | None = None,
        concurrency: int = CONCURRENCY,
    ) -> Responder:
        """Answer requests with what `handler(request)` returns: the reply's body, bytes.

        Subscribes to them; "" is any key. An exception of it reaches the requester as RequestFailed. It is called
        on threads of its own, at most `concurrency` of them, which come as they are needed. `close()` ends it. Raises
        ReservedChannel, OwnLimitExceeded, LocalProtocolError, OutOfThreads, TypeError for an async handler, ValueError.

        With a `codec` the request has a `value`, and what the handler returns is one, of the `reply_codec` where that
        is another one. A request that does not decode is RequestFailed for its requester (P-46).
        """
        return self._core.respond(channel, key, handler, codec, reply_codec, concurrency)

    def forget_peer(self, peer: UUID, *, timeout: float | None = None) -> None:
        """Purge what waits for it, its subscriptions and its pin, and close its connection (T-77).

        Raises StoreError.
        """
        late = f"peer {peer} is not forgotten on disk yet: {GOES_ON}"
        self._core.ask(lambda: self._core.forget_peer(peer), timeout, late)

    def repin(self, peer: UUID, spki_sha256: bytes | None = None, *, timeout: float | None = None) -> None:
        """The peer has a new key: this one (SHA-256 of its SPKI), or if None whichever it shows next (D-3).

        Raises StoreError.
        """
        late = f"the key of peer {peer} is not on disk yet: {GOES_ON}"
        self._core.ask(lambda: self._core.repin(peer, spki_sha256), timeout, late)

    def retry(self, peer: UUID, *, timeout: float | None = None) -> int:
        """Send what was set aside for this peer once more (T-09); returns how many messages. Raises StoreError."""
        late = f"what was set aside for {peer} does not go out yet: {GOES_ON}"
        return self._core.ask(lambda: self._core.retry(peer), timeout, late)

    def drop_parked(self, peer: UUID, *, timeout: float | None = None) -> int:
        """Give up what was set aside for this peer; returns how many messages. Raises StoreError."""
        late = f"what was set aside for {peer} is not dropped on disk yet: {GOES_ON}"
        return self._core.ask(lambda: self._core.drop_parked(peer), timeout, late)

    def dead_letters(self, after: int = 0, count: int = 1000, *, timeout: float | None = None) -> list[DeadLetter]:
        """Messages that our handlers failed too often (T-47), oldest first: at most `count` after number `after`.

        Raises StoreError.
        """
        late = "the database has not answered: ask again"
        return self._core.ask(lambda: self._core.dead_letters(after, count), timeout, late)

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int], *, timeout: float | None = None) -> int:
        """Give up these dead letters, or those of these numbers; returns how many were there. Raises StoreError."""
        letters = tuple(letters)  # a generator may take its time
        late = f"these dead letters are not dropped on disk yet: {GOES_ON}"
        return self._core.ask(lambda: self._core.drop_dead_letters(letters), timeout, late)

    def backup(self, path: str | os.PathLike[str], *, timeout: float | None = None) -> None:
        """Copy the database as it is now to a new file, while everything goes on; returns when that is on disk.

        The file opens as a database and is whole once it has its name. Closing the instance gives it up. Raises
        StoreError: there is such a file, no space is left, or it cannot be written.
        """
        self._core.ask(lambda: self._core.backup(path), timeout, f"{path} is not written yet: it goes on")

    def reload_tls(self, *, timeout: float | None = None) -> None:
        """Read the certificate files again, for connections that are made from now on. Those that live stay, but for
        peers whose certificate the list of revoked ones (`TLS(crl=...)`) has by now.

        Raises CertificateError where a file is missing or peers would refuse it, and IdentityConflict where the
        certificate is not this instance's: then the old ones stay in use.
        """
        late = "the certificate files are not read yet: they are a little later"
        self._core.ask(self._core.reload_tls, timeout, late)


def create_instance(
    options: InstanceOptions,
    *,
    subscriptions: Iterable[str | tuple[str, str]] | None = None,
    handlers: Iterable[Registering] | None = None,
    responders: Iterable[RespondingTo] | None = None,
) -> Instance:
    """`with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    `subscriptions`, `handlers` and `responders` take the place of those of the options: they are in force before it
    listens or dials (T-46).

    Entering raises CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError.
    """
    return Instance(options.given(subscriptions, handlers, responders))

"""Instance of a user's program in a simulated world.

An `App` has the calls of an adapter. A program is a function of an `App`, and is called at each start of its instance,
after each crash too.

State: the callbacks that wait for answers, of this life alone. `disk` and the instance's store survive a crash; any
other variable that a program keeps belongs to the test. Invariants: after the end of a life each call raises, and no
callback of that life is called. A message is settled once, when all of its handlers have succeeded or one has failed
(`Settlement`); a second verdict of a handler does nothing (`Ballot`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NoReturn, Protocol
from uuid import UUID

from .._common.errors import ConnectionClosing, TolliverError
from .._node.actions import Answered, Asked, Delivery, Receipt, Verdict
from .._node.node import Node, PatternKind
from .._node.ordered_handling import Lanes
from .._node.outboxes.sender import To
from .._node.pattern import Pattern
from .._node.sizes import Item
from .._patterns.calls import JobCalls
from .._patterns.envelopes import Request
from .._patterns.for_later import ForLater
from .._patterns.last_values import LastValues
from .._patterns.message_keys import MessageKeys
from .._patterns.queues import Queues
from .._patterns.requests import Requests
from .._patterns.work import QueueWork
from .._patterns.work_queue import JobList

Handling = Callable[[Delivery], object]
Responding = Callable[[Request], bytes]
Told = Callable[[TolliverError | None], object]


class Stage(Protocol):
    """The calls of the simulated world that an App makes."""

    def call(self, app: App, name: str, *args: Any, of: PatternKind[Pattern] | None = None, **named: Any) -> Any: ...

    def later(self, app: App, seconds: float, function: Callable[..., object], *arguments: object) -> None: ...

    def die(self, app: App) -> None: ...

    def connect(self, app: App, peer: str) -> None: ...

    def disconnect(self, app: App, peer: str) -> None: ...

    def name_of(self, peer: UUID) -> str: ...

    def uuid_of(self, peer: str) -> UUID: ...

    @property
    def now(self) -> float: ...


class ProcessOver(BaseException):
    """Ends what a program was about to do when its process ended."""


class Calls:
    """One registered handler of a simulated program, with its calls. With `settles` the handler calls `ack` or `fail`
    of each delivery, now or later; else its result settles the delivery. `lanes` bounds the number of unsettled
    deliveries.
    """

    def __init__(self, function: Handling, settles: bool, lanes: Lanes[Settlement] | None = None) -> None:
        self.function = function
        self.settles = settles
        self.lanes = lanes

    def __str__(self) -> str:
        return f"the handler {getattr(self.function, '__qualname__', self.function)!s:.100}"


class App:
    """Calls that a simulated program has in one life of its instance, from a start to the next crash or end. After that
    end every call raises ConnectionClosing.

    `disk` is a dict for the program's own data: it survives crashes, and a change is kept at once. Functions that were
    given to `later`, `every`, `when_stored`, `when_acked` and `when_answered` are forgotten with this life.
    """

    def __init__(self, stage: Stage, name: str, node: Node, disk: dict[Any, Any]) -> None:
        self.name = name
        self.node = node
        """The machine itself, for calls that an App lacks: give `now=app.clock` with each of them, and then call
        `run_actions`."""
        self.disk = disk
        self.over = False
        self.clock: float = 0.0
        """Time of the last input, in seconds of the instance's own monotonic clock."""
        self.asking: dict[Asked, list[Callable[[Answered], object]]] = {}
        self.waiting: dict[tuple[str, Receipt], list[Told]] = {}
        self._stage = stage

    def __repr__(self) -> str:
        return f"<App {self.name}{' (over)' if self.over else ''}>"

    # Messages.

    def send(
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
        not_before: float | None = None,
    ) -> Receipt:
        """Stores a message for every peer that subscribes to it; `when_stored` reports the end of that (T-54).

        `to` restricts the recipients to one peer or some, by UUID (see `uuid_of`). With fewer than `require_recipients`
        recipients nothing is stored; `expire_after` is in seconds. A channel has one message for each `message_key`: a
        later send `repeats` that (P-60). With `after`, or `not_before` in seconds since 1970, it waits on disk until
        then (P-90). Raises like an adapter's `send`.
        """
        terms: dict[str, Any] = {"to": to, "expire_after": expire_after}
        times: dict[str, Any] = {"after": after, "not_before": not_before}
        receipt: Receipt
        if message_key is not None:
            terms["require_recipients"] = require_recipients
            receipt = self._call("send", channel, key, body, message_key, of=MessageKeys, **terms, **times)
        else:
            receipt = self.send_many([(channel, key, body)], require_recipients=require_recipients, **terms, **times)
        return receipt

    def keep(self, channel: str) -> None:
        """Has the channel keep what is sent while nobody subscribes, for its first subscriber (P-95)."""
        self._call("keep", channel, of=ForLater)

    def send_many(
        self,
        items: Iterable[Item],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: float | None = None,
    ) -> Receipt:
        """Gives (channel, key, body) items to be stored in one commit, all or none. The other arguments are those of
        `send`.
        """
        terms: dict[str, Any] = {"to": to, "expire_after": expire_after}
        receipt: Receipt
        if (after, not_before) != (None, None):
            receipt = self._call("send_later", list(items), of=ForLater, after=after, not_before=not_before, **terms)
        else:
            receipt = self._call("send_many", list(items), require_recipients=require_recipients, **terms)
        return receipt

    def retain(self, channel: str, key: str, body: bytes | None) -> Receipt:
        """Sends a value, and keeps it as the last value for later subscribers (P-30); None clears the name."""
        receipt: Receipt = self._call("retain", channel, key, body, of=LastValues)
        return receipt

    def unreliable_send(self, channel: str, key: str, body: bytes, *, to: To = None) -> int:
        """Sends to the connected subscribers without storing; returns their number (T-55)."""
        sent: int = self._call("unreliable_send", channel, key, body, to=to)
        return sent

    def flush(self) -> Receipt:
        """Asks for all messages sent until now to leave; `when_stored` tells when they have left."""
        receipt: Receipt = self._call("flush")
        return receipt

    def subscribed(self, channel: str, key: str = "", *, connected: bool = False) -> int:
        """Returns the number of peers that a reliable message would go to now; with `connected`, of connected peers
        alone."""
        self._check()
        return self.node.subscribed(channel, key, connected)

    def responders(self, channel: str, key: str = "") -> int:
        """Returns the number of connected peers that a request would go to now."""
        self._check()
        return self.node.use(Requests).responders(channel, key)

    def subscribe(self, channel: str, key: str = "", handler: Handling | None = None, *, settles: bool = False) -> None:
        """Subscribes at every peer, now and after a restart; "" is a wildcard (T-24). `handler` is registered first,
        with `settles` as in `register_callback`.
        """
        if handler is not None:
            self.register_callback(channel, key, handler, settles=settles)
        self._call("subscribe", channel, key)

    def unsubscribe(self, channel: str, key: str = "") -> None:
        """Removes exactly this entry of the subscriptions (T-26)."""
        self._call("unsubscribe", channel, key)

    def register_callback(
        self,
        channel: str,
        key: str,
        handler: Handling,
        *,
        settles: bool = False,
        concurrency: int | None = None,
        ordered_by: Literal["key"] | None = None,
        pending: int | None = None,
    ) -> None:
        """Calls `handler(delivery)` for matching messages; its result is the verdict, as with an adapter (T-45).

        With `settles` the handler, or code that it gives the delivery to, calls `delivery.ack()` or `delivery.fail()`.
        The next call does not wait for that, unless `concurrency` bounds the number of unsettled deliveries, in order
        for each key with `ordered_by="key"` (P-20, P-21). `pending` bounds the handler's messages (P-24). An
        AssertionError is a failure of the test, any other exception a failure of the handler.
        """
        if not callable(handler):
            raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a delivery")
        self._check()
        lanes: Lanes[Settlement] | None = None
        if concurrency is not None:
            lanes = Lanes(concurrency, _key_of if ordered_by else None)
        self.node.register(channel, key, Calls(handler, settles, lanes), pending)

    # Requests.

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
        gathers: bool = False,
        wait: bool = True,
        message_key: str | None = None,
    ) -> Asked:
        """Asks the peers that `respond` to these names; `when_answered` tells the answer. `timeout` is in seconds. With
        `gathers` the answers of all of them are awaited; `durable`, `request_id`, `wait` and `message_key` are those of
        an adapter's `request`. Raises as that does if no peer was asked.
        """
        terms = {"to": to, "durable": durable, "request_id": request_id, "gathers": gathers, "wait": wait}
        asked: Asked = self._call("request", channel, key, body, timeout, of=Requests, message_key=message_key, **terms)
        return asked

    def when_answered(self, asked: Asked, told: Callable[[Answered], object]) -> None:
        """Calls `told` at the end of the request, with an object that has `replies` or an `error`."""
        self._check()
        self.asking.setdefault(asked, []).append(told)

    def respond(self, channel: str, handler: Responding, key: str = "", *, delay: float = 0.0) -> None:
        """Answers requests with the bytes that `handler(request)` returns, after `delay` seconds. An AssertionError is
        a failure of the test; any other exception reaches the requester as RequestFailed."""

        def handle(delivery: Delivery) -> None:
            name: str
            what: bytes | str
            try:
                name, what = "reply", handler(Request(delivery))
            except AssertionError:
                raise
            except Exception as error:
                name, what = "refuse", str(error)
            if delay:
                self.later(delay, answer, delivery, name, what)
            else:
                answer(delivery, name, what)

        def answer(delivery: Delivery, name: str, what: bytes | str) -> None:
            (delivery.ack if self._call(name, delivery, what, of=Requests) else delivery.fail)()

        self._call("respond", channel, key, Calls(handle, settles=True), of=Requests)

    # Work queues.

    def work_queue(self, channel: str, *, lease: float = 10.0) -> AppQueue:
        """Makes the channel a work queue, or goes on with the queue after a restart; each job is for one worker, which
        has it for `lease` seconds at most.
        """
        self._call("work_queue", channel, lease, of=Queues)
        return AppQueue(self, channel)

    def work(
        self,
        channel: str,
        handler: Handling,
        *,
        concurrency: int = 1,
        lease: float = 10.0,
        prefetch: int = 0,
        settles: bool = False,
    ) -> None:
        """Calls `handler(job)` for jobs of the channel, as `register_callback` does. At most `concurrency` jobs are
        unsettled at a time, and `prefetch` more are here in advance. `lease` is the longest time for a job, in seconds;
        `settles` is that of `register_callback`.
        """
        if not callable(handler):
            raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a delivery")
        calls = Calls(handler, settles, Lanes(concurrency, None))
        self._call("work", channel, calls, concurrency, lease, prefetch, of=QueueWork)

    def stop_work(self, channel: str) -> None:
        """Takes no more jobs of the channel; unsettled jobs are left to their producers."""
        self._call("stop_work", channel, of=QueueWork)

    # Connections.

    def connect(self, peer: str) -> None:
        """Dials the instance of that name, and keeps the connection."""
        self._check()
        self._stage.connect(self, peer)

    def disconnect(self, peer: str) -> None:
        """Closes the connection to that instance, and dials it no more."""
        self._check()
        self._stage.disconnect(self, peer)

    def uuid_of(self, peer: str) -> UUID:
        """Returns the UUID of the instance of that name."""
        return self._stage.uuid_of(peer)

    def name_of(self, peer: UUID) -> str:
        """Returns the name of the instance with that UUID, such as a delivery's `peer_id`."""
        return self._stage.name_of(peer)

    # The process.

    def die(self) -> NoReturn:
        """Ends the process of this instance in the middle of a handler, or of a function of `later`, as a segmentation
        fault does. It is started again a little later; a message that was alone in hand at three such ends becomes a
        dead letter (T-47).
        """
        self._check()
        self._stage.die(self)
        raise ProcessOver(f"the process of {self.name} has ended")

    # Time, and answers.

    @property
    def now(self) -> float:
        """Seconds of the world's clock, which stands still during calls."""
        return self._stage.now

    def later(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function after that many seconds, if this life has not ended."""
        self._check()
        self._stage.later(self, seconds, function, *arguments)

    def every(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function every `seconds` seconds, first after as many."""

        def again() -> None:
            self.later(seconds, again)
            function(*arguments)

        self.later(seconds, again)

    def when_stored(self, receipt: Receipt, told: Told) -> None:
        """Calls `told(None)` when the send is on disk, or `told(error)` if it was not stored."""
        self._when("stored", receipt, told)

    def when_acked(self, receipt: Receipt, told: Told) -> None:
        """Calls `told(None)` when every recipient has acknowledged the send, or `told(Undelivered)`. The send must be
        stored."""
        self._when("acked", receipt, told)
        self.node.watch(receipt)
        self.run_actions()

    def run_actions(self) -> None:
        """Has done what the machine asks for, after calls of `node`."""
        self._call("handle_timeout")

    def _when(self, what: str, receipt: Receipt, told: Told) -> None:
        self._check()
        self.waiting.setdefault((what, receipt), []).append(told)

    def tell(self, what: str, receipts: Sequence[Receipt], error: TolliverError | None) -> None:
        """Calls the functions that wait for `receipts` to be "stored" or "acked", as `what` says. They get `error`:
        None for a success.
        """
        for receipt in receipts:
            for told in self.waiting.pop((what, receipt), ()):
                told(error)

    def tell_answered(self, answered: Answered) -> None:
        """Calls the functions that wait for the end of this request."""
        for told in self.asking.pop(answered.asked, ()):
            told(answered)

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self._check()
        return self._stage.call(self, name, *arguments, **named)

    def _check(self) -> None:
        if self.over:
            raise ConnectionClosing(f"this life of {self.name} is over: its program does nothing more")


class AppQueue:
    """Calls with which a simulated program uses one work queue, that of a channel."""

    def __init__(self, app: App, channel: str) -> None:
        self._app = app
        self.channel = channel

    def put(self, body: bytes, key: str = "", *, message_key: str | None = None, after: float | None = None) -> Receipt:
        """Gives a job to be stored; `when_stored` tells when the job is stored, `when_acked` when it is done. The queue
        has one job for each `message_key`: a later put `repeats` that (P-60). With `after` it is put that many seconds
        later (P-90).
        """
        times = {} if after is None else {"after": after}
        receipt: Receipt
        if message_key is not None:
            receipt = self._app._call("put", self.channel, key, body, message_key, of=MessageKeys, **times)
        else:
            receipt = self.put_many([(key, body)], after=after)
        return receipt

    def call(self, body: bytes, key: str = "", *, timeout: float = 60.0, message_key: str | None = None) -> Asked:
        """Puts a job and asks for its answer, within `timeout` seconds: give the result to `App.when_answered`. With a
        `message_key` the job is put once, and a later call gets the same answer (P-83).
        """
        asked: Asked = self._app._call("call", self.channel, key, body, timeout, of=JobCalls, message_key=message_key)
        return asked

    def put_many(self, jobs: Iterable[bytes | tuple[str, bytes]], *, after: float | None = None) -> Receipt:
        """Gives jobs, each a body or (key, body), to be stored in one commit, all or none. With `after` they are put
        that many seconds later."""
        items = [job if isinstance(job, tuple) else ("", job) for job in jobs]
        receipt: Receipt
        if after is None:
            receipt = self._app._call("put_many", self.channel, items, of=Queues)
        else:
            receipt = self._app._call("put_later", self.channel, items, of=ForLater, after=after)
        return receipt

    def pending(self, most: int = 1000) -> JobList:
        """Asks for at most `most` jobs that are not done. Give the result to `when_stored`: after that it has them in
        `jobs`.
        """
        token: JobList = self._app._call("pending_jobs", self.channel, most, of=Queues)
        return token

    def cancel(self, numbers: Iterable[int] | None = None) -> Receipt:
        """Gives up jobs by their numbers, or all jobs (None)."""
        receipt: Receipt = self._app._call("cancel_jobs", self.channel, numbers, of=Queues)
        return receipt

    def reassign(self, worker: str) -> Receipt:
        """Takes all jobs from the worker of that name."""
        receipt: Receipt = self._app._call("reassign", self.channel, self._app.uuid_of(worker), of=Queues)
        return receipt


class Settlement:
    """Fate of one delivery, which is with one handler or several. The delivery is settled when all of them have
    succeeded, or when one has another verdict.
    """

    def __init__(self, delivery: Delivery, handlers: int, say: Callable[[Delivery, Verdict], None]) -> None:
        self.delivery = delivery
        self._left = handlers
        self._say = say

    def vote(self, verdict: Verdict) -> None:
        if self._left:
            self._left = self._left - 1 if verdict is True else 0
            if not self._left:
                self._say(self.delivery, verdict)


class Ballot:
    """Verdict of one handler on a delivery that several handlers get: only its first verdict counts."""

    def __init__(self, settlement: Settlement, ended: Callable[[Settlement], None]) -> None:
        self._settlement: Settlement | None = settlement
        self._ended = ended

    def settle(self, deliveries: Iterable[Delivery], verdict: Verdict, /) -> None:
        settlement, self._settlement = self._settlement, None
        if settlement is not None:
            self._ended(settlement)
            settlement.vote(verdict)


def _key_of(settlement: Settlement) -> str:
    return settlement.delivery.key

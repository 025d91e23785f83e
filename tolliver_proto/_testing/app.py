"""Instance of a user's program in a simulated world.

It has the calls of an adapter. A program is a function of an `App`. It is called at each start of its instance, and
again after each crash: what it keeps elsewhere than on `disk` and in the instance's own store is a variable of the
test, not of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol
from uuid import UUID

from .._common.errors import ConnectionClosing, TolliverError
from .._node.actions import Answered, Asked, Delivery, Receipt, Verdict
from .._node.node import Node, PatternKind
from .._node.ordered_handling import Lanes
from .._node.outboxes.sender import To
from .._node.pattern import Pattern
from .._node.sizes import Item
from .._patterns.envelopes import Request
from .._patterns.last_values import LastValues
from .._patterns.queues import Queues
from .._patterns.requests import Requests
from .._patterns.work import QueueWork
from .._patterns.work_queue import JobList

Handling = Callable[[Delivery], object]
Responding = Callable[[Request], bytes]
Told = Callable[[TolliverError | None], object]


class Stage(Protocol):
    """The world that an App acts in."""

    def call(
        self, app: App, name: str, *arguments: Any, of: PatternKind[Pattern] | None = None, **named: Any
    ) -> Any: ...

    def later(self, app: App, seconds: float, function: Callable[..., object], *arguments: object) -> None: ...

    def connect(self, app: App, peer: str) -> None: ...

    def disconnect(self, app: App, peer: str) -> None: ...

    def name_of(self, peer: UUID) -> str: ...

    def uuid_of(self, peer: str) -> UUID: ...

    @property
    def now(self) -> float: ...


class Calls:
    """A handler of a program. With `settles` it says by `ack` or `fail` of each delivery, now or later, what became
    of it, and `lanes` how many may be begun."""

    def __init__(self, function: Handling, settles: bool, lanes: Lanes[Settlement] | None = None) -> None:
        self.function = function
        self.settles = settles
        self.lanes = lanes

    def __str__(self) -> str:
        return f"the handler {getattr(self.function, '__qualname__', self.function)!s:.100}"


class App:
    """One life of an instance. Every call raises ConnectionClosing when that is over.

    `disk` is a dict for what the program keeps beside the instance's store: it survives crashes, and a change of it is
    there at once. Functions that are given to `later`, `every`, `when_stored`, `when_acked` and `when_answered` are
    forgotten with this life.
    """

    def __init__(self, stage: Stage, name: str, node: Node, disk: dict[Any, Any]) -> None:
        self.name = name
        self.node = node
        """The machine itself, for whatever has no call here: give `now=app.clock` with each call."""
        self.disk = disk
        self.over = False
        self.clock = 0.0
        """Seconds by the instance's own monotonic clock, of its last input."""
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
    ) -> Receipt:
        """Give a message to be stored for every peer that subscribes to it; `when_stored` tells when it is (T-54).

        `to` narrows it to one peer, or to some, by UUID (see `uuid_of`). Raises as an adapter's `send` does.
        """
        terms = {"require_recipients": require_recipients, "to": to, "expire_after": expire_after}
        receipt: Receipt = self._call("send_many", [(channel, key, body)], **terms)
        return receipt

    def send_many(
        self,
        items: Iterable[Item],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Receipt:
        """Give (channel, key, body) items to be stored in one commit, all or none."""
        terms = {"require_recipients": require_recipients, "to": to, "expire_after": expire_after}
        receipt: Receipt = self._call("send_many", list(items), **terms)
        return receipt

    def retain(self, channel: str, key: str, body: bytes | None) -> Receipt:
        """Send it, and keep it as the newest value for whoever subscribes later (P-30); None clears the name."""
        receipt: Receipt = self._call("retain", channel, key, body, of=LastValues)
        return receipt

    def unreliable_send(self, channel: str, key: str, body: bytes, *, to: To = None) -> int:
        """Send to the connected subscribers, unstored; returns how many (T-55)."""
        sent: int = self._call("unreliable_send", channel, key, body, to=to)
        return sent

    def flush(self) -> Receipt:
        """Ask for all that was sent until now to leave: `when_stored` tells when it has."""
        receipt: Receipt = self._call("flush")
        return receipt

    def subscribed(self, channel: str, key: str = "", *, connected: bool = False) -> int:
        """Peers that a message with these names would go to now; with `connected` those of them alone that are."""
        self._check()
        return self.node.subscribed(channel, key, connected)

    def responders(self, channel: str, key: str = "") -> int:
        """Connected peers that a request for these names would go to now."""
        self._check()
        return self.node.use(Requests).responders(channel, key)

    def subscribe(self, channel: str, key: str = "", handler: Handling | None = None, *, settles: bool = False) -> None:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). The handler comes first."""
        if handler is not None:
            self.register_callback(channel, key, handler, settles=settles)
        self._call("subscribe", channel, key)

    def unsubscribe(self, channel: str, key: str = "") -> None:
        """No longer: removes exactly this entry (T-26)."""
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
        """Call `handler(delivery)` for what matches. Its result says whether it went well, as with an adapter (T-45).

        With `settles` the handler, or whatever it hands the delivery to, calls `delivery.ack()` or `delivery.fail()`;
        the next call does not wait for that, but where `concurrency` says how many there may be at once, in order
        inside a key with `ordered_by="key"` (P-20, P-21). `pending` bounds what it has (P-24). An AssertionError is a
        failure of the test, any other exception one of the handler.
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
    ) -> Asked:
        """Ask the peers that `respond` to these names; `when_answered` tells what comes of it. With `gathers` it waits
        for the answers of all. Raises as an adapter's `request` does where nothing was asked."""
        terms = {"to": to, "durable": durable, "request_id": request_id, "gathers": gathers, "wait": wait}
        asked: Asked = self._call("request", channel, key, body, timeout, of=Requests, **terms)
        return asked

    def when_answered(self, asked: Asked, told: Callable[[Answered], object]) -> None:
        """Call `told` with what has `replies` and an `error`, one of them, when the request is over."""
        self._check()
        self.asking.setdefault(asked, []).append(told)

    def respond(self, channel: str, handler: Responding, key: str = "", *, delay: float = 0.0) -> None:
        """Answer requests with what `handler(request)` returns, bytes, after so many seconds. An AssertionError is a
        failure of the test, any other exception reaches the requester as RequestFailed."""

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

    # QueueWork queues.

    def work_queue(self, channel: str, *, lease: float = 10.0) -> AppQueue:
        """Make this channel a work queue, or go on with it after a restart: each job that is put is for one worker."""
        self._call("work_queue", channel, lease, of=Queues)
        return AppQueue(self, channel)

    def work(
        self, channel: str, handler: Handling, *, concurrency: int = 1, lease: float = 10.0, settles: bool = False
    ) -> None:
        """Call `handler(job)` for jobs of that channel, as `register_callback` says. At most `concurrency` jobs that
        it has been called for are unsettled at a time."""
        if not callable(handler):
            raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a delivery")
        self._call("work", channel, Calls(handler, settles, Lanes(concurrency, None)), concurrency, lease, of=QueueWork)

    def stop_work(self, channel: str) -> None:
        """Take no more jobs of it. Those that are unsettled are left to their producers."""
        self._call("stop_work", channel, of=QueueWork)

    # Connections.

    def connect(self, peer: str) -> None:
        """Dial the instance of that name, and keep the connection."""
        self._check()
        self._stage.connect(self, peer)

    def disconnect(self, peer: str) -> None:
        """Dial it no more, and close the connection."""
        self._check()
        self._stage.disconnect(self, peer)

    def uuid_of(self, peer: str) -> UUID:
        """UUID of the instance of that name."""
        return self._stage.uuid_of(peer)

    def name_of(self, peer: UUID) -> str:
        """Name of the instance with that UUID, such as a delivery's `peer_id`."""
        return self._stage.name_of(peer)

    # Time, and answers.

    @property
    def now(self) -> float:
        """Seconds of the world's clock: nothing in the world takes time but what says so."""
        return self._stage.now

    def later(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        """Call it then, in this life."""
        self._check()
        self._stage.later(self, seconds, function, *arguments)

    def every(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        """Call it again and again, for the first time after so many seconds."""

        def again() -> None:
            self.later(seconds, again)
            function(*arguments)

        self.later(seconds, again)

    def when_stored(self, receipt: Receipt, told: Told) -> None:
        """Call `told(None)` when the send is on disk, or `told(error)` when it was not stored."""
        self._when("stored", receipt, told)

    def when_acked(self, receipt: Receipt, told: Told) -> None:
        """Call `told(None)` when every recipient has acknowledged it, or `told(Undelivered)`. Once it is stored."""
        self._when("acked", receipt, told)
        self.node.watch(receipt)
        self._call("handle_timeout")

    def _when(self, what: str, receipt: Receipt, told: Told) -> None:
        self._check()
        self.waiting.setdefault((what, receipt), []).append(told)

    def tell(self, what: str, receipts: Sequence[Receipt], error: TolliverError | None) -> None:
        """The world has an answer."""
        for receipt in receipts:
            for told in self.waiting.pop((what, receipt), ()):
                told(error)

    def tell_answered(self, answered: Answered) -> None:
        """The world has what came of a request."""
        for told in self.asking.pop(answered.asked, ()):
            told(answered)

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self._check()
        return self._stage.call(self, name, *arguments, **named)

    def _check(self) -> None:
        if self.over:
            raise ConnectionClosing(f"this life of {self.name} is over: its program does nothing more")


class AppQueue:
    """A work queue of a program."""

    def __init__(self, app: App, channel: str) -> None:
        self._app = app
        self.channel = channel

    def put(self, body: bytes, key: str = "") -> Receipt:
        """Give a job to be stored; `when_stored` tells when it is, `when_acked` when it is done."""
        return self.put_many([(key, body)])

    def put_many(self, jobs: Iterable[bytes | tuple[str, bytes]]) -> Receipt:
        """Give jobs, each a body or (key, body), to be stored in one commit, all or none."""
        items = [job if isinstance(job, tuple) else ("", job) for job in jobs]
        receipt: Receipt = self._app._call("put_many", self.channel, items, of=Queues)
        return receipt

    def pending(self, most: int = 1000) -> JobList:
        """Ask for the jobs that are not done: the token has them in `jobs` once `when_stored` tells."""
        token: JobList = self._app._call("pending_jobs", self.channel, most, of=Queues)
        return token

    def cancel(self, numbers: Iterable[int] | None = None) -> Receipt:
        """Give up jobs, by their numbers, or all."""
        receipt: Receipt = self._app._call("cancel_jobs", self.channel, numbers, of=Queues)
        return receipt

    def reassign(self, worker: str) -> Receipt:
        """Take all jobs from the worker of that name."""
        receipt: Receipt = self._app._call("reassign", self.channel, self._app.uuid_of(worker), of=Queues)
        return receipt


class Settlement:
    """Fate of a delivery: settled when each of its handlers has said its word, or one that it failed."""

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
    """One handler's say: the second time does nothing."""

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

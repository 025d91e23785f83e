"""Facade of every adapter: scenarios are written once, as blocking code.

An instance lives in a `World` (an event loop on a thread of its own, or no loop at all), and a test only knows its
`Facade`. Each call is carried out in the instance's world and waited for here, with a limit: what never comes fails
with the name of the call and the stack of the world's thread. Handlers are plain functions; one that takes its time
returns a `Gate`, which each world turns into what its own handlers would return.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import UUID

from tolliver._options.instance import InstanceOptions, Remote
from tolliver._options.streams import StreamsOptions
from tolliver.status import InstanceStatus

from tolliver_proto import Notice, NoticeKind, Receipt
from tolliver_proto.node import Job, NodeStats, PeerInfo, RemoteInfo
from tolliver_proto.store import DeadLetter

PATIENCE = 60.0  # seconds for one call, far above what any takes
STEP = 0.002  # seconds between two looks


class Deadline:
    """The rest of a test's time. One test runs at a time, so there is one of these."""

    LIMIT = 60.0  # seconds for a whole test
    LAST = 2.0  # seconds that closing gets even after that

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._end = time.monotonic() + self.LIMIT

    def patience(self) -> float:
        return max(self.LAST, min(PATIENCE, self._end - time.monotonic()))


deadline = Deadline()


class Stuck(AssertionError):
    """Something did not come in time."""


class Cancelled(Exception):
    """The call was cancelled before it was done."""


def until(true: Callable[[], object], what: str = "it") -> None:
    """Wait for it."""
    end = time.monotonic() + deadline.patience()
    while not true():
        if time.monotonic() > end:
            raise Stuck(f"{what} did not come true")
        time.sleep(STEP)


class Handle:
    """A call under way in another thread."""

    def __init__(self, name: str, thread: int | None = None) -> None:
        self.name = name
        self.thread = thread
        self.cancel: Callable[[], None] | None = None
        """Ends the call early, where the world can do so; then `wait` raises Cancelled."""
        self._future: Future[Any] = Future()

    def resolve(self, result: Any) -> None:
        self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        self._future.set_exception(error)

    @property
    def done(self) -> bool:
        return self._future.done()

    def then(self, told: Callable[[Any], object]) -> None:
        """Call it with the result or the error when it is done, on some thread."""
        self._future.add_done_callback(lambda future: told(future.exception() or future.result()))

    def wait(self) -> Any:
        limit = deadline.patience()
        wait_for([self._future], limit)
        if not self._future.done():
            raise Stuck(f"{self.name} is not done after {limit:.1f} s\n{stack_of(self.thread)}")
        return self._future.result()

    def outcome(self) -> Any:
        """The result or the error, whichever it is."""
        try:
            return self.wait()
        except Stuck:
            raise
        except Exception as error:
            return error


def stack_of(thread: int | None) -> str:
    frame = sys._current_frames().get(thread or 0)
    return "".join(traceback.format_stack(frame)) if frame else "its thread has ended"


class Gate:
    """The verdict of a handler that takes its time: `open()` gives it, from any thread."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def open(self, result: Any = None) -> Gate:
        """Let the handler return this or, where it is an exception, raise it. The first word counts."""
        if not self.future.done():
            if isinstance(result, BaseException):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)
        return self


Handler = Callable[[Any], Any]
Options = InstanceOptions | StreamsOptions


class Adapter(Protocol):
    """The module of an adapter."""

    create_instance: Callable[..., Any]
    create_streams: Callable[..., Any]


def create(adapter: Adapter, options: Options, **living: Any) -> Any:
    """The instance or the streams that the options are for."""
    made_by = adapter.create_streams if isinstance(options, StreamsOptions) else adapter.create_instance
    return made_by(options, **living)


class World(Protocol):
    """Home of instances, and streams, of one kind."""

    kind: str
    can_cancel: bool

    def start(self, name: str, call: Callable[[], Any]) -> Handle:
        """Call it in the world, and wait there for what it returns."""

    def open(self, options: Options) -> tuple[Any, Callable[[], Handle]]:
        """An open instance, or open streams, and how to close it. Raises what opening it raises."""

    def later(self, gate: Gate) -> Any:
        """A handler's result in this world when it has to wait for the gate. Called by the handler."""

    def interrupt(self, turns: int, instance: Any, name: str, *args: Any) -> Handle:
        """The method's result, or Cancelled where so many turns of the loop were not enough for it."""

    def next(self, iterator: Any) -> Any:
        """A call, for `start`, that takes an iterator's next item."""

    def waiting(self, elements: Iterable[Any], last: Iterable[Gate] = ()) -> Any:
        """A source of these elements, read once, that waits wherever one is a Gate: in this world's own form. Its
        `finally` waits for each of the last gates."""

    def mapped(self, subscription: Any, function: Callable[[Any], Any]) -> Any:
        """A source of what the function makes of each element, within the subscription's block."""

    def left(self, source: Any) -> Any:
        """A call, for `start`, that closes one of these two."""

    def within(self, iterator: Any, end: BaseException) -> Any:
        """A call, for `start`, that enters its block, takes an item, and leaves it by this end: the item."""

    def outcome(self, call: Callable[[], Any]) -> Any:
        """A call, for `start`, that gives what this one returns or raises, whichever it is."""

    def close(self) -> None:
        """End it. All its instances are closed."""


class Opened:
    """An instance or streams, open in their world. Use it as a context manager."""

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self._instance: Any = None
        self._close: Callable[[], Handle] | None = None

    def __enter__(self) -> Self:
        self._instance, self._close = self.world.open(self.options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait until it is closed. The second time does nothing."""
        self.start_close().wait()

    def start_close(self) -> Handle:
        close, self._close = self._close, None
        if close is None:
            handle = Handle("close")
            handle.resolve(None)
            return handle
        return close()

    # Calls in general.

    def start(self, name: str, /, *args: Any, **options: Any) -> Handle:
        """Call the method of that name, which may have a dot, and do not wait for it."""
        said = ", ".join(map(_short, args))
        instance = self._instance
        return self.world.start(
            f"{self.world.kind}: {name}({said})", lambda: attrgetter(name)(instance)(*args, **options)
        )

    def interrupt(self, turns: int, name: str, *args: Any) -> Any:
        """The result of the call; raises Cancelled where it took more than so many turns of its loop."""
        return self.world.interrupt(turns, self._instance, name, *args).wait()

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return self.start(name, *args, **options).wait()

    def _look(self, look: Callable[[Any], Any]) -> Any:
        instance = self._instance
        return self.world.start(f"{self.world.kind}: a look at it", lambda: look(instance._core)).wait()

    @property
    def port(self) -> int | None:
        return self._instance.port  # type: ignore[no-any-return]  # any adapter's

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return self._instance.addresses  # type: ignore[no-any-return]  # as above

    @property
    def shown(self) -> str:
        """Its `repr`."""
        return self._call("__repr__")  # type: ignore[no-any-return]  # as above


class Facade(Opened):
    """An instance in its world. A call with a codec, or `keep`, is the channel's own."""

    options: InstanceOptions

    def start(self, name: str, /, *args: Any, **options: Any) -> Handle:
        codecs = {one: options.pop(one) for one in ("codec", "reply_codec", "keep") if one in options}
        if not codecs:
            return super().start(name, *args, **options)
        if name == "send_many":
            (items,) = args
            channel, *given = items[0][0], [(key, value) for _, key, value in items]
        else:
            channel, *given = args
        instance, own = self._instance, {"message_runs": "runs", "work_queue": "queue"}.get(name, name)
        return self.world.start(
            f"{self.world.kind}: {name} of {channel}",
            lambda: getattr(instance.channel(channel, **codecs), own)(*given, **options),
        )

    # The draft's calls.

    def new_connection(self, remote: str | Remote, **options: Any) -> UUID:
        return self._call("new_connection", remote, **options)  # type: ignore[no-any-return]  # any adapter's

    def remove_connection(self, remote: str | Remote, **options: bool) -> None:
        self._call("remove_connection", remote, **options)

    def subscribe(self, channel: str, key: str = "", handler: Any = None, **options: Any) -> None:
        if handler is None:
            self._call("subscribe", channel, key, **options)
        else:
            self._call("subscribe", channel, key, handler=self._adapted(handler), **options)

    def unsubscribe(self, channel: str, key: str = "") -> None:
        self._call("unsubscribe", channel, key)

    def send(self, channel: str, key: str, body: Any, **options: Any) -> Receipt:
        return self._call("send", channel, key, body, **options)  # type: ignore[no-any-return]  # as above

    def send_many(self, items: Iterable[tuple[str, str, Any]], **options: Any) -> Receipt:
        return self._call("send_many", items, **options)  # type: ignore[no-any-return]  # as above

    def retain(self, channel: str, key: str, body: Any, **options: Any) -> Receipt:
        return self._call("retain", channel, key, body, **options)  # type: ignore[no-any-return]  # as above

    def retained(self, **options: Any) -> list[Any]:
        return self._call("retained", **options)  # type: ignore[no-any-return]  # as above

    def ask_retained(self, channel: str) -> None:
        self._call("ask_retained", channel)

    def unreliable_send(self, channel: str, key: str, body: Any, **options: Any) -> int:
        return self._call("unreliable_send", channel, key, body, **options)  # type: ignore[no-any-return]  # as above

    def register_callback(self, channel: str, key: str, handler: Any, **how: Any) -> Registered:
        return Registered(self.world, self._call("register_callback", channel, key, self._adapted(handler), **how))

    def request(self, channel: str, body: Any, key: str = "", **options: Any) -> Any:
        return self._call("request", channel, body, key, **options)

    def gather(self, channel: str, body: Any, key: str = "", **options: Any) -> list[Any]:
        return self._call("gather", channel, body, key, **options)  # type: ignore[no-any-return]  # as above

    def respond(self, channel: str, handler: Handler, key: str = "", **options: Any) -> Registered:
        answering = self._adapted(handler) if callable(handler) else handler
        return Registered(self.world, self._call("respond", channel, answering, key, **options))

    def _adapted(self, handler: Handler) -> Handler:
        def handle(delivery: Any) -> Any:
            result = handler(delivery)
            return self.world.later(result) if isinstance(result, Gate) else result

        return handle

    # Calls that Python adds.

    def relay(self, outbox: Any) -> Any:
        return self._call("relay", outbox)

    def messages(self, channel: str, key: str = "", **options: Any) -> Items:
        return Items(self.world, self._call("messages", channel, key, **options))

    def message_runs(self, channel: str, key: str = "", **options: Any) -> Items:
        return Items(self.world, self._call("message_runs", channel, key, **options))

    def flush(self, **options: Any) -> None:
        self._call("flush", **options)

    def work_queue(self, channel: str, **options: Any) -> Queued:
        return Queued(self.world, self._call("work_queue", channel, **options))

    def work(self, channel: str, **options: Any) -> Items:
        return Items(self.world, self._call("work", channel, **options))

    def wait_acked(self, receipt: Receipt, **options: Any) -> None:
        self._call("wait_acked", receipt, **options)

    def wait_subscribed(self, channel: str, key: str = "", **options: Any) -> int:
        return self._call("wait_subscribed", channel, key, **options)  # type: ignore[no-any-return]  # as above

    def wait_responder(self, channel: str, key: str = "", **options: Any) -> int:
        return self._call("wait_responder", channel, key, **options)  # type: ignore[no-any-return]  # as above

    def events(self) -> Items:
        return Items(self.world, self._call("events"))

    def forget_peer(self, peer: UUID) -> None:
        self._call("admin.forget_peer", peer)

    def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> None:
        self._call("admin.repin", peer, spki_sha256)

    def retry(self, peer: UUID) -> int:
        return self._call("admin.retry", peer)  # type: ignore[no-any-return]  # as above

    def drop_parked(self, peer: UUID) -> int:
        return self._call("admin.drop_parked", peer)  # type: ignore[no-any-return]  # as above

    def dead_letters(self, after: int = 0) -> list[DeadLetter]:
        return self._call("admin.dead_letters", after)  # type: ignore[no-any-return]  # as above

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int]) -> int:
        return self._call("admin.drop_dead_letters", letters)  # type: ignore[no-any-return]  # as above

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        return self._call("admin.replay", letters)  # type: ignore[no-any-return]  # as above

    def backup(self, path: object) -> None:
        self._call("admin.backup", path)

    def reload_tls(self) -> None:
        self._call("admin.reload_tls")

    def set_acl(self, acl: object) -> None:
        self._call("admin.set_acl", acl)

    def peers(self) -> list[PeerInfo]:
        return self._call("peers")  # type: ignore[no-any-return]  # as above

    def remotes(self) -> list[RemoteInfo]:
        return self._call("remotes")  # type: ignore[no-any-return]  # as above

    def notice(self, kind: NoticeKind, detail: str) -> None:
        self._call("notice", kind, detail)

    def notices(self) -> list[Notice]:
        return self._call("notices")  # type: ignore[no-any-return]  # as above

    def stats(self) -> NodeStats:
        return self._call("stats")  # type: ignore[no-any-return]  # as above

    def status(self) -> InstanceStatus:
        return self._call("status")  # type: ignore[no-any-return]  # as above

    @property
    def status_address(self) -> tuple[str, int] | None:
        return self._instance.status_address  # type: ignore[no-any-return]  # as above

    @property
    def instance_id(self) -> UUID:
        return self._instance.instance_id  # type: ignore[no-any-return]  # as above

    @property
    def database(self) -> Path:
        return self.options.database

    # Lines that an operator would read in the log.

    def redials(self) -> bool:
        """True if the next thing that it waits for is to dial again."""
        return "redial" in str(self._look(lambda instance: instance.node.timeout_reason))


class Registered:
    """A callback at work."""

    def __init__(self, world: World, registration: Any) -> None:
        self._world = world
        self._registration = registration

    def close(self) -> None:
        self._world.start("close a registration", self._registration.close).wait()

    def __repr__(self) -> str:
        return repr(self._registration)


class Queued:
    """A work queue of a producer."""

    def __init__(self, world: World, queue: Any) -> None:
        self._world = world
        self._queue = queue

    def __repr__(self) -> str:
        return repr(self._queue)

    @property
    def channel(self) -> str:
        return self._queue.channel  # type: ignore[no-any-return]  # any adapter's

    def start(self, name: str, /, *args: Any, **options: Any) -> Handle:
        return self._world.start(f"{self._world.kind}: {name}", lambda: getattr(self._queue, name)(*args, **options))

    def put(self, body: Any, key: str = "", **options: Any) -> Receipt:
        return self.start("put", body, key, **options).wait()  # type: ignore[no-any-return]  # as above

    def call(self, body: Any, key: str = "", **options: Any) -> Any:
        return self.start("call", body, key, **options).wait()

    def put_many(self, jobs: Iterable[Any], **options: Any) -> Receipt:
        return self.start("put_many", jobs, **options).wait()  # type: ignore[no-any-return]  # as above

    def pending(self, *count: int) -> list[Job]:
        return self.start("pending", *count).wait()  # type: ignore[no-any-return]  # as above

    def reassign(self, worker: UUID) -> int:
        return self.start("reassign", worker).wait()  # type: ignore[no-any-return]  # as above

    def cancel(self, jobs: Any) -> int:
        return self.start("cancel", jobs).wait()  # type: ignore[no-any-return]  # as above


class Items:
    """An iterator of an instance: each item comes with `ack()` and `fail()`, carried out in the instance's world."""

    def __init__(self, world: World, iterator: Any) -> None:
        self._world = world
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self.settled(self.start_next().wait())
        except StopAsyncIteration:
            raise StopIteration from None

    def start_next(self) -> Handle:
        return self._world.start("the next item", lambda: self._world.next(self._iterator))

    def leave(self, end: BaseException) -> Any:
        """Enter its block, take an item, and leave it by this end: the item."""
        return self._world.start("leave by an end", lambda: self._world.within(self._iterator, end)).wait()

    def settled(self, item: Any) -> Settled:
        """The item that `start_next` brought, with its two words."""
        return Settled(self._world, item)

    def close(self) -> None:
        self._world.start("close an iterator", self._iterator.close).wait()

    def __repr__(self) -> str:
        return repr(self._iterator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Settled:
    """A message or a run, whose words are said in its instance's world. All else is the thing itself."""

    def __init__(self, world: World, item: Any) -> None:
        self._world = world
        self._item = item

    def ack(self) -> None:
        self._world.start("ack", self._item.ack).wait()

    def fail(self, **options: Any) -> None:
        self._world.start("fail", lambda: self._item.fail(**options)).wait()

    def answer(self, value: Any) -> None:
        self._world.start("answer", lambda: self._item.answer(value)).wait()

    def give_up(self, reason: str) -> None:
        self._world.start("give up", lambda: self._item.give_up(reason)).wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)

    def __repr__(self) -> str:
        return repr(self._item)

    def __len__(self) -> int:
        return len(self._item)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._item)

    def __getitem__(self, index: int) -> Any:
        return self._item[index]


@contextmanager
def each(elements: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """They, and they are closed at the end, as sources are."""
    try:
        yield elements
    finally:
        close = getattr(elements, "close", None)
        if close is not None:
            close()


def _short(value: object) -> str:
    text = repr(value[:20] if isinstance(value, bytes) else value)
    return text if len(text) < 80 else text[:77] + "..."


def on_thread(handle: Handle, call: Callable[[], Any]) -> Handle:
    """Call it on a thread of its own, which does not keep the process alive."""

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # of any kind, the test is to see it
            handle.fail(error)
        else:
            handle.resolve(result)

    thread = threading.Thread(target=run, name=handle.name, daemon=True)
    thread.start()
    handle.thread = thread.ident
    return handle

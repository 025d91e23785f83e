"""Ways of a message through the code, hop by hop, each proved by a message that is really sent.

`scripts/draw/rooms.py` draws them into docs/architecture.md.

The hops are chosen by hand, so that a reader sees those that matter. They cannot lie: one reliable message is sent from
one instance to another, over TLS on loopback, in one process, with databases on disk. `sys.setprofile` records every
call of our packages, and of the socket's `send` and `recv`. Each hop must be among the calls after the hop before it,
through all ways in a row; otherwise nothing is drawn, and the error names the hop.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import anyio
from tolliver.anyio import InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

from tolliver_proto import Delivery

ROOT = Path(__file__).resolve().parent.parent

_PACKAGES = (f"{ROOT}/tolliver_proto/", f"{ROOT}/transports/tolliver/")
_PATIENCE = 60.0  # seconds until the row must be gone
_SYSTEM, _PROGRAM = "the system", "your program"


class Hop(NamedTuple):
    """A function that a message passes, in a file of one of our packages."""

    file: str
    function: str
    what: str = ""

    @property
    def place(self) -> tuple[str, str]:
        return self.file, self.function


class Way(NamedTuple):
    name: str
    hops: tuple[Hop, ...]


WAYS = (
    Way(
        "send_to_socket",
        (
            Hop("anyio/instance.py", "Instance.send", "the call of the program; it waits until the message is stored"),
            Hop("_node/node.py", "Node.send", "into the machine, without I/O from here on"),
            Hop("_node/outboxes/sender.py", "Sender.send", "checks names and quota, finds the recipients, takes an id"),
            Hop("_node/outboxes/ledger.py", "Ledger.take_in", "counts the owners of the message"),
            Hop("_node/commits/batch.py", "Batch.store", "the message and its recipients wait in the running batch"),
            Hop("_node/outboxes/outbox.py", "Outbox.add", "the recipient is owed one more"),
            Hop("_node/node.py", "Node._begin_commit", "no commit runs: the batch becomes an action, `Commit`"),
            Hop("_messages/store_jobs.py", "StoreJobs.commit", "the adapter puts the commit into the store's thread"),
            Hop("_store/sqlite.py", "SQLiteStore.commit", "one transaction, with fsync"),
            Hop("_store/owed.py", "Deliveries._store", "writes the rows: a batch of messages, and who is owed them"),
            Hop("_node/commits/commits.py", "Commits.committed", "the commit is durable; `Stored` becomes an action"),
            Hop("_node/outboxes/transmission.py", "Transmission.on_stored", "for each recipient of the run"),
            Hop("_node/outboxes/outbox.py", "Window.committed", "the window of the connection takes the message"),
            Hop("_messages/driver.py", "NodeDriver._on_stored", "`send` is told, and returns"),
            Hop("_node/outboxes/transmission.py", "Transmission.pump", "as far as window and connection have room"),
            Hop("_wire/frames.py", "Encoder.message", "the frame"),
            Hop("_wire/connection.py", "Connection.send_encoded", "into the connection's output"),
            Hop(
                "_common/connection_table.py",
                "ConnectionTable._write",
                "all frames that are due become one action, `Transmit`",
            ),
            Hop("_driver/session.py", "Session.transmit", "the adapter gives the bytes to the session"),
            Hop("_driver/socket_session.py", "SocketSession.write", "as much as the socket takes"),
            Hop("_tls/pump.py", "Pump.write", "encrypts"),
            Hop(_SYSTEM, "socket.send"),
        ),
    ),
    Way(
        "ciphertext_to_handler",
        (
            Hop("anyio/asyncio_wire.py", "CallbackTransport._on_readable", "the loop says that there is something"),
            Hop("_driver/socket_session.py", "SocketSession.read", "as much as is fair"),
            Hop(_SYSTEM, "socket.recv"),
            Hop("_tls/pump.py", "Pump.receive", "decrypts"),
            Hop("_driver/session.py", "Session._hand_over", "the plaintext"),
            Hop("_node/node.py", "Node.receive_data", "into the machine"),
            Hop("_wire/connection.py", "Connection.receive_data", "into the buffer of the connection"),
            Hop("_node/links/links.py", "Links.read", "takes the events of the connection, in order"),
            Hop("_wire/frames.py", "Decoder.next_frame", "a frame out of the bytes"),
            Hop("_node/inboxes/delivering.py", "Delivering.on_message", "handlers by channel and key; drops copies"),
            Hop("_node/inboxes/inbox.py", "Inbox.add", "the message counts against the credit of its peer"),
            Hop("_messages/driver.py", "NodeDriver._deliver", "the action `Deliver`: a run for the same handlers"),
            Hop("_messages/mailbox.py", "Mailbox.put", "one mailbox for each handler or iterator"),
            Hop("_messages/handler_turn.py", "HandlerTurn.call_each", "calls the function for each message"),
            Hop(_PROGRAM, "handler"),
        ),
    ),
    Way(
        "ack_to_row",
        (
            Hop("_messages/mailbox.py", "Mailbox.settle", "receiver: the handler has returned"),
            Hop("_node/inboxes/settling.py", "Settling.acknowledge", "receiver: the verdict; the credit is given back"),
            Hop("_node/commits/commits.py", "Commits.ack", "receiver: at once; with a durable `dedupe` once stored"),
            Hop("_wire/connection.py", "Connection.send_acks", "receiver: one frame for the acks of a run"),
            Hop(
                "_common/connection_table.py", "ConnectionTable._write", "receiver: with all other frames that are due"
            ),
            Hop(_SYSTEM, "socket.send"),
            Hop(_SYSTEM, "socket.recv"),
            Hop("_node/links/links.py", "Links.read", "sender: takes the events of the connection, in order"),
            Hop("_node/links/links.py", "Links._on_acks", "sender: a run of acked ids"),
            Hop(
                "_node/outboxes/outbox.py",
                "Window.take_acked",
                "sender: **takes them out of the window**, gives their seqs",
            ),
            Hop("_node/outboxes/transmission.py", "Transmission.settle", "sender: `RemoveDeliveries` into the batch"),
            Hop("_node/outboxes/ledger.py", "Ledger.release", "sender: sets the timer `removals`"),
            Hop("_node/outboxes/ledger.py", "Ledger.let_go", "sender: one owner less; a body without one goes, too"),
            Hop("_node/outboxes/ledger.py", "Ledger.tell_watchers", "sender: `Acked`, so `wait_acked` returns"),
            Hop("_node/commits/commits.py", "Commits._on_removals_timeout", "sender: no other commit took them along"),
            Hop("_node/node.py", "Node._begin_commit", "sender: the batch becomes an action, `Commit`"),
            Hop("_messages/store_jobs.py", "StoreJobs.commit", "sender: into the store's thread"),
            Hop("_store/sqlite.py", "SQLiteStore._remove_deliveries", "sender: by peer"),
            Hop("_store/owed.py", "Deliveries.remove", "sender: **deletes the row of `owed`**, or clears its bits"),
            Hop("_store/sqlite.py", "SQLiteStore._remove_messages", "sender: those that have no owner left"),
            Hop(
                "_store/owed.py",
                "Deliveries.remove_messages",
                "sender: **deletes the row of `batch`** of which nothing is owed",
            ),
            Hop("_node/commits/commits.py", "Commits.committed", "sender: the removal is durable"),
            Hop("_node/outboxes/outbox.py", "Outbox.removed", "sender: forgets what was marked as leaving"),
        ),
    ),
)


class Call(NamedTuple):
    """A recorded call: the function, the calls of ours that it came from, the thread."""

    place: tuple[str, str]
    callers: tuple[int, ...]
    is_main: bool


class Recorder:
    """All calls of our packages while it is on, in all threads that begin meanwhile."""

    def __init__(self, program: CodeType) -> None:
        self.calls: list[Call] = []
        self.row_is_gone = threading.Event()
        self._program = program
        self._numbers: dict[int, int] = {}  # of the newest call of each frame, by the frame's id
        self._main = threading.get_ident()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            name, owner = getattr(argument, "__name__", ""), getattr(argument, "__self__", None)
            if isinstance(owner, socket.socket) and name in ("send", "recv"):
                self._note((_SYSTEM, f"socket.{name}"), frame)
        elif event == "call" and (place := self._place(frame.f_code)) is not None:
            self._numbers[id(frame)] = len(self.calls)
            self._note(place, frame.f_back)

    def _note(self, place: tuple[str, str], frame: FrameType | None) -> None:
        callers = []
        while frame is not None:
            if self._place(frame.f_code) is not None and id(frame) in self._numbers:
                callers.append(self._numbers[id(frame)])
            frame = frame.f_back
        self.calls.append(Call(place, tuple(callers), threading.get_ident() == self._main))
        if place == WAYS[-1].hops[-1].place:
            self.row_is_gone.set()

    def _place(self, code: CodeType) -> tuple[str, str] | None:
        if code is self._program:
            return _PROGRAM, "handler"
        for package in _PACKAGES:
            if code.co_filename.startswith(package):
                return code.co_filename.removeprefix(package), code.co_qualname
        return None


@cache
def recorded() -> Sequence[Call]:
    """Calls for one reliable message, from `send` to the row that is gone."""
    return anyio.run(_record)


async def _record() -> Sequence[Call]:
    def handler(_delivery: Delivery) -> None:
        pass

    recorder = Recorder(handler.__code__)

    async def until_gone() -> None:
        await anyio.to_thread.run_sync(recorder.row_is_gone.wait, _PATIENCE)
        recorder.row_is_gone.clear()

    with tempfile.TemporaryDirectory(prefix="ways-") as home:
        directory = Path(home)
        make_ca(directory)
        one, two = (make_certificate(directory, name).tls() for name in ("left", "right"))
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        try:
            async with (
                create_instance(
                    InstanceOptions(database=directory / "right.db", listen="127.0.0.1:0", tls=two)
                ) as right,
                create_instance(
                    InstanceOptions(database=directory / "left.db", remotes=[f"127.0.0.1:{right.port}"], tls=one)
                ) as left,
            ):
                await right.subscribe("readings", "", handler)
                await left.wait_subscribed("readings")
                await left.send("readings", "first", b"a first message also finds the way to the peer")
                await until_gone()
                begin = len(recorder.calls)
                await left.send("readings", "second", b"the message that is followed")
                await until_gone()
                calls = [*recorder.calls]
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return [call if number >= begin else call._replace(place=("", "")) for number, call in enumerate(calls)]


def found(ways: Sequence[Way], calls: Sequence[Call]) -> list[list[int]]:
    """The call of each hop of these ways, each after the one before. Raises LookupError where there is none."""
    places, after = [], 0
    for way in ways:
        places.append(list[int]())
        for hop in way.hops:
            try:
                after = next(number for number in range(after, len(calls)) if calls[number].place == hop.place)
            except StopIteration:
                raise LookupError(
                    f"{way.name}: {hop.file} {hop.function} is not called after the hop before it: follow the message "
                    "in the code, and change WAYS in scripts/ways.py"
                ) from None
            places[-1].append(after)
            after += 1
    return places


def table(way: Way, calls: Sequence[Call], places: Sequence[int]) -> Iterator[str]:
    """The hops of a way, and for each the hop in whose call it happens, or the thread that begins it."""
    yield "| | file | function | within | |"
    yield "|---|---|---|---|---|"
    steps = {place: step for step, place in enumerate(places, 1)}
    for step, (hop, place) in enumerate(zip(way.hops, places, strict=True), 1):
        above = next((str(steps[number]) for number in calls[place].callers if number in steps), None)
        thread = "the loop" if calls[place].is_main else "the store's thread"
        file = f"`{hop.file}`" if hop.file.endswith(".py") else hop.file
        yield f"| {step} | {file} | `{hop.function}` | {above or thread} | {hop.what} |"


def drawn() -> dict[str, Iterable[str]]:
    """Tables of all ways, by their names on the page."""
    calls = recorded()
    return {way.name: table(way, calls, at) for way, at in zip(WAYS, found(WAYS, calls), strict=True)}

"""Desk of an instance for local programs (D-18, D-19, P-98).

One thread serves the socket of every kind of instance, so that no adapter has code for it, and a flood of bytes is
parsed beside the loop. All that one turn of the thread has read goes to the loop together, which makes the
instance's own calls in one commit. Answers come back through a queue.

State of a client: its connection of the wire protocol, and what it has asked and was not answered. Invariants:
- A client is who the system says: its identity begins with its user's prefix, and it subscribes to nothing (T-72a).
- An ask is acknowledged behind its answer. A client that was not answered does not know what became of its ask, and
  asks again with its key.
- Bounded are the clients, the bytes of unfinished frames over all of them, the asks in progress of each and their bytes
  over all of them, also of clients that have left, and the answers that a client does not read. Above a bound of its
  own the client is read no further. One that keeps half a frame, or does not finish its handshake, is dropped when its
  time is over.
- A client that comes now is served, whatever others hold. Above the most clients the quietest makes room, of the user
  who has the most; above the bytes of unfinished frames the oldest of these does. Requests may wait for long, so half
  of the bytes in progress is never theirs.

Rejected: clients as peers of the node, for each of which it would keep a peer, a window and what it has seen: a receipt
cannot go to a peer that subscribes to nothing. And a transport in each adapter, which is four times the code.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import count
from time import monotonic
from typing import Any, NamedTuple, Protocol
from uuid import UUID
from weakref import WeakSet

from tolliver_proto import Acl, Connection, HandshakeRequest, Limits, Message, Receipt, Role, TolliverError
from tolliver_proto.errors import AccessDenied, Blocked, LocalProtocolError, ReservedChannel
from tolliver_proto.layouts import State
from tolliver_proto.node import Reply, is_derived

from .._boxes.outbox_table import Row
from .._driver.pending import PendingCall
from .._driver.sockets import ACCEPT_PAUSE, NOT_YET
from .._driver.threads import start
from .._driver.unix import Listener, credentials, may_connect
from .._options.unix import UnixAddress
from .envelopes import CHANNEL, MARGIN, Ask, Item, RowsTaken, Verb, answer_body, is_own
from .identities import local_prefix

log: logging.Logger = logging.getLogger("tolliver.local")

MOST = 4096
"""Clients at a time; fewer where the process may have few open files, of which they get at most half."""
_ASKS = 256  # in progress, of one client
_UNREAD = 2**20  # bytes of answers that a client has not read, above which it is not read
_MOST_BYTES = 64 * 2**20  # of unfinished frames, and of asks in progress, over all clients
_OF_REQUESTS = _MOST_BYTES // 2  # in progress, of requests
_OVERHEAD = 1024  # bytes that an ask in progress takes beside its own
_HELLO = 4096  # bytes of a handshake, which has no subscriptions
_CHUNK = 2**16
_ROUND = 64  # connections accepted in a turn
_LOOK = 1.0  # seconds between two looks at what is unfinished
_LEASE = 10.0  # seconds, of a queue that is declared here
_LAST = 2.0  # seconds in which the last answers go out

Outcome = Receipt | Reply | RowsTaken | BaseException
_Name = tuple[str, str | None]
"""A request's channel and message key."""


class Core(Protocol):
    """The part of an instance that a desk uses."""

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def call_soon(self, job: Callable[[], object]) -> None: ...

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        require_recipients: int,
        to: Any,
        expire_after: float | None,
        message_key: str | None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> PendingCall[Receipt]: ...

    def send_many(
        self, items: Sequence[Item], require_recipients: int, to: Any, expire_after: float | None
    ) -> PendingCall[Receipt]: ...

    def declare_queue(self, channel: str, lease: float) -> None: ...

    def declare_known_queues(self, lease: float) -> None: ...

    def put_jobs(
        self,
        channel: str,
        items: list[tuple[str, bytes]],
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> PendingCall[Receipt]: ...

    def request(self, channel: str, key: str, body: bytes, terms: Any) -> PendingCall[Reply]: ...

    def give_rows(self, rows: Sequence[Row], names: Sequence[tuple[str, str]]) -> PendingCall[RowsTaken]: ...


class _Asked(NamedTuple):
    """An ask of a client, with its number and the bytes that are counted for it."""

    client: _Client
    number: int
    ask: Ask
    size: int


class _Client:
    """A connection of a local program."""

    __slots__ = ("asks", "connection", "due", "events", "identity", "output", "size", "sock", "uid")

    def __init__(self, sock: socket.socket, uid: int | None, connection: Connection, due: float) -> None:
        self.sock = sock
        self.uid = uid
        self.connection = connection
        self.due: float | None = due
        """Time of its end, unless its handshake or its frame is whole by then; monotonic seconds."""
        self.events = selectors.EVENT_READ
        self.output = b""
        self.asks: dict[int, int] = {}
        """Sizes of the asks in progress, by id."""
        self.size = 0
        """Bytes of the unfinished frame."""
        self.identity: UUID | None = None


class Desk:
    """The socket that an instance accepts local programs at, and the thread that serves it."""

    def __init__(
        self,
        where: UnixAddress,
        core: Core,
        instance_id: UUID,
        limits: Limits,
        acl: Callable[[], Acl],
    ) -> None:
        """Listens; `start` begins to accept. `acl` tells the access rules of the moment. Raises CannotListen."""
        self._core = core
        self._instance_id = instance_id
        self._acl = acl
        self._limits = replace(limits, max_body=limits.max_body + MARGIN, max_handshake=_HELLO)
        self._most = min(MOST, _open_files() // 2)
        self._listener = Listener(where.path, where.mode)
        self._near, self._far = socket.socketpair()
        for one in (self._near, self._far):
            one.setblocking(False)
        self._clients: dict[socket.socket, _Client] = {}
        self._of_user: defaultdict[int | None, dict[_Client, None]] = defaultdict(dict)  # the quietest first
        self._unfinished: dict[_Client, None] = {}  # with a deadline, the first one first
        self._looked = 0.0
        self._buffered = self._in_progress = 0  # bytes, over all clients
        self._paused: dict[_Client, None] = {}  # not read while too much is in progress over all clients
        self._asked: list[_Asked] = []  # in this turn
        self._outcomes: deque[tuple[_Client, int, Outcome]] = deque()
        self._requests: dict[_Name, PendingCall[Reply]] = {}  # outstanding, with a message key
        self._requested = 0  # bytes
        self._woken = False
        self._ending = self._stopped = False
        self._thread: threading.Thread | None = None
        _open.add(self)

    def start(self) -> None:
        """Start the thread, and declare the queues into which programs have put jobs before. Raises OutOfThreads."""
        self._core.declare_known_queues(_LEASE)
        thread = threading.Thread(target=self._run, name="tolliver local", daemon=True)
        start(thread)
        self._thread = thread

    def end(self) -> None:
        """Accept nobody and take nothing from now on; answers to what is in progress still go out."""
        self._ending = True
        self._wake()

    def close(self) -> None:
        """End the thread, which sends the last answers first, and close all sockets. A second call does nothing."""
        self._ending = self._stopped = True
        self._wake()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self._listener.close()
        self._close_sockets()

    def let_go(self) -> None:
        """Close all sockets of a forked child, which has no such thread: they belong to the parent."""
        self._listener.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        _open.discard(self)
        for sock in (*self._clients, self._near, self._far):
            sock.close()
        self._clients.clear()

    # Called on the loop.

    def _give(self, asked: Sequence[_Asked]) -> None:
        """Make the calls that were asked for. Those after the first share the next commit."""
        with self._core.lock:
            for client, number, ask, size in asked:
                try:
                    call = self._begin(ask, size)
                except (TolliverError, TypeError, ValueError) as error:
                    self._answered(client, number, error)
                else:
                    call.when_done(partial(self._take_answer, client, number, call))

    def _begin(self, ask: Ask, size: int) -> PendingCall[Any]:
        """Raises the errors of the instance's call, and TypeError for terms that the call does not have."""
        terms = dict(ask.terms)
        if terms.get("to") is not None:
            terms["to"] = [UUID(one) for one in terms["to"]]
        if terms.get("not_before") is not None:
            terms["not_before"] = datetime.fromisoformat(terms["not_before"])
        if ask.verb is Verb.SEND_MANY:
            return self._core.send_many(ask.items, **{**_NONE_OF_MANY, **terms})
        if ask.verb is Verb.ROWS:
            return self._rows(ask.items, **terms)
        [(channel, key, body)] = ask.items
        if ask.verb is Verb.SEND:
            return self._core.send(channel, key, body, **{**_NONE, **terms})
        if ask.verb is Verb.PUT:
            return self._put(channel, (key, body), **terms)
        return self._request(channel, key, body, terms, size)

    def _rows(
        self,
        items: Sequence[Item],
        *,
        instance: str,
        message_keys: Sequence[str],
        times: Sequence[float | None],
        released: Sequence[str],
    ) -> PendingCall[RowsTaken]:
        """Send rows of an outbox. `released` are keys of rows of that channel that are gone. Raises LocalProtocolError
        if another instance has begun them, ValueError, TypeError."""
        if items and instance != str(self._instance_id):
            raise LocalProtocolError("another_instance", f"this is {self._instance_id}, not {instance!r:.100}")
        given = zip(count(), message_keys, items, times, strict=False)
        rows = [Row(number, name, *item, until) for number, name, item, until in given]
        if len({*map(len, (items, message_keys, times))}) != 1 or len({row.channel for row in rows}) > 1:
            raise ValueError("rows are of one channel, and each has its key and its time")
        return self._core.give_rows(rows, [(row.channel, name) for row in rows[:1] for name in released])

    def _request(self, channel: str, key: str, body: bytes, terms: Mapping[str, Any], size: int) -> PendingCall[Reply]:
        """Ask a peer. An ask under the key of an outstanding request shares its answer: it is of a program that was
        killed, or lost its connection. Raises Blocked, and the errors of the instance's call."""
        if self._requested + size > _OF_REQUESTS:
            raise Blocked("too many requests of local programs are outstanding: ask again when some are answered")
        name = channel, terms.get("message_key")
        call = self._requests.get(name)
        if call is None:
            call = self._core.request(channel, key, body, terms)
            if name[1] is not None and not call.done:
                self._requests[name] = call
        self._requested += size
        call.when_done(partial(self._end_request, name, size))
        return call

    def _end_request(self, name: _Name, size: int) -> None:
        self._requests.pop(name, None)
        self._requested -= size

    def _put(self, channel: str, job: tuple[str, bytes], **terms: Any) -> PendingCall[Receipt]:
        """Put a job. Declares the queue if the instance's own program has not, as a local program cannot."""
        self._core.declare_queue(channel, _LEASE)
        return self._core.put_jobs(channel, [job], **terms)

    def _take_answer(self, client: _Client, number: int, call: PendingCall[Any]) -> None:
        try:
            self._answered(client, number, call.result())
        except BaseException as error:
            self._answered(client, number, error)

    def _answered(self, client: _Client, number: int, outcome: Outcome) -> None:
        self._outcomes.append((client, number, outcome))
        if not self._woken:
            self._woken = True
            self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # buffer full: it wakes anyway; or closed
            self._far.send(b"\0")

    # Called on the thread.

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as self._selector:
                for one in (self._near, self._listener):
                    self._selector.register(one, selectors.EVENT_READ)
                while not self._stopped:
                    self._turn()
                self._say_goodbye()
        except Exception:
            log.exception("the desk at %s has failed and is gone, the instance goes on: report this", self._listener)

    def _turn(self) -> None:
        for key, events in self._selector.select(_LOOK if self._unfinished else None):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is self._near:
                with suppress(OSError):
                    self._near.recv(_CHUNK)
            elif sock is self._listener:
                self._accept()
            elif (client := self._clients.get(sock)) is not None:
                self._serve(client, events)
        if self._asked:
            asked, self._asked = self._asked, []
            self._core.call_soon(partial(self._give, asked))
        self._answer()
        if self._ending:
            self._stop_taking()
        self._drop_late()

    def _accept(self) -> None:
        for _ in range(_ROUND):
            try:
                sock, _where = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no file descriptors left
                threading.Event().wait(ACCEPT_PAUSE)
                return
            try:
                who = credentials(sock)
            except OSError:
                sock.close()
                continue
            if not may_connect(who, self._listener.mode) or not self._has_room():
                sock.close()
                continue
            sock.setblocking(False)
            now = monotonic()
            connection = Connection(Role.SERVER, instance_id=self._instance_id, limits=self._limits, now=now)
            due = now + self._limits.handshake_timeout
            client = _Client(sock, None if who is None else who.uid, connection, due)
            self._clients[sock] = client
            self._unfinished[client] = None
            self._of_user[client.uid][client] = None
            self._selector.register(sock, client.events)

    def _has_room(self) -> bool:
        """Make room for a client, if there is none. False if all clients wait for answers."""
        if len(self._clients) < self._most:
            return True
        most = max(self._of_user.values(), key=len)
        quietest = next((one for one in most if not one.asks), None)
        if quietest is None:
            return False
        self._drop(quietest)
        return True

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(client)
            if events & selectors.EVENT_WRITE:
                self._write(client)
        except NOT_YET:
            pass
        except OSError:
            self._drop(client)

    def _read(self, client: _Client) -> None:
        data = client.sock.recv(_CHUNK)
        if not data:
            self._drop(client)
            return
        connection = client.connection
        connection.receive_data(data, monotonic())
        if self._take_events(client):
            self._unfinished.pop(client, None)
            client.due = None
        if connection.state is State.CLOSED:
            self._drop(client)
            return
        self._note_size(client, connection.buffered_bytes)
        if connection.unsent_bytes:
            self._write(client)
        self._watch(client)

    def _take_events(self, client: _Client) -> bool:
        """True if there was any: the client has finished what it had begun."""
        connection, has_some = client.connection, False
        for event in connection.events():
            has_some = True
            if isinstance(event, Message):
                self._take(client, event)
            elif isinstance(event, HandshakeRequest):
                if _is_its_own(event, client.uid):
                    client.identity = event.instance_id
                    connection.accept()
                else:
                    connection.reject()
        return has_some

    def _take(self, client: _Client, message: Message) -> None:
        """Take a message. One without an id is no ask, as nothing could be said of it."""
        number = message.message_id
        if number is None:
            return
        try:
            if message.channel != CHANNEL:
                raise ReservedChannel(
                    "reserved_channel", f"a local program writes to its instance on {CHANNEL!r} alone"
                )
            ask = Ask.read(message.body, self._limits)
            _check_rights(ask, client.identity, self._acl())
        except TolliverError as error:
            self._outcomes.append((client, number, error))
            return
        if number in client.asks:
            return  # it has two asks of one number, and will have one answer
        size = client.asks[number] = len(message.body) + _OVERHEAD
        self._in_progress += size
        self._asked.append(_Asked(client, number, ask, size))
        quiet = self._of_user[client.uid]
        quiet[client] = quiet.pop(client)

    def _note_size(self, client: _Client, size: int) -> None:
        """Note how many bytes of an unfinished frame the client has here. Above the bound for all, the oldest are
        dropped: whoever sends now has finished soon."""
        self._buffered += size - client.size
        client.size = size
        if size and client.due is None:
            client.due = monotonic() + self._limits.handshake_timeout
            self._unfinished[client] = None
        while self._buffered > _MOST_BYTES:
            self._drop(next(one for one in self._unfinished if one.size))

    def _answer(self) -> None:
        self._woken = False
        changed: dict[_Client, list[int]] = {}
        while self._outcomes:
            client, number, outcome = self._outcomes.popleft()
            self._in_progress -= client.asks.pop(number, 0)
            if client.connection.live:
                client.connection.send(Message(CHANNEL, "", answer_body(number, outcome)))
                changed.setdefault(client, []).append(number)
        for client, numbers in changed.items():
            client.connection.send_acks(numbers)
            try:
                self._write(client)
            except OSError:
                self._drop(client)
        if self._paused and self._in_progress <= _MOST_BYTES:
            paused, self._paused = self._paused, {}
            for client in paused:
                self._watch(client)

    def _write(self, client: _Client) -> None:
        """Write as much as the system takes. Raises OSError."""
        client.output += b"".join(client.connection.data_to_send())
        with suppress(*NOT_YET):
            while client.output:
                client.output = client.output[client.sock.send(client.output[:_CHUNK]) :]
        self._watch(client)

    def _watch(self, client: _Client) -> None:
        """Have the socket watched for what the client may do next."""
        if client.sock not in self._clients:
            return
        unread = len(client.output) + client.connection.unsent_bytes
        is_full = self._in_progress > _MOST_BYTES
        if is_full:
            self._paused[client] = None
        reads = not (is_full or self._ending or len(client.asks) >= _ASKS or unread >= _UNREAD)
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if unread else 0)
        if events == client.events:
            return
        before, client.events = client.events, events
        if not events:
            self._selector.unregister(client.sock)
        elif before:
            self._selector.modify(client.sock, events)
        else:
            self._selector.register(client.sock, events)

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.sock, None) is None:
            return
        mine = self._of_user[client.uid]
        del mine[client]
        if not mine:
            del self._of_user[client.uid]
        if client.events:
            self._selector.unregister(client.sock)
        client.sock.close()
        self._unfinished.pop(client, None)
        self._paused.pop(client, None)
        self._buffered -= client.size
        client.connection.close()

    def _drop_late(self) -> None:
        now = monotonic()
        if now < self._looked + _LOOK:
            return
        self._looked = now
        for client in [one for one in self._unfinished if one.due is not None and one.due <= now]:
            self._drop(client)

    def _stop_taking(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._selector.unregister(self._listener)
        self._listener.close()
        for client in [*self._clients.values()]:
            self._watch(client)

    def _say_goodbye(self) -> None:
        """Write the answers that are left, as far as clients read them in time."""
        self._stop_taking()  # the last turn may have been over before the end was said
        self._selector.unregister(self._near)  # nobody reads it any more
        self._answer()
        until = monotonic() + _LAST
        while (left := [one for one in self._clients.values() if one.events]) and monotonic() < until:
            for key, _ in self._selector.select(_LAST):
                client = self._clients.get(key.fileobj)  # type: ignore[call-overload]
                if client is not None:
                    self._serve(client, selectors.EVENT_WRITE)
            del left


def _is_its_own(request: HandshakeRequest, uid: int | None) -> bool:
    """True for an identity derived from this user's prefix, which subscribes to nothing (T-72a)."""
    peer = request.instance_id
    is_of_user = uid is None or peer.hex.startswith(local_prefix(uid))
    return is_derived(peer) and is_of_user and not request.subscriptions


def _check_rights(ask: Ask, peer: UUID | None, acl: Acl) -> None:
    """Raises ReservedChannel and AccessDenied for a channel on which the program may not write."""
    assert peer is not None
    rights = acl.rights(peer)
    for channel, key in {(channel, key): None for channel, key, _ in ask.items}:
        if is_own(channel):
            raise ReservedChannel("reserved_channel", f"{channel!r:.100} is the protocol's own: choose another channel")
        if not (rights.connect and rights.may_publish(channel, key)):
            raise AccessDenied(
                f"the instance's access rules do not let this program write on {channel!r:.100} {key!r:.100}: give its "
                f"user this right, Acl(derived={{{peer.hex[:12]!r}: Rights(...)}})"
            )


def _open_files() -> int:
    """Number of files that this process may have open."""
    try:
        import resource  # imported late: Windows has none
    except ImportError:
        return 2 * MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * MOST if soft == resource.RLIM_INFINITY else soft


_NONE_OF_MANY: Mapping[str, Any] = {"require_recipients": 0, "to": None, "expire_after": None}
_NONE: Mapping[str, Any] = {**_NONE_OF_MANY, "message_key": None}
_open: WeakSet[Desk] = WeakSet()


def _let_go_in_child() -> None:
    for desk in [*_open]:
        desk.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)

"""Iterator over the events of one connection, for tasks.

It drives a machine of either protocol over a socket.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionLost,
    HandshakeRequest,
    HandshakeResponse,
    Subscribe,
    Subscription,
    TolliverError,
    Unsubscribe,
)
from tolliver_proto import Decoder as Messages
from tolliver_proto.layouts import SubscribeMany, UnsubscribeMany
from tolliver_proto.node import DialCause
from tolliver_proto.reactive import ALPN
from tolliver_proto.reactive import Connection as ReactiveConnection

from .._driver.line import UNDECIDED
from .._options.instance import TLS, EndpointOptions, Remote
from .._options.streams import StreamsOptions
from .._tls.policy import Pumps
from ..blocking.connection import SocketConnection

DIAL = 20.0
"""Seconds for a peer to answer a dial."""

_LAST_ID = 2**31 - 2


def dialled(
    connection: Connection | ReactiveConnection,
    remote: str | Remote,
    *,
    tls: TLS | None,
    plaintext: bool,
    seconds: float | None,
    unsubscribe: bool,
) -> Generator[Any]:
    """Like `over_socket`, which documents it, but without its checks of arguments."""
    if connection.role.name != "CLIENT":
        raise ValueError("a task dials: make the connection with Role.CLIENT")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds={seconds!r:.100}: give a positive number, or None")
    endpoint = StreamsOptions if isinstance(connection, ReactiveConnection) else EndpointOptions
    options = endpoint(tls=tls, plaintext=plaintext)
    options.check_security(None)
    where = options.remote(remote)
    pumps = Pumps(tls, alpn=ALPN) if isinstance(connection, ReactiveConnection) else Pumps(tls)
    return _talk(connection, where, pumps, seconds, unsubscribe)


def _talk(
    connection: Connection | ReactiveConnection, remote: Remote, pumps: Pumps, seconds: float | None, unsubscribe: bool
) -> Generator[Any]:
    end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        sock = socket.create_connection((remote.host, remote.port), DIAL)
    except OSError as error:
        raise ConnectionLost(f"{remote}: {error}", DialCause.REFUSED) from error
    told = _Told(connection) if isinstance(connection, Connection) else None
    line = SocketConnection(sock, connection, connection.role, pump=pumps.client(remote), on_output=told)
    try:
        while True:
            event = _next(line, end)
            if event is None:
                return
            if isinstance(event, Closed) and event.error is not None:
                raise event.error
            yield event
            if isinstance(event, Closed):
                return
    finally:
        _leave(line, told if unsubscribe else None)


def _next(line: SocketConnection[Any], end: float) -> Any | None:
    """The next event of the connection, or None when the monotonic time `end` has passed."""
    machine = line.machine
    while True:
        now = time.monotonic()
        if isinstance(machine, Connection) and machine.state in UNDECIDED:
            machine.accept(now=now)
        event = line.next_event()
        if event is not None:
            return event
        if now >= end:
            return None
        line.step(end - now)


class _Told:
    """Notes the subscriptions that we have announced on a connection: called with each output, whose frames it
    reads.
    """

    def __init__(self, connection: Connection) -> None:
        self.subscriptions: dict[Subscription, None] = {}
        self._decoder = Messages(connection.revision, connection.limits)

    def __call__(self, units: Sequence[bytes]) -> None:
        for unit in units:
            self._decoder.feed(unit)
        while (frame := self._decoder.next_frame()) is not None:
            if isinstance(frame, HandshakeRequest | HandshakeResponse):
                self.subscriptions = dict.fromkeys(frame.subscriptions)
            elif isinstance(frame, Subscribe | SubscribeMany):
                self.subscriptions.update(dict.fromkeys(_all(frame)))
            elif isinstance(frame, Unsubscribe | UnsubscribeMany):
                for one in _all(frame):
                    self.subscriptions.pop(one, None)


def _all(frame: Subscribe | Unsubscribe | SubscribeMany | UnsubscribeMany) -> Sequence[Subscription]:
    if isinstance(frame, SubscribeMany | UnsubscribeMany):
        return frame.subscriptions
    return (Subscription(frame.channel, frame.key),)


def _leave(line: SocketConnection[Any], told: _Told | None) -> None:
    """Close in order: send all output, remove the subscriptions that `told` knows (None: they stay), and close the
    connection.

    Messages that still arrive are not acknowledged, as no caller gets them.
    """
    machine = line.machine
    end = time.monotonic() + machine.limits.close_timeout
    try:
        with suppress(TolliverError):
            if isinstance(machine, ReactiveConnection):
                machine.goodbye("", time.monotonic())
            elif isinstance(machine, Connection):
                if told is not None and machine.live and machine.can_send(Unsubscribe):
                    _unsubscribe(line, machine, told, end)
                machine.close(time.monotonic())
            while (event := _next(line, end)) is not None and not isinstance(event, Closed):
                pass
            while not line.flush() and time.monotonic() < end:
                line.step(end - time.monotonic())
    finally:
        line.abandon()


def _unsubscribe(line: SocketConnection[Any], machine: Connection, told: _Told, end: float) -> None:
    """Remove our subscriptions; returns when the peer has acknowledged that, at the end of the connection, or at the
    monotonic time `end`.
    """
    line.flush()
    said = {}
    for number, (channel, key) in enumerate(told.subscriptions):
        said[_LAST_ID - number] = channel, key
        machine.send(Unsubscribe(channel, key, _LAST_ID - number))
    while said and (event := _next(line, end)) is not None and not isinstance(event, Closed):
        if isinstance(event, Ack):
            said.pop(event.message_id, None)

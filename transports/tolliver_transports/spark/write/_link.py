"""Connection of a task to the receiver: frames out, acknowledgements in bulk.

A receiver answers a writer with acks, five bytes each and back to back, so a run of them is one numpy block. The
connection's machine gets only what is something else: the handshake, the receiver's subscriptions as they change, and
the end.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np

from tolliver_proto import (
    Ack,
    Closed,
    ConnectionLost,
    Established,
    Event,
    HandshakeRequest,
    Ignored,
    Limits,
    Revision,
    Role,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tolliver_proto.layouts import LAYOUTS

from ..._options.instance import Remote
from ..._tls.policy import Pumps
from ...blocking.connection import BlockingConnection
from ..read._columns import head_type
from ._encode import Ids


class Link(BlockingConnection):
    """`on_acks` gets the ids of acks as they come, and must not call back. The connection must be established next."""

    def __init__(
        self, sock: socket.socket, on_acks: Callable[[Ids], None], *, revision: Revision, **options: Any
    ) -> None:
        layout = LAYOUTS[revision]
        self._ack = head_type(layout.ack)
        self._ack_code = layout.codes[Ack]
        self._on_acks = on_acks
        self._rest_of_ack = b""
        self.subscriptions: set[Subscription] = set()
        """The receiver's subscriptions, as it has said so far."""
        super().__init__(sock, Role.CLIENT, revision=revision, intake=self._take_in, **options)

    def establish(self, timeout: float) -> None:
        """Raises TimeoutError, and what ended the handshake."""
        end = time.monotonic() + timeout
        while not isinstance(event := self.receive(max(0.0, end - time.monotonic())), Established):
            self._handle(event)
        self.subscriptions = set(event.subscriptions)

    def wait(self, done: Callable[[], bool], timeout: float) -> None:
        """Write and read until it is done. Raises TimeoutError, and what ended the connection."""
        end = time.monotonic() + timeout
        self._take_events()
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"after {timeout:g} s it is not done: go on")
            self.step(left)
            self._take_events()

    def poll(self) -> None:
        """Read and write once, without waiting. Raises what ended the connection."""
        self.step(0)
        self._take_events()

    def _take_events(self) -> None:
        while (event := self.next_event()) is not None:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Closed):
            raise event.error or ConnectionLost("the receiver closed the connection")
        if isinstance(event, Ack):
            self._on_acks(np.array([event.message_id], np.uint32))
        elif isinstance(event, HandshakeRequest):  # on a live connection: its whole list again (T-66)
            self.subscriptions = set(event.subscriptions)
            self.machine.accept(now=time.monotonic())
        elif isinstance(event, Subscribe | Unsubscribe | Ignored):
            self._change(event)
        # Nobody here handles messages, so none is acknowledged.

    def _change(self, event: Subscribe | Unsubscribe | Ignored) -> None:
        """A control message. A peer that does not read the answers is not answered: it will say so again."""
        limits = self.machine.limits
        if self.machine.unsent_bytes > limits.high_water:
            return
        if isinstance(event, Subscribe):
            if len(self.subscriptions) < limits.max_subscriptions:  # T-19
                self.subscriptions.add(Subscription(event.channel, event.key))
        elif isinstance(event, Unsubscribe):
            self.subscriptions.discard(Subscription(event.channel, event.key))
        if event.message_id is not None:
            self.machine.send(Ack(event.message_id))

    def _take_in(self, plaintext: bytes) -> bytes:
        """Acks are taken out here while the machine is between two frames."""
        if self.machine.live and not self.machine.buffered_bytes:
            return self._take_acks(self._rest_of_ack + plaintext)
        return plaintext

    def _take_acks(self, plaintext: bytes) -> bytes:
        """The bytes behind the acks that it begins with; b"" if they may be the beginning of another."""
        size = self._ack.itemsize
        heads = np.frombuffer(plaintext, self._ack, len(plaintext) // size)
        others = np.flatnonzero(heads["code"] != self._ack_code)
        count = int(others[0]) if len(others) else len(heads)
        if count:
            self._on_acks(heads["message_id"][:count].astype(np.uint32))
        rest = plaintext[count * size :]
        is_cut = len(rest) < size and rest[:1] == bytes([self._ack_code])
        self._rest_of_ack = rest if is_cut else b""
        return b"" if is_cut else rest


def open_link(
    remote: Remote, pumps: Pumps, on_acks: Callable[[Ids], None], *, identity: UUID, revision: Revision, timeout: float
) -> Link:
    """Dial, and shake hands, within so many seconds.

    Raises ConnectionLost, UnexpectedEOF and TimeoutError, which may pass, and CertificateError, IdentityConflict and
    what else the receiver's refusal is, which will not.
    """
    end = time.monotonic() + timeout
    try:
        sock = socket.create_connection((remote.host, remote.port), timeout)
    except OSError as error:
        raise ConnectionLost(f"{error}") from error
    limits = Limits(close_timeout=min(timeout, Limits().close_timeout))
    link = Link(sock, on_acks, revision=revision, instance_id=identity, pump=pumps.client(remote), limits=limits)
    try:
        link.establish(max(0.0, end - time.monotonic()))
    except BaseException:
        link.close()
        raise
    return link

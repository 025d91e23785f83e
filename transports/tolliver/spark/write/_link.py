"""Connection of a task to the receiver: frames out, acknowledgements in.

A receiver answers with acks of a few bytes each, mostly adjacent, so a run of them is parsed as one numpy array. The
connection's machine gets only the rest: the handshake, changes of the receiver's subscriptions, and the end. A refusal
is not an ack: its row stays unacknowledged, and is resent.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

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
from tolliver_proto.layouts import LAYOUTS, Refusal, SubscribeMany, UnsubscribeMany

from ..._messages.recorder import Recorder
from ..._options.instance import Remote
from ..._tls.policy import Pumps
from ...blocking.connection import BlockingConnection
from ..read._columns import head_type
from ._encode import Ids

Control = Subscribe | Unsubscribe | SubscribeMany | UnsubscribeMany | Ignored
Heads = npt.NDArray[np.void]

_CONTROL = (Subscribe, Unsubscribe, SubscribeMany, UnsubscribeMany, Ignored)
_MOST = np.iinfo(np.uint32).max
_EVERYTHING = (Subscription("", ""),)


class Link(BlockingConnection):
    """Blocking connection of a Spark task to its receiver: sends encoded messages and reads their acks.

    Call `establish` first. `on_acks` is called with the message ids that the receiver has acknowledged, in the thread
    of the caller of `wait` or `poll`, and must not call this object. `recorder`, if given, records the connection.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_acks: Callable[[Ids], None],
        *,
        revision: Revision,
        recorder: Recorder | None = None,
        cid: int = 1,
        **options: Any,
    ) -> None:
        self._layout = layout = LAYOUTS[revision]
        self._ack = None if layout.ack is None else head_type(layout.ack)
        self._on_acks = on_acks
        self._rest_of_ack = b""
        self.refused = 0
        """Number of refusals by the receiver."""
        self.subscriptions: set[Subscription] = set()
        """The receiver's subscriptions as last announced; a wildcard for all if its layout cannot express them."""
        self._recorder, self._cid = recorder, cid
        out = None if recorder is None else partial(recorder.sent, cid)
        super().__init__(sock, Role.CLIENT, revision=revision, intake=self._take_in, on_output=out, **options)

    def establish(self, timeout: float) -> None:
        """Do the handshake within `timeout` seconds. Raises TimeoutError, and the error that ended it."""
        end = time.monotonic() + timeout
        while not isinstance(event := self.receive(max(0.0, end - time.monotonic())), Established):
            self._handle(event)
        self.subscriptions = set(event.subscriptions if self._layout.has_lists else _EVERYTHING)

    def wait(self, done: Callable[[], bool], timeout: float) -> None:
        """Write and read until `done()` is true. Raises TimeoutError after `timeout` seconds, and the error that ended
        the connection.
        """
        end = time.monotonic() + timeout
        self._take_events()
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"after {timeout:g} s it is not done: go on")
            self.step(left)
            self._take_events()

    def poll(self) -> None:
        """Write and read once, without waiting. Raises the error that ended the connection."""
        self.step(0)
        self._take_events()

    def close(self) -> None:
        super().close()
        if self._recorder is not None:
            self._recorder.ended(self._cid)

    def _take_events(self) -> None:
        while (event := self.next_event()) is not None:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Closed):
            raise event.error or ConnectionLost("the receiver closed the connection")
        if isinstance(event, Ack):
            self._take_ids(np.array([event.message_id], np.uint64))
        elif isinstance(event, Refusal):
            self.refused += 1
        elif isinstance(event, HandshakeRequest):  # during a connection: the whole list again (T-66)
            self.subscriptions = set(event.subscriptions)
            self.machine.accept(now=time.monotonic())
        elif isinstance(event, _CONTROL):
            self._change(event)
        # Messages are not acknowledged, as nothing here handles them.

    def _change(self, event: Control) -> None:
        """Apply a change of the receiver's subscriptions. It is not acknowledged while the receiver does not read; the
        receiver will then repeat it."""
        limits = self.machine.limits
        if self.machine.unsent_bytes > limits.high_water:
            return
        if isinstance(event, SubscribeMany | UnsubscribeMany):
            entries = event.subscriptions
        else:
            entries = () if isinstance(event, Ignored) else (Subscription(event.channel, event.key),)
        if isinstance(event, Subscribe | SubscribeMany):
            for one in entries:
                if len(self.subscriptions) < limits.max_subscriptions:  # T-19
                    self.subscriptions.add(one)
        else:
            self.subscriptions.difference_update(entries)
        if event.message_id is not None:
            self.machine.send(Ack(event.message_id))

    def _take_in(self, plaintext: bytes) -> bytes:
        """Called with received plaintext: handles the acks in it, and returns the bytes for the connection's
        machine."""
        if self._recorder is not None:
            self._recorder.received(self._cid, plaintext)
        if self._ack is not None and self.machine.live and not self.machine.buffered_bytes:
            return self._take_acks(self._rest_of_ack + plaintext, self._ack)
        return plaintext

    def _take_acks(self, plaintext: bytes, ack: np.dtype[np.void]) -> bytes:
        """Handle the acks at the beginning of the plaintext; returns the bytes after them, b"" if those may be the
        beginning of another ack."""
        code, size = self._layout.codes[Ack], ack.itemsize
        heads = np.frombuffer(plaintext, ack, len(plaintext) // size)
        others = np.flatnonzero(heads["code"] != code)
        heads = heads[: int(others[0])] if len(others) else heads
        if len(heads):
            self._take_heads(heads)
        rest = plaintext[len(heads) * size :]
        is_cut = len(rest) < size and rest[:1] == bytes([code])
        self._rest_of_ack = rest if is_cut else b""
        return b"" if is_cut else rest

    def _take_heads(self, heads: Heads) -> None:
        if "status" in (heads.dtype.names or ()):
            good = heads["status"] == self._layout.acks[Ack]
            self.refused += int(np.count_nonzero(~good))
            heads = heads[good]
        self._take_ids(heads["message_id"])

    def _take_ids(self, ids: npt.NDArray[Any]) -> None:
        """Report acknowledged ids. Ids that do not fit into Ids are not ours, and are dropped."""
        ids = ids[ids <= _MOST]
        if len(ids):
            self._on_acks(ids.astype(np.uint32))


def open_link(
    remote: Remote,
    pumps: Pumps,
    on_acks: Callable[[Ids], None],
    *,
    identity: UUID,
    revision: Revision,
    timeout: float,
    recorder: Recorder | None = None,
    cid: int = 1,
) -> Link:
    """Dial and do the handshake, within `timeout` seconds. `cid` is the connection's number in the recording.

    Raises ConnectionLost, UnexpectedEOF and TimeoutError, which may be temporary; and CertificateError,
    IdentityConflict and the receiver's refusals, which are not.
    """
    end = time.monotonic() + timeout
    try:
        sock = socket.create_connection((remote.host, remote.port), timeout)
    except OSError as error:
        raise ConnectionLost(f"{error}") from error
    limits = Limits(close_timeout=min(timeout, Limits().close_timeout))
    link = Link(
        sock,
        on_acks,
        revision=revision,
        recorder=recorder,
        cid=cid,
        instance_id=identity,
        pump=pumps.client(remote),
        limits=limits,
    )
    try:
        link.establish(max(0.0, end - time.monotonic()))
    except BaseException:
        link.close()
        raise
    return link

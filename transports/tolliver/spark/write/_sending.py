"""Reliable sending of a partition, with a window and resending.

Rows are sent in runs. A run has one flag for each row, so that acks, in any number and order, are array operations.
Nothing is stored: a retried task starts again with the first row, under the same identity and ids, so the receiver
recognizes the copies (T-48, T-72a).

A receiver drops a copy without an ack while it is still handling the original (T-48). So unacknowledged rows are resent
after a pause without acks, as every sender of this protocol does (T-50).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tolliver_proto import ConnectionLost, Limits, Subscription, TolliverError, UnexpectedEOF

from ._encode import Flags, Ids, Rows, cut, encode_rows, wire_bytes
from ._link import Link
from ._options import WriteOptions

WINDOW_BYTES = 64 * 2**20  # most bytes of unacknowledged frames
_PASSING = (ConnectionLost, UnexpectedEOF, TimeoutError)  # temporary errors; all others end the task
_LIMITS = Limits()
_FIRST_PATIENCE = 10.0  # seconds without an ack before the first resend, at most (T-50)


class NotSubscribed(TolliverError):
    """The receiver does not subscribe to a row, and would drop it silently."""


class NotAcknowledged(TolliverError):
    """The receiver has acknowledged nothing for `ackTimeout` seconds."""


class Run:
    """Rows that a Sender sends together, their frames, and flags of the unacknowledged ones."""

    def __init__(self, rows: Rows, frames: Any) -> None:
        assert rows.ids is not None
        self.channel, self.key = rows.channel, rows.key
        self._row_ids = rows.ids
        self._order = np.argsort(rows.ids)
        self._ids = rows.ids[self._order]
        self._frames = frames
        self._unacked = np.ones(len(rows), np.bool_)
        self.left = len(rows)
        self.size = frames.nbytes

    def acked(self, ids: Ids) -> int:
        """Mark rows as acknowledged; returns how many were not before."""
        ids = ids[(ids >= self._ids[0]) & (ids <= self._ids[-1])]
        places = np.searchsorted(self._ids, ids)
        self._unacked[self._order[places[self._ids[places] == ids]]] = False
        before, self.left = self.left, int(np.count_nonzero(self._unacked))
        return before - self.left

    def give_up(self, unwanted: Flags) -> int:
        """Exclude rows from resending; returns how many of them were unacknowledged."""
        return self.acked(self._row_ids[unwanted])

    def unacked_bytes(self) -> bytes:
        """Frames of the unacknowledged rows, to be sent again."""
        return wire_bytes(self._frames.filter(pa.array(self._unacked)))

    def first_unacked(self) -> int:
        """Id of the first unacknowledged row."""
        return int(self._row_ids[self._unacked.argmax()])


def unwanted(channel: Any, key: Any, subscriptions: set[Subscription]) -> Flags | None:
    """Flags of rows that match no subscription (T-24); None if all match. Each distinct pair of names is checked
    once."""
    if Subscription("", "") in subscriptions:
        return None
    channels = channel.dictionary_encode()
    names = [value.decode() for value in channels.dictionary.to_pylist()]
    if all(Subscription(name, "") in subscriptions for name in names):
        return None
    keys = key.dictionary_encode()
    key_names = [value.decode() for value in keys.dictionary.to_pylist()]
    codes = channels.indices.to_numpy().astype(np.int64) * len(key_names) + keys.indices.to_numpy()
    pairs, places = np.unique(codes, return_inverse=True)
    wanted = np.array(
        [_is_wanted(names[pair // len(key_names)], key_names[pair % len(key_names)], subscriptions) for pair in pairs]
    )
    return None if wanted.all() else ~wanted[places]


def _is_wanted(channel: str, key: str, subscriptions: set[Subscription]) -> bool:
    return not subscriptions.isdisjoint(
        (Subscription(channel, key), Subscription(channel, ""), Subscription("", key))  # ("", "") was checked above
    )


class Sender:
    """Sends runs of rows. `dial(on_acks, timeout)` creates a Link, at first and after each loss.

    Use it as a context manager. `finish` returns when all rows are acknowledged or, if unreliable, written. Raises
    NotSubscribed, NotAcknowledged, and errors of dialling that are not temporary.
    """

    def __init__(self, options: WriteOptions, dial: Callable[[Callable[[Ids], None], float], Link]) -> None:
        self._options = options
        self._dial = dial
        self._link: Link | None = None
        self._last_loss: Exception | None = None
        self._runs: list[Run] = []
        self._outstanding = 0
        self._redial = 0.0
        self._patience = self._first_patience = min(_FIRST_PATIENCE, options.ack_timeout / 6)
        self._stir()
        self.sent = self.dropped = self.resent = 0
        """Rows: first sent, left out because nobody subscribes, sent again."""

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._link is not None:
            self._link.close()

    def send(self, rows: Rows) -> None:
        """Send rows; returns when the system has taken them, before their acks. The time between two calls does not
        count for `ackTimeout`."""
        self._stir()
        for part in cut(rows, self._options.rows_per_send):
            self._send(part)

    def finish(self) -> None:
        self._stir()
        self._until(lambda: not self._runs)

    def _send(self, rows: Rows) -> None:
        self._until(partial(self._has_room, len(rows), int(rows.sizes().sum())))
        rows = self._wanted(rows)  # no wait from here to the write, so the link stays the same
        frames = encode_rows(rows, self._options.revision)
        if self._options.reliable and len(rows):
            self._runs.append(Run(rows, frames))
            self._outstanding += len(rows)
        self.sent += len(rows)
        self._write(wire_bytes(frames))
        self._until(self._is_written)

    def _write(self, frames: bytes) -> None:
        assert self._link is not None
        with suppress(TimeoutError):  # it will still be sent
            self._link.send_encoded(frames, 0)

    def _has_room(self, count: int, size: int) -> bool:
        fits = self._outstanding + count <= self._options.window
        return fits and (not self._runs or sum(run.size for run in self._runs) + size <= WINDOW_BYTES)

    def _is_written(self) -> bool:
        return self._link is not None and self._link.flush()

    def _wanted(self, rows: Rows) -> Rows:
        """Rows that the receiver subscribes to, with their ids unchanged."""
        flags = self._unwanted(rows.channel, rows.key)
        if flags is None:
            return rows
        self.dropped += int(np.count_nonzero(flags))
        return rows.only(~flags)

    def _unwanted(self, channels: Any, keys: Any) -> Flags | None:
        assert self._link is not None
        flags = unwanted(channels, keys, self._link.subscriptions)
        if flags is not None and not self._options.drop_unsubscribed:
            one = int(flags.argmax())
            channel, key = (column[one].as_py().decode() for column in (channels, keys))
            raise NotSubscribed(
                f"the receiver at {self._options.remote} does not subscribe to channel {channel!r:.100} and key "
                f"{key!r:.100}, and would drop such rows: subscribe there first, or give unsubscribed=drop"
            )
        return flags

    # Waiting.

    def _until(self, done: Callable[[], bool]) -> None:
        """Write and take acks until `done()` is true. Dials again and resends when the connection is lost."""
        self._poll()
        while self._link is None or not done():
            now = time.monotonic()
            end = self._progress + self._options.ack_timeout
            if now >= end:
                raise NotAcknowledged(self._complaint())
            try:
                if self._link is None:
                    self._connect(end - now)
                elif self._runs and now >= self._resend_at:
                    self._resend()
                else:
                    due = min(end, self._resend_at) if self._runs else end
                    self._link.wait(done, due - now)
            except _PASSING as error:
                if not isinstance(error, TimeoutError) or self._link is None:
                    self._lose(error)

    def _poll(self) -> None:
        """Read without waiting, as the connection may have ended."""
        try:
            if self._link is not None:
                self._link.poll()
        except _PASSING as error:
            self._lose(error)

    def _connect(self, timeout: float) -> None:
        self._link = self._dial(self._on_acks, timeout)
        self._redial = 0.0
        for run in self._runs:  # accepted on an earlier connection, perhaps not on this one
            flags = self._unwanted(run.channel, run.key)
            if flags is not None:
                given_up = run.give_up(flags)
                self.dropped += given_up
                self.sent -= given_up
        self._settle()
        self._resend()

    def _resend(self) -> None:
        assert self._link is not None
        self.resent += self._outstanding
        for run in self._runs:
            self._write(run.unacked_bytes())
        self._resend_at = time.monotonic() + self._patience
        self._patience = min(2 * self._patience, _LIMITS.resend_max)

    def _lose(self, error: Exception) -> None:
        """Note the loss of the connection by `error`, or a failed dial, and delay the next try (T-73)."""
        self._last_loss = error
        if self._link is not None:
            self._link.close()
            self._link = None
        self._redial = min(max(_LIMITS.redial_first, 2 * self._redial), _LIMITS.redial_max)
        left = self._progress + self._options.ack_timeout - time.monotonic()
        time.sleep(max(0.0, min(left, self._redial * random.uniform(0.5, 1))))

    # Acknowledgements.

    def _on_acks(self, ids: Ids) -> None:
        acked = sum(run.acked(ids) for run in self._runs)
        if acked:
            self._settle()
            self._stir()

    def _settle(self) -> None:
        self._runs = [run for run in self._runs if run.left]
        self._outstanding = sum(run.left for run in self._runs)

    def _stir(self) -> None:
        """Begin the time limit for acknowledgements, `ackTimeout`, again."""
        self._progress = time.monotonic()
        self._patience = self._first_patience
        self._resend_at = self._progress + self._patience

    def _complaint(self) -> str:
        if self._runs:
            missing = (
                f"{self._outstanding} rows are unacknowledged, the first has the id {self._runs[0].first_unacked()}"
            )
        else:
            missing = "rows wait to be sent"
        loss = f" (the last connection: {self._last_loss})" if self._link is None else ""
        if self._link is not None and self._link.refused:
            loss = f", and it refused rows {self._link.refused} times"
        return (
            f"the receiver at {self._options.remote} has acknowledged nothing for {self._options.ack_timeout:g} s: "
            f"{missing}{loss}. Look whether it runs and handles such messages, or raise ackTimeout"
        )

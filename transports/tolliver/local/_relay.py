"""Relay of a local program's outbox: the instance sends its rows.

It has a thread and a connection of its own, as drivers of databases block. Rows are begun for the instance (a commit in
the program's database), handed over, each under its key, and deleted once somebody is owed them. After a kill between
these steps, of the program or of the instance, rows that were begun are handed over again, and the instance's store
knows their keys. `_boxes/outbox_table.py` says why that loses nothing and sends nothing twice.

Several programs may relay one outbox. The one that has the lease on a channel serves it; rows are deleted by their
numbers, so that what another one has begun for the same instance stays.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from time import monotonic
from typing import Any, Self, cast
from uuid import UUID, uuid4

from tolliver_proto.errors import AccessDenied, Blocked, OwnLimitExceeded, ReservedChannel
from tolliver_proto.node import check_type

from .._boxes.databases import Database, opened
from .._boxes.outbox_table import OutboxTable, Row
from .._driver.threads import start
from .._local import asking
from .._local.asking import Tries, answered
from .._local.envelopes import RowsTaken
from .._messages.giving import UNTAKEN
from .._messages.relay_steps import RelayStatus
from ..outbox import Outbox
from ._blocking import Talk

_REFUSALS = (AccessDenied, ReservedChannel, OwnLimitExceeded, Blocked)
_NO_ROWS = asking.rows(UUID(int=0), (), ())
_MOST, _MOST_BYTES, _CHANNELS = 1000, 8 * 2**20, 20  # of a batch
_MOST_NAMES = 5000  # keys of rows that are gone, as many as one ask tells of
_SHORTEST, _LONGEST = 0.005, 0.25  # pauses between looks at a table without rows to send, in seconds
_AGAIN = 1.0  # seconds after an error, or for a channel that is held back
_PATIENCE = 10.0  # seconds that the end of a relay waits for its batch


class LocalRelay:
    """A running relay, from `Client.relay` or `AsyncClient.relay`. It ends with `close`, or with its client."""

    def __init__(self, path: str, timeout: float, outbox: Outbox) -> None:
        check_type("outbox", outbox, Outbox, "an Outbox")
        self._path = path
        self._timeout = timeout
        self._outbox = outbox
        self._over = threading.Event()
        self._status = RelayStatus()
        self._resting: dict[str, tuple[str, float]] = {}  # channels that are held back: why, and until when
        self._last = ""
        self._gone: dict[str, list[str]] = {}  # keys of rows that are gone, the last ones of each channel
        self._is_full = False  # the instance has little room for keys
        self._thread = threading.Thread(target=self._run, name="tolliver local relay", daemon=True)
        start(self._thread)

    @property
    def status(self) -> RelayStatus:
        """Counts of this relay, and what holds it up."""
        return self._status

    def close(self) -> None:
        """End the relay after its running batch, for which it waits ten seconds at most. Other rows stay."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalRelay of {self._outbox.table}, {self._status.moved} rows moved>"

    # The thread.

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with closing(Talk(self._path)) as talk:
                    talk.open(self._tries())
                    with opened(self._outbox.connect) as database:
                        self._serve(talk, database)
            except Exception as error:  # of any driver, of `connect`, of the instance, or of the connection to it
                self._change(error=f"{type(error).__name__}: {error}")
                self._over.wait(_AGAIN)

    def _tries(self) -> Tries:
        return Tries(self._path, _NO_ROWS, self._timeout)

    def _serve(self, talk: Talk, database: Database) -> None:
        """Relay as long as the connection lasts: another one may be to an instance that has lost what it knew."""
        known = self._hand_over(talk, ())
        table = OutboxTable(database, self._outbox.table, talk.instance_id, known.remembers, uuid4().hex)
        if known.lacks_commits:
            table.doubt()
        left = self._finish_earlier(talk, table)
        self._change(error=None)
        pause, looked = _SHORTEST, monotonic()
        while not self._over.is_set():
            if self._move(talk, table, left):
                pause = _SHORTEST
            else:
                pause = min(2 * pause, _LONGEST)
                self._over.wait(pause)
            if monotonic() > looked + _AGAIN:
                looked = monotonic()
                left = self._finish_earlier(talk, table) if left else left
                self._change(doubtful=table.doubtful())
        table.give_back_leases()

    def _finish_earlier(self, talk: Talk, table: OutboxTable) -> dict[str, str]:
        """Hand over what was begun before, of which nobody knows whether it went. Returns the channels of rows that
        nobody gets now: they stay begun, and hold these back."""
        held, after = dict[str, str](), 0
        while not self._over.is_set() and (rows := table.begun(after, _MOST)):
            _, some = self._send(talk, table, rows)
            held |= some
            after = rows[-1].number
        return held

    def _move(self, talk: Talk, table: OutboxTable, left: Mapping[str, str]) -> int:
        """Hand over a batch. Returns how many rows went."""
        now = monotonic()
        self._resting = {channel: rest for channel, rest in self._resting.items() if rest[1] > now}
        held = {**left, **{channel: reason for channel, (reason, _) in self._resting.items()}}
        if held != self._status.held:
            self._change(held=held)
        ready = [channel for channel, _ in table.heads() if channel not in held]
        ready = [*(one for one in ready if one > self._last), *(one for one in ready if one <= self._last)][:_CHANNELS]
        if not ready:
            return 0
        self._last = ready[-1]
        batch = table.begin(ready, _MOST, _MOST_BYTES)
        unsent, resting = self._send(talk, table, batch.rows)
        table.let_wait(unsent)
        self._resting.update((channel, (reason, now + _AGAIN)) for channel, reason in resting.items())
        return len(batch.rows) - len(unsent)

    def _send(self, talk: Talk, table: OutboxTable, rows: Sequence[Row]) -> tuple[list[Row], dict[str, str]]:
        """Hand rows over, and delete those that go. Returns the others, and the reasons by channel."""
        unsent, reasons, channels = list[Row](), dict[str, str](), defaultdict[str, list[Row]](list)
        for row in rows:
            channels[row.channel].append(row)
        for channel, mine in channels.items():
            taken = self._hand_over(talk, mine)
            goes = [*taken.gone, *[False] * (len(mine) - len(taken.gone))]
            gone = [row for row, is_gone in zip(mine, goes, strict=True) if is_gone]
            table.delete(gone)
            self._change(moved=self._status.moved + len(gone))
            self._gone[channel] = [*self._gone.get(channel, ()), *(row.id for row in gone)][-_MOST_NAMES:]
            if len(gone) < len(mine):
                unsent += [row for row, is_gone in zip(mine, goes, strict=True) if not is_gone]
                reasons[channel] = taken.reason or UNTAKEN
        return unsent, reasons

    def _hand_over(self, talk: Talk, rows: Sequence[Row]) -> RowsTaken:
        """The instance's answer, also where it refuses all rows. Raises its other errors, and the connection's."""
        channel = rows[0].channel if rows else ""
        released = self._gone.pop(channel, []) if self._is_full else []
        ask = asking.rows(talk.instance_id, rows, released)
        try:
            taken = cast("RowsTaken", answered(talk.ask(ask, self._tries()), self._path))
        except _REFUSALS as error:
            return RowsTaken((), str(error), 0.0, False, self._is_full)
        self._is_full = taken.has_little_room
        return taken

    def _change(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

"""Receiver of a stage: acknowledges messages once they are staged.

While nothing can be written, the runs taken so far are held. Their connections then run out of credit, the node stops
reading, and the peers keep their messages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from tolliver_proto import Acl, Delivery, LocalProtocolError, Message, NoticeKind, OwnLimitExceeded, Revision
from tolliver_proto.layouts import LAYOUTS
from tolliver_proto.node import is_derived

from ..blocking import Instance, Run, Runs, create_instance
from ._loop import StageLoop
from ._options import StageOptions
from ._writer import StageWriter

_NAMES = 4096
_QUIET = 60.0  # least seconds between two notices about reused ids
source = attrgetter("peer_id", "cid")
_RESHAPED = (
    "Rows of a batch came again in another shape, so some may be there twice: write the batch with "
    "tolliver.spark.stable, or with idColumn (T-72a)"
)
_RESTORED = (
    "Its database was restored from a copy, or a copy of it is used beside it: see to it that only one is used (T-48)"
)
_log = logging.getLogger("tolliver.staging")


def _layout_of(message: Message, usual: Revision) -> Revision:
    """The revision in which a message is staged: the usual one, or the first one that can represent its id."""
    message_id = message.message_id
    if message_id is None:
        return usual
    chosen = (one for one in (usual, *Revision) if LAYOUTS[one].unreliable_id != message_id <= LAYOUTS[one].greatest_id)
    return next(chosen, usual)


def add(writer: StageWriter, peer: UUID, cid: int, revision: Revision, messages: Sequence[Message]) -> None:
    """Add messages of the connection `cid` to the writer, each in the usual layout if that can represent it, else in
    another.
    """
    try:
        writer.add(peer, cid, revision, messages)
    except OwnLimitExceeded:
        raise
    except LocalProtocolError:  # an id from a peer of another revision (C6), too large for this layout
        for message in messages:
            writer.add(peer, cid, _layout_of(message, revision), [message])


class Stager(StageLoop[Run]):
    """Receives into a stage, from `start` to `close`: `with Stager(options) as stager`. Creating it opens nothing.

    Every call may come from any thread. Its own threads are daemons: `close` may be left out at the end of the process.
    """

    _instance: Instance | None = None
    _runs: Runs

    def __init__(self, options: StageOptions) -> None:
        super().__init__(options)
        self.options = options
        self._wanted = _Wanted(options.subscriptions)
        self._counts = {"dropped": 0, "unwanted": 0}
        self._told = 0
        self._quiet_until = 0.0

    # The source of the loop.

    def _open(self, writer: StageWriter) -> None:
        wanted = {(channel, "" if key.endswith("*") else key) for channel, key in self.options.subscriptions}
        self._instance = create_instance(self.options.instance, subscriptions=sorted(wanted))
        self._instance.__enter__()
        writer.local = self._instance.instance_id
        self._runs = self._instance.message_runs("", "", subscribe=False)
        for one in self._instance.subscriptions():
            if tuple(one) not in wanted:
                self._instance.unsubscribe(*one)

    def _let_go(self) -> None:
        if self._instance is not None:
            self._instance.close()

    def _take(self, writer: StageWriter, timeout: float) -> Run | None:
        self._tell_of_ids(writer)
        try:
            run = self._runs.next(timeout)
        except TimeoutError:
            return None
        for (peer, cid), deliveries in groupby(run, source):
            messages = [one.message for one in self._chosen(list(deliveries))]
            if messages:
                add(writer, peer, cid, self.options.revision, messages)
        return run

    def _tell_of_ids(self, writer: StageWriter) -> None:
        """Raise a notice about reused ids: at once, then with a count at most once a minute."""
        count, now = writer.ids_reused - self._told, time.monotonic()
        if not count or writer.last_reused is None or now < self._quiet_until:
            return
        self._told, self._quiet_until = writer.ids_reused, now + _QUIET
        sender, message_id = writer.last_reused
        _log.warning(
            "%s: %d messages came under ids that their sender had given to others, the last one of %s under id %d. "
            "Each was staged. %s",
            NoticeKind.ID_REUSED,
            count,
            sender,
            message_id,
            _RESHAPED if is_derived(sender) else _RESTORED,
            extra={"kind": str(NoticeKind.ID_REUSED), "peer": str(sender)},
        )

    def _on_synced(self, items: Sequence[Run]) -> None:
        for run in items:
            run.ack()

    def _chosen(self, deliveries: list[Delivery]) -> list[Delivery]:
        wanted = [one for one in deliveries if self._wanted(one.channel, one.key)]
        self._counts["unwanted"] += len(deliveries) - len(wanted)
        if self.options.unreliable == "keep":
            return wanted
        kept = [one for one in wanted if one.reliable]
        self._counts["dropped"] += len(wanted) - len(kept)
        return kept

    # Status.

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """(host, port) of each address that it listens on."""
        return () if self._instance is None else self._instance.addresses

    @property
    def instance_id(self) -> UUID:
        """UUID of the receiving instance."""
        self._started()
        assert self._instance is not None
        return self._instance.instance_id

    def set_acl(self, acl: Acl) -> None:
        """Replace the access rules. Connections of peers whose rights change are closed and made again (D-4, D-5,
        D-8)."""
        self._started()
        assert self._instance is not None
        self._instance.admin.set_acl(acl)

    def stats(self) -> dict[str, int]:
        """Counters since the start, and `staged_bytes` now, which readers reduce.

        Messages `staged` and their `bytes`; `duplicates`; unreliable ones `dropped`; `unwanted` ones, whose keys only
        share a subscription's prefix; `ids_reused`, different messages under an id that their sender had used already.
        """
        writer = self._started()
        return {
            "staged": writer.messages,
            "bytes": writer.bytes,
            "duplicates": writer.duplicates,
            "ids_reused": writer.ids_reused,
            **self._counts,
            "staged_bytes": writer.staged_bytes,
        }


class _Wanted:
    """The subscriptions of a stage as a test of channel and key, prefixes of keys included."""

    def __init__(self, subscriptions: Sequence[tuple[str, str]]) -> None:
        self._subscriptions = subscriptions
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, channel: str, key: str) -> bool:
        known = self._known.get((channel, key))
        if known is None:
            known = any(_matches(channel, key, *one) for one in self._subscriptions)
            if len(self._known) >= _NAMES:
                self._known.clear()
            self._known[channel, key] = known
        return known


def _matches(channel: str, key: str, wanted: str, pattern: str) -> bool:
    if wanted not in ("", channel):
        return False
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in ("", key)

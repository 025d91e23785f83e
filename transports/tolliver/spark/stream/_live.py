"""Spark streaming source of messages, which a stager has written to files.

After a failure Spark reads the same bytes again, which a connection cannot give. So a stager (`tolliver.staging`)
receives messages into the files of a stage, and this module reads those: a batch lies between two positions in files
that never change. The stager runs in the process that lives as long as the query, or elsewhere as a service.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from attrs import fields

from ...staging import Mark, Position, StageFolder, StageInUse, StageLost
from ..read._ranges import Span
from ._log import Bounds, log
from ._offsets import Offset, Place, place_offset, read_place
from ._options import Begin, LiveOptions, Staging, StreamOptions

if TYPE_CHECKING:
    from ...staging import StageOptions
    from ...staging._loop import StageLoop

LOCK_TIMEOUT = 20.0
"""Seconds to wait for the end of an earlier run's process, after its JVM was killed."""


class Stage:
    """A stage as a `Log` for the stream reader, with the stager that fills it if that runs in this process."""

    def __init__(
        self, folder: StageFolder, stager: StageLoop[Any] | None, options: StreamOptions, live: LiveOptions
    ) -> None:
        self._folder = folder
        self._stager = stager
        self._fails = options.fail_on_data_loss
        self._start = options.start
        self._deletes = live.delete_consumed
        self._consumer = live.consumer
        self._consumed: Place | None = None

    def begin(self) -> Offset:
        """Implements `Log.begin`. A consumer that was here before goes on at its place; another has one from now on."""
        if self._consumer is None:
            return self._begin()
        kept = self._folder.consumers().get(self._consumer)
        if kept is not None:
            return self._offset(kept)
        offset = self._begin()
        self.consumed(offset)
        return offset

    def _begin(self) -> Offset:
        start = self._start
        if isinstance(start, dict):
            return start
        if start is Begin.LATEST:
            return self.head()
        first = self._folder.first()
        return self._offset(self._folder.at_time(start) if isinstance(start, int) else first)

    def head(self) -> Offset:
        if self._stager is not None:
            self._stager.check()
        return self._offset(self._folder.head() or self._folder.first())

    def advance(self, start: Mapping[str, Any], end: Mapping[str, Any], bounds: Bounds) -> Offset:
        """Implements `Log.advance`. Returns `start` if `end` is not after it: after a crash, `head` may step back."""
        begin, stop = read_place(start), read_place(end)
        if begin == stop:
            return dict(start)
        at, to = self._from(begin), _position(stop)
        try:
            self._check(stop)
        except StageLost as lost:  # the end was fixed before the loss
            self._on_lost(lost)
            return self._offset(at)
        try:
            return self._offset(self._folder.advance(at, to, *bounds) if at < to else at)
        except StageLost as damaged:  # a damaged header: its messages cannot be counted; the workers skip it
            self._on_lost(damaged)
            return self._offset(to)

    def waiting(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> int | None:
        begin, stop = read_place(start), read_place(end)
        return stop.frames - begin.frames if begin.stage == stop.stage else None

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Span]:
        begin, stop = read_place(start), read_place(end)
        if begin == stop:
            return []
        try:
            self._check(stop)
            at, to = self._from(begin), _position(stop)
            return [Span(*part) for part in self._folder.ranges(at, to)] if at < to else []
        except StageLost as lost:
            self._on_lost(lost)
            return []

    def consumed(self, offset: Mapping[str, Any]) -> None:
        """Implements `Log.consumed`: keeps the consumer's place, and deletes the segments before it, unless another
        process does that, or the stage was replaced meanwhile and has other messages there."""
        place = read_place(offset)
        named = self._consumer is not None
        if (self._deletes or named) and place != self._consumed and self._stands(place):
            if self._consumer is not None:
                self._check_alone(self._consumer)
                self._folder.keep_place(self._consumer, _position(place))
            self._consumed = place
            if self._deletes:
                self._folder.delete_before(_position(place))

    def _check_alone(self, consumer: str) -> None:
        """Raises StageInUse if the consumer's place is not the one kept here last: another query keeps it as well."""
        kept = self._folder.consumers().get(consumer)
        if self._consumed is not None and kept is not None and kept != _position(self._consumed):
            raise StageInUse(
                f"another query has moved the place of the consumer {consumer!r} in the stage "
                f"{self._folder.directory}, and what it has read is deleted: give each query a name of its own"
            )

    def _offset(self, position: Position) -> Offset:
        mark = self._folder.mark(position)
        return place_offset(Place(mark.stage, *position, mark.incarnation, mark.checksum))

    def _check(self, place: Place) -> None:
        self._folder.check(_position(place), Mark(place.stage, place.incarnation, place.checksum))

    def _stands(self, place: Place) -> bool:
        try:
            self._check(place)
        except StageLost:
            return False
        return True

    def _from(self, place: Place) -> Position:
        """Position to continue from: that of `place` or, if its messages are lost and failOnDataLoss is false, the
        stage's first. Raises StageLost."""
        try:
            self._check(place)
        except StageLost as lost:
            self._on_lost(lost)
            self._folder = StageFolder(self._folder.directory)
            return self._folder.first()
        return _position(place)

    def _on_lost(self, lost: StageLost) -> None:
        if self._fails:
            raise StageLost(f"{lost}. To go on with what is there: failOnDataLoss=false") from lost
        log.warning("%s. failOnDataLoss=false: the query goes on with what is there", lost)


def _position(place: Place) -> Position:
    return Position(place.segment, place.pos, place.frames)


def open_stage(options: StreamOptions) -> Stage:
    """Open the stage, and start the stager if it runs here. Raises StoreError, CertificateError, ConnectionLost and
    others."""
    live = options.live
    assert live is not None
    if live.staging is Staging.EXTERNAL:
        return Stage(StageFolder(live.directory), None, options, live)
    from ...staging import Stager

    stager = Stager(_stage_options(options, live))
    stager.start()
    return Stage(StageFolder(live.directory), stager, options, live)


def _stage_options(options: StreamOptions, live: LiveOptions) -> StageOptions:
    """Options of the stager. Those not given keep the stage's defaults."""
    from ...staging import StageOptions

    known = {field.name for field in fields(StageOptions)}
    given = {name: getattr(live, name) for name in live.__slots__ if name in known}
    chosen = {name: value for name, value in given.items() if value is not None}
    read = options.read
    subscriptions = tuple(product(read.channels or ("",), read.keys or ("",)))
    return StageOptions(**chosen, subscriptions=subscriptions, lock_timeout=LOCK_TIMEOUT)

"""Typed deliveries of iterators (P-42).

A delivery whose body does not decode is settled as failed, with a notice, and the next one is handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Self, TypeVar

from tolliver_proto import Delivery, NoticeKind
from tolliver_proto.errors import BodyNotDecoded

from ..codecs._bodies import Opener, TypedDelivery, TypedJob
from ..codecs._codec import AnyCodec
from .iterators import BaseIterator, Messages, Receiver, Runs
from .run import Run

T = TypeVar("T")
R = TypeVar("R")


class TypedRun(Sequence[TypedDelivery[T]]):
    """Typed deliveries that arrived together. `ack()` and `fail()` settle those that are not settled yet."""

    __slots__ = ("_run", "_typed")

    def __init__(self, run: Run, typed: list[TypedDelivery[T]]) -> None:
        self._run = run
        self._typed = typed

    def __len__(self) -> int:
        return len(self._typed)

    def __iter__(self) -> Iterator[TypedDelivery[T]]:
        return iter(self._typed)

    def __getitem__(self, index: int) -> TypedDelivery[T]:  # type: ignore[override]  # a run is not sliced
        return self._typed[index]

    def __repr__(self) -> str:
        return f"Typed{self._run!r}"

    def ack(self) -> None:
        """Report success for the rest of the run: the senders may delete the messages (T-45)."""
        self._run.ack()

    def fail(self, retry_in: float | None = None) -> None:
        """Report failure for the rest of the run: the senders keep and resend the messages (T-50).

        With `retry_in` they are handed out here again after that many seconds (P-22). Raises ValueError.
        """
        self._run.fail(retry_in)

    def give_up(self, reason: str) -> None:
        """Store the rest of the run as dead letters, with this reason, and acknowledge it: retrying is no use (T-47,
        P-23)."""
        self._run.give_up(reason)

    def settle(self, deliveries: Iterable[TypedDelivery[T]], well: bool) -> None:
        """Settle these deliveries: as handled if `well`, else as failed. Those settled already are left out."""
        self._run.settle([one.delivery for one in deliveries], well)

    @property
    def settled(self) -> bool:
        """True if every delivery is settled."""
        return self._run.settled


class Opening(Generic[T]):
    """Decodes deliveries; None for one that does not decode, which is settled as failed. Raises TypeError for a bad
    codec."""

    def __init__(self, codec: AnyCodec[T], source: BaseIterator) -> None:
        self._core = source._core
        self._open = Opener(codec)

    def of(self, delivery: Delivery) -> TypedDelivery[T] | None:
        try:
            return self._open(delivery)
        except BodyNotDecoded as error:
            self._core.complain(
                NoticeKind.HANDLER_FAILED, delivery, f"did not get it: {error}: not acknowledged", error
            )
            delivery.fail()
            return None

    def of_run(self, run: Run) -> TypedRun[T] | None:
        typed = [one for delivery in run if (one := self.of(delivery)) is not None]
        return TypedRun(run, typed) if typed else None


class TypedReceiver(Receiver):
    """Base of typed iterators: an iterator over deliveries, whose bodies are decoded by a codec."""

    def __init__(self, source: BaseIterator) -> None:
        self._source = source
        self._mailbox = source._mailbox

    def close(self) -> None:
        """Stop receiving. Unsettled messages are not acknowledged, so their senders resend them. The subscription
        stays."""
        self._source.close()


class _AsyncTyped(TypedReceiver):
    """Base of typed iterators for tasks."""

    _source: Messages | Runs

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._source.__aenter__()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()


class TypedMessages(_AsyncTyped, Generic[T]):
    """Like Messages; each delivery has a decoded `value`. A body that does not decode is failed, with a notice, and
    skipped."""

    def __init__(self, codec: AnyCodec[T], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._next = source.__anext__

    async def __anext__(self) -> TypedDelivery[T]:
        while (delivery := self._opening.of(await self._next())) is None:
            pass
        return delivery


class TypedWork(_AsyncTyped, Generic[T, R]):
    """Like Work; each job has a decoded `value`, and `answer(value)`. A job that does not decode is failed, with a
    notice, and skipped."""

    def __init__(self, codec: AnyCodec[T], reply_codec: AnyCodec[R], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._reply_codec = reply_codec
        self._next = source.__anext__

    async def __anext__(self) -> TypedJob[T, R]:
        while (job := self._opening.of(await self._next())) is None:
            pass
        return TypedJob(job.delivery, job.value, self._reply_codec)


class TypedRuns(_AsyncTyped, Generic[T]):
    """Like Runs; each delivery has a decoded `value`."""

    def __init__(self, codec: AnyCodec[T], source: Runs) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._next = source.__anext__

    async def __anext__(self) -> TypedRun[T]:
        while (run := self._opening.of_run(await self._next())) is None:
            pass
        return run

"""Typed deliveries out of iterators (P-42).

One that does not decode is failed and told, and the next one is handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Self, TypeVar

from tolliver_proto import Delivery, NoticeKind
from tolliver_proto.errors import BodyNotDecoded

from ..codecs._bodies import Opener, TypedDelivery
from ..codecs._codec import AnyCodec
from .iterators import BaseIterator, Messages, Receiver, Runs
from .mailbox import Run

T = TypeVar("T")


class TypedRun(Sequence[TypedDelivery[T]]):
    """Typed deliveries that came together. `ack()` and `fail()` settle all that is not settled yet."""

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
        """Handled: the senders may forget them (T-45)."""
        self._run.ack()

    def fail(self, retry_in: float | None = None) -> None:
        """Not handled: the senders keep them, and send them again (T-50).

        With `retry_in` they are handed out again here after so many seconds (P-22). Raises ValueError.
        """
        self._run.fail(retry_in)

    def give_up(self, reason: str) -> None:
        """Not handled, and trying again is no use: kept as dead letters, and acknowledged (T-47, P-23)."""
        self._run.give_up(reason)

    def settle(self, deliveries: Iterable[TypedDelivery[T]], well: bool) -> None:
        """Say it of these, once each."""
        self._run.settle([one.delivery for one in deliveries], well)

    @property
    def settled(self) -> bool:
        """True if all of it is."""
        return self._run.settled


class Opening(Generic[T]):
    """Typed deliveries for an iterator's user; None where there is nothing for him. Raises TypeError."""

    def __init__(self, codec: AnyCodec[T], source: BaseIterator) -> None:
        self._core = source._core
        self._open = Opener(codec)

    def of(self, delivery: Delivery) -> TypedDelivery[T] | None:
        try:
            return self._open(delivery)
        except BodyNotDecoded as error:
            self._core.complain(NoticeKind.HANDLER_FAILED, delivery, f"did not get it: {error}", error)
            delivery.fail()
            return None

    def of_run(self, run: Run) -> TypedRun[T] | None:
        typed = [one for delivery in run if (one := self.of(delivery)) is not None]
        return TypedRun(run, typed) if typed else None


class TypedReceiver(Receiver):
    """An iterator over what another one hands out."""

    def __init__(self, source: BaseIterator) -> None:
        self._source = source
        self._mailbox = source._mailbox

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and is sent again. The subscription stays."""
        self._source.close()


class _AsyncTyped(TypedReceiver):
    """The same, for tasks."""

    _source: Messages | Runs

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._source.__aenter__()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()


class TypedMessages(_AsyncTyped, Generic[T]):
    """As Messages, with the `value` of each delivery. A body that does not decode is failed, told, and left out."""

    def __init__(self, codec: AnyCodec[T], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._next = source.__anext__

    async def __anext__(self) -> TypedDelivery[T]:
        while (delivery := self._opening.of(await self._next())) is None:
            pass
        return delivery


class TypedWork(TypedMessages[T]):
    """As Work, with the `value` of each job. One that does not decode is failed, told, and left out."""


class TypedRuns(_AsyncTyped, Generic[T]):
    """As Runs, with the `value` of each delivery."""

    def __init__(self, codec: AnyCodec[T], source: Runs) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._next = source.__anext__

    async def __anext__(self) -> TypedRun[T]:
        while (run := self._opening.of_run(await self._next())) is None:
            pass
        return run

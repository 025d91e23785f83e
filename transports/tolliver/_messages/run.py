"""Runs: deliveries that came together, for bulk work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tolliver_proto import Delivery
from tolliver_proto.node import GiveUp, HandleAgain, Verdict

from .mailbox import Mailbox


class Run(Sequence[Delivery]):
    """A sequence of deliveries that arrived together, for bulk work. `ack()` and `fail()` settle those not settled yet;
    a delivery may also be settled by itself."""

    __slots__ = ("_box", "_deliveries")

    def __init__(self, deliveries: Sequence[Delivery], box: Mailbox) -> None:
        self._deliveries = deliveries
        self._box = box

    def __len__(self) -> int:
        return len(self._deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    def __getitem__(self, index: int) -> Delivery:  # type: ignore[override]  # a run is not sliced
        return self._deliveries[index]

    def __repr__(self) -> str:
        return f"Run({len(self)} deliveries, {'settled' if self.settled else 'not settled'})"

    def ack(self) -> None:
        """Report success for the rest of the run: the senders may delete the messages (T-45)."""
        self.settle(self._deliveries, True)

    def fail(self, retry_in: float | None = None) -> None:
        """Report failure for the rest of the run: the senders keep and resend the messages (T-50).

        `retry_in` is a delay in seconds, as in `Delivery.fail` (P-22).
        """
        self.settle(self._deliveries, False if retry_in is None else HandleAgain(retry_in))

    def give_up(self, reason: str) -> None:
        """Store the rest of the run as dead letters, with this reason, and acknowledge it: retrying is no use (T-47,
        P-23)."""
        self.settle(self._deliveries, GiveUp(reason))

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        """Settle these deliveries with this verdict. Those settled already are left out."""
        self._box.settle(deliveries, verdict)

    @property
    def settled(self) -> bool:
        """True if every delivery is settled."""
        return not any(map(self._box.is_out, self._deliveries))


def next_run(mailbox: Mailbox) -> Run | None:
    """The next run of a mailbox, which is processed from now on; None if there is none."""
    deliveries = mailbox.take_run()
    return Run(deliveries, mailbox) if deliveries else None

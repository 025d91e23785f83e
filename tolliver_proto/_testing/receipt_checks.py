"""Check of receipts: the answers that senders get (T-54).

The check compares the answers with the fate of the messages. Each send is asked for as soon as it is stored. A good
answer is true if each recipient has acknowledged each message, and the receiver shows the cause of the ack: a handler
that succeeded, a dead letter, or a message that is counted as not wanted. A message that is given up must be in the
answer, with a reason that did occur.
"""

from __future__ import annotations

from uuid import UUID

from .._common.errors import Undelivered
from .._node.actions import Receipt
from .._node.node import Node
from .inspection import inside
from .invariants import Ledger, Sent, check

_DROPPED = ("unwanted", "refused_messages")


class Answers:
    """Checker of the answers to receipts (the action `Acked`) in one life of an instance: each comes once, when all is
    settled, and says what was given up.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._asked: dict[Receipt, list[Sent]] = {}
        self._receipts: dict[bytes, Receipt] = {}

    def begin(self) -> None:
        """Forgets all receipts at the start of a life."""
        self._asked.clear()
        self._receipts.clear()

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, receipt: Receipt, batch: list[Sent]) -> None:
        """Asks the node to tell the end of a receipt, whose messages in `batch` are stored; `take` checks the
        answer.
        """
        self._asked[receipt] = batch
        self._receipts.update((sent.body, receipt) for sent in batch)

    def take(self, receipt: Receipt, error: Undelivered | None, now: float) -> None:
        """Checks the answer of a receipt: `error` is None if all was acknowledged, or tells which messages were given
        up.
        """
        batch = self._asked.pop(receipt, None)
        check(batch is not None, "{} is answered, and nobody waits for it (T-54)", receipt)
        assert batch is not None
        if error is None:
            check(not receipt.undelivered, "{} is answered well, and says {}", receipt, receipt.undelivered)
            for sent in batch:
                self._is_true(sent)
            return
        known = [(one.peer, one.reason) for one in receipt.undelivered]
        check((error.peer, error.reason) in known, "{} is answered with {}, and says {}", receipt, error, known)
        for told in receipt.undelivered:
            possible = sum(self._may_be_true(told, sent, now) for sent in batch)
            check(told.count <= possible, "{}: that did not occur, or only for {} messages (T-54)", told, possible)

    def _may_be_true(self, told: Undelivered, sent: Sent, now: float) -> bool:
        if told.peer is None:  # the store has the message for no peer (T-53)
            return not self._ledger.stored_for.get(sent.body)
        return self._ledger.may_give_up(told.peer, sent, told.reason, now)

    def _is_true(self, sent: Sent) -> None:
        ledger = self._ledger
        check(ledger.stored_for.get(sent.body), "{} is answered as acknowledged: it was for nobody (T-53)", sent.body)
        for peer in sorted(ledger.stored_for.get(sent.body, ())):
            is_acked = (peer, sent.body) in ledger.acked
            check(is_acked, "{} is answered as acknowledged: {} acknowledged nothing (T-54)", sent.body, peer)
            receiver = ledger.others[peer]
            settled = sent.body in receiver.handled or sent.body in receiver.letters or sent.body in receiver.dropped
            check(settled, "{} is answered as acknowledged: {} has not handled it (T-54)", sent.body, peer)

    def is_for_nobody(self, body: bytes) -> bool:
        """True if the sender of the message was told that some of its send is for nobody (T-53)."""
        receipt = self._receipts.get(body)
        return receipt is not None and any(one.peer is None for one in receipt.undelivered)

    def given_up(self, peer: UUID, body: bytes) -> None:
        """Checks that the answer of a receipt names the delivery, which was removed without an ack. A message without a
        receipt is right.
        """
        receipt = self._receipts.get(body)
        told = receipt is None or any(one.peer == peer for one in receipt.undelivered)
        check(told, "{} for {} is given up, and its receipt does not say so (T-54)", body, peer)


def check_drops(node: Node, ledger: Ledger) -> None:
    """Checks that each ack of a message without a handler is in a counter (T-46)."""
    dropped = ledger.drops_in_this_life
    if not dropped:  # as after most calls
        return
    counts = inside(node).context.counts
    told = sum(number for name, number in counts.items() if name in _DROPPED or name.startswith("ignored_"))
    check(dropped <= told, "{} messages were acknowledged and not handled, {} are counted (T-46)", dropped, told)

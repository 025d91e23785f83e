"""Workers' answers to calls, which are jobs with a caller (P-80 to P-82).

The id of a call is in the key of its job. The answer is stored like the reply to a durable request, and the job is
acknowledged after that; a job that becomes a dead letter answers with why, in the commit that stores the letter. So a
crash leaves the job to be done again, or its answer on the way.

State: `_answered` has the deliveries whose answers are stored and whose ack is on its way. Any other ack of a call has
to wait for an answer without bytes, as the caller waits for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.errors import OwnLimitExceeded, TolliverError
from .._common.reserved import CALL, call_in
from .._node.actions import Delivery
from .._node.node import Node
from .._node.pattern import Pattern
from .._node.services import Services
from .._wire.events import Subscription
from .envelopes import Status, answer_channel, reply_body
from .requests import Requests


class JobAnswers(Pattern):
    """Pattern of a worker: its answers to the calls among the jobs that it does."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel = node, services
        self._answered: set[Delivery] = set()

    @staticmethod
    def is_stored(services: Services) -> bool:
        """False: the store has no data of this pattern."""
        return False

    def answer(self, deliveries: Iterable[Delivery], body: bytes, now: float | None = None) -> None:
        """Settles jobs as done, each with this answer for the call that waits for it. A job that nobody called is
        acknowledged. An answer that is too large gives its job up; one without room leaves it to its producer."""
        self._kernel.tick(now)
        for one in deliveries:
            call_id = call_in(one.message.key)
            if call_id is None:
                self._node.acknowledge([one])
            else:
                self._answer(one, call_id, body)

    def _answer(self, delivery: Delivery, call_id: int, body: bytes) -> None:
        names, framed = Subscription(answer_channel(delivery.peer_id), ""), reply_body(call_id, Status.ANSWER, body)
        try:
            is_stored = self._node.use(Requests).answer_durably(delivery, names, framed, is_settled=True)
        except OwnLimitExceeded as error:
            self._node.give_up([delivery], str(error))
        except TolliverError:
            self._node.let_go([delivery])
        else:
            if is_stored:
                self._answered.add(delivery)
            else:
                self._node.let_go([delivery])

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Implements `Pattern.acknowledges`: keeps the calls that have no answer yet, which now get one without
        bytes."""
        return [one for one in deliveries if not (one.message.key.startswith(CALL) and self._must_answer(one))]

    def _must_answer(self, delivery: Delivery) -> bool:
        call_id = call_in(delivery.message.key)
        if delivery in self._answered or call_id is None:
            self._answered.discard(delivery)
            return False
        self._answer(delivery, call_id, b"")
        return True

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        self._answered.difference_update(deliveries)

    def lettered(self, delivery: Delivery, cause: str) -> None:
        """Implements `Pattern.lettered`: the same commit stores why the call of this job fails."""
        call_id = call_in(delivery.message.key)
        if call_id is None:
            return
        framed = reply_body(call_id, Status.FAILED, cause.encode(errors="replace"))
        try:
            recipients = self._node.send(answer_channel(delivery.peer_id), "", framed, to=delivery.peer_id).recipients
        except TolliverError:
            recipients = 0
        self._kernel.counts["replies" if recipients else "replies_dropped"] += 1

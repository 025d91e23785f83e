"""Calls of a producer: jobs with answers (P-80 to P-87).

A call is a job of a queue, whose key has the id of the call; the answer comes as a reliable message on a channel of its
own. So the job is stored, given to workers and moved like any other, and survives what they survive.

State: the calls that wait (`_open`), with the receipts of their jobs, and `kept`, the answers on disk to calls with
message keys, each a message owed to a keeper. The ids of those calls are odd and made of the keys, so that a producer
that was killed finds the answer again; all other ids are even.

Invariants: each call ends once. No job goes out before the subscription to answers is stored. A call with a message key
ends with an answer that is on disk, and its worker is told after that: so the key reads the same answer, until
`Policy.result_ttl` is over. The first answer stands.

Rejected: to keep the answers to calls without keys, as nobody can ask for them; to forget an answer once it was read,
as a program that is killed before it has used the answer would have none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from uuid import UUID

from .._common.arguments import check_seconds
from .._common.errors import (
    SHOWN,
    ConnectionClosing,
    JobFailed,
    LocalProtocolError,
    OwnLimitExceeded,
    StoreError,
    TolliverError,
    UndeliveredReason,
)
from .._common.owner_ids import ANSWERED, hashed
from .._common.reserved import ANSWERS, call_key, users_key
from .._node.actions import Answered, Asked, GoOn, NoticeKind, Receipt, Reply
from .._node.inboxes.inbox import Fate
from .._node.link import Link, Peer
from .._node.node import Node
from .._node.pattern import Judgement, Pattern
from .._node.services import Services
from .._node.store import Row
from .._wire.events import Message, Subscription
from .envelopes import Status, answer_channel, read_reply
from .message_keys import MessageKeys, check_message_key
from .open_requests import OpenRequests
from .queues import Queues
from .value_index import Name, Reading, ValueIndex

_LOOKS = 24  # looks for old answers in the time for which one is kept
_DAMAGED = "answers to calls failed their checksums: their callers are told (P-86)"
_WORKER = slice(16)  # of what is kept: the worker's UUID, then the status, then the body
_STATUS = 16


class JobCalls(Pattern):
    """Pattern of a producer: jobs that it calls, and the answers to them."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel = node, services
        limits, self._ttl = services.limits, services.policy.result_ttl
        self._answers = Subscription(answer_channel(services.instance_id), "")
        self._hears = self._answers in services.own  # a stored subscription
        self._until_heard: list[GoOn] = []
        self._open = OpenRequests(services.rng)
        self._receipts: dict[Asked, Receipt] = {}
        self.kept: ValueIndex = ValueIndex(
            services, ANSWERED, limits.max_message_keys, limits.max_answer_bytes, _DAMAGED
        )
        services.on_timer("calls", self._on_calls_timeout)
        services.on_timer("answers", self._on_answers_timeout)
        if self.kept:
            services.timers.set("answers", services.now)  # not now: an opening performs commits alone

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if an earlier opening has called jobs: answers are kept, or on the way."""
        return any(one.channel.startswith(ANSWERS) for one in services.own)

    # The application's calls.

    def call(
        self,
        channel: str,
        key: str,
        body: bytes,
        timeout: float,
        now: float | None = None,
        *,
        message_key: str | None = None,
    ) -> Asked:
        """Puts a job on a queue and waits for its answer: `Answered` names the call, once.

        With a `message_key` the job is put once, and its answer kept: a later call with the key gets that answer
        (P-83). `Answered` has the answer, or JobFailed, Undelivered if the job was given up, TimeoutError, or what
        `put` raises. Raises, before anything changes, ConnectionClosing, ValueError, TypeError, OwnLimitExceeded, and
        LocalProtocolError if a call with the key waits already.
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was called")
        check_seconds("timeout", timeout, is_endless=True)
        call_id = self._open.new_id() * 2 % 2**64 if message_key is None else self._id_of(channel, message_key)
        framed = call_key(call_id, key)
        self._kernel.size_for(channel, framed, body)
        asked = Asked(call_id, channel, framed, body, True, False, None, False, message_key)
        due = self._kernel.now + timeout
        self._open.add(asked, due)
        self._kernel.timers.set_earlier("calls", due)
        self._kernel.counts["requests"] += 1
        self._hear(partial(self._begin, asked))
        return asked

    def _id_of(self, channel: str, message_key: str) -> int:
        check_message_key(message_key)
        call_id = hashed(f"{channel}\0{message_key}") | 1
        if call_id in self._open.by_id:
            raise LocalProtocolError(
                "request_id_in_use", f"a call with message_key={message_key!r:.100} waits already: share its answer"
            )
        return call_id

    def cancel_request(self, asked: Asked, now: float | None = None) -> None:
        """Ends the wait for this call without an Answered; its job goes on (P-85)."""
        self._kernel.tick(now)
        if self._waits(asked):
            self._forget(asked)
            self._kernel.counts["requests_cancelled"] += 1

    def _waits(self, asked: Asked) -> bool:
        return self._open.by_id.get(asked.request_id) is asked

    # The way of a call: the subscription, the kept answer, the message keys, the job.

    def _hear(self, go_on: GoOn) -> None:
        """Subscribes to answers, once: a job goes out after the subscription, so that no answer comes too soon."""
        if self._hears:
            go_on(None)
            return
        self._until_heard.append(go_on)
        if len(self._until_heard) == 1:
            self._node.subscribe(*self._answers)
            self._kernel.after_commit(self._on_heard)

    def _on_heard(self, error: TolliverError | None) -> None:
        self._hears = error is None
        waiting, self._until_heard = self._until_heard, []
        for go_on in waiting:
            go_on(error)

    def _begin(self, asked: Asked, error: TolliverError | None) -> None:
        if asked.message_key is None or error is not None:
            self._put(asked, error)
        else:
            self.kept.when_known(partial(self._look, asked))

    def _look(self, asked: Asked, error: TolliverError | None) -> None:
        """Reads the answer that is kept; puts the job if there is none. One that is on its way to the disk is told from
        there, or comes again."""
        name, kept = self._name(asked.request_id), self.kept
        if error is None and name in kept:
            if name not in kept.entries:
                return

            def done(error: TolliverError | None) -> None:
                has_one = error is None and name in kept.entries
                self._on_read(asked, kept.body_of(name, reading) if has_one else None, error)

            reading = Reading(lambda one: one == name, lambda: [name] if name in kept.entries else [], done)
            kept.begin(reading)
            return
        excess = None if error is not None else kept.excess(name, 0)
        if excess is not None:
            error = OwnLimitExceeded(
                "too_many",
                f"the answer to message_key={asked.message_key!r:.100} would make {excess} (P-86). Nothing was put: "
                "lower Policy.result_ttl, or raise Limits.max_message_keys or max_answer_bytes",
            )
        if error is None:
            self._node.use(MessageKeys).when_known(partial(self._put, asked))
        else:
            self._put(asked, error)

    def _on_read(self, asked: Asked, kept: bytes | None, error: TolliverError | None) -> None:
        if not self._waits(asked):
            return
        if kept is not None:
            self._tell(asked, UUID(bytes=kept[_WORKER]), kept[_STATUS], kept[_STATUS + 1 :])
            return
        text = f"the answer kept for message_key={asked.message_key!r:.100} is damaged, or its time was over just now"
        self._end(asked, error or StoreError(f"{text}: call with another key, and the job is done again (P-86)"))

    def _put(self, asked: Asked, error: TolliverError | None) -> None:
        """Puts the job, or ends the call with the error that prevented it."""
        if not self._waits(asked):
            return
        if error is None:
            job, asked.body = (asked.key, asked.body), b""
            try:
                if asked.message_key is None:
                    receipt = self._node.use(Queues).put_many(asked.channel, [job])
                else:
                    receipt = self._node.use(MessageKeys).put(asked.channel, *job, asked.message_key)
            except TolliverError as failure:
                error = failure
            else:
                self._receipts[asked] = receipt
                error = receipt.failure
                if receipt.counts and not receipt.repeats:
                    self._kernel.after_commit(partial(self._on_put, asked))
        if error is not None:
            self._end(asked, error)

    def _on_put(self, asked: Asked, error: TolliverError | None) -> None:
        if error is not None and self._waits(asked):
            self._end(asked, error)

    # Answers.

    def judges(self, channel: str, key: str, judgement: Judgement) -> Judgement:
        return Fate.OWN if channel == self._answers.channel else judgement

    def leaves(self, link: Link, message: Message, fate: Fate) -> bool:
        """Implements `Pattern.leaves`: takes the answers."""
        if message.channel != self._answers.channel:
            return False
        reply, peer = read_reply(message.body), link.peer
        assert peer is not None
        if reply is not None and reply[0] % 2 and message.message_id is not None:
            self._keep(link, message, peer.uuid, self._name(reply[0]))
            return True
        if message.message_id is not None:
            self._kernel.ack(link, [message.message_id])
        asked = None if reply is None else self._open.by_id.get(reply[0])
        if reply is None or asked is None:
            self._kernel.counts["late_replies"] += 1
        else:
            self._tell(asked, peer.uuid, *reply[1:])
        return True

    def _keep(self, link: Link, message: Message, worker: UUID, name: Name) -> None:
        """Keeps the answer, unless there is one. The worker's message is acknowledged when an answer is on disk; until
        then the worker sends it again."""
        assert message.message_id is not None
        kept, content = self.kept, worker.bytes + message.body[8:]
        if name in kept.entries:
            self._kernel.ack(link, [message.message_id])
            self._kernel.counts["late_replies"] += 1
            return
        size = len(name[0]) + len(name[1]) + len(content)
        excess = kept.excess(name, size)
        if excess is not None:
            text = f"answers to calls were left to their workers, which send them again, as they would make {excess}"
            self._kernel.tally(NoticeKind.SKIPPED, worker, 1, f"{text} (P-86)", self._kernel.now)
        if excess is not None or name in kept or self._kernel.is_full or not kept.is_known:
            self._kernel.leave(link, message, Fate.STUCK)
            return
        kept.change(name, content, size)
        self._kernel.timers.set_earlier("answers", self._kernel.now + self._pause)
        self._kernel.after_commit(partial(self._on_kept, link, message, content))

    def _on_kept(self, link: Link, message: Message, content: bytes, error: TolliverError | None) -> None:
        if error is not None:
            return
        assert message.message_id is not None
        self._kernel.ack(link, [message.message_id])
        asked = self._open.by_id.get(int.from_bytes(message.body[:8], "big"))
        if asked is not None:
            self._tell(asked, UUID(bytes=content[_WORKER]), content[_STATUS], content[_STATUS + 1 :])

    def _name(self, call_id: int) -> Name:
        return self._answers.channel, f"{call_id:016x}"

    # Ends.

    def _tell(self, asked: Asked, worker: UUID, status: int, body: bytes) -> None:
        if status == Status.ANSWER:
            asked.replies.append(Reply(worker, body))
            self._end(asked, None)
        else:
            self._end(asked, JobFailed(worker, body[: 4 * SHOWN + 4].decode(errors="replace")))

    def _end(self, asked: Asked, error: TolliverError | TimeoutError | None) -> None:
        self._forget(asked)
        what = "answered" if error is None else "timed_out" if isinstance(error, TimeoutError) else "failed"
        self._kernel.counts[f"requests_{what}"] += 1
        self._kernel.tell(Answered(asked, asked.replies, error))

    def _forget(self, asked: Asked) -> None:
        self._open.end(asked)
        self._receipts.pop(asked, None)

    def _on_calls_timeout(self, _subject: None) -> None:
        for asked in self._open.due(self._kernel.now):
            self._end(asked, TimeoutError(_late(asked)))
        due = self._open.next_deadline()
        if due is not None:
            self._kernel.timers.set_earlier("calls", due)

    def given_up(self, reason: UndeliveredReason, seqs: Collection[int]) -> tuple[()]:
        """Implements `Pattern.given_up`: a job that is given up ends its call, once its receipt says so."""
        if self._receipts:
            self._kernel.ask_turn(self)
        return ()

    def turn(self) -> None:
        for asked, receipt in [*self._receipts.items()]:
            if receipt.failure is not None:
                self._end(asked, receipt.failure)

    def closing(self) -> None:
        for asked in [*self._open.by_id.values()]:
            self._end(asked, ConnectionClosing("the instance was closed before the answer came: the job goes on"))

    # Old answers.

    @property
    def _pause(self) -> float:
        return max(self._ttl / _LOOKS, 1.0)

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        if owner == ANSWERED:
            self.kept.rows(rows, error)
        return owner == ANSWERED

    def forgets(self, peer: Peer) -> None:
        """Implements `Pattern.forgets`: raises LocalProtocolError for the owner of the answers."""
        if peer.uuid == ANSWERED:
            raise LocalProtocolError("answers", f"{peer.uuid} keeps answers to calls: they end by themselves")

    def _on_answers_timeout(self, _subject: None) -> None:
        self.kept.when_known(self._forget_old)

    def _forget_old(self, error: TolliverError | None) -> None:
        """Removes the answers whose time is over: they are in the order in which they came."""
        old = self._kernel.now - self._ttl
        for name, one in [*self.kept.entries.items()] if error is None else ():
            if one.stored_at > old:
                break
            self.kept.change(name, None, None)
        if self.kept:
            self._kernel.timers.set("answers", self._kernel.now + self._pause)


def _late(asked: Asked) -> str:
    then = (
        "Give a message_key to a call whose answer you will ask for again, as this one is dropped (P-84)"
        if asked.message_key is None
        else f"Call again with message_key={asked.message_key!r:.100}, and wait longer (P-83)"
    )
    return (
        f"the job {users_key(asked.key)!r:.100} of {asked.channel!r:.100} has no answer in time: it goes on, or waits "
        f"for a worker. {then}"
    )

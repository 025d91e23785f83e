"""Driver of a node: its store, its handlers, its pending calls.

No code here waits, and each of the node's actions has one function.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from tolliver_proto import (
    Commit,
    ConnectionClosing,
    Deliver,
    Delivery,
    Dial,
    Fetch,
    Node,
    Notice,
    NoticeKind,
    PeerDown,
    PeerUp,
    Receipt,
    Stored,
    Transmit,
)
from tolliver_proto.errors import NoResponders
from tolliver_proto.node import (
    Acked,
    Answer,
    Answered,
    Asked,
    CertificateExpires,
    DialEnded,
    DialFailed,
    GiveUp,
    HandleAgain,
    JobAnswers,
    JobCalls,
    PeersMoved,
    Reply,
    Requests,
    SubscriptionsChanged,
    TakeBack,
    Verdict,
)
from tolliver_proto.store import Find, Store

from .._driver import logs
from .._driver.adapter import Done, Job, StoringAdapter
from .._driver.driver import Driver
from .._driver.pending import PendingCall, PendingCalls, as_it_is
from .copies import copies, decided, is_copy, originals
from .events import Event
from .mailbox import Mailbox
from .store_jobs import News, StoreJobs
from .unconnected import unconnected
from .waits import Connected, Waits

if TYPE_CHECKING:
    from .recorder import Recorder

R = TypeVar("R")
T = TypeVar("T")
NOTICES_KEPT = 1000
_LOGGED_EACH = frozenset({NoticeKind.HANDLER_FAILED, NoticeKind.RESPONDER_FAILED})
"""Kinds of notices that are logged at their source, with a traceback, and not when the notice is raised."""


class NodeDriver(Driver):
    """Runs a node: carries out its actions, and answers the calls that wait for it."""

    def __init__(
        self,
        node: Node,
        store: Store,
        world: StoringAdapter,
        recorder: Recorder | None = None,
        news: News = lambda: (),
        tell: Callable[[Event], object] = lambda _event: None,
        synced: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__(node, world)
        self.node = node
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self.noticed_at: deque[float] = deque(maxlen=NOTICES_KEPT)  # seconds since 1970
        self._stored, self._acked = PendingCalls(), PendingCalls()  # by receipt
        self._answered = PendingCalls()  # by request
        self.waits = Waits(node)
        self._storing = world.store
        self._beside = world.beside
        self._schedule_run = world.schedule_run
        self._recorder = recorder
        self._tell = tell
        self.delivered = 0  # number of messages given to handlers
        self._has_copies = False  # True once several handlers have matched one message
        jobs = StoreJobs(node, store, world.store, news, synced)
        self.commits = jobs.counts
        self.try_store_again = jobs.try_again
        self._end_commits = jobs.end
        self.register_handlers(
            {
                Dial: self._dial,
                Transmit: self._transmit,
                Commit: jobs.commit,
                Fetch: jobs.fetch,
                Find: jobs.find,
                Deliver: self._deliver,
                TakeBack: self._take_back,
                Stored: self._on_stored,
                Acked: self._on_acked,
                Answered: self._on_answered,
                PeerUp: self._on_peer_up,
                PeerDown: self._on_peer_down,
                SubscriptionsChanged: self._on_event,
                PeersMoved: self.waits.look_again,
                DialEnded: self._on_dial_ended,
                DialFailed: self._on_dial_failed,
                CertificateExpires: self._on_event,
                Notice: self.on_notice,
            }
        )

    def received(self, cid: int, plaintext: bytes) -> None:
        if self._recorder is not None:
            self._recorder.received(cid, plaintext)
        self.node.receive_data(cid, plaintext, time.monotonic())

    def settle(self, deliveries: Sequence[Delivery], verdict: Verdict) -> None:
        """Report a handler's verdict on these deliveries to the node."""
        node, now = self.node, time.monotonic()
        found = decided(deliveries, verdict) if self._has_copies else {verdict: deliveries}
        for final, known in found.items():
            if isinstance(final, HandleAgain):
                node.handle_again(known, final.seconds, now)
                self._world.wake()
            elif isinstance(final, GiveUp):
                node.give_up(known, final.reason, now)
            elif isinstance(final, Answer):
                node.use(JobAnswers).answer(known, final.body, now)
            else:
                say = node.let_go if final is None else node.acknowledge if final else node.fail
                say(known, now)
        self._schedule_run()

    def receive(self, delivery: Delivery) -> None:
        """Report that a message is acknowledged before its handler ends. Of several handlers, the node counts what all
        say together."""
        if is_copy(delivery):
            self.settle((delivery,), True)
        else:
            self.node.acknowledge((delivery,), time.monotonic(), is_judged=False)
            self._schedule_run()

    def judge(self, delivery: Delivery, is_well: bool) -> None:
        """Report how the handler of a message that `receive` acknowledged has ended."""
        if not is_copy(delivery):
            self.node.judge(is_well)

    def begin(self, mailbox: Mailbox, deliveries: Sequence[Delivery]) -> None:
        if self.node.begin(mailbox, originals(deliveries), time.monotonic()):
            self._world.wake()

    def end(self, mailbox: Mailbox, deliveries: Sequence[Delivery], left: Delivery | None = None) -> None:
        first = None if left is None else originals((left,))[0]
        if self.node.end(mailbox, originals(deliveries), time.monotonic(), first):
            self._world.wake()

    def leave(self, mailbox: Mailbox, delivery: Delivery) -> None:
        if self.node.leave(mailbox, originals((delivery,))[0], time.monotonic()):
            self._world.wake()

    def take_up(self, mailbox: Mailbox) -> None:
        if self.node.take_up(mailbox, time.monotonic()):
            self._world.wake()

    def _take_back(self, action: TakeBack) -> None:
        cast(Mailbox, action.handler).take_back(action.peer)

    # Pending calls.

    def when_stored(self, receipt: Receipt, answer: Callable[[Receipt], T], late: str = "") -> PendingCall[T]:
        """The pending call that is answered, by `answer(receipt)`, once the receipt's commit is done. `late` is the
        text of its TimeoutError.
        """
        call = self._stored.of(receipt, answer)
        call.late = late
        if not self.node.gathers:
            self.run_actions()
        return call

    def when_each_stored(self, receipts: Sequence[Receipt]) -> list[PendingCall[Receipt]]:
        """The pending calls of several receipts. All are there before anything is answered, as a send that repeats
        another is answered at once."""
        calls: list[PendingCall[Receipt]] = [self._stored.of(receipt, as_it_is) for receipt in receipts]
        if not self.node.gathers:
            self.run_actions()
        return calls

    def when_acked(self, receipt: Receipt, answer: Callable[[Receipt], T]) -> PendingCall[T]:
        """The pending call that is answered, by `answer(receipt)`, once every recipient has acknowledged all messages
        of the receipt.
        """
        is_asked = receipt in self._acked
        call = self._acked.of(receipt, answer)
        if not is_asked and self.node.watch(receipt):
            self.run_actions()
        return call

    def when_answered(
        self, asked: Asked, answer: Callable[[Sequence[Reply]], T], pattern: Requests | JobCalls
    ) -> PendingCall[T]:
        """The pending call that is answered, by `answer(replies)`, once the request of this pattern is complete. The
        request is cancelled if its last waiter stops waiting.
        """
        call = self._answered.of(asked, answer)
        call.abandoned = partial(self._cancel, asked, pattern)
        return call

    def _cancel(self, asked: Asked, pattern: Requests | JobCalls) -> None:
        self._answered.drop(asked)
        pattern.cancel_request(asked, time.monotonic())

    def give_up(self, waits_for_commit: bool = False) -> None:
        self._end_commits()
        self._stored.give_up((waits_for_commit and self.node.committing) or ())
        for calls in (self._acked, self._answered, self.waits):
            calls.give_up()
        super().give_up()

    def when_read(self, job: Callable[[], R], answer: Callable[[R], T], late: str) -> PendingCall[T]:
        """The pending call that is answered, by `answer`, with the result of `job`, which runs off the loop in order
        with the other store jobs. `late` is the text of its TimeoutError.
        """
        return self._when_run(self._storing, job, answer, late)

    def when_done_beside(self, job: Job, answer: Callable[[Any], T], late: str) -> PendingCall[T]:
        """Like `when_read`, but the job runs in parallel with the other store jobs."""
        return self._when_run(self._beside, job, answer, late)

    def _when_run(
        self, run: Callable[[Job, Done], None], job: Job, answer: Callable[[Any], T], late: str
    ) -> PendingCall[T]:
        name = object()
        call = self.calls.of(name, answer)
        call.late = late
        run(job, lambda result, error: self.calls.settle(name, result, error))
        return call

    # Actions of the node.

    def _dial(self, action: Dial) -> None:
        if self._recorder is not None:
            self._recorder.speaks(action.cid, self.node.revision_to(action.remote))
        self._world.dial(action.cid, action.remote)

    def _transmit(self, action: Transmit) -> None:
        wire = self._world.wires.get(action.cid)
        if wire is not None:
            if self._recorder is not None:
                self._recorder.sent(action.cid, action.units)
            wire.transmit(action.units)

    def _deliver(self, action: Deliver) -> None:
        self.delivered += len(action.deliveries)
        mailboxes = cast(Sequence[Mailbox], action.handlers)
        if len(mailboxes) == 1:
            mailboxes[0].put(action.deliveries)
            return
        self._has_copies = True
        for mailbox, own in zip(mailboxes, copies(action.deliveries, len(mailboxes)), strict=True):
            mailbox.put(own)

    def _on_stored(self, action: Stored) -> None:
        self._stored.settle_all(action.tokens, action.error)

    def _on_acked(self, action: Acked) -> None:
        self._acked.settle_all(action.tokens, action.error)

    def _on_answered(self, action: Answered) -> None:
        error = action.error
        if isinstance(error, NoResponders):
            error.not_connected = unconnected(self.node, time.monotonic())
        self._answered.settle(action.asked, action.replies, error)

    def _on_peer_up(self, action: PeerUp) -> None:
        extra = logs.fields(version=action.version, remote=action.remote, **self._known(action.peer))
        logs.dial.info("peer %s is up, version %d", self._who(action.peer), action.version, extra=extra)
        for keeps_trying in (False, True):
            self.waits.settle(Connected(action.remote, keeps_trying), action.peer)
        self._tell(action)
        identity = self.node.identity_of(action.peer)
        if identity.not_after is not None:
            left = identity.not_after - time.time()
            name, has_uuid = identity.name or str(action.peer), bool(identity.uuids)
            self.node.watch_certificate(left, name, time.monotonic(), action.peer, has_uuid)

    def _on_peer_down(self, action: PeerDown) -> None:
        why = action.error or "closed in order"
        logs.dial.info("peer %s is gone: %s", self._who(action.peer), why, extra=self._known(action.peer))
        self._tell(action)

    def _on_dial_ended(self, action: DialEnded) -> None:
        error = action.error or ConnectionClosing(f"{action.remote} was removed while it was being dialled")
        for keeps_trying in (False, True):
            self.waits.settle(Connected(action.remote, keeps_trying), None, error)

    def _on_dial_failed(self, action: DialFailed) -> None:
        if action.error is not None:
            for keeps_trying in (False, True) if action.cause.is_refusal else (False,):
                self.waits.settle(Connected(action.remote, keeps_trying), None, action.error)
        if action.is_news:
            self._tell(replace(action, error=None))  # an error's frames would keep a socket open in the events' queue

    def _on_event(self, action: SubscriptionsChanged | CertificateExpires) -> None:
        self._tell(action)

    def complain(self, kind: NoticeKind, peer: UUID, detail: str, error: BaseException | None, channel: str) -> None:
        """Report a failed handler call: its traceback goes into the log each time, and a notice of this kind, which is
        throttled, is made.

        `error` is the exception of the handler, if it raised one.
        """
        self._log(Notice(kind, peer, detail), error, channel=f"{channel:.100}")
        self.node.notice(kind, detail, peer, time.monotonic())
        self._schedule_run()

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        self.noticed_at.append(time.time())
        if notice.kind not in _LOGGED_EACH:
            self._log(notice)
        self._tell(notice)

    def _log(self, notice: Notice, error: BaseException | None = None, **more: object) -> None:
        kind, peer = notice.kind, notice.peer
        whom = "" if peer is None else f" [peer {self._who(peer)}]"
        known = {} if peer is None else self._known(peer)
        extra = logs.fields(kind=kind, remote=notice.remote, cause=notice.cause, **known, **more)
        logs.of(kind).warning("%s: %s%s", kind, notice.detail, whom, exc_info=error, extra=extra)

    def _known(self, peer: UUID) -> dict[str, object]:
        """Log record fields that identify a peer."""
        identity = self.node.identity_of(peer)
        return logs.fields(peer=peer, address=identity.address or None, certificate=identity.name or None)

    def _who(self, peer: UUID) -> str:
        """Text that identifies a peer: UUID, address and certificate name."""
        identity = self.node.identity_of(peer)
        return " ".join(filter(None, (str(peer), identity.address and f"at {identity.address}", identity.name)))

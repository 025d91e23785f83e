"""Calls and answers: a job whose worker answers its producer (P-80 to P-87)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any

import pytest

from tolliver_proto import (
    Ack,
    Action,
    ConnectionClosing,
    Delivery,
    Limits,
    LocalProtocolError,
    Message,
    NoticeKind,
    OutboxFull,
    OwnLimitExceeded,
    Policy,
    StoreError,
    Subscribe,
)
from tolliver_proto._common.owner_ids import ANSWERED, queue_id
from tolliver_proto._common.reserved import call_in, call_key, users_key
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import JobFailed, Undelivered
from tolliver_proto.node import Answered, Asked, ForLater, JobAnswers, JobCalls

from .play import LOW, ME, Wire, deliveries, every, notices, only
from .play import Play as PatternsPlay

ANSWER, FAILED = 0, 1
BACK = f"tolliver.answer/{ME}"
WORKS = (("jobs", "tolliver.prefetch=0"), ("jobs", "tolliver.concurrency=9"), ("jobs", ""))
DAY = 86_400.0


class Play(PatternsPlay):
    """A producer with a queue."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.queues.work_queue("jobs", now=self.now)
        self.run()

    @property
    def calls(self) -> JobCalls:
        return self.node.use(JobCalls)

    def ask(self, message_key: str | None = None, key: str = "", timeout: float = 60.0) -> tuple[Asked, list[Action]]:
        asked = self.calls.call("jobs", key, b"1 2", timeout, self.now, message_key=message_key)
        return asked, self.run()

    def asked(self, message_key: str | None = None, **terms: Any) -> Asked:
        return self.ask(message_key, **terms)[0]

    def kept(self) -> int:
        """Answers on disk."""
        return len(self.store.deliveries(ANSWERED))


def answer(asked: Asked, body: bytes = b"3", status: int = ANSWER, message_id: int | None = 7) -> Message:
    return Message(BACK, "", pack(">QB", asked.request_id, status) + body, message_id)


def ended(actions: Sequence[Action]) -> tuple[Any, list[bytes]]:
    """The error of the one call that ended, and the bodies of its answers."""
    one = only([*actions], Answered)
    return one.error, [reply.body for reply in one.replies]


def acks(actions: Wire) -> list[int]:
    return [one.message_id for one in actions.got() if isinstance(one, Ack)]


def test_the_key_of_a_call_has_its_id_and_the_users_key() -> None:
    key = call_key(0xAB, "a/b")
    assert (key, call_in(key), users_key(key)) == ("tolliver.call=00000000000000ab/a/b", 0xAB, "a/b")
    for other in ("", "k", "tolliver.call=", "tolliver.call=00000000000000ab", f"tolliver.call={'-1':>16}/"):
        assert (call_in(other), users_key(other)) == (None, other)


def test_the_first_job_follows_the_subscription_to_answers() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked(key="k")
    subscribe, job = wire.got()
    assert isinstance(subscribe, Subscribe)
    assert isinstance(job, Message)
    assert (subscribe.channel, subscribe.key, job.channel, job.body) == (BACK, "", "jobs", b"1 2")
    assert (call_in(job.key), users_key(job.key)) == (asked.request_id, "k")
    other = play.asked()
    assert len(wire.got()) == 1
    assert other.request_id != asked.request_id
    assert ended(wire.send(answer(asked))) == (None, [b"3"])
    assert acks(wire) == [7]
    assert ended(wire.send(answer(other, message_id=None))) == (None, [b"3"])
    assert every(wire.send(answer(asked, message_id=8)), Answered) == []
    assert acks(wire) == [8]
    wire.send(Message(BACK, "", b"short", 9))
    assert acks(wire) == [9]
    assert play.node.stats().late_replies == 2
    assert not play.kept()


def test_a_caller_that_handles_every_message_gets_all_but_the_answers() -> None:
    play = Play()
    play.node.register("", "", "everything")
    play.call("subscribe", "", "")
    wire = play.peer(LOW, *WORKS)
    asked = play.asked()
    actions = wire.send(answer(asked), Message("news", "", b"message", 8))
    assert ended(actions) == (None, [b"3"])
    assert [delivery.body for delivery in deliveries(actions)] == [b"message"]


def test_messages_for_a_time_come_to_a_caller_that_sends_them_for_the_first_time() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS, ("news", ""))
    wire.send(answer(play.asked()))
    play.node.use(ForLater).send_later([("news", "", b"later")], play.now, after=1.0)
    play.run()
    wire.got()
    play.wait(1.0)
    assert wire.bodies() == [b"later"]


def test_without_the_subscription_a_call_fails_and_a_later_one_tries_again() -> None:
    play = Play()
    play.hold_commits = True
    play.asked(), play.asked("k")
    assert [type(one.error) for one in every(play.fail(), Answered)] == [StoreError, StoreError]
    play.hold_commits = False
    asked = play.asked("k")
    assert ended(play.peer(LOW, *WORKS).send(answer(asked))) == (None, [b"3"])


def test_a_job_that_cannot_be_put_ends_its_call() -> None:
    play = Play(limits=Limits(outbox_messages=1))
    play.asked()
    error, _ = ended(play.ask()[1])
    assert isinstance(error, OutboxFull)
    play = Play()
    play.asked()
    play.hold_commits = True
    gone = play.asked(timeout=1)
    play.ask("k")
    assert isinstance(ended(play.wait(2))[0], TimeoutError)
    assert every(play.fail(), Answered) == []
    assert isinstance(ended(play.fail())[0], StoreError)
    assert gone not in [one.asked for one in every(play.run(), Answered)]


def test_what_is_refused_before_anything_changes() -> None:
    play = Play()
    for terms, error in (
        ({"message_key": ""}, ValueError),
        ({"timeout": 0.0}, ValueError),
        ({"message_key": 1}, TypeError),
        ({"key": "k" * 70_000}, OwnLimitExceeded),
    ):
        with pytest.raises(error):
            play.ask(**terms)
    play.asked("k")
    with pytest.raises(LocalProtocolError, match="message_key='k' waits already"):
        play.ask("k")
    play.node.close(now=play.now)
    play.run()
    with pytest.raises(ConnectionClosing):
        play.ask()


def test_the_time_of_a_call_is_over_but_not_its_job() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    for key, then in ((None, "Give a message_key"), ("k", "Call again with message_key='k'")):
        asked = play.asked(key, key="cat", timeout=5)
        [job] = wire.messages()
        error, _ = ended(play.wait(5))
        assert str(error).startswith(
            f"the job 'cat' of 'jobs' has no answer in time: it goes on, or waits for a worker. {then}"
        )
        assert every(wire.send(answer(asked)), Answered) == []
        wire.ack(job)
    assert play.kept() == 1
    with pytest.raises(LocalProtocolError, match="keeps answers"):
        play.node.forget_peer(ANSWERED, play.now)
    assert ended(play.ask("k")[1]) == (None, [b"3"])
    stats = play.node.stats()
    assert (stats.requests, stats.requests_timed_out, stats.requests_answered) == (3, 2, 1)


def test_a_call_that_is_cancelled_leaves_its_job() -> None:
    play = Play()
    asked = play.asked("k")
    for _ in range(2):
        play.calls.cancel_request(asked, play.now)
    assert play.node.stats().requests_cancelled == 1
    assert len(play.queues.pending_jobs("jobs").jobs) == 0
    again = play.asked("k")
    assert ended(play.peer(LOW, *WORKS).send(answer(again))) == (None, [b"3"])


def test_closing_ends_calls() -> None:
    play = Play()
    play.asked()
    play.node.close(now=play.now)
    assert isinstance(ended(play.run())[0], ConnectionClosing)


def test_a_job_that_is_given_up_ends_its_call() -> None:
    play = Play()
    play.asked()
    play.asked("k")
    play.queues.cancel_jobs("jobs", now=play.now)
    ends = every(play.run() + play.wait(0.1), Answered)
    assert [str(one.error.reason) for one in ends if isinstance(one.error, Undelivered)] == ["cancelled"] * 2
    play.wait(1)
    for one in (play, play.restart()):
        error, _ = ended(one.ask("k")[1])
        assert isinstance(error, Undelivered), "the first with the key was given up"
    waits = play.asked()
    plain = play.queues.put_many("jobs", [("", b"plain")], play.now)
    play.queues.cancel_jobs("jobs", [plain.first_seq], now=play.now)
    assert every(play.run(), Answered) == []
    wire = play.peer(LOW, *WORKS)
    wire.send(Message("other", "", b"3", 6))
    assert ended(wire.send(answer(waits))) == (None, [b"3"])
    plain = play.queues.put_many("jobs", [("", b"plain")], play.now)
    play.queues.cancel_jobs("jobs", [plain.first_seq], now=play.now)
    play.node.forget_peer(LOW, play.now)
    play.run()


def test_a_worker_that_gives_the_job_up_tells_why() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked("k")
    error, _ = ended(wire.send(answer(asked, b"\x1b no \xff", FAILED)))
    assert isinstance(error, JobFailed)
    assert (error.peer, str(error)) == (LOW, "\\x1b no \ufffd")
    assert isinstance(ended(play.restart().ask("k")[1])[0], JobFailed), "it is kept like any answer"


def test_the_answer_to_a_key_is_told_and_acknowledged_once_it_is_on_disk() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked("k")
    wire.got()
    play.hold_commits = True
    assert every(wire.send(answer(asked)), Answered) == []
    wire.send(answer(asked, b"copy", message_id=8))
    assert acks(wire) == []
    assert every(play.fail(), Answered) == [], "its worker sends it again"
    wire.send(answer(asked))
    assert ended(play.finish()) == (None, [b"3"])
    assert acks(wire) == [7]
    play.hold_commits = False
    wire.send(answer(asked, b"other", message_id=8))
    assert acks(wire) == [8]
    assert ended(play.ask("k")[1]) == (None, [b"3"]), "the first one stands"
    audit(play.node, play.store)


def test_a_producer_that_was_killed_asks_again_with_the_key() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    play.asked("k")
    [job] = wire.messages()
    again = play.restart()
    wire = again.accepted(LOW)
    wire.request(*WORKS)
    asked, actions = again.ask("k")
    assert every(actions, Answered) == []
    assert wire.messages() == [job], "the job of before, and no second one"
    assert ended(wire.send(answer(asked))) == (None, [b"3"])
    wire.ack(job)
    third = again.restart()
    wire = third.peer(LOW, *WORKS)
    assert ended(third.ask("k")[1]) == (None, [b"3"])
    assert wire.messages() == []


def test_an_answer_that_comes_before_anybody_asks_again_is_kept() -> None:
    play = Play()
    asked = play.asked("k")
    again = play.restart()
    wire = again.peer(LOW, *WORKS)
    wire.send(answer(asked))
    assert acks(wire) == [7]
    assert again.kept() == 1
    assert ended(again.ask("k")[1]) == (None, [b"3"])


@pytest.mark.parametrize("is_running", [True, False])
def test_a_call_that_begins_while_its_answer_is_on_the_way_to_the_disk(is_running: bool) -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked("k")
    play.calls.cancel_request(asked, play.now)
    play.hold_commits = True
    if not is_running:
        play.queues.put_many("jobs", [("", b"other")], play.now)
        play.run()
    wire.send(answer(asked))
    assert every(play.ask("k")[1], Answered) == []
    actions = play.finish()
    while play.held:
        actions += play.finish()
    assert ended(actions) == (None, [b"3"])


def test_an_answer_is_left_to_its_worker_until_the_kept_ones_are_known() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked("k")
    wire.send(answer(asked))
    again = PatternsPlay(store=play.store.snapshot())
    again.hold_looks = True
    wire = again.peer(LOW, *WORKS)
    again.wait(0)
    wire.send(answer(asked, message_id=8))
    assert acks(wire) == []
    again.hold_looks = False
    again.seen()
    wire.send(answer(asked, message_id=8))
    assert acks(wire) == [8]


def test_an_answer_is_forgotten_after_its_time() -> None:
    play = Play(policy=Policy(result_ttl=DAY))
    for count, key in enumerate(("old", "k"), 1):
        wire = play.peer(LOW, *WORKS)
        asked = play.asked(key)
        wire.ack(*wire.messages())
        wire.send(answer(asked))
        assert play.kept() == count
        play.wait(DAY / 2)
    play.wait(DAY / 24)
    assert play.kept() == 1
    again = play.restart(policy=Policy(result_ttl=0.5))
    again.wait(2)
    assert again.kept() == 0
    assert again.node.next_timeout() is None or "answers" not in str(again.node.timeout_reason)


def test_kept_answers_are_bounded() -> None:
    play = Play(limits=Limits(max_answer_bytes=150))
    wire = play.peer(LOW, *WORKS)
    asked, other = play.asked("1"), play.asked("2")
    wire.ack(*wire.messages())
    assert ended(wire.send(answer(asked))) == (None, [b"3"])
    assert NoticeKind.SKIPPED in notices(wire.send(answer(other, message_id=8)) + play.wait(1))
    assert acks(wire) == [7]
    play = Play(limits=Limits(max_message_keys=1))
    wire = play.peer(LOW, *WORKS)
    wire.send(answer(play.asked("1")))
    error, _ = ended(play.ask("2")[1])
    assert isinstance(error, OwnLimitExceeded)


def test_on_a_full_disk_an_answer_is_left_to_its_worker() -> None:
    """It is not among what waits for room: its worker has it on a disk of its own (D-13)."""
    play = Play()
    wire = play.peer(LOW, *WORKS)
    asked = play.asked("k")
    wire.got()
    play.store.full = True
    play.queues.put_many("jobs", [("", b"more")], play.now)
    play.run()
    play.hold_commits = True
    play.call("subscribe", "x", "")
    wire.send(answer(asked))
    assert not play.calls.kept
    play.store.full = False
    play.hold_commits = False
    play.finish()
    play.wait(2.0)
    assert acks(wire) == []
    assert ended(wire.send(answer(asked))) == (None, [b"3"])


def test_a_kept_answer_that_is_damaged_is_told() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    wire.send(answer(play.asked("k")))
    [seq] = play.store.deliveries(ANSWERED)
    play.store.corrupt(seq)
    again = play.restart()
    error, _ = ended(again.ask("k")[1])
    assert isinstance(error, StoreError)
    assert "damaged" in str(error)


def test_a_call_that_ends_before_its_key_is_known_puts_nothing() -> None:
    play = Play()
    play.asked("other")
    again = play.restart()
    again.hold_looks = True
    again.calls.cancel_request(again.asked("k"), again.now)
    for _ in range(5):
        if again.looks:
            again.seen()
    assert len(again.store.deliveries(queue_id("jobs"))) == 1, "that of the other key"


def test_a_call_that_ends_while_its_answer_is_read() -> None:
    play = Play()
    wire = play.peer(LOW, *WORKS)
    wire.send(answer(play.asked("k")))
    again = play.restart()
    again.hold_looks = True
    asked = again.asked("k")
    again.calls.cancel_request(asked, again.now)
    for _ in range(3):
        if again.looks:
            again.seen()
    assert every(again.run(), Answered) == []
    failing = play.restart()
    failing.look_error = StoreError("broken")
    assert isinstance(ended(failing.ask("k")[1])[0], StoreError)


# The worker.


class Worker(PatternsPlay):
    """A worker, and one connection to its producer."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("uuid", LOW)
        super().__init__(**options)
        self.works.work("jobs", "handler", concurrency=9, now=self.now)
        self.run()

    def producer(self, *subscriptions: tuple[str, str]) -> Wire:
        return self.peer(ME, *(subscriptions or ((BACK, ""),)))

    def answer(self, delivery: Delivery, body: bytes = b"3") -> list[Action]:
        self.node.use(JobAnswers).answer([delivery], body, self.now)
        return self.run()


def job(call_id: int | None = 6, message_id: int = 70, key: str = "k") -> Message:
    return Message("jobs", key if call_id is None else call_key(call_id, key), b"1 2", message_id)


def heard(wire: Wire) -> list[Any]:
    """Answers and acks, in order: (id, status, body), or the id of the message."""
    return [
        (int.from_bytes(one.body[:8], "big"), one.body[8], one.body[9:]) if isinstance(one, Message) else one.message_id
        for one in wire.got()
        if isinstance(one, Message | Ack)
    ]


def test_a_job_is_acknowledged_once_its_answer_is_stored() -> None:
    play = Worker()
    wire = play.producer()
    [delivery] = deliveries(wire.send(job()))
    assert (delivery.key, delivery.body) == ("k", b"1 2")
    play.hold_commits = True
    play.answer(delivery)
    assert heard(wire) == []
    play.finish()
    assert sorted(heard(wire), key=str) == [(6, ANSWER, b"3"), 70]


def test_an_ack_of_a_call_is_an_answer_without_bytes() -> None:
    play = Worker()
    wire = play.producer()
    for number, call_id in ((70, 6), (71, None)):
        [delivery] = deliveries(wire.send(job(call_id, number)))
        play.call("acknowledge", [delivery])
    assert sorted(heard(wire), key=str) == [(6, ANSWER, b""), 70, 71]


def test_an_answer_to_a_job_that_nobody_called_is_an_ack() -> None:
    play = Worker()
    wire = play.producer()
    [delivery] = deliveries(wire.send(job(None)))
    play.answer(delivery)
    assert heard(wire) == [70]


def test_a_dead_letter_answers_with_its_cause_in_one_commit() -> None:
    play = Worker()
    wire = play.producer()
    play.hold_commits = True
    [plain, call] = deliveries(wire.send(job(None), job(6, 71)))
    play.call("give_up", [plain, call], "no number")
    [commit] = play.held
    assert [type(one).__name__ for one in commit.operations].count("AddDeadLetter") == 2
    assert any(type(one).__name__ == "StoreMessages" for one in commit.operations)
    assert heard(wire) == []
    play.finish()
    assert sorted(heard(wire), key=str) == [(6, FAILED, b"no number"), 70, 71]


def test_an_answer_that_has_no_room_leaves_the_job_to_its_producer() -> None:
    play = Worker(limits=Limits(outbox_messages=1))
    wire = play.producer(("news", ""), (BACK, ""))
    play.send("news", "", b"first")
    wire.got()
    first, second, third = deliveries(wire.send(job(6, 70), job(8, 71), job(None, 72)))
    play.answer(first)
    play.call("give_up", [second], "no")
    play.answer(third)
    assert heard(wire) == [71, 72] or heard(wire) == []
    assert play.node.stats().replies_dropped == 1
    without = Worker()
    wire = without.producer(("news", ""))
    [delivery] = deliveries(wire.send(job()))
    without.answer(delivery)
    assert heard(wire) == []


def test_an_answer_that_is_too_large_gives_the_job_up() -> None:
    play = Worker(limits=Limits(max_body=1200))
    wire = play.producer()
    [delivery] = deliveries(wire.send(job()))
    play.answer(delivery, b"x" * 2000)
    [(call_id, status, why), acked] = sorted(heard(wire), key=str)
    assert (call_id, status, acked) == (6, FAILED, 70)
    assert why


def test_an_answer_whose_commit_fails_leaves_the_job() -> None:
    play = Worker()
    wire = play.producer()
    [delivery] = deliveries(wire.send(job()))
    play.hold_commits = True
    play.answer(delivery)
    play.fail()
    assert heard(wire) == []
    play.hold_commits = False
    [again] = deliveries(wire.send(job()))
    play.answer(again, b"4")
    assert sorted(heard(wire), key=str) == [(6, ANSWER, b"4"), 70]


# Both, and a crash at every step.


class Duo:
    """A producer, its worker, and what is between them. `turn` does all that may happen next, each once: a commit, a
    flight of frames, an answer; before each of these steps one of the two may be killed."""

    def __init__(self, crash: int, victim: str) -> None:
        self.boss, self.worker = Play(), Worker()
        self.boss.hold_commits = self.worker.hold_commits = False
        self.crash, self.victim = crash, victim
        self.steps = 0
        self.done = 0
        self.answers: list[bytes] = []
        self.begun: list[Delivery] = []
        self.connect()

    def connect(self) -> None:
        answers = [(one.channel, one.key) for one in self.boss.node.subscriptions()]
        self.to_worker, self.to_boss = self.boss.accepted(LOW), self.worker.accepted(ME)
        self.note(self.to_worker.request(*WORKS))
        self.note(self.to_boss.request(*answers))
        self.boss.hold_commits = self.worker.hold_commits = True

    def call(self) -> None:
        self.note(self.boss.ask("k")[1])

    def note(self, actions: list[Action]) -> None:
        for one in every(actions, Answered):
            assert one.error is None
            self.answers += [reply.body for reply in one.replies]
        self.begun += deliveries(actions)

    def may(self) -> bool:
        """Kills the victim at its step; False then, as all is new."""
        self.steps += 1
        if self.steps - 1 != self.crash:
            return True
        if self.victim == "boss":
            self.boss = self.boss.restart()
            self.to_boss.lose()
        else:
            self.worker = self.worker.restart(uuid=LOW)
            self.begun.clear()
            self.to_worker.lose()
        for one in (self.boss, self.worker):
            one.hold_commits = False
            while one.held:
                self.note(one.finish())
        self.connect()
        if self.victim == "boss":
            self.call()
        return False

    def turn(self) -> bool:
        """False if nothing is left to do."""
        before = self.steps
        for one in (self.boss, self.worker):
            if one.held and self.may():
                self.note(one.finish())
        for source, target in ((self.to_worker, self.to_boss), (self.to_boss, self.to_worker)):
            frames = [one for one in source.got() if isinstance(one, Message | Ack | Subscribe)]
            if frames and self.may():
                self.note(target.send(*frames))
        if self.begun and self.may():
            delivery = self.begun.pop()
            self.done += 1
            self.note(self.worker.answer(delivery, b"%d" % self.done))
        return self.steps > before


@pytest.mark.parametrize("victim", ["boss", "worker"])
def test_a_crash_at_every_step_of_an_answer_leaves_one_answer(victim: str) -> None:
    for crash in range(100):
        duo = Duo(crash, victim)
        duo.call()
        turns = 0
        for _ in range(100):
            if duo.turn():
                continue
            turns += 1
            duo.note(duo.boss.wait(1.0))
            duo.note(duo.worker.wait(1.0))
            if turns > 20:
                break
        assert len(set(duo.answers)) == 1, (crash, duo.answers)
        assert duo.boss.kept() == 1
        assert 1 <= duo.done <= 2
        duo.boss.hold_commits = False
        assert ended(duo.boss.ask("k")[1]) == (None, duo.answers[:1])
        if duo.steps <= crash:
            assert crash > 8, "each step had its crash"
            return
    raise AssertionError("it never ends")

"""Calls in the simulator: each key has one answer, whatever happens to producer and workers (P-80 to P-83)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tolliver_proto import Delivery, LocalProtocolError, TolliverError
from tolliver_proto.errors import JobFailed
from tolliver_proto.node import Answered
from tolliver_proto.testing import App, ProgramNet, rehearse

CALLS = 12
LEASE = 3.0
Done = Callable[[], bool]


class Boss:
    """Calls each job by a key, and asks again, at each start too, until its disk has each answer twice."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()

    def __call__(self, app: App) -> None:
        queue = app.work_queue("jobs", lease=LEASE)
        answers: dict[int, list[bytes]] = app.disk.setdefault("answers", {})

        def ask() -> None:
            for number in range(CALLS):
                if len(answers.get(number, ())) < 2:
                    try:
                        asked = queue.call(b"%d" % number, timeout=20.0, message_key=f"job-{number}")
                    except LocalProtocolError:
                        continue  # it waits already
                    app.when_answered(asked, partial(end, number))
            app.when_answered(queue.call(b"0", timeout=1.0), lambda answered: self.count(answered))

        def end(number: int, answered: Answered) -> None:
            self.count(answered)
            if isinstance(answered.error, JobFailed):
                answers.setdefault(number, []).append(str(answered.error).encode())
            elif answered.error is None:
                answers.setdefault(number, []).append(answered.replies[0].body)

        app.every(2.0, ask)

    def count(self, answered: Answered) -> None:
        assert isinstance(answered.error, TolliverError | TimeoutError | None)
        self.ends[type(answered.error).__name__] += 1


def worker(done: Counter[int], seconds: float) -> Callable[[App], None]:
    """Its answers tell each time that a job is done from the others."""

    def program(app: App) -> None:
        def end(job: Delivery) -> None:
            number = int(job.body)
            done[number] += 1
            said = f"{number} was done as number {done[number]}"
            if number % 4 == 3:
                job.give_up(said)
            else:
                job.answer(said.encode())

        def begin(job: Delivery) -> None:
            app.later(seconds, end, job)

        app.work("jobs", begin, settles=True, concurrency=2, lease=LEASE)

    return program


@pytest.mark.search
def test_each_key_has_one_answer_though_all_crash() -> None:
    bosses: list[Boss] = []

    def story(net: ProgramNet) -> Done:
        boss, done = Boss(), Counter[int]()
        bosses.append(boss)
        net.instance("boss", boss)
        for name, seconds in (("fast", 0.1), ("slow", 4.0)):
            net.instance(name, worker(done, seconds), remotes=["boss"])

        def is_over() -> bool:
            noted = net.disk("boss").get("answers", {})
            assert all(len({*one}) == 1 for one in noted.values()), noted
            return len(noted) == CALLS and all(len(one) > 1 for one in noted.values())

        return is_over

    reports = rehearse(story, range(15))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0
    ends = sum((boss.ends for boss in bosses), Counter())
    assert min(ends[one] for one in ("NoneType", "JobFailed", "TimeoutError")) > 0, ends

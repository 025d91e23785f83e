"""Work queues in the simulator: no job is lost, and each has one owner, whatever happens to producer and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tolliver_proto import Delivery, TolliverError
from tolliver_proto.testing import App, ProgramNet, rehearse

JOBS = 30
Done = Callable[[], bool]


def producer(app: App, jobs: int = JOBS, lease: float = 3.0) -> None:
    """Puts jobs one by one: those that were stored are remembered on its disk."""
    queue = app.work_queue("jobs", lease=lease)

    def put() -> None:
        number = app.disk.get("next", 0)
        if number < jobs:
            receipt = queue.put(b"%d" % number)
            app.when_stored(receipt, lambda error: stored(number, error))

    def stored(number: int, error: TolliverError | None) -> None:
        if error is None:
            app.disk["next"] = number + 1

    app.every(0.5, put)


def story(net: ProgramNet) -> Done:
    done: Counter[bytes] = Counter()

    def worker(app: App) -> None:
        def end(job: Delivery) -> None:
            done[job.body] += 1
            job.ack()

        seconds = {"fast": 0.1, "slow": 5.0, "odd": 1.0}[app.name]
        app.work("jobs", lambda job: app.later(seconds, end, job), settles=True, concurrency=2, lease=3.0)

    net.instance("boss", producer)
    for name in ("fast", "slow", "odd"):
        net.instance(name, worker, remotes=["boss"])
    return lambda: net.disk("boss").get("next") == JOBS and len(done) == JOBS


def test_no_job_is_lost_and_each_has_one_owner() -> None:
    reports = rehearse(story, range(30))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


@pytest.mark.parametrize("seed", range(3))
def test_without_faults_each_job_is_done_once(seed: int) -> None:
    ProgramNet(seed, story, operations=0, never=("dial_fails", "store_fails", "slow", "half_open")).run()

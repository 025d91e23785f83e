"""Work queues in the simulator: no job is lost, and each has one owner, whatever happens to producer and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tolliver_proto import (
    Delivery,
    Job,
    Limits,
    LocalProtocolError,
    OutboxFull,
    Policy,
    Receipt,
    Subscription,
    TolliverError,
    Undelivered,
    UndeliveredReason,
    is_queue,
    queue_id,
)
from tolliver_proto._node.queues import limit_of
from tolliver_proto.testing import App, ProgramNet, rehearse

JOBS = 30
LEASE = 3.0
Done = Callable[[], bool]
CALM = ("dial_fails", "store_fails", "slow", "half_open")


def producer(app: App) -> None:
    """Puts jobs one by one, and some together. Those that were stored are remembered on its disk."""
    queue = app.work_queue("jobs", lease=LEASE)

    def put() -> None:
        number = app.disk.get("next", 0)
        if number < JOBS:
            count = 5 if number % 10 == 0 else 1
            receipt = queue.put_many([("", b"%d" % one) for one in range(number, number + count)])
            app.when_stored(receipt, lambda error: stored(number + count, error))

    def stored(number: int, error: TolliverError | None) -> None:
        if error is None:
            app.disk["next"] = max(number, app.disk.get("next", 0))

    app.every(0.5, put)


def worker(done: Counter[bytes], seconds: float, concurrency: int = 2) -> Callable[[App], None]:
    def program(app: App) -> None:
        def end(job: Delivery) -> None:
            done[job.body] += 1
            job.ack()

        def begin(job: Delivery) -> None:
            app.later(seconds, end, job)

        app.work("jobs", begin, settles=True, concurrency=concurrency, lease=LEASE)

    return program


def is_over(net: ProgramNet, done: Iterable[bytes], count: int = JOBS) -> bool:
    """All were put and done, and the producer has nothing left."""
    node = net._actor("boss").node
    stored = int(net.disk("boss").get("next", 0)) >= count
    return stored and len({*done}) >= count and node is not None and not node.stats().pending


def story(net: ProgramNet) -> Done:
    done: Counter[bytes] = Counter()
    net.instance("boss", producer)
    for name, seconds in (("fast", 0.1), ("slow", 5.0), ("odd", 1.0)):
        net.instance(name, worker(done, seconds), remotes=["boss"])
    return lambda: is_over(net, done)


def test_no_job_is_lost_and_each_has_one_owner() -> None:
    reports = rehearse(story, range(25))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def changing(net: ProgramNet) -> Done:
    """Workers come and go by themselves, and jobs are listed and taken from them meanwhile."""
    done: Counter[bytes] = Counter()
    seen: list[Job] = []

    def boss(app: App) -> None:
        producer(app)
        queue = app.work_queue("jobs", lease=LEASE)

        def look() -> None:
            token = queue.pending(10)
            app.when_stored(token, lambda _error: seen.extend(token.jobs))
            queue.reassign("slow")
            queue.reassign("boss")

        app.every(4.0, look)
        app.every(7.0, lambda: app.node.forget_peer(app.uuid_of("moody"), now=app.clock))

    def moody(app: App) -> None:
        work = worker(done, 2.0, 3)

        def stop() -> None:
            app.stop_work("jobs")
            app.later(1.5, start)

        def start() -> None:
            work(app)
            app.later(3.0, stop)

        start()

    net.instance("boss", boss)
    net.instance("slow", worker(done, 5.0), remotes=["boss"])
    net.instance("moody", moody, remotes=["boss"], policy=Policy(unsubscribed_hold=0))
    net.instance(
        "watcher", lambda app: app.subscribe("", handler=lambda job: done.update([job.body])), remotes=["boss"]
    )
    net.instance("fast", worker(done, 0.1), remotes=["boss"])
    return lambda: is_over(net, done) and bool(seen)


def test_workers_that_come_and_go_lose_nothing() -> None:
    rehearse(changing, range(25))


# Without faults.


def play(seconds: float, **programs: Callable[[App], object]) -> ProgramNet:
    """Programs without faults: all others dial the boss."""

    def tell(net: ProgramNet) -> Done:
        for name, program in programs.items():
            net.instance(name, program, remotes=[] if name == "boss" else ["boss"])
        return lambda: True

    net = ProgramNet(1, tell, operations=0, seconds=seconds, never=CALM)
    net.run()
    return net


def node_of(net: ProgramNet, name: str) -> Any:
    return net._actor(name).node


def test_the_limit_is_twice_what_a_worker_says() -> None:
    def limit(*keys: str) -> int:
        return limit_of("jobs", [Subscription("jobs", key) for key in keys], 256)

    assert [limit(""), limit("", "tolliver.concurrency=8"), limit("tolliver.concurrency=0")] == [2, 16, 0]
    assert [limit("tolliver.concurrency=4", "tolliver.concurrency=2"), limit("tolliver.concurrency=999999")] == [8, 256]
    assert [limit(f"tolliver.concurrency={said}") for said in ("", "-1", "x", "1000000", "²")] == [2] * 5
    assert limit_of("other", [Subscription("jobs", "tolliver.concurrency=8")], 256) == 2


def test_a_queue_has_an_identity_that_no_peer_may_have() -> None:
    assert is_queue(queue_id("jobs"))
    assert queue_id("jobs") != queue_id("job")
    assert queue_id("jobs").version == 8


def test_whoever_is_slow_gets_less() -> None:
    done: dict[str, Counter[bytes]] = {"fast": Counter(), "slow": Counter()}

    def boss(app: App) -> None:
        app.later(1.0, app.work_queue("jobs").put_many, [("", b"%d" % one) for one in range(40)])

    net = play(30.0, boss=boss, fast=worker(done["fast"], 0.2), slow=worker(done["slow"], 4.0))
    assert sum(done["fast"].values()) + sum(done["slow"].values()) == 40
    assert 0 < sum(done["slow"].values()) < 10 < sum(done["fast"].values())
    assert node_of(net, "boss").stats().peers == 2
    assert {peer.pending for peer in node_of(net, "boss").peers()} == {0}


def test_jobs_wait_for_a_worker_and_at_the_quota_a_put_raises() -> None:
    said: list[TolliverError] = []

    def boss(app: App) -> None:
        queue = app.work_queue("jobs")
        assert queue.put_many([]).counts == []
        queue.put_many([("", b"x")] * 3)
        with pytest.raises(OutboxFull, match=r"3 jobs .* wait for workers, and 2 more") as caught:
            queue.put_many([("", b"x")] * 2)
        said.append(caught.value)

    def tell(net: ProgramNet) -> Done:
        net.instance("boss", boss, limits=Limits(outbox_messages=4))
        return lambda: True

    net = ProgramNet(1, tell, operations=0, seconds=2.0, never=CALM)
    net.run()
    assert said
    assert node_of(net, "boss").stats().pending == 3


def test_what_is_cancelled_is_undelivered() -> None:
    told: list[TolliverError | None] = []
    receipts: list[Receipt] = []

    def boss(app: App) -> None:
        queue = app.work_queue("jobs")

        def put() -> None:
            receipt = queue.put_many([("", b"%d" % one) for one in range(5)])
            receipts.append(receipt)
            app.when_acked(receipt, told.append)
            app.later(2.0, lambda: receipts.append(queue.cancel([receipt.first_seq, receipt.last_seq])))
            app.later(4.0, lambda: receipts.append(queue.cancel()))

        app.later(1.0, put)

    net = play(8.0, boss=boss, worker=worker(Counter(), 1000.0, 1))
    [error] = told
    assert isinstance(error, Undelivered)
    assert error.reason is UndeliveredReason.CANCELLED
    assert [sum(one.counts) for one in receipts] == [5, 2, 3]
    assert node_of(net, "boss").stats().pending == 0


def test_a_channel_is_a_queue_or_not() -> None:
    def boss(app: App) -> None:
        queue = app.work_queue("jobs")
        app.work_queue("jobs", lease=5.0)
        for call in (app.send, app.unreliable_send):
            with pytest.raises(LocalProtocolError, match="is a work queue of this instance"):
                call("jobs", "", b"x")
        for call in (app.node.pending_jobs, app.node.cancel_jobs):
            with pytest.raises(LocalProtocolError, match="is no work queue here"):
                call("other")
        with pytest.raises(LocalProtocolError, match="in use: cancel its jobs"):
            app.node.forget_peer(queue_id("jobs"))
        with pytest.raises(ValueError, match="a channel and a lease"):
            app.work_queue("")
        queue.put(b"x")

    def again(app: App) -> None:
        """A restart: the queue is known before it is declared, and may be ended then."""

    net = play(1.0, boss=boss)
    actor = net._actor("boss")
    assert actor.store.owed(queue_id("jobs")) == {b"x"}

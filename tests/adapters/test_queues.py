"""Work queues over every adapter and pairs of them: a job is for one worker at a time, and none is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tolliver_proto import LocalProtocolError, NoticeKind
from tolliver_proto.errors import Undelivered, UndeliveredReason

from .facade import Facade, Queued, World, until
from .kinds import ONE_KIND, PAIRS
from .nodes import Nodes, address, noticed


@contextmanager
def queue_and_workers(nodes: Nodes, count: int = 1, **options: float) -> Iterator[tuple[Facade, list[Facade]]]:
    """A producer, and instances that are connected to it."""
    with nodes.open("boss") as boss:
        workers = [nodes.open(f"worker{number}") for number in range(count)]
        try:
            for worker in workers:
                worker.__enter__()
                worker.new_connection(address(boss))
            yield boss, workers
        finally:
            for worker in workers:
                worker.close()


def owners(queue: Queued) -> Counter[object]:
    return Counter(job.worker for job in queue.pending())


def test_each_job_is_for_one_worker(nodes: Nodes) -> None:
    with queue_and_workers(nodes, 2) as (boss, workers):
        queue = boss.work_queue("jobs")
        assert (queue.channel, repr(queue)) == ("jobs", "<WorkQueue of 'jobs'>")
        receipt = queue.put_many([b"0", ("key", b"1"), b"2", b"3"])
        assert (receipt.counts, receipt.recipients) == ([1, 1, 1, 1], 1)
        assert [(job.key, job.worker) for job in queue.pending()] == [("", None), ("key", None), ("", None), ("", None)]
        iterators = [worker.work("jobs") for worker in workers]
        done = []
        for _ in range(2):
            for job in [next(jobs) for jobs in iterators]:
                done.append(job.body)
                job.ack()
        boss.wait_acked(receipt)
        assert sorted(done) == [b"0", b"1", b"2", b"3"]
        assert queue.pending() == []
        for jobs in iterators:
            jobs.close()


def test_a_short_job_does_not_wait_behind_a_long_one(nodes: Nodes) -> None:
    with queue_and_workers(nodes, 2) as (boss, [slow, fast]):
        queue = boss.work_queue("jobs")
        receipt = queue.put(b"long")
        with slow.work("jobs") as one:
            long = next(one)
            with fast.work("jobs") as other:
                boss.wait_subscribed("jobs", peers=2)
                short = queue.put_many([b"%d" % number for number in range(5)])
                for number in range(5):
                    job = next(other)
                    assert job.body == b"%d" % number
                    job.ack()
                boss.wait_acked(short)
            long.ack()
            boss.wait_acked(receipt)


def test_as_many_are_handed_out_as_it_works_on(nodes: Nodes) -> None:
    with queue_and_workers(nodes) as (boss, [worker]), worker.work("jobs", concurrency=2, prefetch=2) as jobs:
        boss.wait_subscribed("jobs")
        queue = boss.work_queue("jobs")
        queue.put_many([b"%d" % number for number in range(8)])
        first, second = next(jobs), next(jobs)
        third = jobs.start_next()
        until(lambda: owners(queue)[worker.instance_id] == 4, "as many as it works on and wants in advance")
        assert not third.done
        second.ack()
        assert jobs.settled(third.wait()).body == b"2"
        first.fail()
        assert next(jobs).body == b"3"


def test_leaving_gives_back_what_is_not_done(nodes: Nodes) -> None:
    with queue_and_workers(nodes, 2) as (boss, [one, two]):
        queue = boss.work_queue("jobs")
        receipt = queue.put_many([b"0", b"1"])
        jobs = one.work("jobs", prefetch=1)
        assert next(jobs).body == b"0"
        until(lambda: owners(queue)[one.instance_id] == 2)
        jobs.close()
        until(lambda: owners(queue)[None] == 2, "the jobs are nobody's")
        with two.work("jobs") as others:
            for _ in range(2):
                next(others).ack()
            boss.wait_acked(receipt)


def test_a_worker_that_is_gone_keeps_its_jobs_for_the_lease(nodes: Nodes) -> None:
    with queue_and_workers(nodes, 2) as (boss, [one, two]):
        queue = boss.work_queue("jobs", lease=0.2)
        jobs = one.work("jobs", concurrency=2, lease=0.1)
        boss.wait_subscribed("jobs")
        receipt = queue.put_many([b"0", b"1"])
        begun = next(jobs)
        until(lambda: owners(queue)[one.instance_id] == 2)
        one.remove_connection(address(boss))
        with two.work("jobs", concurrency=2) as others:
            for _ in range(2):
                next(others).ack()
            boss.wait_acked(receipt)
        until(lambda: noticed(one, NoticeKind.LEASE_OVER))
        begun.ack()  # nobody hears it
        jobs.close()


def test_the_queue_goes_on_after_a_restart(nodes: Nodes) -> None:
    with nodes.open("boss") as boss:
        boss.work_queue("jobs").put_many([b"0", b"1"])
    with nodes.open("boss") as boss, nodes.open("worker") as worker:
        with pytest.raises(LocalProtocolError, match="work queue of this instance"):
            boss.send("jobs", "", b"x")
        queue = boss.work_queue("jobs")
        worker.new_connection(address(boss))
        with worker.work("jobs", concurrency=4) as jobs:
            receipt = queue.put(b"2")
            for number in range(3):
                job = next(jobs)
                assert job.body == b"%d" % number
                job.ack()
            boss.wait_acked(receipt)


def test_jobs_are_cancelled_and_taken_from_workers(nodes: Nodes) -> None:
    with queue_and_workers(nodes) as (boss, [worker]):
        queue = boss.work_queue("jobs")
        receipt, other = queue.put_many([b"0", b"1", b"2"]), queue.put(b"3")
        with worker.work("jobs", concurrency=1, prefetch=1) as jobs:
            next(jobs)
            until(lambda: owners(queue)[worker.instance_id] == 2)
            assert queue.reassign(worker.instance_id) == 2
            assert owners(queue) == {None: 4}
            assert queue.reassign(worker.instance_id) == 0
            assert queue.cancel(receipt) == 3
            with pytest.raises(Undelivered) as caught:
                boss.wait_acked(receipt)
            assert caught.value.reason is UndeliveredReason.CANCELLED
            assert [job.number for job in queue.pending(1)] == [other.first_seq]
            assert queue.cancel(queue.pending()) == 1
            assert queue.cancel([other.first_seq]) == 0


@pytest.mark.parametrize(("kind", "working"), PAIRS)
def test_over_pairs_of_adapters(
    tmp_path: Path, certs: Certificates, worlds: Callable[[str], World], kind: str, working: str
) -> None:
    bosses, workers = (Nodes(tmp_path, certs, worlds(one)) for one in (kind, working))
    with bosses.open("boss") as boss, workers.open("worker") as worker:
        worker.new_connection(address(boss))
        queue = boss.work_queue("jobs")
        with worker.work("jobs", concurrency=4) as jobs:
            receipt = queue.put_many([b"%d" % number for number in range(50)])
            done = []
            for _ in range(50):
                job = next(jobs)
                done.append(int(job.body))
                job.ack()
            boss.wait_acked(receipt)
        assert sorted(done) == [*range(50)]


@ONE_KIND
def test_what_cannot_be_is_said_at_once(nodes: Nodes) -> None:
    with queue_and_workers(nodes) as (boss, [worker]):
        queue = boss.work_queue("jobs")
        for channel, lease in (("", 10.0), ("jobs", 0.0)):
            with pytest.raises(ValueError, match=r"^channel=''|^lease=0\.0"):
                boss.work_queue(channel, lease=lease)
        with pytest.raises(LocalProtocolError, match="must be bytes"):
            queue.start("put", "text").wait()
        with worker.work("jobs"), pytest.raises(LocalProtocolError, match="share that iterator"):
            worker.work("jobs")
        with pytest.raises(ValueError, match="concurrency=0"):
            worker.work("jobs", concurrency=0)

"""Answers of jobs over every adapter: a call is a job whose worker answers, over restarts of both (P-80)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tolliver.codecs import Json

from tolliver_proto import LocalProtocolError
from tolliver_proto.errors import BodyNotDecoded, BodyNotEncoded, JobFailed, Undelivered
from tolliver_proto.node import Retry

from .facade import Facade, until
from .kinds import EACH_ADAPTER
from .nodes import AGAIN, Nodes, address

NUMBERS: Json[list[int]] = Json()
TOTALS: Json[dict[str, int]] = Json()


@contextmanager
def connected(nodes: Nodes) -> Iterator[tuple[Facade, Facade]]:
    with nodes.open("boss") as boss, nodes.open("worker") as worker:
        worker.new_connection(address(boss))
        yield boss, worker


def test_a_call_has_the_answer_of_the_worker_that_did_the_job(nodes: Nodes) -> None:
    with connected(nodes) as (boss, worker):
        queue = boss.work_queue("sums")
        with worker.work("sums") as jobs:
            asked = queue.start("call", b"1 2 3", "k", timeout=30)
            job = next(jobs)
            assert (job.key, job.body, [one.key for one in queue.pending()]) == ("k", b"1 2 3", ["k"])
            job.answer(b"6")
            assert asked.wait() == b"6"
            asked = queue.start("call", b"")
            next(jobs).ack()
            assert asked.wait() == b""
            receipt = queue.put(b"1")  # nobody asks: an answer is an ack
            next(jobs).answer(b"1")
            boss.wait_acked(receipt)
        assert queue.pending() == []


def test_values_of_the_codecs_reach_worker_and_caller(nodes: Nodes) -> None:
    with connected(nodes) as (boss, worker):
        queue = boss.work_queue("sums", codec=NUMBERS, reply_codec=TOTALS)
        with worker.work("sums", codec=NUMBERS, reply_codec=TOTALS) as jobs:
            asked = queue.start("call", [1, 2], "k")
            job = next(jobs)
            assert job.value == [1, 2]
            with pytest.raises(BodyNotEncoded, match="'sums' 'k'"):
                job.answer(object())
            job.answer({"total": 3})
            assert asked.wait() == {"total": 3}
            asked = queue.start("call", [1])
            next(jobs).ack()
            with pytest.raises(JobFailed, match="the answer does not decode") as caught:
                asked.wait()
            assert isinstance(caught.value.__cause__, BodyNotDecoded)


def test_a_job_that_is_given_up_or_fails_too_often_fails_its_call(nodes: Nodes) -> None:
    with connected(nodes) as (boss, worker):
        queue = boss.work_queue("sums")
        with worker.work("sums", retry=Retry(attempts=2, first=0.01)) as jobs:
            asked = queue.start("call", b"one")
            next(jobs).give_up("no \x1b number")
            with pytest.raises(JobFailed, match=r"^no \\x1b number$") as caught:
                asked.wait()
            assert caught.value.peer == worker.instance_id
            asked = queue.start("call", b"two")
            for _ in range(2):
                next(jobs).fail()
            with pytest.raises(JobFailed, match=r"^failed 2 times$"):
                asked.wait()
        assert [letter.body for letter in worker.dead_letters()] == [b"one", b"two"]


def test_a_call_with_a_key_is_done_once_and_asked_again_after_restarts(nodes: Nodes) -> None:
    with nodes.open("boss") as boss:
        queue = boss.work_queue("sums")
        with pytest.raises(TimeoutError, match=r"it goes on.*message_key='sum-1'"):
            queue.call(b"1 2", message_key="sum-1", timeout=0.1)
        with pytest.raises(TimeoutError, match="Give a message_key"):
            queue.call(b"1", timeout=0.1)
    with nodes.open("boss", **AGAIN) as boss, nodes.open("worker") as worker:
        worker.new_connection(address(boss))
        queue = boss.work_queue("sums")
        asked = queue.start("call", b"3", message_key="sum-1", timeout=60)
        with worker.work("sums") as jobs:
            job = next(jobs)
            assert job.body == b"1 2"
            job.answer(b"3")
            assert asked.wait() == b"3"
            next(jobs).answer(b"1")  # nobody waits any more
            assert queue.call(b"4", message_key="sum-1") == b"3"
            until(lambda: not queue.pending())
    with nodes.open("boss", **AGAIN) as boss:
        queue = boss.work_queue("sums")
        assert queue.call(b"5", message_key="sum-1") == b"3"
        assert queue.pending() == []


@EACH_ADAPTER
def test_a_call_ends_with_its_job_its_instance_or_before_it_began(nodes: Nodes) -> None:
    with nodes.open("boss") as boss:
        queue = boss.work_queue("sums")
        asked, other = queue.start("call", b"1"), queue.start("call", b"2", message_key="k")
        until(lambda: len(queue.pending()) == 2)
        with pytest.raises(LocalProtocolError, match="message_key='k' waits already"):
            queue.call(b"3", message_key="k")
        queue.cancel(queue.pending())
        for one in (asked, other):
            with pytest.raises(Undelivered, match="cancelled"):
                one.wait()
        for wrong, kind in ((b"", TypeError), ("", ValueError)):
            with pytest.raises(kind, match="message_key"):
                queue.call(b"", message_key=wrong)

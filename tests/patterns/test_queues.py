"""Work queues in the simulator: no job is lost, and each has one owner, whatever happens to producer and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.patterns.play import HIGH, LOW, Play, every, notices
from tolliver_proto import (
    Ack,
    ConnectionClosing,
    Delivery,
    Limits,
    LocalProtocolError,
    Message,
    Node,
    NoticeKind,
    OutboxFull,
    Policy,
    Receipt,
    Revision,
    Stored,
    StoreError,
    Subscribe,
    Subscription,
    TolliverError,
)
from tolliver_proto._patterns.work_queue import limit_of
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import DiskFull, Undelivered, UndeliveredReason
from tolliver_proto.node import Job, Queues, QueueWork, QuotaPolicy
from tolliver_proto.store import (
    AddDeliveries,
    Find,
    Operation,
    ReplacePeerSubscriptions,
    StoreMessages,
    is_queue,
    queue_id,
)
from tolliver_proto.testing import App, BeginAt, MemoryStore, ProgramNet, rehearse

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


@pytest.mark.search
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


@pytest.mark.search
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


def test_some_of_these_stories() -> None:
    """A few, in which each line is watched."""
    rehearse(story, range(3))
    rehearse(changing, range(3))


def test_the_limit_is_what_a_worker_says() -> None:
    def limit(*keys: str) -> int:
        return limit_of("jobs", [Subscription("jobs", f"tolliver.{key}" if key else "") for key in keys], 256)

    assert [limit(""), limit("", "concurrency=8"), limit("concurrency=0")] == [2, 16, 0], "without prefetch twice that"
    assert [limit("concurrency=4", "concurrency=2"), limit("concurrency=999999")] == [8, 256]
    assert [limit("concurrency=3", f"prefetch={said}") for said in (0, 1, 2, 500)] == [3, 4, 5, 256]
    assert [limit("prefetch=0"), limit("prefetch=5", "prefetch=7"), limit("concurrency=0", "prefetch=5")] == [1, 8, 0]
    for said in ("", "-1", "x", "1000000", "²"):
        assert (limit(f"concurrency={said}"), limit(f"prefetch={said}")) == (2, 2)
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
    stats, (jobs,) = node_of(net, "boss").stats(), node_of(net, "boss").use(Queues).numbers()
    assert (stats.pending, stats.refused_sends) == (3, 1)
    assert stats.pending_bytes > 0
    assert (jobs.quota_used, jobs.full) == (0.75, True)


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
        for send in (app.send, app.unreliable_send):
            with pytest.raises(LocalProtocolError, match="is a work queue of this instance"):
                send("jobs", "", b"x")
        with pytest.raises(LocalProtocolError, match="is no work queue here"):
            app.node.use(Queues).cancel_jobs("other")
        with pytest.raises(LocalProtocolError, match="in use: cancel its jobs"):
            app.node.forget_peer(queue_id("jobs"))
        with pytest.raises(ValueError, match="no wildcard for jobs"):
            app.work_queue("")
        queue.put(b"x")

    net = play(1.0, boss=boss)
    actor = net._actor("boss")
    assert actor.store.owed(queue_id("jobs")) == {b"x"}


def test_a_queue_that_is_not_declared_keeps_its_jobs_until_it_is_forgotten() -> None:
    """After a restart it is known for one before it is declared."""
    seen: list[Any] = []

    def boss(app: App) -> None:
        if not app.disk:
            app.disk["put"] = True
            app.work_queue("jobs").put(b"x")
            return
        with pytest.raises(LocalProtocolError, match="is a work queue of this instance"):
            app.send("jobs", "", b"x")
        seen.append(app.node.stats())
        app._call("forget_peer", queue_id("jobs"))
        app.later(1.0, lambda: seen.append(app.send("jobs", "", b"x")))

    def tell(net: ProgramNet) -> Done:
        net.instance("boss", boss)
        return lambda: True

    net = ProgramNet(1, tell, operations=0, seconds=4.0, never=CALM)
    actor = net._actor("boss")
    net._at(1.0, net._stop, actor)
    net.run()
    assert (seen[0].pending, seen[0].peers) == (1, 0)
    assert seen[1].recipients == 0
    assert not actor.store.messages


def at_work(seconds: float = 1000.0) -> Callable[[App], None]:
    return worker(Counter(), seconds, 1)


def faulty(net: ProgramNet, at: float, **faults: Any) -> None:
    """From then on the boss' store is so."""

    def fail() -> None:
        for name, value in faults.items():
            setattr(net._actor("boss").store, name, value)

    net._at(at, fail)


def lasting(seconds: float, **programs: Callable[[App], object]) -> ProgramNet:
    """As `play`, not begun yet."""

    def tell(net: ProgramNet) -> Done:
        for name, program in programs.items():
            net.instance(name, program, remotes=[] if name == "boss" else ["boss"])
        return lambda: True

    return ProgramNet(1, tell, operations=0, seconds=seconds, never=CALM)


class Failing(MemoryStore):
    """Some commits fail, as if there were no room: the next ones that have such an operation."""

    def __init__(self, times: int, *kinds: type) -> None:
        super().__init__()
        self.left = times
        self._kinds = kinds

    def commit(self, operations: Sequence[Operation]) -> None:
        if self.left and any(isinstance(one, self._kinds) for one in operations):
            self.left -= 1
            raise DiskFull("no room for this")
        super().commit(operations)


def test_a_declaration_and_a_put_that_fail() -> None:
    told: list[TolliverError | None] = []

    def boss(app: App) -> None:
        queue = app.work_queue("jobs", lease=1.0)
        app.when_stored(queue.put(b"refused"), told.append)
        app.later(3.0, lambda: app.when_stored(queue.put(b"refused, and a worker is there"), told.append))
        app.later(5.0, lambda: app.when_acked(queue.put_many([b"1", ("", b"2"), b"3"]), told.append))

    net = lasting(30.0, boss=boss, one=at_work(1.0))
    actor = net._actor("boss")
    actor.store = store = Failing(2, ReplacePeerSubscriptions, StoreMessages)
    net._at(2.9, lambda: setattr(store, "left", 1))
    net.run()
    assert [type(one) for one in told] == [DiskFull, DiskFull, type(None)]
    assert [one.channel for one in store.load().peers[queue_id("jobs")].subscriptions] == ["jobs"]


@pytest.mark.parametrize("failing", ["commit", "fetch", "find"])
def test_a_move_that_fails_is_made_later(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a worker, or back from one that is gone."""
    told: list[TolliverError | None] = []
    store = Failing(8 if failing == "commit" else 0, AddDeliveries)
    left = [0 if failing == "commit" else 8]

    def boss(app: App) -> None:
        queue = app.work_queue("jobs", lease=1.0)
        app.when_acked(queue.put_many(b"%d" % one for one in range(5)), told.append)

    def mortal(app: App) -> None:
        at_work()(app)
        app.later(16.0, app.disconnect, "boss")

    net = lasting(60.0, boss=boss, mortal=mortal, other=lambda app: app.later(18.0, at_work(0.5), app))
    actor = net._actor("boss")
    actor.store = store
    net._at(17.0, lambda: setattr(store, "left", store.left + (failing == "commit")))
    real = type(net)._chance

    def chance(self: Any, odds: float) -> bool:
        job = actor.jobs[0] if actor.jobs else None
        fails = odds == -1.0 and left[0] > 0 and type(job).__name__.lower() == failing
        left[0] -= fails
        return fails or (odds > 0 and real(self, odds))

    monkeypatch.setattr(type(net), "_chance", chance)
    net._weather = replace(net._weather, store_fails=-1.0)
    net.run()
    assert (left, store.left) == ([0], 0)
    assert told == [None]


def test_puts_wait_while_the_disk_is_full() -> None:
    told: dict[str, TolliverError | None] = {}

    def boss(app: App) -> None:
        queue = app.work_queue("jobs")

        def put(name: str, count: int = 1) -> None:
            app.when_stored(queue.put_many([("", b"x")] * count), lambda error: told.update({name: error}))

        for number in range(4):
            app.later(2.0 + number / 1000, put, f"full {number}")
        app.later(4.0, put, "room")
        app.later(6.0, put, "spent 0")
        app.later(6.001, put, "spent 1")

    net = lasting(12.0, boss=boss)
    for at, full, spent in ((1.0, True, False), (3.5, False, False), (5.0, True, True), (9.0, False, False)):
        faulty(net, at, full=full, spent=spent)
    net.run()
    assert isinstance(told["full 0"], DiskFull)
    assert told["room"] is None
    assert isinstance(told["spent 0"], DiskFull)
    assert len(told) == 7


def test_puts_that_wait_may_find_no_room() -> None:
    told: list[TolliverError | None] = []

    def boss(app: App) -> None:
        queue = app.work_queue("jobs")

        def put_more(error: TolliverError | None) -> None:
            """The disk was full just now."""
            assert isinstance(error, DiskFull)
            for _ in range(3):
                app.when_stored(queue.put_many([("", b"x")] * 4), told.append)

        app.later(2.0, lambda: app.when_stored(queue.put(b"x"), put_more))

    def tell(net: ProgramNet) -> Done:
        net.instance("boss", boss, limits=Limits(outbox_messages=9))
        return lambda: True

    net = ProgramNet(1, tell, operations=0, seconds=8.0, never=CALM)
    actor = net._actor("boss")
    actor.store = Failing(1, StoreMessages)
    net.run()
    assert sorted(type(error).__name__ for error in told) == ["NoneType", "NoneType", "OutboxFull"]
    assert node_of(net, "boss").stats().notices[NoticeKind.OUTBOX_FILLING] == 1


def test_a_worker_may_want_nothing_for_now() -> None:
    """As one of another implementation does before it unsubscribes."""
    got: list[bytes] = []

    def boss(app: App) -> None:
        queue = app.work_queue("jobs")
        app.later(2.0, queue.put, b"x")
        app.later(3.0, queue.cancel, [999])

    def foreign(app: App) -> None:
        app.subscribe("jobs", handler=lambda job: got.append(job.body))
        app.subscribe("jobs", "tolliver.concurrency=0")
        app.later(5.0, lambda: check_and_go(app))

    def check_and_go(app: App) -> None:
        assert not got
        app.unsubscribe("jobs", "tolliver.concurrency=0")

    lasting(9.0, boss=boss, foreign=foreign).run()
    assert got == [b"x"]


@pytest.mark.parametrize("times", [0, 2])
def test_jobs_of_a_worker_that_is_forgotten_go_back_though_the_queue_is_not_declared(times: int) -> None:
    def boss(app: App) -> None:
        app.disk["lives"] = app.disk.get("lives", 0) + 1
        if app.disk["lives"] == 1:
            app.later(1.0, app.work_queue("jobs").put, b"x")
        for after in (2.0, 8.0):
            app.later(after, lambda: app.disk["lives"] == 2 and app._call("forget_peer", app.uuid_of("one")))

    net = lasting(20.0, boss=boss, one=at_work())
    actor = net._actor("boss")
    actor.store = store = Failing(0, AddDeliveries)
    net._at(3.0, net._stop, net._actor("one"))
    net._at(4.0, net._stop, actor)
    net._at(4.0, lambda: setattr(store, "left", min(times, 1)))
    net.run()
    assert store.owed(queue_id("jobs")) == {b"x"}


def test_who_was_cut_off_begins_no_more() -> None:
    begun: dict[str, list[bytes]] = {"one": [], "two": []}

    def boss(app: App) -> None:
        queue = app.work_queue("jobs", lease=1.0)
        app.later(1.0, queue.put_many, [("", b"0"), ("", b"1")])

    def program(app: App) -> None:
        def begin(job: Delivery) -> None:
            begun[app.name].append(job.body)
            app.later(20.0, job.ack)

        app.work("jobs", begin, settles=True, lease=1.0)
        if app.name == "one":
            app.later(5.0, app.disconnect, "boss")

    net = lasting(80.0, boss=boss, one=program, two=lambda app: app.later(6.5, program, app))
    net.run()
    assert begun == {"one": [b"0"], "two": [b"0", b"1"]}
    assert node_of(net, "one").stats().notices[NoticeKind.LEASE_OVER] == 1


@pytest.mark.parametrize(("lease", "given_back"), [(10.0, {b"x"}), (10_000.0, set())])
def test_leases_begin_anew_with_the_queue(lease: float, given_back: set[bytes]) -> None:
    """A worker that had jobs and does not come back loses them after a restart of the producer, too, and not before."""

    def boss(app: App) -> None:
        app.disk["lives"] = app.disk.get("lives", 0) + 1
        queue = app.work_queue("jobs", lease=lease)
        if app.disk["lives"] == 1:
            app.later(1.0, queue.put, b"x")

    net = lasting(40.0, boss=boss, one=lambda app: app.disk or at_work()(app))
    actor = net._actor("boss")
    net._at(2.0, lambda: net._actor("one").disk.update(gone=True))
    net._at(3.0, net._stop, net._actor("one"))
    net._at(4.0, net._stop, actor)
    net._actor("one").remotes = ()
    net._at(0.5, lambda: net.connect(net._actor("one").app, "boss"))  # type: ignore[arg-type]  # it lives
    net.run()
    assert actor.store.owed(queue_id("jobs")) == given_back


def test_jobs_of_an_earlier_life_are_counted_before_more_are_given() -> None:
    done: Counter[bytes] = Counter()

    def boss(app: App) -> None:
        app.disk["lives"] = app.disk.get("lives", 0) + 1
        queue = app.work_queue("jobs")
        if app.disk["lives"] == 1:
            app.later(1.0, queue.put_many, [("", b"%d" % one) for one in range(6)])

    net = lasting(30.0, boss=boss, one=worker(done, 3.0, 1))
    actor = net._actor("boss")
    left = [2]

    def perform(*arguments: Any) -> None:
        fails = actor.born > 1 and left[0] > 0 and actor.jobs and isinstance(actor.jobs[0], Find)
        left[0] -= bool(fails)
        net._weather = replace(net._weather, store_fails=1.0 if fails else 0.0)
        inner(*arguments)

    inner, net._perform = net._perform, perform  # type: ignore[method-assign,assignment]
    net._at(4.0, net._stop, actor)
    net.run()
    assert left == [0]
    assert sorted(done) == [b"%d" % one for one in range(6)]


def test_what_a_message_was_before_it_stays() -> None:
    """A channel that was used before: what is owed to several is nobody's job, what one has alone is."""
    done: Counter[str] = Counter()

    def boss(app: App) -> None:
        app.later(2.0, app.send, "jobs", "", b"for both")
        app.later(3.0, app.disconnect, "one")
        app.later(4.0, lambda: app.work_queue("jobs", lease=1.0))

    def reader(app: App) -> None:
        app.subscribe("jobs", handler=lambda job: app.later(20.0, job.ack), settles=True)
        app.later(3.0, lambda: done.update([app.name]))

    net = lasting(60.0, boss=boss, one=reader, two=reader)
    net.run()
    assert node_of(net, "boss").stats().pending == 0


def test_what_cannot_be_worked_on_is_refused() -> None:
    def somebody(app: App) -> None:
        app.work("jobs", print)
        with pytest.raises(LocalProtocolError, match="share that iterator"):
            app.work("jobs", print)
        for options in ({"concurrency": 0}, {"concurrency": 10_001}, {"lease": 0.0}, {"prefetch": -1}):
            with pytest.raises(ValueError, match="give"):
                app.work("other", print, **options)
        with pytest.raises(ValueError, match="give the channel"):
            app.work("", print)
        app.subscribe("jobs")
        app.stop_work("jobs")
        assert app.node.subscriptions() == [("jobs", "")]
        node = Node(instance_id=UUID("f0000000-0000-8000-8000-000000000001"), rng=BeginAt(Random(1), 1))
        with pytest.raises(LocalProtocolError, match="it takes nothing"):
            node.use(QueueWork).work("jobs", print)
        with pytest.raises(LocalProtocolError, match="it has no workers"):
            node.use(Queues).work_queue("jobs")
        node.close()
        other = Node(instance_id=UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000), rng=BeginAt(Random(1), 1))
        other.use(Queues).work_queue("jobs")
        other.close()
        with pytest.raises(ConnectionClosing):
            other.use(Queues).put_many("jobs", [("", b"x")])

    lasting(1.0, boss=somebody).run()


def test_a_peer_that_claims_to_be_a_queue_is_refused() -> None:
    def tell(net: ProgramNet) -> Done:
        net.instance("boss", lambda app: None)
        net.instance("claims", lambda app: None, remotes=["boss"])
        net._actor("claims").uuid = queue_id("jobs")
        return lambda: True

    net = ProgramNet(1, tell, operations=0, seconds=5.0, never=CALM)
    net.run()
    assert not node_of(net, "boss").peers()


def test_a_worker_that_comes_while_a_put_is_stored_gets_it() -> None:
    """It was ready when the job was not, and nothing else would look at the queue again."""
    play = Play()
    play.queues.work_queue("jobs", now=play.now)
    wire = play.peer()
    play.hold_commits = True
    play.queues.put_many("jobs", [("", b"x")], now=play.now)
    play.run()
    wire.send(Subscribe("jobs", "", 7))
    play.hold_commits = False
    play.finish()
    assert wire.bodies() == [b"x"]
    assert not play.fetches, "it is handed over, and not read again"


def test_all_jobs_of_a_move_that_fails_are_given_again() -> None:
    play = Play()
    play.call("work_queue", "jobs")
    play.queues.put_many("jobs", [("", b"1"), ("", b"2"), ("", b"3")], now=play.now)
    play.run()
    play.hold_commits = True
    wire = play.accepted(LOW)
    wire.request(("jobs", ""))
    play.finish()
    play.fail()
    play.hold_commits = False
    play.wait(2.0)
    assert wire.bodies() == [b"1", b"2"]


def test_a_job_waits_behind_what_a_worker_has_not_read_of_its_other_messages() -> None:
    """It is older than these, so it is the first of them that is sent after those that are on their way."""
    play = Play(limits=Limits(window_messages=1, window_bytes=50))
    play.queues.work_queue("jobs", now=play.now)
    play.peer(LOW, ("news", "")).lose()
    play.queues.put_many("jobs", [("", b"job")], now=play.now)
    play.run()
    for number in range(4):
        play.send("news", "", b"%d" % number + bytes(40))
    wire = play.accepted(LOW)
    wire.request(("news", ""))
    wire.send(Subscribe("jobs", "", 7))
    bodies: list[bytes] = []
    for _ in range(8):
        messages = wire.messages()
        bodies += [message.body[:3].rstrip(b"\0") for message in messages]
        wire.ack(*messages)
    assert bodies == [b"0", b"job", b"1", b"2", b"3"]


def test_a_put_declares_its_queue_again_where_that_has_failed() -> None:
    play = Play()
    play.hold_commits = True
    play.queues.work_queue("jobs", now=play.now)
    play.run()
    play.fail()
    play.queues.put_many("jobs", [("", b"x")], now=play.now)
    play.hold_commits = False
    play.run()
    again = play.restart()
    again.queues.work_queue("jobs", now=again.now)
    wire = again.accepted()
    wire.request(("jobs", ""))
    assert wire.bodies() == [b"x"]


def test_a_later_run_knows_the_queues_that_it_has_not_declared() -> None:
    play = Play()
    assert not play.queues.is_declared("jobs")
    for channel in ("jobs", "others"):
        play.queues.work_queue(channel, now=play.now)
    assert play.queues.undeclared() == []
    play.run()
    again = play.restart()
    assert sorted(again.queues.undeclared()) == ["jobs", "others"]
    again.queues.work_queue("jobs", now=again.now)
    assert again.queues.is_declared("jobs")
    assert again.queues.undeclared() == ["others"]


def test_puts_that_wait_fail_with_a_commit_that_stores_nothing() -> None:
    play = Play()
    play.queues.work_queue("jobs", now=play.now)
    play.run()
    play.hold_commits = True
    first = play.queues.put_many("jobs", [("", b"1")], now=play.now)
    play.node.subscribe("news", "", play.now)
    play.run()
    told = every(play.fail(DiskFull("no room")), Stored)
    second = play.queues.put_many("jobs", [("", b"2")], now=play.now)
    play.call("subscribe", "other", "")
    while play.held:
        told += every(play.fail(StoreError("broken")), Stored)
    assert {token for one in told if one.error is not None for token in one.tokens} >= {first, second}


def test_a_worker_that_is_forgotten_is_no_worker() -> None:
    play = Play()
    play.queues.work_queue("jobs", now=play.now)
    play.peer(LOW, ("jobs", ""))
    play.call("put_many", "jobs", [("", b"x")])
    play.call("forget_peer", LOW)
    play.call("put_many", "jobs", [("", b"y")])
    wire = play.accepted(HIGH)
    wire.request(("jobs", ""))
    assert sorted(wire.bodies()) == [b"x", b"y"]


def test_the_end_of_a_lease_leaves_other_messages_where_they_are() -> None:
    play = Play()
    play.peer(LOW, ("news", "")).lose()
    play.send("news", "", b"not a job")
    again = play.restart()
    again.call("work_queue", "jobs", 1.0)
    again.wait(2.0)
    assert again.pending(LOW) == 1


def test_who_has_ended_its_work_acknowledges_no_job() -> None:
    """P-05: what was on its way then is its producer's. Other messages that nobody wants are acknowledged."""
    play = Play()
    play.call("work", "jobs", "worker")
    wire = play.peer(LOW)
    play.wait(100.0)
    play.call("stop_work", "jobs")
    wire.got()
    wire.send(Message("jobs", "", b"x", 7), Message("news", "", b"x", 8))
    play.wait(1.0)
    assert [frame.message_id for frame in wire.got() if isinstance(frame, Ack)] == [8]


def test_who_is_back_in_time_keeps_its_jobs() -> None:
    play = Play()
    play.works.work("jobs", "worker", 1, 5.0, now=play.now)
    wire = play.peer(LOW)
    wire.send(Message("jobs", "", b"x", 7))
    wire.lose()
    assert notices(play.wait(4.9)) == []
    play.peer(LOW)
    assert NoticeKind.LEASE_OVER not in notices(play.wait(6.0))


def test_a_lease_lasts_ten_seconds_if_the_program_does_not_say_how_long() -> None:
    play = Play()
    play.call("work_queue", "jobs")
    worker = play.peer(LOW, ("jobs", ""))
    play.queues.put_many("jobs", [("", b"x")], now=play.now)
    play.run()
    worker.lose()
    play.wait(9.9)
    assert play.pending(LOW) == 1
    play.wait(0.2)
    assert play.pending(LOW) == 0


def test_a_worker_that_is_back_while_its_jobs_are_looked_for_keeps_them() -> None:
    play = Play()
    play.call("work_queue", "jobs", 1.0)
    wire = play.peer(LOW, ("jobs", ""))
    play.queues.put_many("jobs", [("", b"x")], now=play.now)
    play.run()
    assert wire.bodies() == [b"x"]
    wire.lose()
    play.hold_searches = True
    play.wait(1.5)
    play.peer(LOW, ("jobs", ""))
    play.hold_searches = False
    play.looked()
    play.wait(1.0)
    assert play.pending(LOW) == 1
    assert play.queues.numbers()[0].waiting == 0


def test_a_worker_has_a_function() -> None:
    def somebody(app: App) -> None:
        handler: Any = "no function"
        with pytest.raises(TypeError, match="cannot be called"):
            app.work("jobs", handler)

    lasting(1.0, boss=somebody).run()


def test_who_may_have_been_a_worker_and_is_forgotten_is_none() -> None:
    play = Play()
    play.peer(LOW, ("news", "")).lose()
    play.send("news", "", b"not a job")
    again = play.restart()
    again.call("work_queue", "jobs")
    again.call("forget_peer", LOW)
    again.peer(HIGH, ("jobs", ""))
    assert [peer.uuid for peer in again.queues._queues["jobs"].workers] == [HIGH]


def test_a_producer_that_is_forgotten_takes_nothing_back() -> None:
    play = Play()
    play.works.work("jobs", "worker", 1, 5.0, now=play.now)
    wire = play.peer(LOW)
    wire.send(Message("jobs", "", b"x", 7))
    wire.lose()
    play.call("forget_peer", LOW)
    assert NoticeKind.LEASE_OVER not in notices(play.wait(6.0))


def test_without_a_hold_jobs_of_a_go_program_go_back_to_their_queue() -> None:
    play = Play(revision=Revision.GO_2026, policy=Policy(unsubscribed_hold=0.0))
    play.call("work_queue", "jobs")
    play.accepted(LOW, revision=Revision.GO_2026).request(("jobs", ""))
    play.queues.put_many("jobs", [("", b"x")], now=play.now)
    play.run()
    assert play.pending(LOW) == 1
    for cid in list(play.wires):
        play.wires[cid].lose()
    play.accepted(LOW, revision=Revision.GO_2026).request()
    play.wait(1.0)
    assert play.pending(LOW) == 0
    assert play.queues.numbers()[0].waiting == 1


def test_of_workers_of_different_size_each_gets_its_share_at_once() -> None:
    play = Play()
    play.queues.work_queue("jobs", now=play.now)
    play.peer(LOW, ("jobs", "tolliver.concurrency=4"), ("jobs", ""))
    play.peer(HIGH, ("jobs", "tolliver.concurrency=1"), ("jobs", ""))
    play.call("put_many", "jobs", [("", b"job")] * 5)
    assert (play.pending(LOW), play.pending(HIGH)) == (4, 1)


def test_a_worker_gets_no_more_jobs_than_its_outbox_has_room_for() -> None:
    """Other messages that wait for it count, too."""
    play = Play(limits=Limits(outbox_messages=6))
    play.queues.work_queue("jobs", now=play.now)
    play.peer(LOW, ("jobs", "tolliver.concurrency=4"), ("jobs", ""), ("news", ""))
    for _ in range(4):
        play.send("news", "", b"not read yet")
    play.call("put_many", "jobs", [("", b"job")] * 3)
    (queue,) = play.queues.numbers()
    assert (queue.running, queue.waiting, play.pending(LOW)) == (2, 1, 6)


@pytest.mark.parametrize("comes_before", [False, True], ids=["asked", "waiting"])
def test_a_job_that_a_new_worker_gets_meanwhile_is_listed_and_cancelled(comes_before: bool) -> None:
    """It left the queue before that was looked through, and went to nobody who was a worker as the look began."""
    play = Play()
    play.call("work_queue", "jobs")
    play.call("put_many", "jobs", [("", b"x")])
    play.hold_searches = True
    if comes_before:
        play.call("pending_jobs", "jobs")  # another search runs, and these wait
    listed = play.queues.pending_jobs("jobs", now=play.now)
    cancelled = play.queues.cancel_jobs("jobs", now=play.now)
    play.run()
    play.peer(LOW, ("jobs", ""))
    assert play.pending(LOW) == 1
    play.hold_searches = False
    play.looked()
    assert [(job.number, job.worker) for job in listed.jobs] == [(1, LOW)]
    assert cancelled.counts == [1]
    assert play.pending(LOW) == 0


def test_queues_tell_their_jobs_and_workers() -> None:
    play = Play()
    play.queues.work_queue("jobs", now=play.now)
    play.run()
    receipt = play.queues.put_many("jobs", [("", b"1"), ("", b"2"), ("", b"3")], now=play.now)
    play.run()
    assert (receipt.recipients, receipt.counts) == (1, [1, 1, 1])
    (queue,) = play.queues.numbers()
    assert (queue.channel, queue.waiting, queue.running, queue.workers) == ("jobs", 3, 0, 0)
    play.peer(LOW, ("jobs", ""))
    (queue,) = play.queues.numbers()
    assert (queue.waiting, queue.running, queue.workers) == (1, 2, 1)


# Messages beside the jobs of a worker.


def beside_a_job(*bodies: bytes, lease: float = 100.0, **options: Any) -> Play:
    """A worker that is away has a job, and is owed messages."""
    play = Play(**options)
    play.queues.work_queue("jobs", lease, play.now)
    worker = play.peer(LOW, ("jobs", ""), ("news", ""))
    play.queues.put_many("jobs", [("", b"job")], play.now)
    play.run()
    worker.lose()
    for body in bodies:
        play.send("news", "k", body)
    return play


@pytest.mark.parametrize(("worker", "jobs"), [(LOW, [1]), (HIGH, [])])
def test_the_number_of_jobs_that_were_taken_from_a_worker_is_told(worker: UUID, jobs: list[int]) -> None:
    play = beside_a_job(b"1")
    receipt = play.queues.reassign("jobs", worker, play.now)
    play.run()
    assert receipt.counts == jobs


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_that_was_set_aside_is_given_back_with_the_others(fails: bool) -> None:
    play = Play()
    play.call("work_queue", "jobs")
    play.queues.put_many("jobs", [("", b"damaged"), ("", b"2")], play.now)
    play.run()
    play.peer(LOW, ("jobs", "")).lose()
    play.store.corrupt(play.store.messages[0].seq)
    play.peer(LOW, ("jobs", "")).lose()
    play.wait(0.1)
    [before] = play.node.peers()
    assert (before.parked, before.pending) == (1, 1)
    play.hold_commits = True
    play.queues.reassign("jobs", LOW, play.now)
    play.run()
    if fails:
        play.fail()
        assert play.node.peers() == [before]
    else:
        play.finish()
        [after] = play.node.peers()
        assert (after.parked, after.parked_bytes, after.pending, after.pending_bytes) == (0, 0, 0, 0)
    play.hold_commits = False
    play.wait(1.0)
    audit(play.node, play.store)


def owed(play: Play) -> list[bytes]:
    rows = {message.seq: message.body for message in play.store.messages}
    return [rows[seq] for seq in play.store.deliveries(LOW)]


def test_no_job_is_dropped_to_make_room_for_a_message() -> None:
    policy = Policy(quota_policy=QuotaPolicy.DROP_OLDEST)
    play = beside_a_job(b"1", b"2", b"3", policy=policy, limits=Limits(outbox_messages=3))
    play.wait(1.0)
    assert owed(play) == [b"job", b"2", b"3"]


def test_messages_that_a_worker_wants_no_more_are_given_up_and_its_jobs_are_not() -> None:
    play = beside_a_job(b"1", policy=Policy(unsubscribed_hold=5.0))
    worker = play.accepted(LOW)
    worker.request(("jobs", ""))
    play.wait(6.0)
    assert (worker.bodies(), owed(play)) == ([b"job"], [b"job"])


def test_who_is_back_and_works_no_more_is_not_sent_its_job() -> None:
    """It would acknowledge and drop it."""
    play = beside_a_job(b"1")
    play.hold_searches = True
    worker = play.accepted(LOW)
    worker.request(("news", ""))
    assert worker.bodies() == [b"1"]
    play.hold_searches = False
    play.looked()
    assert owed(play) == [b"1"]
    assert play.queues.numbers()[0].waiting == 1


def test_a_damaged_message_beside_a_job_is_set_aside() -> None:
    play = beside_a_job(b"1", b"2")
    play.store.corrupt(play.store.messages[1].seq)
    worker = play.accepted(LOW)
    worker.request(("jobs", ""), ("news", ""))
    assert worker.bodies() == [b"job", b"2"]
    assert play.node.stats().parked == 1


def test_a_subscription_beside_the_work_is_stored_as_any_other() -> None:
    play = Play()
    play.works.work("jobs", "worker", now=play.now)
    play.call("subscribe", "news", "")
    assert play.restart().node.subscriptions() == [("news", "")]

"""Programs of users in the simulator: their stories hold whatever happens, and fail where they should."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest

from tolliver_proto import ConnectionClosing, Delivery, Limits, LocalProtocolError, Policy, Receipt, TolliverError
from tolliver_proto.node import Answered, SendState
from tolliver_proto.store import VALUES, StoredMessage
from tolliver_proto.testing import App, ProgramNet, SimFailure, Weather, rehearse

JOBS = 12
Done = Callable[[], bool]


def work_queue(net: ProgramNet) -> Done:
    """Somebody's work queue: jobs wait on the boss' disk, each worker has one at a time, and says when it is done.

    All subscribe once more from time to time: the first time the disk may be full.
    """
    done: Counter[bytes] = Counter()

    def boss(app: App) -> None:
        app.disk.setdefault("todo", [b"%d" % number for number in range(JOBS)])
        app.subscribe(
            "done", handler=lambda told: app.disk["todo"].remove(told.body) if told.body in app.disk["todo"] else None
        )
        app.every(5.0, app.subscribe, "done")
        for number, worker in enumerate(("w0", "w1", "w2")):
            app.every(1.0, hand_out, app, worker, number)

    def end(app: App, job: bytes) -> None:
        app.disk["todo"] = [one for one in app.disk["todo"] if one != job]

    def hand_out(app: App, worker: str, number: int) -> None:
        mine = [job for job in app.disk["todo"] if int(job) % 3 == number]
        if mine:
            app.unreliable_send("jobs", worker, mine[0])

    def worker(app: App) -> None:
        def work(job: Delivery) -> None:
            done[job.body] += 1
            app.send("done", "", job.body)

        app.subscribe("jobs", app.name, work)
        app.every(5.0, app.subscribe, "jobs", app.name)

    net.instance("boss", boss)
    for name in ("w0", "w1", "w2"):
        net.instance(name, worker, remotes=["boss"])
    return lambda: len(done) == JOBS and not net.disk("boss")["todo"]


@pytest.mark.search
def test_a_work_queue_of_a_user_holds_with_many_seeds() -> None:
    reports = rehearse(work_queue, range(8))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def keyed_sends(net: ProgramNet) -> Done:
    """A client posts each order, and each job, until it is told that it was acknowledged, over its crashes; every post
    has another body. The server sees one body for each key (P-60)."""
    keys, seen = [f"{number}" for number in range(6)], dict[tuple[str, str], set[bytes]]()

    def client(app: App) -> None:
        queue = app.work_queue("jobs")
        todo = app.disk.setdefault("todo", {(channel, key) for channel in ("orders", "jobs") for key in keys})

        def post() -> None:
            for channel, key in sorted(todo):
                number = app.disk["posts"] = app.disk.get("posts", 0) + 1
                body = b"%s %d" % (key.encode(), number)
                if channel == "jobs":
                    receipt = queue.put(body, message_key=key)
                else:
                    receipt = app.send(channel, "", body, message_key=key)
                app.when_stored(receipt, partial(look, receipt, (channel, key)))

        def look(receipt: Receipt, name: tuple[str, str], error: TolliverError | None) -> None:
            if error is None and receipt.state is SendState.ACKNOWLEDGED:
                todo.discard(name)

        app.every(1.5, post)

    def server(app: App) -> None:
        def see(one: Delivery) -> None:
            bodies = seen.setdefault((one.channel, one.body.split()[0].decode()), set())
            bodies.add(one.body)
            assert len(bodies) == 1, f"one key has the messages {bodies}"

        app.subscribe("orders", handler=see)
        app.every(5.0, app.subscribe, "orders")
        app.work("jobs", see)

    net.instance("client", client)
    net.instance("server", server, remotes=["client"])
    return lambda: not net.disk("client")["todo"] and len(seen) == 2 * len(keys)


def test_a_program_with_message_keys_holds_in_the_simulator() -> None:
    rehearse(keyed_sends, range(3))


@pytest.mark.search
def test_message_keys_hold_with_many_seeds() -> None:
    reports = rehearse(keyed_sends, range(8))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def later_sends(net: ProgramNet) -> Done:
    """A client posts orders and jobs for a time, and letters on a channel that keeps, over its crashes; each key has
    one message, never before its time (P-90, P-95)."""
    names = [(channel, str(number)) for channel in ("orders", "jobs", "letters") for number in range(4)]
    began, seen = dict[str, float](), dict[tuple[str, str], set[bytes]]()

    def client(app: App) -> None:
        queue = app.work_queue("jobs")
        app.keep("letters")
        todo = app.disk.setdefault("todo", {*names})

        def post() -> None:
            for channel, key in sorted(todo):
                number = app.disk["posts"] = app.disk.get("posts", 0) + 1
                body = b"%s %d" % (key.encode(), number)
                began[body.decode()] = app.now
                if channel == "jobs":
                    receipt = queue.put(body, message_key=key, after=3.0)
                else:
                    after = 3.0 if channel == "orders" else None
                    receipt = app.send(channel, "", body, message_key=key, after=after)
                app.when_stored(receipt, partial(look, receipt, (channel, key)))

        def look(receipt: Receipt, name: tuple[str, str], error: TolliverError | None) -> None:
            if error is None and receipt.state is SendState.ACKNOWLEDGED:
                todo.discard(name)

        app.every(1.5, post)

    def server(app: App) -> None:
        def see(one: Delivery) -> None:
            bodies = seen.setdefault((one.channel, one.body.split()[0].decode()), set())
            bodies.add(one.body)
            assert len(bodies) == 1, f"one key has the messages {bodies}"
            assert one.channel == "letters" or app.now >= began[one.body.decode()] + 3.0, "it came before its time"

        app.subscribe("orders", handler=see)
        app.work("jobs", see)
        app.register_callback("letters", "", see)
        app.every(6.0, app.subscribe, "letters")
        app.every(5.0, app.subscribe, "orders")

    net.instance("client", client)
    net.instance("server", server, remotes=["client"])
    return lambda: not net.disk("client")["todo"] and len(seen) == len(names)


def test_messages_for_later_hold_in_the_simulator() -> None:
    rehearse(later_sends, range(3))


@pytest.mark.search
def test_messages_for_later_hold_with_many_seeds() -> None:
    reports = rehearse(later_sends, range(8))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def test_many_messages_and_jobs_have_one_time() -> None:
    came = dict[bytes, float]()

    def story(net: ProgramNet) -> Done:
        def client(app: App) -> None:
            queue = app.work_queue("jobs")

            def post() -> None:
                assert app.send_many([("orders", "", b"1"), ("orders", "", b"2")], after=3.0).later == 2
                assert app.send("orders", "", b"3", after=4.0).later == 1
                assert queue.put_many([b"4", ("key", b"5")], after=5.0).later == 2
                assert queue.put(b"6", after=6.0).later == 1

            app.later(5.0, post)

        def server(app: App) -> None:
            def see(one: Delivery) -> None:
                came[one.body] = app.now

            app.subscribe("orders", handler=see)
            app.work("jobs", see)

        net.instance("client", client)
        net.instance("server", server, remotes=["client"])
        return lambda: len(came) == 6

    ProgramNet(1, story, operations=0, never=("dial_fails", "store_fails", "slow", "half_open")).run()
    waited = {body: at - 5.0 for body, at in came.items()}
    for bodies, seconds in ((b"12", 3.0), (b"3", 4.0), (b"45", 5.0), (b"6", 6.0)):
        assert all(seconds <= waited[bytes([body])] < seconds + 1.0 for body in bodies), waited


def poison(net: ProgramNet) -> Done:
    """An order ends the process of its handler, among others that take their time, three at once. It becomes a dead
    letter after three ends at which it was alone in hand, and all others are handled (T-47).
    """
    orders = [b"%d" % number for number in range(JOBS)]
    apps, done, alone = dict[str, App](), set[bytes](), list[bool]()

    def client(app: App) -> None:
        def post() -> None:
            for one in orders:
                app.send("orders", "", one, message_key=one.decode())

        app.every(1.5, post)

    def server(app: App) -> None:
        apps["server"], in_hand = app, set[bytes]()

        def handle(order: Delivery) -> None:
            in_hand.add(order.body)
            if order.body == b"5":
                alone.append(len(in_hand) == 1)
                app.die()
            app.later(0.4, end, order)

        def end(order: Delivery) -> None:
            in_hand.discard(order.body)
            done.add(order.body)
            order.ack()

        app.register_callback("orders", "", handle, settles=True, concurrency=3)
        app.subscribe("orders")
        app.every(5.0, app.subscribe, "orders")

    def is_done() -> bool:
        stats = apps["server"].node.stats()
        return done == {*orders} - {b"5"} and stats.dead_letters == 1 and alone.count(True) == 3

    net.instance("client", client)
    net.instance("server", server, remotes=["client"])
    return is_done


def test_a_message_that_ends_its_process_is_condemned_alone_in_the_simulator() -> None:
    reports = rehearse(poison, range(3))
    assert min(report.counts["deaths"] for report in reports) >= 3


@pytest.mark.search
def test_poison_is_condemned_alone_with_many_seeds() -> None:
    reports = rehearse(poison, range(8))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def test_a_process_that_ends_while_nothing_is_in_hand_suspects_nobody() -> None:
    """Neither does one that ends in order; what a function of `later` ends is started again."""
    lives: list[App] = []
    heard: list[Delivery] = []

    def left(app: App) -> None:
        lives.append(app)
        app.every(0.3, app.unreliable_send, "news", "", b"without an id")
        if len(lives) < 3:
            app.later(1.0, app.die)

    def right(app: App) -> None:
        app.subscribe("news", handler=heard.append)

    pair(left, right, lambda: len(lives) == 3).run()
    assert heard
    assert lives[-1].node.stats().dead_letters == 0


def last_values(net: ProgramNet) -> Done:
    """Some retain, others come and go; in the end everybody has the newest of each name (P-30)."""
    names, rounds = ("a", "b", "c"), 12

    def source(app: App) -> None:
        def step() -> None:
            number = app.disk["step"] = app.disk.get("step", 0) + 1
            if number <= rounds:
                body = None if number == 5 else b"%d" % number
                app.retain("values", names[number % len(names)], body)

        app.every(2.0, step)

    def take(app: App, message: Delivery) -> None:
        app.disk.setdefault("seen", {})[message.key] = message.body
        app.disk["count"] = app.disk.get("count", 0) + 1

    def reader(app: App) -> None:
        app.register_callback("values", "", lambda message: take(app, message))
        app.subscribe("values", "" if app.name == "wide" else "a")
        app.subscribe("values", "b")

    def fickle(app: App) -> None:
        app.register_callback("values", "", lambda message: take(app, message))

        def change() -> None:
            app.disk["turn"] = app.disk.get("turn", 0) + 1
            (app.subscribe if app.disk["turn"] % 2 or app.disk["turn"] > 8 else app.unsubscribe)("values", "c")

        app.every(3.0, change)

    net.instance("source", source)
    for name, program in (("wide", reader), ("exact", reader), ("fickle", fickle)):
        policy = Policy(dedupe=1000, dedupe_durable=True)  # else a copy of an older value may come last (T-51)
        net.instance(name, program, remotes=["source"], policy=policy)

    def is_done() -> bool:
        rows = net._actor("source").store.fetch(VALUES, 0, 100, 10_000)
        values = {row.key: row.body for row in rows if isinstance(row, StoredMessage)}
        seen = {name: net.disk(name).get("seen", {}) for name in ("wide", "exact", "fickle")}
        wanted = {"wide": {"a", "b", "c"}, "exact": {"a", "b"}, "fickle": {"c"}}
        stepped = net.disk("source").get("step", 0) >= rounds and net.disk("fickle").get("turn", 0) > 9
        return stepped and all(
            seen[name].get(key) == body for name in seen for key, body in values.items() if key in wanted[name]
        )

    return is_done


@pytest.mark.search
def test_last_values_hold_with_many_seeds() -> None:
    """A full disk is another matter: then who comes anew is told that it is left out (P-35)."""
    reports = rehearse(last_values, range(12), never=("fill",))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits")) > 0


def test_where_no_connection_is_lost_each_value_comes_once() -> None:
    heard: list[tuple[str, bytes]] = []

    def left(app: App) -> None:
        app.retain("values", "a", b"1")
        app.retain("values", "a", b"2")
        app.later(20.0, app.retain, "values", "a", b"3")
        flushed = app.flush()
        app.when_stored(flushed, lambda error: heard.append(("flushed", b"" if error is None else b"failed")))

    def right(app: App) -> None:
        app.later(10.0, app.subscribe, "values", "", lambda message: heard.append((message.key, message.body)))

    pair(left, right, lambda: len(heard) >= 3).run()
    assert heard == [("flushed", b""), ("a", b"2"), ("a", b"3")]


def test_one_seed_is_one_trace() -> None:
    assert ProgramNet(5, work_queue).run() == ProgramNet(5, work_queue).run()


def forgetful(net: ProgramNet) -> Done:
    """Its sender keeps what is to be said in a variable alone, so that a crash loses it."""
    heard: set[bytes] = set()

    def left(app: App) -> None:
        todo = [b"1", b"2", b"3"] if not app.disk else []
        app.disk["begun"] = True
        app.every(5.0, lambda: todo and app.subscribed("news") and app.send("news", "", todo.pop()))

    def right(app: App) -> None:
        app.subscribe("news", handler=lambda message: heard.add(message.body))

    net.instance("left", left, remotes=["right"])
    net.instance("right", right, crashes=False)
    return lambda: len(heard) == 3


def test_a_story_that_fails_is_made_short() -> None:
    shortest = r"(?s)not done .*the shortest of .*forgetful, seconds=.* never=(\(.*?\)), .* the first was seed"
    with pytest.raises(SimFailure, match=shortest) as caught:
        rehearse(forgetful, range(20), lives=40, patience=60.0)
    said = re.search(shortest, str(caught.value))
    assert said is not None
    assert not {"crash", "restart", "fill", "store_fails"} <= set(ast.literal_eval(said[1]))
    rehearse(forgetful, range(10), patience=120.0, never=("crash", "restart", "fill", "store_fails"))


def pair(left: Callable[[App], object], right: Callable[[App], object], done: Done) -> ProgramNet:
    """Two programs without faults."""

    def story(net: ProgramNet) -> Done:
        net.instance("left", left, remotes=["right"])
        net.instance("right", right)
        return done

    return ProgramNet(1, story, operations=0)


def test_handlers_say_how_it_went_and_senders_are_told() -> None:
    """None and True are well, False and an exception are not (T-45); one that settles says so itself, later perhaps."""
    keys = ("well", "false", "raises", "later", "twice")
    seen: Counter[str] = Counter()
    told: list[tuple[str, str, TolliverError | None]] = []

    def left(app: App) -> None:
        for key in keys:
            receipt = app.send("news", key, b"x")
            app.when_stored(receipt, lambda error, key=key: told.append((key, "stored", error)))  # type: ignore[misc]
            app.when_acked(receipt, lambda error, key=key: told.append((key, "acked", error)))  # type: ignore[misc]

    def right(app: App) -> None:
        def handler(message: Delivery) -> bool | None:
            seen[message.key] += 1
            if message.key == "raises" and message.attempt == 1:
                raise ValueError("not today")
            return None if message.attempt > 1 else message.key != "false"

        def settles(message: Delivery) -> None:
            app.later(3.0, message.ack)
            app.later(4.0, message.fail)

        for key in ("well", "false", "raises", "twice"):
            app.subscribe("news", key, handler)
        for key in ("twice", "false"):
            app.register_callback("news", key, handler)
        app.subscribe("news", "later", settles, settles=True)

    pair(lambda app: app.later(2.0, left, app), right, lambda: len(told) == 10).run()
    assert sorted(told) == sorted((key, how, None) for key in keys for how in ("stored", "acked"))
    assert seen == {"well": 1, "false": 4, "raises": 2, "twice": 2}


def test_an_assertion_of_a_handler_is_a_failure_of_the_test() -> None:
    def right(app: App) -> None:
        def handler(_: Delivery) -> None:
            raise AssertionError("that must not come")

        app.subscribe("news", handler=handler)

    def left(app: App) -> None:
        app.later(1.0, app.send, "news", "", b"x")

    with pytest.raises(SimFailure, match=r"seed 1 at .*AssertionError: that must not come"):
        pair(left, right, lambda: False).run()


def test_without_a_question_all_must_be_acknowledged() -> None:
    def story(net: ProgramNet) -> None:
        net.instance("left", lambda app: app.later(1.0, app.send, "news", "", b"x"), remotes=["right"])
        net.instance("right", lambda app: app.subscribe("news", handler=lambda _: False))

    with pytest.raises(SimFailure, match="left has 1 pending"):
        ProgramNet(1, story, operations=0, patience=20.0).run()


def test_a_life_that_is_over_takes_no_calls_and_settles_nothing() -> None:
    lives: list[App] = []
    kept: list[Delivery] = []

    def right(app: App) -> None:
        lives.append(app)
        app.subscribe("news", handler=kept.append, settles=True)

    net = pair(lambda app: app.later(1.0, app.send, "news", "", b"x"), right, lambda: bool(kept))
    net.run()
    net._stop(net._hosts[1])
    app = lives[0]
    assert repr(app) == "<App right (over)>"
    kept[0].ack()
    calls = (app.connect, app.disconnect, app.subscribe, app.subscribed, lambda _: app.later(1.0, print))
    for call in calls:
        with pytest.raises(ConnectionClosing, match="this life of right is over"):
            call("left")
    assert net._hosts[0].node is not None
    assert net._hosts[0].node.stats().pending == 1


def test_names_and_what_is_no_handler() -> None:
    def left(app: App) -> None:
        assert app.name_of(app.uuid_of("right")) == "right"
        assert app.name_of(UUID(int=1)) == str(UUID(int=1))
        assert app.now == 0.0
        with pytest.raises(ValueError, match="there is no instance 'nobody' in this story: it has left, right"):
            app.connect("nobody")
        with pytest.raises(TypeError, match="cannot be called"):
            app.register_callback("news", "", 7)  # type: ignore[arg-type]
        with pytest.raises(LocalProtocolError):
            app.send("news", "", "text")  # type: ignore[arg-type]
        app.subscribe("news")
        app.unsubscribe("news")
        app.disconnect("right")

    pair(left, lambda app: None, lambda: True).run()

    def twice(net: ProgramNet) -> None:
        for _ in range(2):
            net.instance("left", left)

    with pytest.raises(SimFailure, match="two instances with the name left"):
        ProgramNet(1, twice)


def test_programs_call_and_send_for_later_without_keys() -> None:
    seen: list[bytes] = []

    def left(app: App) -> None:
        queue = app.work_queue("jobs")
        app.later(1.0, lambda: app.send("news", "", b"news", after=2.0))
        app.later(1.0, lambda: queue.put(b"job", after=2.0))
        app.later(1.0, lambda: app.when_answered(queue.call(b"call"), answered))

    def answered(end: Answered) -> None:
        seen.extend(reply.body for reply in end.replies)

    def right(app: App) -> None:
        def work(job: Delivery) -> None:
            if job.body == b"call":
                job.answer(b"answer")
            else:
                seen.append(job.body)
                job.ack()

        app.subscribe("news", handler=lambda one: seen.append(one.body))
        app.work("jobs", work, settles=True)

    pair(left, right, lambda: {*seen} == {b"news", b"job", b"answer"}).run()


@pytest.mark.search
def test_work_that_takes_its_time_goes_on_beside_the_rest_and_a_stuck_handler_is_passed_by() -> None:
    """D-9: with `settles` the next call does not wait."""
    begun: list[tuple[bytes, float]] = []
    ended: set[bytes] = set()

    def left(app: App) -> None:
        app.later(1.0, app.send_many, [("jobs", "", b"%d" % number) for number in range(2000)])

    def right(app: App) -> None:
        def work(job: Delivery) -> None:
            begun.append((job.body, app.now))
            app.later(30.0, end, job)

        def end(job: Delivery) -> None:
            ended.add(job.body)
            job.ack()

        app.subscribe("jobs", handler=work, settles=True)

    pair(left, right, lambda: len(ended) == 2000).run()
    assert len({body for body, when in begun if when < 20.0}) > 100


def test_a_stuck_handler_lets_go_what_waits_for_it() -> None:
    """And has it again when it has ended (D-9)."""
    begun: list[float] = []
    ended: list[bytes] = []

    def left(app: App) -> None:
        app.later(30.0, app.send_many, [("jobs", "", b"%d" % number) for number in range(8)])

    def right(app: App) -> None:
        def work(job: Delivery) -> None:
            begun.append(app.now)
            app.later(20.0, end, job)

        def end(job: Delivery) -> None:
            ended.append(job.body)
            job.ack()

        app.subscribe("jobs", handler=work, settles=True)

    def story(net: ProgramNet) -> Done:
        net.instance("left", left, remotes=["right"])
        net.instance("right", right, limits=Limits(inbox_messages=4), policy=Policy(stuck_after=2.0))
        return lambda: len(set(ended)) == 8

    slow = Weather(delay=8.0, slow=0.0, dial_fails=0.0, store_fails=0.0, half_open=0.0, late_drain=0.0)
    ProgramNet(1, story, weather=slow, operations=0, seconds=200.0).run()
    assert len(begun) >= 8


def side_by_side(net: ProgramNet) -> Done:
    """Jobs by customer: three at once, and of one customer one after the other, as a crash or a slow one may come."""
    done: set[bytes] = set()

    def boss(app: App) -> None:
        def send() -> None:
            if app.subscribed("jobs") and not app.disk:
                items = [("jobs", f"customer {number % 4}", b"%d" % number) for number in range(JOBS)]
                app.when_stored(app.send_many(items), lambda error: error or app.disk.update(sent=True))

        app.every(1.0, send)

    def worker(app: App) -> None:
        at_work: Counter[str] = Counter()

        def work(job: Delivery) -> None:
            at_work[job.key] += 1
            assert at_work[job.key] == 1, "two jobs of one customer"
            assert at_work.total() <= 3, "four at once"
            app.later(0.5, end, job)

        def end(job: Delivery) -> None:
            at_work[job.key] -= 1
            if int(job.body) % 5 == 4 and job.attempt == 1:
                job.fail(retry_in=0.5)
                return
            done.add(job.body)
            job.ack()

        app.register_callback("jobs", "", work, settles=True, concurrency=3, ordered_by="key")
        app.subscribe("jobs")

    net.instance("boss", boss)
    net.instance("worker", worker, remotes=["boss"])
    return lambda: len(done) == JOBS


def test_jobs_side_by_side_are_in_order_inside_a_key() -> None:
    rehearse(side_by_side, range(20))


def ashore(net: ProgramNet) -> Done:
    """Three at once without an order, each for a while that makes its handler stuck, and no room for more."""
    done: set[bytes] = set()

    def boss(app: App) -> None:
        app.every(1.0, lambda: app.subscribed("jobs") and not app.disk and app.disk.update(sent=send(app)))

    def send(app: App) -> bool:
        app.send_many([("jobs", "", b"%d" % number) for number in range(6)])
        return True

    def worker(app: App) -> None:
        def end(job: Delivery) -> None:
            done.add(job.body)
            job.ack()

        app.register_callback("jobs", "", lambda job: app.later(2.0, end, job), settles=True, concurrency=2)
        app.subscribe("jobs")

    net.instance("boss", boss, crashes=False)
    net.instance("worker", worker, remotes=["boss"], policy=Policy(stuck_after=1.0), limits=Limits(inbox_messages=4))
    return lambda: len(done) == 6


def test_a_stuck_handler_with_several_calls_gives_back_what_waits() -> None:
    calm = Weather(store_fails=0.0, handler_hangs=0.0)
    assert rehearse(ashore, range(3), weather=calm)

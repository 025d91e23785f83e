"""Requests in the simulator: whatever breaks, each ends once, and with its own answer (P-12, P-13, P-16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tolliver_proto import ConnectionClosing, ConnectionLost, TolliverError
from tolliver_proto.errors import NoResponders, RequestFailed
from tolliver_proto.node import Answered, Asked, Request
from tolliver_proto.testing import App, ProgramNet, SimFailure, rehearse

Done = Callable[[], bool]
PATIENCE = 4.0
SLOWEST = 4.5  # seconds by which a turn of this world may be late


class Caller:
    """A program that asks all the time, and an account of what came of it."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.late = 0
        self.life: list[dict[Asked, list[Answered]]] = []

    def __call__(self, app: App) -> None:
        asked: dict[Asked, list[Answered]] = {}
        self.life.append(asked)

        def ask() -> None:
            body = b"%d/%d" % (len(self.life), len(asked))
            try:
                kind = len(asked) % 5
                one = app.request("reverse", body, timeout=PATIENCE, gathers=kind == 4, wait=kind != 3)
            except NoResponders:
                self.ends["NoResponders at once"] += 1
                return
            began = app.clock
            asked[one] = []
            app.when_answered(one, lambda answered: end(one, body, began, answered))

        def end(one: Asked, body: bytes, began: float, answered: Answered) -> None:
            asked[one].append(answered)
            assert len(asked[one]) == 1
            assert app.clock <= began + PATIENCE + SLOWEST
            assert all(reply.body == body[::-1] for reply in answered.replies if reply.error is None)
            assert one.gathers or (answered.error is None) is (len(answered.replies) == 1)
            self.ends[type(answered.error).__name__] += 1
            self.late = app.node.stats().late_replies

        app.every(0.3, ask)

    def settled(self) -> bool:
        """All but the last few of this life have ended; so many of each kind were answered in the calm."""
        life = [*self.life[-1].values()]
        return len(life) > 60 and all(life[:-20]) and life[-20][0].error is None


def chatter(net: ProgramNet, caller: Caller) -> Done:
    def responder(delay: float) -> Callable[[App], None]:
        def program(app: App) -> None:
            def reverse(request: Request) -> bytes:
                if request.body.endswith(b"7"):
                    raise ValueError("a seven")
                return request.body[::-1]

            app.respond("reverse", reverse, delay=delay)

        return program

    net.instance("caller", caller)
    net.instance("quick", responder(0.0), remotes=["caller"])
    net.instance("slow", responder(3.9), remotes=["caller"])
    return caller.settled


def test_some_of_these_stories() -> None:
    """A few, in which each line is watched."""
    rehearse(lambda net: chatter(net, Caller()), range(2))


@pytest.mark.search
def test_each_request_ends_once_with_its_own_answer() -> None:
    ends: Counter[str] = Counter()
    late = 0

    def story(net: ProgramNet) -> Done:
        callers.append(Caller())
        return chatter(net, callers[-1])

    callers: list[Caller] = []
    reports = rehearse(story, range(12))
    for caller in callers:
        ends += caller.ends
        late += caller.late
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits")) > 0
    wanted = ["NoneType", "TimeoutError", "NoResponders at once"]
    wanted += [kind.__name__ for kind in (ConnectionLost, RequestFailed)]
    assert min(ends[one] for one in wanted) > 0, ends
    assert ends[ConnectionClosing.__name__] == 0, "a program whose life is over is told nothing more"
    assert late > 0


def errands(net: ProgramNet) -> Done:
    """A program keeps on its disk what it wants to know, each question with an id, and asks until it has the answer."""
    wanted = 6

    def caller(app: App) -> None:
        answers: dict[int, bytes] = app.disk.setdefault("answers", {})
        waiting: set[int] = set()

        def ask() -> None:
            assert app.responders("square") == app.subscribed("tolliver.request/square", connected=True)
            for number in range(wanted):
                if number in answers or number in waiting:
                    continue
                try:
                    asked = app.request("square", b"%d" % number, timeout=20, durable=True, request_id=1000 + number)
                except NoResponders:
                    continue
                waiting.add(number)
                app.when_answered(asked, partial(end, number))

        def end(number: int, answered: Answered) -> None:
            waiting.discard(number)
            assert isinstance(answered.error, TolliverError | TimeoutError | None)
            if answered.error is None:
                assert answered.replies[0].body == b"%d" % number**2
                answers[number] = answered.replies[0].body

        app.every(1.0, ask)

    def responder(app: App) -> None:
        app.respond("square", lambda request: b"%d" % int(request.body) ** 2, delay=2.0)

    net.instance("caller", caller)
    net.instance("responder", responder, remotes=["caller"])
    return lambda: len(net.disk("caller").get("answers", ())) == wanted


def test_a_durable_request_is_answered_though_both_ends_crash() -> None:
    reports = rehearse(errands, range(12))
    happened = sum((Counter(report.counts) for report in reports), Counter())
    assert min(happened[one] for one in ("crashes", "breaks", "restarts", "splits", "filled")) > 0


def test_an_assertion_of_a_responder_is_a_failure_of_the_test() -> None:
    def asks(app: App) -> None:
        app.later(2.0, app.request, "sums", b"x")

    def answers(app: App) -> None:
        def handle(request: Request) -> bytes:
            raise AssertionError("not that")

        app.respond("sums", handle)

    def story(net: ProgramNet) -> Callable[[], bool]:
        net.instance("one", answers)
        net.instance("two", asks, remotes=["one"])
        return lambda: False

    with pytest.raises(SimFailure, match="not that"):
        rehearse(story, range(1))

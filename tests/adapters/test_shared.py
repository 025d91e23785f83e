"""One iterator for several tasks or threads: each element goes to exactly one of them."""

from __future__ import annotations

import pytest

from .facade import Handle, World, until
from .kinds import EVERY_LOOP
from .nodes import Nodes, subscribed
from .streams import Stage

BODIES = [b"a", b"b", b"c"]
ONCE = {"retry_interval": 600.0}  # seconds: nothing comes again


def all_wait(world: World, waiting: list[Handle]) -> None:
    """Each has begun to wait, where the world has one thread for all of them; on threads, perhaps."""
    world.start("what comes behind them", lambda: None).wait()
    assert not any(one.done for one in waiting)


@EVERY_LOOP
@pytest.mark.parametrize("together", [True, False])
def test_messages(nodes: Nodes, kind: str, together: bool) -> None:
    with nodes.pair(channels=(), left=ONCE) as (left, right, _), right.messages("news") as items:
        first = items.start_next()
        subscribed(left)
        waiting = [first, *(items.start_next() for _ in BODIES[1:])]
        all_wait(nodes.world, waiting)
        for bodies in [BODIES] if together else [[body] for body in BODIES]:
            left.send_many([("news", "", body) for body in bodies])
        came = [items.settled(one.wait()) for one in waiting]
        assert sorted(one.body for one in came) == BODIES
        for one in came:
            one.ack()
        waiting = [items.start_next() for _ in range(2)]
        items.close()
        for end in waiting:
            assert isinstance(end.outcome(), StopAsyncIteration)


@EVERY_LOOP
def test_runs(nodes: Nodes, kind: str) -> None:
    with nodes.pair(channels=(), left=ONCE) as (left, right, _), right.message_runs("news") as runs:
        first = runs.start_next()
        subscribed(left)
        waiting = [first, runs.start_next()]
        all_wait(nodes.world, waiting)
        for body in BODIES[:2]:
            left.send("news", "", body)
            until(lambda: any(one.done for one in waiting), "a run for one of them")
            (got,) = (one for one in waiting if one.done)
            waiting.remove(got)
            run = runs.settled(got.wait())
            assert [delivery.body for delivery in run] == [body]
            run.ack()


@EVERY_LOOP
@pytest.mark.parametrize("together", [True, False])
def test_elements_of_a_stream(stage: Stage, kind: str, together: bool) -> None:
    streams, upstream = stage.taking()
    taken = streams.subscribe("in")
    stream = upstream.hear_subscribe()
    upstream.subscribed(stream)
    waiting = [taken.start_next() for _ in BODIES]
    all_wait(stage.world, waiting)
    for elements in [BODIES] if together else [[body] for body in BODIES]:
        upstream.next_many(stream, elements)
    assert sorted(one.wait() for one in waiting) == BODIES
    waiting = [taken.start_next() for _ in range(2)]
    all_wait(stage.world, waiting)
    upstream.complete(stream)
    for end in waiting:
        assert isinstance(end.outcome(), StopAsyncIteration)


@pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted"])
def test_who_goes_away_takes_nothing_along(stage: Stage, kind: str) -> None:
    streams, upstream = stage.taking()
    taken = streams.subscribe("in")
    stream = upstream.hear_subscribe()
    upstream.subscribed(stream)
    leaving, staying = taken.start_next(), taken.start_next()
    all_wait(stage.world, [leaving, staying])
    assert leaving.cancel is not None
    leaving.cancel()
    leaving.outcome()
    upstream.next_many(stream, [b"a"])
    assert staying.wait() == b"a"

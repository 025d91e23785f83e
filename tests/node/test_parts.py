"""The small parts of the node against the plainest models of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import count, pairwise
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import Delivery, LocalProtocolError, Message, NoticeKind, OutboxFull, Subscription
from tolliver_proto._common.intervals import BLOCK, RefCounts
from tolliver_proto._common.timers import Timers
from tolliver_proto._node.outboxes.ids import LAST_ID, IdAllocator
from tolliver_proto._node.subscriptions import Routes
from tolliver_proto.layouts import IntervalSet, spans_of
from tolliver_proto.node import GiveUp, HandleAgain, NodeStats, Verdict

numbers = st.one_of(st.integers(0, 40), st.integers(BLOCK - 20, BLOCK + 20))  # in one block, and in two
spans = st.tuples(numbers, st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def members(one: tuple[int, int]) -> set[int]:
    return set(range(one[0], one[1] + 1))


@given(st.lists(st.tuples(st.booleans(), spans), max_size=30), numbers)
def test_spans_are_a_set(steps: list[tuple[bool, tuple[int, int]]], probe: int) -> None:
    held, model = IntervalSet(), set[int]()
    for add, one in steps:
        (held.add if add else held.discard)(*one)
        model = model | members(one) if add else model - members(one)
        assert list(held) == spans_of(model)
    assert (probe in held) is (probe in model)
    assert bool(held) is bool(model)
    assert held.next_free(probe) == next(n for n in count(probe) if n not in model)
    assert held.next_taken(probe) == min((n for n in model if n >= probe), default=None)


@given(st.sets(numbers))
def test_spans_of_is_shortest(chosen: set[int]) -> None:
    found = spans_of(chosen)
    assert set().union(*map(members, found)) == chosen
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))


@given(
    st.sampled_from([0, BLOCK - 15]),
    st.lists(st.integers(1, 3), max_size=30),
    st.lists(st.tuples(st.sampled_from(["take", "give", "drop"]), spans), max_size=30),
)
def test_owed_counts_up_and_down(start: int, counts: list[int], steps: list[tuple[str, tuple[int, int]]]) -> None:
    owed, model = RefCounts(), Counter[int]()
    for seq, peers in enumerate(counts, start):
        owed.add(seq, peers)
        model[seq] = peers
    for step, (first, last) in steps:
        here = [seq for seq in model if first <= seq <= last]
        if step == "give":
            for one, other in spans_of(here):
                owed.give(one, other)
            model.update(here)
        elif step == "drop":
            owed.drop(first, last)
            for seq in here:
                del model[seq]
        else:
            gone = owed.take(first, last)
            for seq in here:
                model[seq] -= 1
            assert spans_of(set().union(*map(members, gone))) == spans_of(seq for seq in here if not model[seq])
            model = +model
        assert {seq: peers for one, other, peers in owed for seq in range(one, other + 1)} == model
        assert all(seq in owed for seq in model)
        assert all(one[1] < other[0] for one, other in pairwise(owed))


spans_in_bulk = st.lists(st.tuples(st.integers(1, 3 * BLOCK // 2), st.integers(1, BLOCK)), min_size=1, max_size=12)


@given(spans_in_bulk, st.lists(st.tuples(st.integers(0, 9 * BLOCK), st.integers(0, BLOCK)), max_size=4))
def test_spans_in_bulk_are_the_same_as_one_by_one(gaps: list[tuple[int, int]], before: list[tuple[int, int]]) -> None:
    firsts, lasts, end = [], [], 0
    for gap, length in gaps:
        firsts.append(end + gap + 1)
        lasts.append(firsts[-1] + length - 1)
        end = lasts[-1]
    spans = list(zip(firsts, lasts, strict=True))
    held, other = (IntervalSet((first, first + more) for first, more in before) for _ in range(2))
    held.extend(firsts, lasts)
    for span in spans:
        other.add(*span)
    assert held == other
    owed = RefCounts([(0, 1, 1)])
    owed.extend(firsts, lasts, 2)
    assert owed == [(0, 1, 1), *((first, last, 2) for first, last in spans)]
    assert repr(owed) == f"RefCounts({[*owed]})"
    assert repr(held) == f"IntervalSet({[*held]})"


@given(st.sets(st.integers(0, 40)))
def test_long_runs_are_one_run_in_any_number_of_blocks(holes: set[int]) -> None:
    """A backlog from before the first block to behind the third, with holes at its start and its end."""
    size, far = 3 * BLOCK, 3 * BLOCK - 20
    owed, held = RefCounts([(0, size, 2)]), IntervalSet([(0, size)])
    assert owed.take(0, size) == []
    assert (list(owed), list(held)) == ([(0, size, 1)], [(0, size)])
    for hole in holes:
        at = hole if hole <= 20 else far + hole - 20
        assert owed.take(at, at) == [(at, at)]
        held.discard(at, at)
    assert [(first, last) for first, last, _ in owed] == list(held)
    assert sum(last + 1 - first for first, last in held) == size + 1 - len(holes)
    assert held.next_free(30) == min((far + hole - 20 for hole in holes if hole > 20), default=size + 1)
    assert list(IntervalSet(RefCounts(owed).take(0, size))) == list(held)


def test_acknowledgements_in_order_leave_one_run() -> None:
    owed = RefCounts([(1, 100_000, 2)])
    for seq in range(1, 5_000):
        owed.take(seq, seq)
        assert len(list(owed)) == 2


@pytest.mark.search
@settings(max_examples=60)
@given(st.randoms(), st.integers(0, 40), st.sets(st.integers(1, 60)), st.sets(st.integers(0, 60)))
def test_ids_are_free_cyclic_and_never_reserved(
    chance: Random, before_the_wrap: int, low: set[int], high: set[int]
) -> None:
    """T-40, T-41: 1 to 2^31-2, in a circle, over whatever is still live."""
    live = low | {LAST_ID - n for n in high}
    ids = IdAllocator(LAST_ID - before_the_wrap, spans_of(live))
    previous = LAST_ID - before_the_wrap - 1
    for _ in range(150):
        if live and chance.random() < 0.5:
            back = chance.choice(sorted(live))
            live.discard(back)
            ids.give_back([(back, back)])
        taken = ids.take()
        assert 1 <= taken <= 2**31 - 2
        assert taken not in live
        ahead = (taken - previous) % LAST_ID
        assert 0 < ahead <= 150 + len(live)
        live.add(taken)
        previous = taken


@pytest.mark.search
def test_all_ids_outstanding_is_outbox_full_and_takes_nothing() -> None:
    ids = IdAllocator(5, [(1, 9), (12, LAST_ID)])
    with pytest.raises(OutboxFull, match="T-41"):
        ids.take_many(3)
    assert sorted(ids.take_many(2)) == [10, 11]
    ids.give_back([(4, 4)])
    assert ids.take() == 4


times = st.floats(0, 100, allow_nan=False)
calls = st.sampled_from(("set", "earlier", "cancel", "pop"))
steps = st.lists(st.tuples(calls, st.integers(0, 5), times), max_size=300)


@given(steps)
def test_timers_are_a_sorted_dictionary(todo: list[tuple[str, int, float]]) -> None:
    timers, model = Timers(), dict[int, float]()
    for what, key, due in todo:
        if what == "set":
            timers.set(key, due)
            model[key] = due
        elif what == "earlier":
            timers.set_earlier(key, due)
            model[key] = min(due, model.get(key, due))
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            popped = timers.pop_due(due)
            assert (popped is None) is (min(model.values(), default=101.0) > due)
            if isinstance(popped, int):
                earliest = min(model.values())
                assert model.pop(popped) == earliest
        first = timers.earliest()
        assert (first[0] if first else None) == min(model.values(), default=None)
        assert first is None or model[first[1]] == first[0]  # type: ignore[index]  # keys here are numbers


def test_equal_deadlines_fire_in_the_order_of_setting() -> None:
    timers = Timers()
    for key in ("b", "a", ("c", 1)):
        timers.set(key, 1.0)
    assert [timers.pop_due(1.0) for _ in range(4)] == ["b", "a", ("c", 1), None]


def test_moved_deadlines_leave_no_litter() -> None:
    timers = Timers()
    for moment in range(10_000):
        timers.set("one", float(moment))
    assert len(timers._heap) < 100


texts = st.sampled_from(("", "a", "b", "ab"))
entries = st.tuples(st.booleans(), st.builds(Subscription, texts, texts), st.integers(0, 3))


@given(st.lists(entries, max_size=40), st.sampled_from(("a", "b", "c")), texts)
def test_routes_are_the_rule_of_wildcards(
    changes: list[tuple[bool, Subscription, int]], channel: str, key: str
) -> None:
    """T-24: "" on the subscription's side alone; T-25: each target once; T-26: removal is of exactly one entry."""
    routes: Routes[int, tuple[int, ...]] = Routes(lambda targets: targets)
    model = set[tuple[Subscription, int]]()
    for add, subscription, target in changes:
        (routes.add if add else routes.discard)(subscription, target)
        (model.add if add else model.discard)((subscription, target))
        wanted = {target for one, target in model if one.channel in ("", channel) and one.key in ("", key)}
        found = routes.match(channel, key)
        assert set(found) == wanted
        assert len(found) == len(wanted)
    assert len(routes) == len({subscription for subscription, _ in model})


# Deliveries and snapshots.


class Said:
    """A settler that remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[list[Delivery], Verdict]] = []

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
        self.said.append((list(deliveries), verdict))


def test_a_delivery_is_settled_by_who_handed_it_out() -> None:
    delivery, settler = Delivery(1, UUID(int=1), Message("news", "k", b"x", 7)), Said()
    for settle in (delivery.ack, delivery.fail, lambda: delivery.give_up("no"), lambda: delivery.answer(b"")):
        with pytest.raises(LocalProtocolError, match=r"Node\.acknowledge"):
            settle()
    delivery.settler = settler
    delivery.ack()
    delivery.fail()
    delivery.fail(retry_in=2.5)
    delivery.give_up("no such customer")
    with pytest.raises(ValueError, match="give seconds"):
        delivery.fail(retry_in=-1.0)
    said = [True, False, HandleAgain(2.5), GiveUp("no such customer")]
    assert settler.said == [([delivery], one) for one in said]
    assert repr(delivery) == "Delivery('news', 'k', 1 bytes, id=7)"


def test_a_snapshot_has_every_name_from_the_start() -> None:
    stats = NodeStats.of({"acked": 3, "notices_parked": 2}, pending=4)
    assert (stats.acked, stats.notices[NoticeKind.PARKED], stats.pending) == (3, 2, 4)
    assert (stats["acked"], stats["notices_parked"], stats["pending"], stats["resent"]) == (3, 2, 4, 0)
    assert dict(stats) == {**stats.counters(), **stats.gauges()}
    assert len(stats) == len(dict(stats)) == len(dict(NodeStats.of({})))
    assert "pending" in stats.gauges()
    assert "acked" in stats.counters()

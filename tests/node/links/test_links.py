"""Life of a link, as its table has it."""

from __future__ import annotations

import gc
from collections import deque
from itertools import permutations

import pytest

from tolliver_proto import Role
from tolliver_proto._common.base_link import (
    HANDING_OUT,
    SHUTTABLE,
    TRANSITIONS,
    BaseLink,
    Connection,
    LinkSignal,
    LinkState,
)
from tolliver_proto._common.empty_queue import EMPTY
from tolliver_proto._node.link import Hold, Link
from tolliver_proto._testing.inspection import inside

from ..play import Play

S = LinkState


def test_every_state_but_the_last_can_be_forgotten_and_is_reached() -> None:
    assert set(TRANSITIONS) == set(LinkState)
    assert all((LinkSignal.FORGET in steps) is (state is not S.FORGOTTEN) for state, steps in TRANSITIONS.items())
    reached = {to for steps in TRANSITIONS.values() for to in steps.values()}
    assert reached == set(LinkState) - {S.CONNECTING}


def test_a_link_waits_until_the_last_of_its_reasons_has_ended() -> None:
    for one, other in permutations(Hold, 2):
        link = Link(1, Role.SERVER, None, 1)
        link.hold(one)
        assert not link.holding & other
        link.hold(other)
        link.release(one)
        assert link.holding & other
        link.release(other)
        assert not link.holding


def test_no_signal_leads_back() -> None:
    """A half that has ended stays so, and what was lost is not found again."""
    order = list(LinkState)
    steps = [(state, to) for state, ways in TRANSITIONS.items() for to in ways.values()]
    assert all(order.index(to) >= order.index(state) or (state, to) == (S.DRAINING, S.CLOSED) for state, to in steps)
    assert {S.OPEN, S.ENDING, S.WRITE_CLOSED, S.DRAINING} == HANDING_OUT
    assert {S.OPEN, S.ENDING, S.READ_CLOSED} == SHUTTABLE


@pytest.mark.parametrize(
    ("signals", "wrong"),
    [
        ([], LinkSignal.SHUT),
        ([LinkSignal.OPENED], LinkSignal.OPENED),
        ([LinkSignal.OPENED, LinkSignal.SHUT], LinkSignal.SHUT),
        ([LinkSignal.OPENED, LinkSignal.CLOSED], LinkSignal.CLOSED),
        ([LinkSignal.OPENED, LinkSignal.CLOSED], LinkSignal.LOST),
        ([LinkSignal.OPENED, LinkSignal.LOST], LinkSignal.SHUT),
        ([LinkSignal.FORGET], LinkSignal.FORGET),
    ],
)
def test_what_cannot_happen_raises(signals: list[LinkSignal], wrong: LinkSignal) -> None:
    link: BaseLink[Connection] = BaseLink(1, Role.SERVER, None)
    for signal in signals:
        link.move(signal)
    before = link.state
    with pytest.raises(KeyError):
        link.move(wrong)
    assert link.state is before


def test_a_connection_is_closed_half_by_half() -> None:
    play = Play()
    wire = play.peer()
    link = inside(play.node).context.links[wire.cid]
    states = [link.state]
    play.call("close")
    states.append(link.state)
    wire.end()
    states.append(link.state)
    wire.lose()
    assert [*states, link.state] == [S.OPEN, S.WRITE_CLOSED, S.CLOSED, S.FORGOTTEN]


def test_what_a_lost_transport_brought_is_handed_out_first() -> None:
    play = Play()
    wire = play.peer()
    link = inside(play.node).context.links[wire.cid]
    play.node.lost(wire.cid)
    states = [link.state]
    play.run()
    assert [*states, link.state] == [S.DRAINING, S.FORGOTTEN]


def test_an_idle_link_keeps_no_queue_and_no_dict_of_its_own() -> None:
    """There may be thousands of them: an empty deque takes 760 bytes, and a dict of many fields twice that."""
    play = Play()
    wire = play.peer()
    link = inside(play.node).context.links[wire.cid]
    seen: dict[int, object] = {id(play.node): play.node}
    ahead: list[object] = [link]
    while ahead:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen[id(one)] = one
        if one is link or type(one).__module__.startswith("tolliver_proto."):
            ahead += gc.get_referents(one)
    assert [one for one in seen.values() if isinstance(one, deque) and one is not EMPTY] == []
    parts = {type(one).__name__: one for one in seen.values()}
    for name in ("Connection", "ControlSync", "Decoder", "Duel", "Exposure", "Inbox", "Link", "Peer", "Window"):
        assert not hasattr(parts[name], "__dict__"), name

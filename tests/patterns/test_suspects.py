"""Messages that handlers had begun when the process died: each is handled alone, and condemned by its own deaths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.patterns.play import LOW, OTHER, Play, Wire, deliveries, every, notices
from tolliver_proto import Action, Delivery, Limits, Message, NoticeKind, Policy
from tolliver_proto.store import KILLED_ITS_PROCESS, Loaded
from tolliver_proto.testing import MemoryStore

Deaths = Mapping[int, int | None]


class Left(MemoryStore):
    """A store of a process that died: these messages of the peer LOW were in hand, with their deaths."""

    def __init__(self, deaths: Deaths) -> None:
        super().__init__()
        self._deaths: dict[tuple[UUID, int], int | None] = {(LOW, one): count for one, count in deaths.items()}

    def load(self) -> Loaded:
        return replace(super().load(), suspects=self._deaths)


def restarted(deaths: Deaths, **options: Any) -> Play:
    play = Play(store=Left(deaths), handlers=[("", "", "handler")], **options)
    play.call("subscribe", "", "")
    return play


def message(number: int | None) -> Message:
    return Message("c", "k", b"%d" % (number or 0), number)


def ids(actions: list[Action]) -> list[int | None]:
    return [one.message_id for one in deliveries(actions)]


def came(play: Play, *numbers: int | None, uuid: UUID = LOW) -> tuple[Wire, list[Action]]:
    wire = play.peer(uuid)
    return wire, wire.send(*map(message, numbers))


def handled(play: Play, actions: list[Action], name: str = "acknowledge") -> list[Action]:
    """The handlers are done with these; returns what comes then."""
    return play.call(name, deliveries(actions))


def test_a_suspect_is_handled_alone() -> None:
    play = restarted({2: 0, 3: 0})
    wire, first = came(play, 1, 2, 3, 4)
    assert ids(first) == [1], "it waits until nothing else is in hand"
    second = handled(play, first)
    assert ids(second) == [2]
    third = handled(play, second)
    assert ids(third) == [3]
    assert ids(handled(play, third)) == [4]
    assert wire.acks() == [1, 2, 3]


def test_a_suspect_that_fails_has_not_killed() -> None:
    play = restarted({2: 2})
    wire, first = came(play, 2)
    [delivery] = deliveries(first)
    assert delivery.attempt == 3, "deaths are tries"
    handled(play, first, "fail")
    assert ids(wire.send(message(2), message(3))) == [2, 3]


def test_others_wait_on_all_connections_and_unreliable_ones_too() -> None:
    play = restarted({1: 0})
    _, first = came(play, 1, None)
    other, second = came(play, 7, 8, uuid=OTHER)
    assert ids(first) == [1]
    assert ids(second) == []
    assert ids(handled(play, first)) == [None, 7, 8]
    assert other.acks() == []


def test_nothing_waits_longer_than_ten_seconds_for_a_suspect() -> None:
    play = restarted({1: 0})
    _, first = came(play, 1, 2)
    assert ids(first) == [1]
    assert ids(play.wait(9.9)) == []
    assert ids(play.wait(0.2)) == [2]


def test_a_suspect_waits_five_seconds_for_others_at_most() -> None:
    play = restarted({2: 0, 3: 0})
    _, first = came(play, 1, 2, 3)
    assert ids(first) == [1]
    assert ids(play.wait(4.9)) == []
    assert ids(play.wait(0.2)) == [2]
    assert ids(play.wait(14.8)) == [], "ten seconds alone, and the next one waits five again"
    assert ids(play.wait(0.3)) == [3]


def test_nothing_waits_for_a_suspect_that_is_not_here() -> None:
    play = restarted({9: 0})
    assert ids(came(play, 1, 2)[1]) == [1, 2]


@pytest.mark.parametrize(("options", "deaths"), [({}, 3), ({"limits": Limits(max_attempts=1)}, 1)])
def test_the_last_death_makes_a_dead_letter(options: dict[str, Any], deaths: int) -> None:
    play = restarted({2: deaths}, **options)
    wire, actions = came(play, 2, 3)
    assert ids(actions) == [3]
    assert notices(actions) == [NoticeKind.DEAD_LETTER]
    [letter] = play.store.dead_letters(0, 10)
    assert (letter.peer, letter.message_id, letter.attempts) == (LOW, 2, deaths)
    assert letter.cause == KILLED_ITS_PROCESS
    assert wire.acks() == [2]
    assert ids(wire.send(message(2))) == []
    assert wire.acks() == [2], "a copy is acknowledged, and never handed out"


def test_one_death_less_makes_none() -> None:
    assert ids(came(restarted({2: 2}), 2)[1]) == [2]


def test_who_allows_more_deaths_or_any_number() -> None:
    assert ids(came(restarted({2: 3}, policy=Policy(max_deaths=4)), 2)[1]) == [2]
    assert ids(came(restarted({1: 99, 2: 99}, policy=Policy(max_deaths=None)), 1, 2)[1]) == [1, 2]


def test_what_was_condemned_in_an_earlier_life_is_acknowledged() -> None:
    """The process died again between the commit of the dead letter and the ack."""
    play = restarted({2: None})
    wire, actions = came(play, 2, 3)
    assert ids(actions) == [3]
    assert wire.acks() == [2]
    assert play.store.dead_letters(0, 10) == []


def test_it_is_acknowledged_when_its_dead_letter_is_stored() -> None:
    play = restarted({2: 3})
    wire = play.peer()
    play.hold_commits = True
    wire.send(message(2))
    assert wire.acks() == []
    assert ids(wire.send(message(2))) == [], "nor is a copy handed out meanwhile"
    play.fail()
    assert wire.acks() == []
    play.hold_commits = False
    assert ids(wire.send(message(2))) == []
    assert wire.acks() == [2]


def test_without_room_for_its_letter_it_stays_with_its_sender() -> None:
    play = restarted({2: 3})
    wire = play.peer()
    play.store.full = True
    play.send("x", "", b"")
    play.store.full = False
    play.call("retry", LOW)
    assert ids(wire.send(message(2))) == []


def test_what_waits_on_a_connection_that_ends_comes_again_on_the_next() -> None:
    play = restarted({1: 0, 2: 0})
    wire, first = came(play, 1, 2)
    assert ids(first) == [1]
    wire.lose()
    _, second = came(play, 2, 3)
    assert ids(second) == []
    assert ids(handled(play, first)) == [2]


def test_a_suspect_whose_handler_comes_later_is_alone_then() -> None:
    play = Play(store=Left({1: 0}), subscriptions=[("c", "")])
    _, actions = came(play, 1, 2)
    assert ids(actions) == []
    play.node.register("c", "", "handler", None)
    first = play.run()
    assert ids(first) == [1]
    assert ids(handled(play, first)) == [2]


def test_a_close_waits_for_no_suspect() -> None:
    play = restarted({1: 0, 2: 0})
    wire, first = came(play, 1, 2)
    play.node.unregister("", "", "handler")
    play.call("close")
    handled(play, first, "let_go")
    wire.end()
    wire.lose()
    assert play.node.idle


def test_a_copy_that_dedupe_knows_is_no_suspect_any_more() -> None:
    play = restarted({1: 0}, policy=Policy(dedupe=10))
    wire, first = came(play, 1)
    handled(play, first)
    assert ids(wire.send(message(1))) == []
    assert wire.acks() == [1, 1]


@pytest.mark.parametrize("deaths", [0, -1, 1.5, True])
def test_deaths_are_at_least_one_or_none(deaths: Any) -> None:
    with pytest.raises(ValueError, match="the number of deaths, at least 1, or None"):
        Policy(max_deaths=deaths)


def test_a_node_without_suspects_runs_nothing_of_this() -> None:
    _, actions = came(restarted({}), 1)
    assert [type(one) for one in every(actions, Delivery)] == []
    assert ids(actions) == [1]

"""Lines that break after some bytes, again and again: what is sent over them arrives (T-76)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import Ack, Action, ConnectionLost, Dial, Message, encode

from .play import LOW, Play, Wire, every

ROUND_TRIP = 0.05
TLS = 4_000  # bytes of a handshake with certificates, both ways


class Line:
    """A dialled connection that passes so many bytes, both ways together, and then breaks."""

    def __init__(self, play: Play, dials: list[Action], passes: int) -> None:
        self.play = play
        self.wire: Wire = play.dialled(dials)
        self.left = passes - TLS
        self.acked = 0
        self.wire.respond(("c", ""))

    def run(self) -> list[Action]:
        """Until it breaks, or there is nothing more to pass."""
        wire, actions = self.wire, list[Action]()
        while messages := [frame for frame in wire.got() if isinstance(frame, Message)]:
            through = []
            for message in messages:
                self.left -= len(encode(message, wire.revision)) + len(encode(Ack(0), wire.revision))
                if self.left < 0:
                    return actions + wire.lose(ConnectionLost("reset"))  # and what would be acknowledged is lost
                through.append(message)
            actions += self.play.wait(ROUND_TRIP)
            actions += wire.ack(*through)
            self.acked += len(through)
        return actions


def passed(passes: Iterable[int], messages: int, size: int, seconds: float) -> list[int]:
    """Messages of which each connection brought the acknowledgement, until that of all came."""
    play, counts = Play(), list[int]()
    actions = play.call("connect", "there")
    for each in passes:
        while not every(actions, Dial):
            assert play.now < seconds, f"{sum(counts)} of {messages} in {play.now:.0f} s: {counts}"
            actions = play.wait(0.1)
        line = Line(play, actions, each)
        if not counts:
            play.node.send_many([("c", "k", bytes(size))] * messages, now=play.now)
            play.run()
        actions = line.run()
        counts.append(line.acked)
        if sum(counts) == messages:
            break
    return counts


@pytest.mark.search
@pytest.mark.parametrize("passes", [20_000, 30_000, 60_000])
def test_a_line_that_passes_little_at_a_time_passes_all_in_time(passes: int) -> None:
    counts = passed(cycle([passes]), 2_000, 100, 90.0)
    assert 0 not in counts[1:], counts


@pytest.mark.search
@given(st.lists(st.integers(20_000, 60_000), min_size=1, max_size=4), st.integers(1, 3_000))
def test_no_two_connections_running_bring_nothing(passes: list[int], size: int) -> None:
    counts = passed(cycle(passes), 300, size, 600.0)
    assert not any(one == other == 0 for one, other in pairwise(counts)), counts


def test_a_line_that_holds_is_filled_again() -> None:
    """The window grows with each acknowledgement: a message less each time would never get through."""
    assert passed([20_000, 10**9], 2_000, 100, 10.0)[1] == 2_000


def in_flight(play: Play) -> int:
    [numbers] = play.node.numbers(play.now)
    return numbers.in_flight


def test_a_line_that_breaks_has_the_next_begin_with_little_and_one_that_stands_has_all() -> None:
    """A peer that withholds its acknowledgements is none that breaks: what waits for others is not held up (T-52)."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    play.node.send_many([("c", "k", bytes(1000))] * 100, now=play.now)
    play.run()
    assert in_flight(play) == 100
    wire.lose(ConnectionLost("reset"))
    wire = play.peer(LOW, ("c", ""))
    assert 1 <= in_flight(play) <= 4
    play.wait(11.0)
    assert in_flight(play) == 100
    wire.ack(*wire.messages())
    wire.lose(ConnectionLost("reset"))
    play.peer(LOW, ("c", ""))
    play.node.send_many([("c", "k", bytes(1000))] * 100, now=play.now)
    play.run()
    assert in_flight(play) == 100, "nothing was in flight when it ended"

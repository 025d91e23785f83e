"""Fairness between a peer with many streams and one with few."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tolliver_proto.reactive import Limits, OnNext, Request, Subscribe, Subscribed

from .kinds import ADAPTERS
from .scripted import Scripted
from .streams import Stage

SHARE, MANY = 20, 900
ROUNDS = 5
"""Of the loop, in which a request is read, its source is woken and what it gives is seen."""


class Counted:
    """Publication for both peers. The first stream of the loud one has the good one ask for its element."""

    def __init__(self, good: Scripted) -> None:
        self.good = good
        self.begun = 0
        self.before = 0
        """Streams of the loud one that had begun when the good one was served."""

    def loud(self, _name: str) -> list[bytes]:
        self.begun += 1
        if self.begun == 1:
            self.good.say(Request(1, 1))
        return []

    def quiet(self, _name: str) -> Iterator[bytes]:
        self.before = self.begun
        yield b"at last"


@pytest.mark.parametrize("kind", [kind for kind in ADAPTERS if kind.values != ("blocking",)])
def test_many_subscriptions_in_one_read_let_others_in(stage: Stage) -> None:
    """D-12. With threads each source is read on its own: which of them comes first is the system's choice."""
    streams = stage.open(limits=Limits(max_turn=SHARE))
    good, loud = stage.dial(streams), stage.dial(streams)
    counted = Counted(good)
    streams.publish("loud", counted.loud)
    streams.publish("quiet", counted.quiet)
    assert good.subscribe("quiet", 0) == 1
    loud.say(*(Subscribe("loud", number, 1) for number in range(1, 1 + MANY)))
    assert good.hear_elements(1, 1) == [b"at last"]
    assert SHARE <= counted.before <= ROUNDS * SHARE
    for number in range(1, 1 + MANY):
        loud.hear_end(number)
    answers = [frame.subscriber_id for frame in loud.frames if isinstance(frame, Subscribed)]
    assert sorted(answers) == [*range(1, 1 + MANY)], "each, once"
    assert not any(isinstance(frame, OnNext) for frame in loud.frames)

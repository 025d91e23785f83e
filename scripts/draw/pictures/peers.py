"""Two peers: a subscription of one at the other (T-61), and crossing dials (T-70)."""

from __future__ import annotations

from typing import NamedTuple

from .states import Box, Way, diagram
from .svg import arrow, line, picture, rectangle, words

_ENTRY = {
    "listed": Box(0, 0, "messages are sent"),
    "held": Box(0, 1.5, "messages are kept, not sent"),
    "unknown": Box(1.4, 0, "no messages for this peer"),
    "given up": Box(1.4, 1.5, "what was kept is removed"),
}
_ENTRY_WAYS = {
    ("unknown", "listed"): Way("left", "right", out=-10, into=-10),
    ("listed", "unknown"): Way("right", "left", out=10, into=10, beside=(6, 15)),
    ("listed", "held"): Way("bottom", "top", out=-80, into=-80),
    ("held", "listed"): Way("top", "bottom", out=60, into=60),
    ("held", "given up"): Way("right", "left"),
    ("given up", "unknown"): Way("top", "bottom"),
}
_ENTRY_SIGNALS = {
    ("unknown", "listed"): "Subscribe, or a list that has it",
    ("listed", "unknown"): "Unsubscribe: queued ones still go",
    ("listed", "held"): "a list lacks it",
    ("held", "listed"): "Subscribe, or a list that has it: sent in order",
    ("held", "given up"): "Unsubscribe, or the time is over",
    ("given up", "unknown"): "",
}


def held() -> str:
    return diagram(
        "A peer's subscription, as the other side keeps it",
        _ENTRY,
        _ENTRY_WAYS,
        _ENTRY_SIGNALS,
        "Without holds, a list that lacks the entry leads to unknown at once.",
    )


class Step(NamedTuple):
    """Something that goes from a column to another, or stands at one."""

    start: int
    end: int
    text: str
    kind: str = "wire"


_LANES = ("A, UUID ...01", "B, UUID ...02")
_AT = (150, 590)
_CROSSING = (
    Step(0, 1, "dial 1: request of A"),
    Step(1, 0, "dial 2: request of B", "call"),
    Step(1, 0, "dial 1: response of B"),
    Step(0, 1, "dial 2: response of A", "call"),
    Step(0, 0, "A is lower: dial 1 stays"),
    Step(1, 1, "A is lower: dial 1 stays"),
    Step(0, 1, "dial 2: close_notify, FIN", "call"),
    Step(1, 0, "dial 2: close_notify, FIN", "call"),
    Step(1, 1, "B does not dial A again"),
    Step(0, 1, "what had no ack on dial 2 goes again on dial 1"),
    Step(1, 0, "dial 1: acks for what came on dial 1 alone"),
)
_FIRST, _BETWEEN = 80, 34


def crossing() -> str:
    """Two peers that dial each other at the same time."""
    bottom = _FIRST + _BETWEEN * (len(_CROSSING) - 1) + 20
    parts = []
    for name, x in zip(_LANES, _AT, strict=True):
        parts.append(rectangle("box rule", x - 80, 16, 160, 30, 6))
        parts.append(words("title middle", x, 36, name))
        parts.append(line("rule thin", (x, 46), (x, bottom)))
    for number, step in enumerate(_CROSSING):
        y = _FIRST + _BETWEEN * number
        if step.start == step.end:
            x = _AT[step.start]
            parts.append(rectangle("box rule", x - 95, y - 14, 190, 24, 6))
            parts.append(words("small middle", x, y + 3, step.text))
        else:
            parts += arrow(step.kind, (_AT[step.start], y), (_AT[step.end], y))
            parts.append(words("small middle", sum(_AT) / 2, y - 6, step.text))
    told = "; ".join(f"{_LANES[step.start]}: {step.text}" for step in _CROSSING)
    return picture("Crossing dials", told, 740, bottom + 12, parts)

"""The house: rooms of the code on their floors, from the order that the tests hold every import against."""

from __future__ import annotations

from scripts.draw.rooms import short
from scripts.rooms import CORE, FLOORS, Room

from .svg import line, picture, rectangle, words

_WIDTH, _FLOOR, _LEFT, _GAP = 960, 34, 40, 10
_LETTER = 7.6  # pixels, about


def drawn() -> str:
    """Highest floor first, as a house stands. Doors are filled."""
    parts, told = [], []
    top = 40.0
    for number, floor in reversed([*enumerate(FLOORS, 1)]):
        if number == len(CORE):
            parts += [line("edge dashed", (0, top + 4), (_WIDTH, top + 4)), words("title", _LEFT, top + 24, _PURE)]
            top += 36
        parts.append(words("faint end", _LEFT - 14, top + 18, str(number)))
        parts += _rooms(floor, top)
        told.append(f"floor {number}: " + ", ".join(short(room.name) for room in floor))
        top += _FLOOR
    head = words("title", _LEFT, 22, _TRANSPORTS)
    return picture("The rooms of the code, by floors", "; ".join(told), _WIDTH, top + 10, [head, *parts])


_PURE = "tolliver_proto: pure, no I/O"
_TRANSPORTS = "adapters, and what is built on them: each room imports from lower floors only; filled: public names"


def _rooms(floor: tuple[Room, ...], top: float) -> list[str]:
    left, parts = float(_LEFT), []
    for room in floor:
        wide = round(_LETTER * len(short(room.name)) + 18, 1)
        door = "box" if room.purpose.startswith("door") else "paper"
        parts.append(rectangle(f"{door} rule", left, top, wide, _FLOOR - 8, 4))
        parts.append(words("mono middle", round(left + wide / 2, 1), top + 17, short(room.name)))
        left = round(left + wide + _GAP, 1)
    if len(floor) == 1:
        parts.append(words("faint small", left + 4, top + 17, floor[0].purpose.removeprefix("door: ").replace("`", "")))
    return parts

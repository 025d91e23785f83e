"""Pictures of docs/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from . import concepts, house, message, peers, states, terminal

DOCS = Path(__file__).resolve().parents[3] / "docs"
PICTURES: dict[str, Callable[[], str]] = {
    "disks": concepts.disks,
    "dials": concepts.dials,
    "ack": concepts.ack,
    "message": message.life,
    "kills": message.kills,
    "connection": states.connection,
    "delivery": states.delivery,
    "streams": states.streams,
    "ids": states.ids,
    "held": peers.held,
    "crossing": peers.crossing,
    "house": house.drawn,
    **{name: partial(terminal.drawn, name) for name in terminal.SESSIONS},
}


def files() -> Iterator[tuple[Path, str]]:
    for name, draw in PICTURES.items():
        yield DOCS / f"{name}.svg", draw()

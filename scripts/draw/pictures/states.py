"""States of connections, of ids of streams and of a delivery: boxes, and arrows with the signals on them.

All but those of a delivery come from the tables that the machines run on; KeyError where one has an arrow without a
route here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scripts.draw.states import CONNECTION, IDS, STREAMS
from tolliver_proto.layouts import State
from tolliver_proto.reactive import State as Stage

from .svg import arrow, picture, rectangle, words

_WIDE, _HIGH, _ACROSS, _DOWN, _LEFT, _TOP = 190, 44, 340, 92, 20, 44


class Way(NamedTuple):
    """The sides that an arrow leaves and reaches, each with how far from its middle, and where its words stand."""

    leaves: str
    reaches: str
    out: float = 0
    into: float = 0
    beside: tuple[float, float] | None = None


class Box(NamedTuple):
    column: float
    row: float
    text: str = ""

    def place(self, side: str, apart: float) -> tuple[float, float]:
        left, top = _LEFT + _ACROSS * self.column, _TOP + _DOWN * self.row
        middle = left + _WIDE / 2 + (apart if side in ("top", "bottom") else 0)
        level = top + _HIGH / 2 + (apart if side in ("left", "right") else 0)
        return {
            "left": (left, level),
            "right": (left + _WIDE, level),
            "top": (middle, top),
            "bottom": (middle, top + _HIGH),
        }[side]


def diagram(
    title: str,
    boxes: Mapping[str, Box],
    ways: Mapping[tuple[str, str], Way],
    labels: Mapping[tuple[str, str], str],
    note: str,
) -> str:
    parts = [words("faint small", _LEFT, 22, note)]
    for (start, end), label in labels.items():
        way = ways[start, end]
        first, last = boxes[start].place(way.leaves, way.out), boxes[end].place(way.reaches, way.into)
        places = [first, last]
        if way.leaves == way.reaches:  # around, outside of both
            out = first[0] - 28
            places = [first, (out, first[1]), (out, last[1]), last]
        elif first[0] != last[0] and first[1] != last[1]:
            corner = (last[0], first[1]) if way.leaves in ("left", "right") else (first[0], last[1])
            places = [first, corner, last]
        parts += arrow("edge", *places)
        if way.beside is not None:
            x, y = first[0] + way.beside[0], first[1] + way.beside[1]
        elif first[1] == places[1][1]:
            x, y = min(first[0], places[1][0]) + 6, first[1] - 5
        else:
            x, y = first[0] + 6, (first[1] + last[1]) / 2 + 4
        parts.append(words("small", x, y, label))
    for name, box in boxes.items():
        left, top = _LEFT + _ACROSS * box.column, _TOP + _DOWN * box.row
        parts.append(rectangle("box rule", left, top, _WIDE, _HIGH, 6))
        parts.append(words("title middle small", left + _WIDE / 2, top + (18 if box.text else 27), name))
        if box.text:
            parts.append(words("faint small middle", left + _WIDE / 2, top + 35, box.text))
    width = _LEFT * 2 + _WIDE + _ACROSS * max(box.column for box in boxes.values())
    height = _TOP + _HIGH + 20 + _DOWN * max(box.row for box in boxes.values())
    told = "; ".join(f"{start} to {end}: {label}" for (start, end), label in labels.items())
    return picture(title, f"{note} {told}", width, height, parts)


# A connection.

_STATES = {
    State.AWAITING_REQUEST: Box(0, 0, "server"),
    State.DECIDING: Box(0, 1, "server"),
    State.AWAITING_FINAL: Box(0, 2, "server"),
    State.AWAITING_RESPONSE: Box(2, 0, "client"),
    State.CONFIRMING: Box(2, 1, "client"),
    State.AGREED: Box(1, 2),
    State.ESTABLISHED: Box(1, 3, "messages and acks pass"),
    State.RENEWING: Box(2, 3, "a request once more"),
    State.RENEWED: Box(2, 4),
    State.CLOSING: Box(1, 4.6),
    State.CLOSED: Box(1, 5.6),
}
_WAYS = {
    (State.AWAITING_REQUEST, State.DECIDING): Way("bottom", "top"),
    (State.DECIDING, State.AWAITING_FINAL): Way("bottom", "top", out=-40, into=-40, beside=(6, 28)),
    (State.AWAITING_FINAL, State.DECIDING): Way("top", "bottom", out=60, into=60, beside=(6, -18)),
    (State.DECIDING, State.AGREED): Way("right", "top", into=-40),
    (State.AWAITING_FINAL, State.AGREED): Way("right", "left"),
    (State.AWAITING_RESPONSE, State.AGREED): Way("left", "top", beside=(-200, -5)),
    (State.AWAITING_RESPONSE, State.CONFIRMING): Way("bottom", "top"),
    (State.CONFIRMING, State.AGREED): Way("left", "top", into=40, beside=(-160, -5)),
    (State.AGREED, State.ESTABLISHED): Way("bottom", "top"),
    (State.AGREED, State.CLOSING): Way("left", "left", out=14, beside=(-70, 60)),
    (State.ESTABLISHED, State.RENEWING): Way("right", "left", out=-10, into=-10),
    (State.RENEWING, State.ESTABLISHED): Way("left", "right", out=10, into=10, beside=(-134, 16)),
    (State.RENEWING, State.RENEWED): Way("bottom", "top", out=-40, into=-40, beside=(6, 28)),
    (State.RENEWED, State.RENEWING): Way("top", "bottom", out=60, into=60, beside=(6, -18)),
    (State.RENEWED, State.ESTABLISHED): Way("left", "bottom", into=60, beside=(-120, -5)),
    (State.RENEWED, State.CLOSING): Way("bottom", "right", beside=(6, 22)),
    (State.ESTABLISHED, State.CLOSING): Way("bottom", "top"),
    (State.CLOSING, State.CLOSED): Way("bottom", "top"),
}
_LEFT_OUT = {(State.RENEWING, State.CLOSING)}
_NOTE = "Every other state may end in CLOSED: the end of the stream, a broken rule, a time limit, a refusal, close()."


def connection() -> str:
    labels: dict[tuple[str, str], list[str]] = {}
    for state in State:
        for signal, step in CONNECTION.row(state):
            ends = step.to is State.CLOSED and state is not State.CLOSING
            if step.to is not state and not ends and (state, step.to) not in _LEFT_OUT:
                labels.setdefault((state.name, step.to.name), []).append(CONNECTION.words[signal])
    return diagram(
        "The states of a connection",
        {state.name: box for state, box in _STATES.items()},
        {(start.name, end.name): way for (start, end), way in _WAYS.items()},
        {pair: ", ".join(signals) for pair, signals in labels.items()},
        _NOTE,
    )


# A connection of streams, and an id on it.

_STAGES = {
    Stage.AWAITING_CLIENT_HELLO: Box(0, 0, "server"),
    Stage.AWAITING_SERVER_HELLO: Box(2, 0, "client"),
    Stage.OPEN: Box(1, 1.2, "streams run"),
    Stage.LEAVING: Box(1, 2.4, "our goodbye is said"),
    Stage.CLOSED: Box(1, 3.6),
}
_STAGE_WAYS = {
    (Stage.AWAITING_CLIENT_HELLO, Stage.OPEN): Way("right", "top", into=-40),
    (Stage.AWAITING_SERVER_HELLO, Stage.OPEN): Way("left", "top", into=40, beside=(-100, -5)),
    (Stage.OPEN, Stage.LEAVING): Way("bottom", "top"),
    (Stage.LEAVING, Stage.CLOSED): Way("bottom", "top"),
}
_STAGE_NOTE = "From any state: goodbye() leads to LEAVING, and the peer's goodbye, a broken rule or the end to CLOSED."
_IDS = {
    "UNUSED": Box(0, 0, "never subscribed with"),
    "ASKED": Box(1, 0, "no answer ever came"),
    "ACTIVE": Box(2, 0, "elements come"),
    "LEFT": Box(1, 1.4, "cancelled before"),
    "OVER": Box(2, 2.8, "free to be used again"),
    "LEFT_AGAIN": Box(0.2, 2.8, "cancelled again"),
    "ASKED_AGAIN": Box(0.2, 4.2, "subscribed once more"),
}
_ID_WAYS = {
    ("UNUSED", "ASKED"): Way("right", "left"),
    ("ASKED", "ACTIVE"): Way("right", "left"),
    ("ASKED", "LEFT"): Way("bottom", "top", out=-50, into=-50, beside=(-66, 46)),
    ("LEFT", "ASKED"): Way("top", "bottom", out=50, into=50, beside=(6, -40)),
    ("LEFT", "OVER"): Way("right", "top", into=-50),
    ("LEFT", "LEFT_AGAIN"): Way("left", "top", beside=(-200, -5)),
    ("ACTIVE", "OVER"): Way("bottom", "top", out=50, into=50, beside=(-190, 40)),
    ("LEFT_AGAIN", "OVER"): Way("right", "left", beside=(60, -5)),
    ("LEFT_AGAIN", "ASKED_AGAIN"): Way("bottom", "top", out=-50, into=-50, beside=(6, 30)),
    ("ASKED_AGAIN", "LEFT_AGAIN"): Way("top", "bottom", out=50, into=50, beside=(6, -36)),
    ("OVER", "ASKED_AGAIN"): Way("bottom", "right", beside=(6, 46)),
}
_ID_LEFT_OUT = {("ASKED", "ASKED_AGAIN"), ("ASKED_AGAIN", "ACTIVE")}
_ID_NOTE = "Left out: an earlier subscribed leads from ASKED to ASKED_AGAIN, the last one from there to ACTIVE."


def streams() -> str:
    labels: dict[tuple[str, str], list[str]] = {}
    for stage in Stage:
        for signal, step in STREAMS.row(stage):
            if (stage, step.to) in _STAGE_WAYS:
                labels.setdefault((stage.name, step.to.name), []).append(STREAMS.words[signal])
    return diagram(
        "The states of a connection of streams",
        {stage.name: box for stage, box in _STAGES.items()},
        {(start.name, end.name): way for (start, end), way in _STAGE_WAYS.items()},
        {pair: ", ".join(signals) for pair, signals in labels.items()},
        _STAGE_NOTE,
    )


def ids() -> str:
    labels: dict[tuple[str, str], list[str]] = {}
    for state in IDS.steps:
        for signal, step in IDS.row(state):
            pair = (state.name, step.to.name)
            if step.to is not state and pair not in _ID_LEFT_OUT:
                labels.setdefault(pair, []).append(IDS.words[signal])
    told = {pair: ", ".join(signals) for pair, signals in labels.items()}
    return diagram("The states of an id of streams", _IDS, _ID_WAYS, told, _ID_NOTE)


# A delivery: one message for one recipient.

_DELIVERY = {
    "stored": Box(0, 0, "on the sender's disk"),
    "in flight": Box(1, 0, "sent, not acknowledged"),
    "acknowledged": Box(2, 0, "removed from the disk"),
    "set aside": Box(1, 1.2, "parked, on the disk"),
    "given up": Box(0, 2.2, "Undelivered"),
}
_DELIVERY_WAYS = {
    ("stored", "in flight"): Way("right", "left", out=-12, into=-12),
    ("in flight", "stored"): Way("left", "right", out=12, into=12, beside=(-130, 16)),
    ("in flight", "acknowledged"): Way("right", "left"),
    ("in flight", "set aside"): Way("bottom", "top"),
    ("set aside", "stored"): Way("left", "bottom", into=60, beside=(-176, -5)),
    ("stored", "given up"): Way("bottom", "top", out=-70, into=-70, beside=(6, 130)),
    ("set aside", "given up"): Way("bottom", "right", beside=(6, 24)),
}
_SIGNALS = {
    ("stored", "in flight"): "the peer is connected",
    ("in flight", "stored"): "connection ends",
    ("in flight", "acknowledged"): "its ack comes",
    ("in flight", "set aside"): "the peer closes at it, five times",
    ("set aside", "stored"): "retry()",
    ("stored", "given up"): "expire_after, forget_peer(), quota",
    ("set aside", "given up"): "drop_parked()",
}


def delivery() -> str:
    return diagram(
        "The states of a delivery: one message for one recipient",
        _DELIVERY,
        _DELIVERY_WAYS,
        _SIGNALS,
        "send() returns once it is stored. After a kill of the sender it goes on from the disk.",
    )

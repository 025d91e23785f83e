"""Reference of the states of both protocols, from their transition tables.

The diagrams leave out what keeps the state and what ends it in every place alike; the tables have all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from scripts.pages import without_rulings
from tolliver_proto._wire.state import FROM_WIRE, HANDSHAKING, TRANSITIONS, Effect, Signal, Transition
from tolliver_proto.layouts import State
from tolliver_proto.reactive import State as Stage
from tolliver_proto.reactive import _state as reactive
from tolliver_proto.reactive._state import Id, Step

WORDS = {
    Signal.REQUEST: "request",
    Signal.RESPONSE_AGREED: "response 0 or 1",
    Signal.RESPONSE_REFUSED: "response 2",
    Signal.RESPONSE_OLDER: "response 3",
    Signal.FINAL_COMPATIBLE: "final, compatible",
    Signal.FINAL_FAILURE: "final, failure",
    Signal.TRAFFIC: "message, ack, control message",
    Signal.AGREE: "accept() says 0 or 1",
    Signal.REFUSE: "accept() says 2",
    Signal.DEFER: "accept() says 3",
    Signal.CONFIRM: "accept() says compatible",
    Signal.DENY: "reject(), or accept() says failure",
    Signal.REJECT: "reject()",
    Signal.SEND: "send()",
    Signal.CLOSE: "close()",
    Signal.TAKEN: "Established is taken",
    Signal.EOF: "end of stream",
    Signal.FAULT: "broken rule",
    Signal.TIMEOUT: "time limit",
}
EVERYWHERE = {Signal.EOF, Signal.FAULT, Signal.TIMEOUT, Signal.CLOSE}
"""Signals that end a connection in each of the states alike: in the tables, not in the diagrams."""

MEANINGS = {
    State.AWAITING_REQUEST: "a server before the client's request",
    State.AWAITING_RESPONSE: "a client before the server's response",
    State.DECIDING: "`HandshakeRequest` was handed out; nothing is read until the decision",
    State.CONFIRMING: "`HandshakeResponse` with OLDER was handed out; nothing is read until the decision",
    State.AWAITING_FINAL: "a server that said OLDER",
    State.AGREED: "the next event is `Established`; nothing is read before it",
    State.ESTABLISHED: "live",
    State.RENEWING: "live; a repeated request was handed out, nothing is read until the decision (T-66)",
    State.RENEWED: "live; the repeated request was answered with OLDER (T-66)",
    State.CLOSING: "we said all; what still comes in is handed out",
    State.CLOSED: "over; whatever comes is swallowed",
}

STREAM_WORDS = {
    reactive.Signal.CLIENT_HELLO: "clientHello",
    reactive.Signal.SERVER_HELLO: "serverHello",
    reactive.Signal.TRAFFIC: "a frame of a stream or of an extension",
    reactive.Signal.GOODBYE: "goodbye",
    reactive.Signal.USE: "subscribe()",
    reactive.Signal.EXTEND: "send()",
    reactive.Signal.LEAVE: "goodbye()",
    reactive.Signal.EOF: "end of stream",
    reactive.Signal.FAULT: "broken rule",
    reactive.Signal.TIMEOUT: "time limit",
}
STREAM_EVERYWHERE = {reactive.Signal.EOF, reactive.Signal.FAULT, reactive.Signal.TIMEOUT}
STREAM_MEANINGS = {
    Stage.AWAITING_CLIENT_HELLO: "a server before the client's hello",
    Stage.AWAITING_SERVER_HELLO: "a client before the server's hello; it may subscribe already (R-25)",
    Stage.OPEN: "live",
    Stage.LEAVING: "our goodbye is said; what comes is read and dropped until the peer's (R-28, R-29)",
    Stage.CLOSED: "over; whatever comes is swallowed",
}

ID_WORDS = {
    Step.SUBSCRIBE: "subscribe()",
    Step.CANCEL: "cancel()",
    Step.ANSWER: "the last subscribed",
    Step.OLD_ANSWER: "an earlier subscribed",
    Step.ELEMENT: "elements",
    Step.TERMINAL: "onComplete, onError",
}
ID_MEANINGS = {
    Id.UNUSED: "never subscribed with",
    Id.ASKED: "subscribed, and no answer ever came: nothing but answers may come",
    Id.ASKED_AGAIN: "subscribed once more; what comes before the answer is of an earlier stream (R-10)",
    Id.ACTIVE: "answered; elements come",
    Id.LEFT: "cancelled before the first answer",
    Id.LEFT_AGAIN: "cancelled before the answer to a later subscribe",
    Id.OVER: "ended or cancelled, and every subscribe is answered; free to be used again (R-12)",
}

TEXT = """\
# The states of a connection

Look up what a connection does in each state, and when.

Drawn from `tolliver_proto/_wire/state.py` and, for [Reactive Streams](#reactive-streams-the-connection),
`tolliver_proto/reactive/_state.py`.

A frame that stands in no row of its state is the peer's error: the connection ends with `Closed(UnexpectedFrame)`. A
call that stands in no row raises `LocalProtocolError` and changes nothing; in CLOSING and CLOSED it raises
`ConnectionClosing`. Where nothing is read (DECIDING, CONFIRMING, AGREED, RENEWING) input waits, the end of the stream
too. Numbers are the status codes of drafts 1 and 2 (0 same version, 1 newer and compatible, 2 newer and incompatible,
3 older); the machine itself knows them by name only.

## The handshake

Left out of the picture: the end of the stream, a broken rule, the time limit of 10 s (T-68) and `close()`, which lead
to CLOSED from the states where the table below has them.

![the states of a connection, from the handshake to its end](../connection.svg)

{handshake}

{handshake_table}

## The live connection

{live}

{live_table}

## Reactive Streams: the connection

The other protocol ([reactive.md](../reactive.md)). A frame that stands in no row of its state is the peer's error: the
connection ends with `Closed(UnexpectedFrame)`. A call that stands in no row raises `LocalProtocolError`, in LEAVING and
CLOSED `ConnectionClosing`, and changes nothing. Left out of the picture: the end of the stream, a broken rule and the
time limits (10 s for the hello, 5 s for the peer's goodbye), which lead to CLOSED.

![the states of a connection of streams, from the hellos to its end](../streams.svg)

{streams}

{streams_table}

`Closed` is the last event. Before it every stream ends, with OnError for those that we take and Cancel for those that
we give, and goodbye is said or answered where that is still to be done. Its `error` is None only after goodbyes of both
sides.

## Reactive Streams: an id

One id of a subscriber, over all the subscriptions that use it in turn. A frame that stands in no row and comes from the
publisher ends the connection (R-19). `request` and `cancel` for an id that is not in use do nothing (R-15).

![the states of an id of streams, from the first subscribe to the next use](../ids.svg)

{ids}

{ids_table}
"""

Outcome = Callable[[Any, Any, Any], str]


@dataclass(frozen=True)
class Table:
    """A table of transitions, and the words for what is in it."""

    steps: Mapping[Any, Mapping[Any, Any]]
    words: Mapping[Any, str]
    meanings: Mapping[Any, str]
    outcome: Outcome
    everywhere: Collection[Any] = ()
    leaving: Enum | None = None
    """The one state in which what ends it everywhere is the point of it."""

    def row(self, state: Any) -> list[tuple[Any, Any]]:
        """The state's transitions in the order of the signals."""
        return sorted(self.steps[state].items(), key=lambda item: item[0].value)

    def is_common(self, state: Any, signal: Any, to: Any) -> bool:
        return signal in self.everywhere and to.name == "CLOSED" and state is not self.leaving


def diagram(table: Table, states: Iterable[Any], entries: Mapping[Any, str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state.name}: {label}".removesuffix(": ") for state, label in entries.items()]
    for state in states:
        arrows: dict[Any, list[str]] = {}
        for signal, step in table.row(state):
            if step.to is not state and not table.is_common(state, signal, step.to):
                arrows.setdefault(step.to, []).append(table.words[signal])
        lines += [f"    {state.name} --> {to.name}: {' / '.join(labels)}" for to, labels in arrows.items()]
        lines += ["    CLOSED --> [*]"] * (state.name == "CLOSED")
    return "\n".join([*lines, "```"])


def in_words(table: Table, states: Iterable[Any]) -> str:
    lines = ["| state | when | goes to | and |", "|---|---|---|---|"]
    for state in states:
        name = f"**{state.name}**: {table.meanings[state]}"
        rows: dict[tuple[Any, str], list[str]] = {}
        for signal, step in table.row(state):
            rows.setdefault((step.to, table.outcome(state, signal, step)), []).append(table.words[signal])
        for (to, effect), labels in rows.items():
            goal = "stays" if to is state else to.name
            lines.append(f"| {name} | {'; '.join(labels)} | {goal} | {effect} |")
            name = ""
    return "\n".join(lines)


def outcome(state: State, signal: Signal, step: Transition) -> str:
    """Outcome for the frame, and for the connection if that is over."""
    if state is State.CLOSED:
        return ""
    said = []
    if signal in FROM_WIRE:
        handed_out = step.effect in (Effect.HAND_OUT, Effect.END)
        said.append("handed out" if handed_out else "ignored, counted" if step.effect is Effect.IGNORE else "dropped")
    if step.to is State.CLOSED:
        said.append("`Closed`")
    return ", then ".join(said)


def stream_outcome(_state: Stage, signal: reactive.Signal, step: reactive.Transition) -> str:
    ended = "handed out, then `Closed`" if signal in reactive.FROM_WIRE else "`Closed`"
    effect = reactive.Effect
    return {effect.HAND_OUT: "handed out", effect.DROP: "dropped", effect.END: ended, effect.NONE: ""}[step.effect]


def id_outcome(_state: Id, step: Step, turn: reactive.Turn) -> str:
    if step in (Step.SUBSCRIBE, Step.CANCEL):
        return "goes out"
    return "handed out" if turn.passed_on else "dropped"


CONNECTION = Table(TRANSITIONS, WORDS, MEANINGS, outcome, EVERYWHERE, State.CLOSING)
STREAMS = Table(
    reactive.TRANSITIONS, STREAM_WORDS, STREAM_MEANINGS, stream_outcome, STREAM_EVERYWHERE, leaving=Stage.LEAVING
)
IDS = Table(reactive.SUBSCRIBING, ID_WORDS, ID_MEANINGS, id_outcome)


def page() -> str:
    """The page of the reference."""
    first = [state for state in State if state in HANDSHAKING or state is State.AGREED]
    second = [state for state in State if state not in first]
    text = TEXT.format(
        handshake=diagram(
            CONNECTION, [*first, State.CLOSED], {State.AWAITING_REQUEST: "server", State.AWAITING_RESPONSE: "client"}
        ),
        handshake_table=in_words(CONNECTION, first),
        live=diagram(CONNECTION, second, {State.ESTABLISHED: "handshake over"}),
        live_table=in_words(CONNECTION, second),
        streams=diagram(STREAMS, Stage, {Stage.AWAITING_CLIENT_HELLO: "server", Stage.AWAITING_SERVER_HELLO: "client"}),
        streams_table=in_words(STREAMS, Stage),
        ids=diagram(IDS, Id, {Id.UNUSED: ""}),
        ids_table=in_words(IDS, Id),
    )
    return without_rulings(text)

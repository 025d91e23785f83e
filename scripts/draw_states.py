"""Draws docs/states.md from the transition table: two diagrams and the whole table in words.

    python scripts/draw_states.py            writes the page
    python scripts/draw_states.py --check    fails if the page is out of date

The diagrams leave out what keeps the state and what ends it in every place alike; the tables have all of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tolliver_proto import State
from tolliver_proto._state import FROM_WIRE, HANDSHAKING, TRANSITIONS, Effect, Signal, Transition

PAGE = Path(__file__).parents[1] / "docs" / "states.md"

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

TEXT = """\
# The states of a connection

Drawn from `tolliver_proto/_state.py` by `python scripts/draw_states.py`: change the table there, then run it.

A frame that stands in no row of its state is the peer's error: the connection ends with `Closed(UnexpectedFrame)`. A
call that stands in no row raises `LocalProtocolError` and changes nothing; in CLOSING and CLOSED it raises
`ConnectionClosing`. Where nothing is read (DECIDING, CONFIRMING, AGREED, RENEWING) input waits, the end of the stream
too. Numbers are the status codes of drafts 1 and 2 (0 same version, 1 newer and compatible, 2 newer and incompatible,
3 older); the machine itself knows them by name only.

## The handshake

Left out of the picture: the end of the stream, a broken rule, the time limit of 10 s (T-68) and `close()`, which lead
to CLOSED from the states where the table below has them.

{handshake}

{handshake_table}

## The live connection

{live}

{live_table}
"""


def diagram(states: list[State], entries: dict[State, str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state.name}: {label}" for state, label in entries.items()]
    for state in states:
        arrows: dict[State, list[str]] = {}
        for signal, step in row(state):
            common = signal in EVERYWHERE and step.to is State.CLOSED and state is not State.CLOSING
            if step.to is not state and not common:
                arrows.setdefault(step.to, []).append(WORDS[signal])
        lines += [f"    {state.name} --> {to.name}: {' / '.join(labels)}" for to, labels in arrows.items()]
    lines += ["    CLOSED --> [*]", "```"]
    return "\n".join(lines)


def table(states: list[State]) -> str:
    lines = ["| state | when | goes to | and |", "|---|---|---|---|"]
    for state in states:
        name = f"**{state.name}**: {MEANINGS[state]}"
        rows: dict[tuple[State, str], list[str]] = {}
        for signal, step in row(state):
            rows.setdefault((step.to, outcome(state, signal, step)), []).append(WORDS[signal])
        for (to, effect), labels in rows.items():
            goal = "stays" if to is state else to.name
            lines.append(f"| {name} | {'; '.join(labels)} | {goal} | {effect} |")
            name = ""
    return "\n".join(lines)


def outcome(state: State, signal: Signal, step: Transition) -> str:
    """What becomes of the frame, and whether it is over."""
    if state is State.CLOSED:
        return ""
    said = []
    if signal in FROM_WIRE:
        handed_out = step.effect in (Effect.HAND_OUT, Effect.END)
        said.append("handed out" if handed_out else "ignored, counted" if step.effect is Effect.IGNORE else "dropped")
    if step.to is State.CLOSED:
        said.append("`Closed`")
    return ", then ".join(said)


def row(state: State) -> list[tuple[Signal, Transition]]:
    """The state's transitions in the order of the signals."""
    return sorted(TRANSITIONS[state].items(), key=lambda item: item[0].value)


def page() -> str:
    first = [state for state in State if state in HANDSHAKING or state is State.AGREED]
    second = [state for state in State if state not in first]
    return TEXT.format(
        handshake=diagram(first, {State.AWAITING_REQUEST: "server", State.AWAITING_RESPONSE: "client"}),
        handshake_table=table(first),
        live=diagram(second, {State.ESTABLISHED: "handshake over"}),
        live_table=table(second),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    drawn = page()
    if not options.check:
        options.page.write_text(drawn, "utf-8")
        return 0
    if options.page.exists() and options.page.read_text("utf-8") == drawn:
        return 0
    print(f"{options.page.name} is out of date: run python scripts/draw_states.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

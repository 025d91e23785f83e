"""Three concepts, each where a reader meets it first: disks, dials, the meaning of an ack."""

from __future__ import annotations

from .svg import arrow, line, picture, rectangle, words

_WIDE, _LINE = 300, 19

ON_DISK = {
    "alice.db, at the sender": (
        "each message that bob has not acknowledged",
        "what bob subscribes to, also while he is away",
        "the key by which bob is known",
    ),
    "bob.db, at the receiver": (
        "what bob subscribes to himself",
        "dead letters: messages that always failed",
        "what was handled, with dedupe_durable",
    ),
}
"""Contents of the database of either side."""


def disks() -> str:
    """A message from one program to another, and what each keeps in its database."""
    parts, told = [], []
    for left, (name, lines) in zip((20, 420), ON_DISK.items(), strict=True):
        program = name.partition(".")[0]
        middle = left + _WIDE / 2
        parts.append(rectangle("box rule", left, 20, _WIDE, 34, 6))
        parts.append(words("title middle", middle, 42, f"{program}, a program"))
        parts += arrow("disk", (middle, 54), (middle, 92))
        parts.append(rectangle("box disk line", left, 92, _WIDE, 30 + _LINE * len(lines), 6))
        parts.append(words("mono", left + 12, 112, name))
        parts += [words("small", left + 12, 133 + _LINE * number, text) for number, text in enumerate(lines)]
        told.append(f"{name}: {', '.join(lines)}")
    parts += arrow("wire", (320, 31), (420, 31))
    parts += arrow("wire", (420, 45), (320, 45))
    parts += [words("small middle", 370, 25, "message"), words("small middle", 370, 61, "ack")]
    parts.append(words("faint small middle", 370, 200, "No third disk: there is no server between them."))
    return picture("What is on whose disk", "; ".join(told), 740, 214, parts)


def dials() -> str:
    """Instances that dial one another, and the ways of messages then."""
    bob, alice, carol = (290, 20), (30, 120), (550, 120)
    parts = []
    for (left, top), name, does in (
        (bob, "bob", "listens"),
        (alice, "alice", "dials bob"),
        (carol, "carol", "dials bob"),
    ):
        parts.append(rectangle("box rule", left, top, 160, 46, 6))
        parts.append(words("title middle", left + 80, top + 20, name))
        parts.append(words("faint small middle", left + 80, top + 37, does))
    parts += arrow("wire", (110, 120), (110, 43), (290, 43))
    parts += arrow("wire", (630, 120), (630, 43), (450, 43))
    parts += [words("small", 118, 36, "TLS, both certificates"), words("small end", 622, 36, "TLS, both certificates")]
    parts.append(line("edge dashed", (190, 143), (550, 143)))
    parts.append(words("faint small middle", 370, 136, "no connection: nothing is relayed"))
    parts.append(
        words("small middle", 370, 196, "Once connected both ends are equal: messages go both ways on one connection.")
    )
    told = "alice and carol dial bob, who listens; each connection is mutual TLS, and messages go both ways on it. "
    return picture("Who dials whom", f"{told}Alice and carol have no connection: bob relays nothing.", 740, 212, parts)


REASONS = ("its handlers have returned well", "bob keeps it as a dead letter", "bob's own rules refuse it")


def ack() -> str:
    """Possible meanings of the ack of a message, and the answer of the sender."""
    parts = []
    for number, text in enumerate(REASONS):
        top = 16 + 44 * number
        parts.append(rectangle("box rule", 20, top, 240, 32, 6))
        parts.append(words("small middle", 140, top + 21, text))
        parts += arrow("edge", (260, top + 16), (300, top + 16), (300, 76), (340, 76)) if number != 1 else []
    parts += arrow("edge", (260, 76), (340, 76))
    parts.append(rectangle("box wire line", 340, 54, 120, 44, 6))
    parts.append(words("title middle", 400, 81, "ack"))
    parts += arrow("wire", (460, 76), (510, 76))
    parts.append(rectangle("box disk line", 510, 54, 210, 44, 6))
    parts.append(words("small middle", 615, 73, "alice deletes her copy,"))
    parts.append(words("small middle", 615, 89, "and wait_acked returns"))
    told = f"An ack of bob says one of: {'; '.join(REASONS)}. Then alice deletes her copy, and wait_acked returns."
    return picture("What an ack means", told, 740, 152, parts)

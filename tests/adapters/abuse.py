"""Attacks of a member, as data, and the outcome of each.

An attack is a function of a connection, its victim and a size. The tests run all of them small, over every kind;
`scripts/prove/hostile.py abuse` runs them large, with a victim in a process of its own. `suffer` is the same for both:
the attack, and then what came of it.

Outcomes: "harmless" (all was read, and the connection lives), "throttled" (as that, but it took its time),
"closed: code" (by the victim, with that error), "closed" (the transport tells why, or the error may come too late).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any
from uuid import UUID

from tolliver._tls.policy import client_context

from tests.certificates import Certificates
from tolliver_proto import (
    Ack,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    Message,
    Subscribe,
    Subscription,
    Unsubscribe,
)

from .facade import Stuck, until
from .mallory import PIECE, Mallory, Member, codes, packed
from .victim import Victim

HARMLESS, THROTTLED, CLOSED = "harmless", "throttled", "closed"
HUGE = 2**32 - 1
SOMEBODY_ELSE = UUID("01890000-0000-7000-8000-00000000bbbb")

# The kernel takes megabytes before it says that nobody reads, so floods of acks are for the script.
LIMITS = Limits(max_answers=16 * 2**10, max_subscriptions=50, handshake_timeout=2.0, close_timeout=1.0)
"""For tests: bounds that little passes."""


def closed(code: str) -> str:
    return f"{CLOSED}: {code}"


@dataclass(frozen=True)
class Attack:
    """`small` is its size in tests, 0 where it is too large for them; `large` in the script.

    `wish` is the list of its handshake, None for no handshake. `deaf`: it will not read.
    """

    run: Callable[[Any, Victim, int], object]
    outcome: str
    small: int = 1
    large: int = 1
    wish: Sequence[Subscription] | None = ()
    deaf: bool = False


def suffer(attack: Attack, mallory: Mallory, victim: Victim, size: int) -> str:
    """Run it, and see what comes of it."""
    before = victim.stats()
    began = time.monotonic()
    attack.run(mallory, victim, size)
    if attack.outcome.startswith(CLOSED):
        outcome = CLOSED if mallory.is_shut() else "not closed"
        if attack.outcome != CLOSED:
            with suppress(Stuck):  # one that has ended its own half reads the end before the victim has seen it
                until(lambda: _codes(before, victim, mallory))
                outcome = closed(" ".join(sorted(_codes(before, victim, mallory))))
    else:
        mallory.sync()
        outcome = THROTTLED if attack.outcome is THROTTLED and time.monotonic() - began > 0.9 else HARMLESS
    return outcome


def _codes(before: dict[str, int], victim: Victim, mallory: Mallory) -> set[str]:
    """Codes of the rulings that either end was told since then."""
    told = _grown(before, victim.stats(), "notices_")
    return codes(" ".join([*victim.said()[-told:], mallory.reason()] if told else [mallory.reason()]))


def _grown(before: dict[str, int], after: dict[str, int], prefix: str) -> int:
    return sum(after[name] - before.get(name, 0) for name in after if name.startswith(prefix))


def member(certs: Certificates, victim: Victim, attack: Attack) -> Member:
    context = client_context(certs.tls("mallory"))
    return Member(victim.port(), context, certs.uuid("mallory"), hello=attack.wish, deaf=attack.deaf)


# V11: heads that announce more than there can be.


def message_head(channel: int, key: int, body: int) -> bytes:
    return struct.pack(">BIIII", 3, channel, key, body, 1)


def request_head(count: int, *entry: int) -> bytes:
    return struct.pack(">BQ16sI", 0, 1, SOMEBODY_ELSE.bytes, count) + struct.pack(f">{len(entry)}I", *entry)


def bomb(head: bytes, code: str, *, begun: bool = True) -> Attack:
    return Attack(lambda m, _victim, _size: m.write(head), closed(code), wish=() if begun else None)


BOMBS: dict[str, Attack] = {
    "a body of 4 GiB": bomb(message_head(4, 4, HUGE), "too_long"),
    "a channel of 4 GiB": bomb(message_head(HUGE, 0, 0), "too_long"),
    "a key of 4 GiB": bomb(message_head(0, HUGE, 0), "too_long"),
    "all three of 4 GiB": bomb(message_head(HUGE, HUGE, HUGE), "too_long"),
    "a control message with a key of 4 GiB": bomb(message_head(8, HUGE, 0), "too_long"),
    "2^32-1 subscriptions": bomb(request_head(HUGE), "too_many", begun=False),
    "2^32-1 subscriptions on a live connection": bomb(request_head(HUGE), "too_many"),
    "a subscription with names of 4 GiB": bomb(request_head(1, HUGE, HUGE), "too_long", begun=False),
}


# Floods.


def flood(m: Mallory, frames: Sequence[bytes], count: int) -> bool:
    """So many of these, over and over. Whether all were taken."""
    run = b"".join(islice(cycle(frames), max(len(frames), PIECE // len(frames[0]))))
    whole, rest = divmod(count * len(frames[0]), len(run))
    return all(m.write(run) for _ in range(whole)) and m.write(run[:rest])


def strange_acks(m: Member, _victim: Victim, size: int) -> None:
    flood(m, [packed(Ack(number)) for number in (0, 1, 2**31 - 1, 2**31, HUGE, 12345)], size)


def sub_flood(m: Member, _victim: Victim, size: int) -> None:
    """Every second one takes back what the one before asked for."""
    kinds = (Subscribe, Unsubscribe)
    m.write(packed(*(kinds[number % 2]("flood", str(number // 2), 1 + number) for number in range(size))))


def renewals(m: Member, _victim: Victim, size: int) -> None:
    m.write(packed(HandshakeRequest(1, m.uuid, ())) * size)


def strays(m: Member, _victim: Victim, size: int) -> None:
    frames: tuple[Frame, ...] = (HandshakeFinal(True), HandshakeResponse(1, m.uuid, HandshakeStatus.SAME_VERSION, ()))
    m.write(packed(*islice(cycle(frames), size)))


def another_name(m: Member, _victim: Victim, _size: int) -> None:
    m.say(HandshakeRequest(1, SOMEBODY_ELSE, ()))


def a_name_of_anothers(m: Member, _victim: Victim, _size: int) -> None:
    m.write(request_head(0))


def ignored(m: Member, _victim: Victim, size: int) -> None:
    """Names that are no UTF-8, and control messages that say nothing: acknowledged, or they would come again."""
    names = struct.pack(">BIIII", 3, 2, 0, 0, 7) + b"\xff\xfe"
    control = struct.pack(">BIIII", 3, 8, 0, 1, 8) + b"tolliver\x09"
    assert flood(m, [names], size)
    assert flood(m, [control], size)


def unwanted(m: Member, _victim: Victim, size: int) -> None:
    """It never reads, and each causes an ack, once the victim's first moments have passed (T-46)."""
    flood(m, [packed(Message("flood", "", b"", 77))], size)


def wanted(m: Member, _victim: Victim, size: int) -> None:
    """More ids than can be at handlers: copies of a message that is being handled share one ack (T-48)."""
    flood(m, [packed(Message("news", "", b"", 1 + number)) for number in range(4 * Limits().inbox_messages)], size)


# Ids.


def odd_ids(m: Member, _victim: Victim, size: int) -> None:
    """T-42: all but one are acknowledged; the same id again, with another body, is another message."""
    numbers = (0, 1, 2**31 - 2, 2**31, HUGE)
    for again in range(size):
        m.say(*(Message("news", "", b"%d" % again, number) for number in numbers))
        m.say(Message("news", "", b"unreliable", None))
    wanted = size * len(numbers)
    m.hear(lambda: len(m.all(Ack)) >= wanted, "acks")
    assert {ack.message_id for ack in m.all(Ack)} == set(numbers)


def another_peers_acks(m: Member, victim: Victim, size: int) -> None:
    """Two peers have messages of the same ids (T-43), and one acknowledges: that says nothing about the other."""
    victim.offer("shared", 10)
    m.hear(lambda: len(m.all(Message)) >= 10, "messages")
    before = victim.stats()["pending"]
    for _ in range(size):
        m.say(*(Ack(message.message_id) for message in m.all(Message)))
    m.sync()
    assert before - victim.stats()["pending"] == 10, "ten of its own, and nobody else's"


def split_acks(m: Member, victim: Victim, size: int) -> None:
    """A byte in each record."""
    victim.offer("shared", size)
    m.hear(lambda: len(m.all(Message)) >= size, "messages")
    data = packed(*(Ack(message.message_id) for message in m.all(Message)))
    m.write_each([data[at : at + 1] for at in range(len(data))])


def no_acks(m: Member, victim: Victim, size: int) -> None:
    """T-52: a window of 256 goes out, and the rest waits on disk."""
    victim.offer("mine", size)
    window = min(size, Limits().window_messages)
    m.hear(lambda: len(m.all(Message)) >= window, "a window")
    m.sync()
    assert not m.all(Message), "more than a window came without an ack"
    m.say(*(Ack(number) for number in range(100)))


# Slow, late and half.


def one_by_one(m: Member, _victim: Victim, size: int) -> None:
    """Inside a frame after the handshake: no limit of time, but one of memory. In the end it is whole."""
    frame = packed(Message("flood", "", bytes(size), 5))
    m.write_each([frame[at : at + 1] for at in range(len(frame))])


def half_closed(m: Member, _victim: Victim, _size: int) -> None:
    m.half_close()


def ended_in_a_frame(m: Member, _victim: Victim, _size: int) -> None:
    m.write(message_head(4, 4, 4))
    m.say_end()


def ended_and_talking(m: Member, _victim: Victim, size: int) -> None:
    m.say_end()
    m.beneath(bytes(size))


def unsealed(m: Member, _victim: Victim, _size: int) -> None:
    m.beneath(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody sealed


def cut_record(m: Member, _victim: Victim, _size: int) -> None:
    m.beneath(b"\x17\x03\x03\x40\x00" + bytes(100))
    m.half_close()


# Lists.


def too_much(m: Member, victim: Victim, size: int) -> None:
    """D-6: its list is as long as may be; what is more is acknowledged and not taken."""
    before = victim.stats().get("refused_subscriptions", 0)
    m.say(*(Subscribe("more", str(number), 1 + number) for number in range(size)))
    m.hear(lambda: len(m.all(Ack)) >= size, "acks")
    assert victim.stats()["refused_subscriptions"] - before == size


def names(count: int) -> tuple[Subscription, ...]:
    return tuple(Subscription("c", str(number)) for number in range(count))


SHARED = (Subscription("shared", ""),)
MINE = (Subscription("mine", ""),)

ABUSES: dict[str, Attack] = {
    "acks of nothing": Attack(strange_acks, HARMLESS, 6_000, 300_000),
    "acks of another's messages": Attack(another_peers_acks, HARMLESS, 20, 1_000, wish=SHARED),
    "acks in pieces": Attack(split_acks, HARMLESS, 20, 1_000, wish=SHARED),
    "no acks": Attack(no_acks, HARMLESS, 300, 5_000, wish=MINE),
    "odd ids": Attack(odd_ids, HARMLESS, 3, 2_000),
    "frames that mean nothing": Attack(ignored, HARMLESS, 500, 20_000),
    "subscriptions to and fro": Attack(sub_flood, THROTTLED, 150, 1_000),
    "more subscriptions than may be": Attack(too_much, HARMLESS, 20, 90, wish=names(50)),
    "handshakes without end": Attack(renewals, THROTTLED, 4, 20),
    "finals and responses without end": Attack(strays, THROTTLED, 26, 200),
    "another name on a live connection": Attack(another_name, closed("changed_identity")),
    "another's name": Attack(a_name_of_anothers, CLOSED, wish=None),
    # By us ("flood"), or by the kernel, after 30 s in which the peer has taken nothing (D-8): whichever comes first.
    "acks that it never reads": Attack(unwanted, CLOSED, 0, 2_000_000, deaf=True),
    "acks of what is handled that it never reads": Attack(wanted, CLOSED, 0, 2_000_000, deaf=True),
    "single bytes": Attack(one_by_one, HARMLESS, 300, 10_000),
    "half a connection": Attack(half_closed, CLOSED),
    "an end inside a frame": Attack(ended_in_a_frame, closed("eof_in_frame")),
    "talking after the end": Attack(ended_and_talking, CLOSED, 1_000, 1_000_000),
    "a record that is not sealed": Attack(unsealed, CLOSED),
    "half a record": Attack(cut_record, CLOSED),
}


class Good:
    """A member that behaves: a round trip is a message that is handled and acknowledged. Use it as a context manager.

    It also wants "shared", and acknowledges nothing there.
    """

    def __init__(self, certs: Certificates, victim: Victim) -> None:
        self._one = Member(victim.port(), client_context(certs.tls("good")), certs.uuid("good"), hello=SHARED)
        until(lambda: victim.stats()["peers_up"] >= 1)

    def __enter__(self) -> Good:
        return self

    def __exit__(self, *_error: object) -> None:
        self._one.__exit__()

    def round_trip(self) -> float:
        return self._one.sync()

"""Stories between pairs of instances, for one audit.

A job costs more than all its rows, so one audit hears all the stories, and each test asks about one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.spark.witnesses import D1, IN, OUT, Wire, Witness
from tolliver_proto import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Subscribe,
    Subscription,
    Unsubscribe,
)

Story = Callable[[Witness, Witness], None]
STORIES: dict[str, Story] = {}
HOSTILE = '<script>document.title="gotcha"</script>\u202e&\'"'
LAST_ID = 2**31 - 2


def story(tell: Story) -> Story:
    STORIES[tell.__name__] = tell
    return tell


def tell_all(directory: Path, groups: Callable[[int], bool]) -> None:
    """Write all recordings, those of the stories that `groups` says in groups.

    The witnesses of the n-th story have the UUIDs 2n and 2n+1 and directories of that name.
    """
    for number, (name, tell) in enumerate(STORIES.items(), 1):
        ends = [
            Witness(directory / f"{name}-{end}", 2 * number + end, silent=_silent(name, end), groups=groups(number))
            for end in (0, 1)
        ]
        tell(*ends)
        for end in ends:
            end.end()


def _silent(name: str, end: int) -> bool:
    return name == ("silent_sender", "silent_receiver")[end]


@story
def plain(a: Witness, b: Witness) -> None:
    wire = Wire(a, b, subscriptions=(Subscription("c", ""),))
    for number in range(1, 101):
        wire.send(number, 10 * number, ack_after=3 if number < 100 else 500)
    wire.send(101, 2000, channel="other")
    wire.send(None, 2010)
    wire.send(None, 2020, arrives=False)


@story
def sent_again(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10, acked=False)
    first.send(2, 20, acked=False)
    second = Wire(a, b, 100, (2, 2))
    second.send(1, 110)
    second.send(2, 120)
    second.send(3, 130)


@story
def overtaken(a: Witness, b: Witness) -> None:
    wire = Wire(a, b)
    wire.send(1, 10)
    wire.send(2, 20, arrives=False)
    wire.send(3, 30, arrives=False, acked=False)
    wire.send(4, 40)


@story
def given_up(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10)
    first.send(2, 20, arrives=False, acked=False)
    Wire(a, b, 100, (2, 2)).send(3, 110)


@story
def late_but_there(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10)
    first.send(2, 20, arrives=False, acked=False)
    second = Wire(a, b, 100, (2, 2))
    second.send(2, 110)
    second.send(3, 120)


@story
def set_back(a: Witness, b: Witness) -> None:
    """The sender's clock was set back between two runs, so the file of the second one is sorted before the first's."""
    second = Wire(a, b, 100, (1, 2))
    second.send(2, 110)
    second.send(3, 120, arrives=False, acked=False)
    a.end()
    with b.earlier():
        Wire(a, b, 0, (1, 1)).send(9, 10)


STARTS = (1_900_000_000, 70_000, 5_000, 2_000_000_000, LAST_ID - 2, 60_000, 1_000_000_000, 1_400_000_000, 80_000, 900)
LEFT_OUT = {
    (start + at - 1) % LAST_ID + 1 for run, start in enumerate(STARTS) for at in ((1, 3) if run % 2 else (1, 3, 5))
}
"""The last of a run with an odd number is sent again, and of the last run it may still be."""


@story
def ten_openings(a: Witness, b: Witness) -> None:
    """Each run of the sender begins its ids somewhere (T-40). Every other message is left out by the receiver, and the
    last one of each run was not acknowledged: a run with an odd number has the next one send it again."""
    owed: int | None = None
    for run, start in enumerate(STARTS):
        wire = Wire(a, b, 100 * run, (1, run + 1))
        if owed is not None:
            wire.send(owed, 100 * run + 5)
        for at in range(6):
            number = (start + at - 1) % LAST_ID + 1
            wire.send(number, 100 * run + 10 * at + 10, arrives=at % 2 == 0, acked=at != 5 and (run + at) % 3 != 0)
        owed = number if run % 2 else None
        a.end(killed=run % 3 == 0)


@story
def receiver_killed(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10)
    first.send(2, 20, arrives=False)  # it was there, and the kill took the recording's end
    b.end(killed=True)
    Wire(a, b, 100, (2, 1)).send(3, 110)


@story
def killed_and_sent_again(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10, arrives=False)  # it was there
    first.send(2, 20, arrives=False, acked=False)
    b.end(killed=True)
    second = Wire(a, b, 100, (2, 1))
    second.send(2, 110)  # on the second connection, which says nothing of the first
    second.send(3, 120)


@story
def recording_stopped(a: Witness, b: Witness) -> None:
    """The receiver had no room to record the rest of the first connection, and room again for the second."""
    first = Wire(a, b)
    first.send(1, 10)
    first.send(2, 20, arrives=False)  # it was there
    Wire(a, b, 100, (2, 2)).send(3, 110)


@story
def both_killed(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10)
    first.send(2, 20, arrives=False, acked=False)  # delivered and acknowledged, and neither could write it down
    a.end(killed=True)
    b.end(killed=True)
    Wire(a, b, 100, (1, 1)).send(3, 110)


@story
def sender_killed(a: Witness, b: Witness) -> None:
    first = Wire(a, b)
    first.send(1, 10)
    first.at_server(20, IN, Message("c", "k", b"2", 2))  # the sender's recording does not have it
    first.at_server(21, OUT, Ack(2))
    a.end(killed=True)
    Wire(a, b, 100, (1, 2)).send(3, 110)


@story
def ends_early(a: Witness, b: Witness) -> None:
    wire = Wire(a, b)
    wire.send(1, 10)
    for number in (2, 3, 4):
        wire.send(number, 10 * number, arrives=False)
    wire.send(5, 50, arrives=False, acked=False)


@story
def silent_receiver(a: Witness, b: Witness) -> None:
    plain(a, b)


@story
def silent_sender(a: Witness, b: Witness) -> None:
    plain(a, b)


@story
def damaged(a: Witness, b: Witness) -> None:
    wire = Wire(a, b)
    wire.send(1, 10)
    wire.send(2, 20, acked=False)
    b.damage()
    wire.send(3, 30)


@story
def wraps(a: Witness, b: Witness) -> None:
    wire = Wire(a, b, subscriptions=(Subscription("of the server", ""),), wants=(Subscription("of the client", ""),))
    for at, number in enumerate((LAST_ID - 1, LAST_ID, 1, 2)):
        wire.send(number, 10 * at)


@story
def gap(a: Witness, b: Witness) -> None:
    wire = Wire(a, b)
    wire.send(LAST_ID - 2, 10)
    wire.at_client(15, OUT, Subscribe("x", "", LAST_ID - 1))
    wire.at_client(16, OUT, Unsubscribe("x", "", LAST_ID))
    wire.send(3, 20)
    wire.send(7, 30)


@story
def same_id(a: Witness, b: Witness) -> None:
    wire = Wire(a, b)
    wire.send(1, 10, body=b"one")
    wire.send(1, 20, body=b"another")


@story
def another_shape(a: Witness, b: Witness) -> None:
    """A task of Spark that was tried again, with other rows in another order (T-72a)."""
    first = Wire(a, b)
    for number in (1, 2, 3):
        first.send(number, 10 * number, body=b"row %d" % number)
    second = Wire(a, b, 100, (2, 2))
    for number, row in enumerate((1, 3, 5, 4), 1):
        second.send(number, 100 + 10 * number, body=b"row %d" % row)


@story
def first_draft(a: Witness, b: Witness) -> None:
    wire = Wire(a, b, revision=D1)
    wire.send(1, 10)
    wire.at_client(20, OUT, Subscribe("x", "y", 2))


@story
def refused(a: Witness, b: Witness) -> None:
    """Four handshakes: no, no answer, a yes from the client, a no from the client."""

    def shake(cid: int, status: HandshakeStatus | None, *final: HandshakeFinal) -> None:
        at = 100 * cid
        request, response = HandshakeRequest(2, a.uuid), HandshakeResponse(1, b.uuid, status or HandshakeStatus.OLDER)
        a.record(at, OUT, None, cid, request)
        if status is None:
            return
        b.record(at + 1, IN, a.uuid, cid, request)
        b.record(at + 2, OUT, a.uuid, cid, response)
        a.record(at + 5, IN, b.uuid, cid, response)
        for frame in final:
            a.record(at + 6, OUT, b.uuid, cid, frame)
            b.record(at + 7, IN, a.uuid, cid, frame)

    shake(1, HandshakeStatus.NEWER_INCOMPATIBLE)
    shake(2, None)
    shake(3, HandshakeStatus.OLDER, HandshakeFinal(True))
    shake(4, HandshakeStatus.OLDER, HandshakeFinal(False))


@story
def hostile(a: Witness, b: Witness) -> None:
    wire = Wire(a, b, subscriptions=(Subscription(HOSTILE, HOSTILE),))
    wire.send(1, 10, channel=HOSTILE)
    wire.at_client(20, OUT, Subscribe(HOSTILE, HOSTILE, 2))
    wire.at_client(30, OUT, b"\x02\xff")  # whole for who records it, and nothing that a peer may say

"""Cases of frames on a live connection, and of its ends."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from tolliver_proto import Ack, Message, encode

from .cases import DIAL, EITHER, Book, Level
from .talk import IN, Messages, Talk, is_echo
from .wire import End

MUST, SHOULD, MAY = Level
MIB = 2**20

frames: Book[Messages] = Book("FR")
ends: Book[Messages] = Book("END")


def head(channel: int, key: int, body: int, number: int) -> bytes:
    """The 17 bytes of a message's head, true or not."""
    return pack(">BIIII", 3, channel, key, body, number)


# Garbage.


def _garbage(number: int, data: bytes, rulings: str, text: str, level: Level = MUST, *, short: bool = False) -> None:
    """The connection ends, without waiting for more bytes; the message before is not lost, and others are served."""

    @frames.case(number, rulings, level, text, short=short)
    def closes(session: Messages) -> None:
        talk = session.meet()
        talk.lives()
        talk.say(data)
        talk.ends()
        session.goes_on()


_garbage(1, b"\x05", "T-05", "The code 5 ends the connection at once.", short=True)
_garbage(2, b"\x06" + bytes(30), "T-05", "The code 6 ends the connection.")
_garbage(3, b"\x7f", "T-05", "The code 127 ends the connection.")
_garbage(4, b"\xff", "T-05", "The code 255 ends the connection.")
_garbage(5, b"GET / HTTP/1.1\r\n\r\n", "T-05", "Another protocol ends the connection.")
_garbage(6, head(2**32 - 1, 0, 0, 1), "T-07", "A head with a channel of 4 GiB ends the connection at once.", SHOULD)
_garbage(7, head(1, 2**32 - 1, 0, 1), "T-07", "A head with a key of 4 GiB ends the connection at once.", SHOULD)
_garbage(8, head(10, 0, 2**31, 1), "T-06 T-07", "A head with a body of 2^31 bytes ends the connection at once.")
_garbage(9, head(10, 0, 2**32 - 1, 1), "T-06 T-07", "A head with a body of 2^32-1 bytes ends the connection at once.")
_garbage(10, head(10, 0, 16 * MIB + 1, 1), "T-06", "A body above 16 MiB is refused: ours takes no more.", MAY)


@frames.case(11, "T-67 T-05", MUST, "After garbage no frame follows but answers to what came before.")
def nothing_after_garbage(session: Messages) -> None:
    talk = session.meet()
    talk.say(b"\x09", encode(talk.message(b"behind the garbage")))
    talk.ends()
    if any(is_echo(frame, b"behind the garbage") for frame in talk.frames):
        raise talk.failed("nothing read behind the garbage")
    session.again(talk).no_echo(b"behind the garbage", seconds=0.5)


@frames.case(
    12, "T-05 T-45", MUST, "A message before the garbage is handled, here or when it is sent again.", short=True
)
def message_before_garbage(session: Messages) -> None:
    talk = session.meet()
    said = talk.message(b"before the garbage")
    talk.say(said, b"\x09")
    talk.ends()
    acked, echoed = Ack(said.message_id or 0) in talk.frames, any(is_echo(f, said.body) for f in talk.frames)
    talk = session.again(talk)
    if not acked:
        talk.say(said)
        talk.acked(said.message_id or 0)
    if not echoed:
        talk.echoed(said.body)


@frames.case(13, "T-05", MUST, "Garbage on one connection leaves the others alone.", roles=DIAL)
def garbage_beside(session: Messages) -> None:
    one = session.meet()
    other = Messages(session.kit, session.role)
    try:
        two = other.meet()
        one.say(b"\x0a")
        one.ends()
        two.lives()
    finally:
        other.close()


# Bytes and their cuts.


@frames.case(20, "T-01", MUST, "A message that comes byte by byte is handled.")
def dripped(session: Messages) -> None:
    talk = session.live()
    said = talk.message(b"drop by drop")
    talk.drip(encode(said))
    talk.echoed(said.body)
    talk.acked(said.message_id or 0)


@frames.case(21, "T-01", MUST, "A message that is cut in two at any byte is handled.")
def cut_in_two(session: Messages) -> None:
    talk = session.live()
    for size in range(1, len(encode(talk.message(b"two", number=1)))):
        said = talk.message(b"two")
        data = encode(said)
        talk.drip(data[:size], size)
        talk.drip(data[size:], len(data))
        talk.acked(said.message_id or 0)
        talk.echoed(said.body)


@frames.case(22, "T-01", MUST, "Twenty messages in one write are all handled.", short=True)
def twenty_at_once(session: Messages) -> None:
    talk = session.live()
    said = [talk.message(f"{number}".encode()) for number in range(20)]
    talk.say(*said)
    for message in said:
        talk.echoed(message.body)
        talk.acked(message.message_id or 0)


@frames.case(
    23, "T-45 T-49", MUST, "A message that is cut off at any byte is not handled, and not acknowledged.", roles=DIAL
)
def cut_off(session: Messages) -> None:
    data = encode(Message(IN, session.key, b"cut off", 9))
    for size in range(1, len(data), 1):
        talk = session.meet()
        talk.say(data[:size])
        talk.close()
        if any(frame == Ack(9) for frame in talk.frames):
            raise talk.failed("no ack of half a message")
    talk = session.meet()
    talk.lives()
    talk.no_echo(b"cut off")


def _body(number: int, size: int, text: str, level: Level = MUST, *, short: bool = False) -> None:
    @frames.case(number, "T-06 T-01", level, text, short=short)
    def handles(session: Messages) -> None:
        session.live().handles(bytes(range(256)) * (size // 256) + bytes(size % 256))


_body(24, 0, "An empty body comes back.")
_body(25, 65_537, "A body of 64 KiB and a byte comes back.", short=True)
_body(26, MIB, "A body of 1 MiB comes back.")
_body(27, 16 * MIB, "A body of 16 MiB comes back: ours sends that much.", SHOULD)


def _key(number: int, key: str, text: str) -> None:
    @frames.case(number, "T-11 T-24", MUST, text)
    def handles(session: Messages) -> None:
        talk = session.live()
        key_here = f"{talk.key} {key}"
        talk.subscribe(key_here)
        talk.handles(b"under a key", key_here)
        talk.unsubscribe(key_here)


_key(28, "größe ✓ 🜁", "A key of any script is taken, and comes back.")
_key(29, "a\0b\n\t", "A key with NUL and control characters is taken, and comes back.")
_key(30, "k" * 4000, "A key of 4,000 bytes is taken, and comes back.")


def _exact(number: int, told: str, subscribed: str, text: str) -> None:
    @frames.case(number, "T-11 T-24", MUST, text)
    def differs(session: Messages) -> None:
        talk = session.live()
        talk.subscribe(f"{talk.key} {subscribed}")
        talk.acked(talk.tell(b"another name", key=f"{talk.key} {told}"))
        talk.lives()
        talk.no_echo(b"another name")
        talk.unsubscribe(f"{talk.key} {subscribed}")


_exact(31, "e\u0301", "é", "Names that differ in Unicode's normal form are two.")
_exact(32, "Name", "name", "Names that differ in case are two.")
_exact(33, "name ", "name", "Names that differ in a space at the end are two.")
_exact(34, "name/a", "name/*", "A star is a character: there is no pattern but the empty name.")


def _unreadable(number: int, channel: bytes, key: bytes, text: str) -> None:
    @frames.case(number, "T-10", MUST, text)
    def acknowledges(session: Messages) -> None:
        talk = session.live()
        mine = next(talk.ids)
        talk.say(head(len(channel), len(key), 1, mine) + channel + key + b"x")
        talk.acked(mine)
        talk.no_echo()
        talk.lives()


_unreadable(35, b"\xff\xfe", b"", "A message on a channel that is not UTF-8 is acknowledged, and goes no further.")
_unreadable(
    36, IN.encode(), b"\xc0\xaf", "A message under a key that is not UTF-8 is acknowledged, and goes no further."
)
_unreadable(37, IN.encode(), b"\xed\xa0\x80", "A lone surrogate in a key is not UTF-8.")


def _id(number: int, mine: int, text: str, rulings: str = "T-42") -> None:
    @frames.case(number, rulings, MUST, text)
    def acknowledges(session: Messages) -> None:
        talk = session.live()
        talk.say(head(len(IN), len(talk.key.encode()), 2, mine) + IN.encode() + talk.key.encode() + b"id")
        talk.echoed(b"id")
        talk.acked(mine)


_id(38, 0, "The id 0 is an id like others: acknowledged.")
_id(39, 2**31 - 2, "The id 2^31-2 is acknowledged.", "T-42 T-40")
_id(40, 2**31, "The id 2^31 is acknowledged.")
_id(41, 2**32 - 1, "The id 2^32-1 is acknowledged.")


# Ends.


def _end(
    number: int, rulings: str, text: str, end: Callable[[Talk], object], level: Level = MUST, *, short: bool = False,
    orderly: bool = False,
) -> None:  # fmt: skip
    """The kit ends the connection in some way; the peer ends its half, and can be met again."""

    @ends.case(number, rulings, level, text, short=short)
    def is_over(session: Messages) -> None:
        talk = session.meet()
        talk.lives()
        end(talk)
        if not talk.wait(lambda: talk.end is not None, session.setup.patience):
            raise talk.failed("its own end")
        if orderly and talk.end not in (End.ORDERLY, End.TLS):
            raise talk.failed("close_notify before the end")
        session.goes_on()


def _half(talk: Talk) -> None:
    talk.write(encode(Message(IN, talk.key, b"never whole", 77))[:-3])


def _half_and_finish(talk: Talk) -> None:
    _half(talk)
    talk.finish()


def _half_and_cut(talk: Talk) -> None:
    _half(talk)
    talk.flush(talk.patience)
    talk.cut()


_end(1, "T-67", "close_notify and FIN are answered by its own end.", Talk.finish, short=True)
_end(2, "T-67", "close_notify alone, without FIN, is answered by its own end.", lambda talk: talk.finish(fin=False))
_end(3, "T-67", "FIN without close_notify is answered by its own end.", Talk.cut)
_end(4, "T-67 T-76", "A reset leaves the peer as it was.", Talk.reset, short=True)
_end(5, "T-67", "The orderly end inside a frame is answered by its own end.", _half_and_finish)
_end(6, "T-67", "FIN inside a frame is answered by its own end.", _half_and_cut)
_end(7, "T-67", "An orderly end is answered by close_notify.", Talk.finish, SHOULD, orderly=True)


@ends.case(
    8, "T-45 T-51", MUST, "Messages before an orderly end are handled, here or when they are sent again.", short=True
)
def messages_before_the_end(session: Messages) -> None:
    talk = session.meet()
    said = [talk.message(f"before the end {number}".encode()) for number in range(5)]
    talk.say(*said)
    talk.finish()
    talk.ends()
    here, talk_before = talk.frames, talk
    talk = session.again(talk)
    for message in said:
        acked = Ack(message.message_id or 0)
        if acked not in here:
            talk.say(message)
            talk.acked(acked.message_id)
        if not any(is_echo(frame, message.body) for frame in here):
            talk.echoed(message.body)
    assert talk is not talk_before


@ends.case(9, "T-54 I3", MUST, "A body that could not be sent back before the end comes on the next connection.")
def answer_after_the_end(session: Messages) -> None:
    talk = session.meet()
    number = talk.tell(b"slow:1:later")
    talk.wait(lambda: False, 0.2)
    talk.close()
    talk = session.meet()
    talk.say(Message(IN, talk.key, b"slow:1:later", number))
    talk.acked(number)
    talk.echoed(b"slow:1:later")


@ends.case(10, "T-68 T-76", MUST, "Twenty connections that end at once leave the peer as it was.", roles=DIAL)
def twenty_ends(session: Messages) -> None:
    for _ in range(20):
        talk = session.begin()
        talk.reset()
    for _ in range(20):
        session.begin().close()
    session.goes_on()


@ends.case(11, "T-80", MUST, "A connection on which nothing is said stays.")
def idle(session: Messages) -> None:
    talk = session.live()
    if talk.wait(lambda: talk.end is not None, 4.0):
        raise talk.failed("the connection to stay")
    talk.lives()


@ends.case(
    12, "T-49", MUST, "An ack is never sent on another connection than the one that brought the message.", roles=EITHER
)
def ack_of_another_connection(session: Messages) -> None:
    talk = session.meet()
    number = talk.tell(b"slow:1:other")
    talk.wait(lambda: False, 0.2)
    talk = session.again(talk)
    talk.no_ack(number, 2.0)
    talk.say(Message(IN, talk.key, b"slow:1:other", number))
    talk.acked(number)


CASES = frames.cases + ends.cases

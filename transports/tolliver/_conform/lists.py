"""Cases of subscriptions: lists, control messages, matching, holds."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from tolliver_proto import Message, Subscribe, Subscription, Unsubscribe

from .cases import DIAL, Book, Failed, Level
from .frames import head
from .talk import IN, OUT, RESERVED, Messages, Talk

MUST, SHOULD, MAY = Level

lists: Book[Messages] = Book("SUB")


def _other(talk: Talk, word: str = "other") -> str:
    return f"{talk.key} {word}"


def _comes(talk: Talk, body: bytes, key: str) -> None:
    talk.handles(body, key)


def _stays_away(talk: Talk, body: bytes, key: str) -> None:
    """It is handled, and not sent back to us: what is sent after it is here, and it is not."""
    talk.acked(talk.tell(body, key=key))
    talk.lives()
    talk.no_echo(body, key)


@lists.case(1, "T-23 T-20 T-28 C2", MUST, "A subscribe message adds an entry, and is acknowledged.", short=True)
def adds(session: Messages) -> None:
    talk = session.live()
    _stays_away(talk, b"before", _other(talk))
    talk.subscribe(_other(talk))
    _comes(talk, b"after", _other(talk))


@lists.case(2, "T-26 T-20 T-28 C2", MUST, "An unsubscribe message removes an entry, and is acknowledged.", short=True)
def removes(session: Messages) -> None:
    talk = session.live()
    talk.subscribe(_other(talk))
    _comes(talk, b"listed", _other(talk))
    talk.unsubscribe(_other(talk))
    _stays_away(talk, b"removed", _other(talk))


@lists.case(3, "T-26", MUST, "An entry that was added twice is removed at once: the list is a set.")
def is_a_set(session: Messages) -> None:
    talk = session.live()
    for _ in range(2):
        talk.subscribe(_other(talk))
    _comes(talk, b"listed", _other(talk))
    talk.no_echo(b"listed", _other(talk))
    talk.unsubscribe(_other(talk))
    _stays_away(talk, b"removed", _other(talk))


@lists.case(4, "T-26", MUST, "An unsubscribe of what is not listed is acknowledged, and changes nothing.")
def removes_nothing(session: Messages) -> None:
    talk = session.live()
    talk.unsubscribe(_other(talk))
    talk.lives()


@lists.case(5, "T-24", MUST, "The empty key matches every key of its channel.")
def every_key(session: Messages) -> None:
    talk = session.meet(listed=session.mine(""))
    for key in (talk.key, _other(talk), ""):
        _comes(talk, b"any key", key)


@lists.case(6, "T-24 T-23", MUST, "The empty channel matches every channel, and never control messages.")
def every_channel(session: Messages) -> None:
    talk = session.meet(listed=[Subscription("", session.key)])
    talk.handles(b"any channel")
    talk.quiet("no control message", lambda frame: isinstance(frame, Message) and frame.channel == RESERVED)


@lists.case(7, "T-24 T-56", MUST, "Empty names match all that it sends, and nothing that others send to it.")
def everything(session: Messages) -> None:
    talk = session.meet(listed=[Subscription("", "")])
    talk.handles(b"everything")
    talk.quiet("no message of others", lambda frame: isinstance(frame, Message) and frame.channel == IN)


@lists.case(8, "T-24", MUST, "A message with an empty key matches no entry that has a key.")
def empty_key(session: Messages) -> None:
    talk = session.live()
    _stays_away(talk, b"no key", "")


@lists.case(9, "T-25", MUST, "What several entries match comes once.")
def once(session: Messages) -> None:
    talk = session.meet(listed=[Subscription(OUT, session.key), Subscription("", ""), Subscription(OUT, "")])
    talk.handles(b"once")
    talk.lives()
    talk.no_echo(b"once")


@lists.case(10, "T-26 T-24", MUST, "An unsubscribe of the empty key removes that entry alone.")
def wildcard_removed(session: Messages) -> None:
    talk = session.meet(listed=session.mine(session.key, ""))
    talk.unsubscribe("")
    talk.lives()
    _stays_away(talk, b"not covered", _other(talk))


@lists.case(11, "T-26", MUST, "An unsubscribe of one key leaves the empty key, which covers it.")
def wildcard_stays(session: Messages) -> None:
    talk = session.meet(listed=session.mine(session.key, ""))
    talk.unsubscribe(talk.key)
    talk.lives()


@lists.case(12, "T-28", MUST, "A subscribe message that is unreliable is obeyed, and not acknowledged.")
def unreliable_control(session: Messages) -> None:
    talk = session.live()
    talk.say(Subscribe(OUT, _other(talk)))
    _comes(talk, b"obeyed", _other(talk))
    talk.no_ack(2**31 - 1, 0.1)


@lists.case(13, "T-20 C4", MUST, "A copy of a control message is acknowledged, too.")
def copied_control(session: Messages) -> None:
    talk = session.live()
    said = Subscribe(OUT, _other(talk), next(talk.ids))
    assert said.message_id is not None
    talk.say(said, said)
    talk.acked(said.message_id)
    talk.acked(said.message_id)
    _comes(talk, b"obeyed", _other(talk))


def _body(number: int, rulings: str, text: str, make: Callable[[str], bytes], key: bytes = b"") -> None:
    """A control message that is not understood: acknowledged, and nothing changes."""

    @lists.case(number, rulings, MUST, text)
    def ignores(session: Messages) -> None:
        talk = session.live()
        wanted = _other(talk)
        body, mine = make(wanted), next(talk.ids)
        talk.say(head(len(RESERVED), len(key), len(body), mine) + RESERVED.encode() + key + body)
        talk.acked(mine)
        _stays_away(talk, b"not obeyed", wanted)


def _entry(key: str, code: bytes = b"\0", longer: int = 0) -> bytes:
    return code + pack(">II", len(OUT), len(key) + longer) + OUT.encode() + key.encode()


_body(14, "T-20", "A control message with the code 2 is acknowledged and ignored.", lambda key: _entry(key, b"\x02"))
_body(15, "T-20", "A control message with the code 255 is acknowledged and ignored.", lambda key: _entry(key, b"\xff"))
_body(
    16, "T-20 T-12", "A control body with a byte too many is acknowledged and ignored.", lambda key: _entry(key) + b"x"
)
_body(17, "T-20 T-12", "A control body that is too short is acknowledged and ignored.", lambda key: _entry(key)[:-1])
_body(18, "T-20", "An empty control body is acknowledged and ignored.", lambda key: b"")
_body(19, "T-20", "A control body of its code alone is acknowledged and ignored.", lambda key: b"\0")
_body(
    20, "T-12", "Lengths that fit only when they wrap at 2^32 are acknowledged and ignored.",
    lambda key: b"\0" + pack(">II", 2**32 - 1, len(key) + len(OUT) + 1) + OUT.encode() + key.encode(),
)  # fmt: skip
_body(
    21,
    "T-20 T-10",
    "A control body that is not UTF-8 is acknowledged and ignored.",
    lambda key: b"\0" + pack(">II", 1, 1) + b"\xff\xff",
)
_body(22, "T-27", "A control message with a key is acknowledged and not interpreted.", _entry, b"k")
_body(23, "T-21 T-22", "A control body of draft 1 is acknowledged and ignored.", lambda key: _entry(key, b""))


@lists.case(24, "T-27", MUST, "A subscription to the reserved channel is acknowledged, and brings no control message.")
def reserved(session: Messages) -> None:
    talk = session.live()
    talk.subscribe("", RESERVED)
    talk.lives()
    talk.quiet("no control message", lambda frame: isinstance(frame, Message) and frame.channel == RESERVED)


@lists.case(25, "T-27 T-11", MUST, "The channel Tolliver is not the reserved one.")
def not_reserved(session: Messages) -> None:
    talk = session.live()
    body, mine = _entry(_other(talk)), next(talk.ids)
    talk.say(Message("Tolliver", "", body, mine))
    _stays_away(talk, b"not obeyed", _other(talk))
    talk.acked(mine, session.setup.grace)


@lists.case(26, "T-30", MUST, "The list of a handshake replaces the one before.", short=True)
def replaces(session: Messages) -> None:
    talk = session.meet(listed=session.mine(session.key, f"{session.key} other"))
    _comes(talk, b"listed", _other(talk))
    talk = session.again(talk)
    _stays_away(talk, b"not listed", _other(talk))


@lists.case(27, "T-30", MUST, "A subscribe message is forgotten where the next handshake's list lacks it.")
def replaces_messages(session: Messages) -> None:
    talk = session.meet()
    talk.subscribe(_other(talk))
    _comes(talk, b"listed", _other(talk))
    talk = session.again(talk)
    _stays_away(talk, b"not listed", _other(talk))


@lists.case(28, "T-30 T-32", MUST, "What is queued for a peer stays queued when its list changes.", short=True)
def queued_stays(session: Messages) -> None:
    talk = session.meet()
    talk.withholds = True
    talk.handles(b"queued")
    talk.withholds = False
    talk = session.again(talk, listed=())
    talk = session.again(talk)
    talk.echoed(b"queued")


@lists.case(29, "T-61", SHOULD, "What a newer list lacks is held: it comes, in order, when it is listed again.")
def held(session: Messages) -> None:
    talk = session.meet()
    _comes(talk, b"listed", talk.key)
    talk = session.again(talk, listed=session.mine(_other(talk)))
    for number in range(3):
        talk.acked(talk.tell(f"held {number}".encode()))
    talk.handles(b"barrier", _other(talk))
    talk.no_echo(None)
    talk = session.again(talk)
    found = [talk.expect("what was held", _held).body for _ in range(3)]
    if found != [b"held 0", b"held 1", b"held 2"]:
        raise Failed("the order of sending", repr(found))


def _held(frame: object) -> bool:
    return isinstance(frame, Message) and frame.body.startswith(b"held")


@lists.case(30, "T-61", SHOULD, "A subscribe message ends a hold: what was held comes.")
def hold_ends(session: Messages) -> None:
    talk = session.meet()
    talk.lives()
    talk = session.again(talk, listed=session.mine(_other(talk)))
    talk.acked(talk.tell(b"held"))
    talk.handles(b"barrier", _other(talk))
    talk.no_echo(b"held")
    talk.subscribe(talk.key)
    talk.echoed(b"held")


@lists.case(31, "T-61 T-26", SHOULD, "An unsubscribe message ends a hold: what was held is given up.")
def hold_given_up(session: Messages) -> None:
    talk = session.meet()
    talk.lives()
    talk = session.again(talk, listed=session.mine(_other(talk)))
    talk.acked(talk.tell(b"held"))
    talk.handles(b"barrier", _other(talk))
    talk.unsubscribe(talk.key)
    talk.subscribe(talk.key)
    talk.lives()
    talk.no_echo(b"held")


@lists.case(
    32, "T-32 T-43", MUST, "The subscriptions of a peer that is away stay, and messages wait for it.", short=True
)
def away(session: Messages) -> None:
    first = session.meet()
    first.lives()
    uuid = first.uuid
    first.close()
    other = session.meet(uuid=session.beside(), listed=())
    other.acked(other.tell(b"while away"))
    other.close()
    session.meet(uuid=uuid).echoed(b"while away")


@lists.case(33, "T-25 T-43", MUST, "Each of two peers that subscribe gets its own copy.", roles=DIAL)
def two(session: Messages) -> None:
    one = session.meet()
    other = session.meet(uuid=session.beside())
    one.acked(one.tell(b"for both"))
    one.echoed(b"for both")
    other.echoed(b"for both")


@lists.case(
    34, "T-56", MUST, "A message of one peer is not passed on to another that subscribes to its channel.", roles=DIAL
)
def no_relay(session: Messages) -> None:
    other = session.meet(uuid=session.beside(), listed=[Subscription("", "")])
    one = session.meet()
    one.handles(b"not relayed")
    other.quiet("nothing on that channel", lambda frame: isinstance(frame, Message) and frame.channel == IN, 0.5)


@lists.case(35, "T-20 T-26", MUST, "A hundred changes in one write are obeyed in their order.")
def many_changes(session: Messages) -> None:
    talk = session.live()
    changes = [verb(OUT, _other(talk), next(talk.ids)) for _ in range(50) for verb in (Unsubscribe, Subscribe)]
    talk.say(*changes)
    for change in changes:
        talk.acked(change.message_id or 0)
    _comes(talk, b"listed", _other(talk))


CASES = lists.cases

"""Cases of messages and acks, and of several connections."""

from __future__ import annotations

from time import monotonic

from tolliver_proto import Ack, Message, Subscription, encode

from .cases import BOTH, DIAL, EITHER, Book, Failed, Level, Role
from .talk import IN, LARGEST, OUT, PROBE, UNRELIABLE, Messages, Talk, is_echo

MUST, SHOULD, MAY = Level

receives: Book[Messages] = Book("REL")
sends: Book[Messages] = Book("SND")
links: Book[Messages] = Book("LNK")

# The peer receives.


@receives.case(1, "T-45 C4", MUST, "A message that was handled is acknowledged with its id, once.", short=True)
def acknowledged(session: Messages) -> None:
    talk = session.live()
    number = talk.tell(b"once")
    talk.echoed(b"once")
    talk.acked(number)
    talk.lives()
    talk.no_ack(number)


@receives.case(2, "T-42 T-55", MUST, "An unreliable message is handled, and not acknowledged.", short=True)
def unreliable(session: Messages) -> None:
    talk = session.live()
    talk.say(Message(IN, talk.key, b"unreliable"))
    talk.echoed(b"unreliable")
    talk.lives()
    talk.quiet("no ack", lambda frame: isinstance(frame, Ack))


@receives.case(3, "T-45", MUST, "The ack comes after the handler's end, not before.", short=True)
def after_the_handler(session: Messages) -> None:
    talk = session.live()
    began = monotonic()
    number = talk.tell(b"slow:1:ack")
    talk.acked(number)
    took = monotonic() - began
    if took < 1:
        raise Failed("an ack after 1 s of the handler", f"an ack after {took:.2f} s")
    talk.echoed(b"slow:1:ack")


def _fails(session: Messages, times: int) -> None:
    """Not acknowledged while it fails; acknowledged when a copy was handled."""
    talk = session.live()
    said = talk.message(f"fail:{times}:x".encode())
    for _ in range(times):
        talk.say(said)
        talk.lives()
        talk.no_ack(said.message_id or 0)
        talk.no_echo(said.body, seconds=0.0)
    talk.say(said)
    talk.echoed(said.body)
    talk.acked(said.message_id or 0)


@receives.case(
    4, "T-45 T-47 C4", MUST, "A message whose handler fails is not acknowledged; a copy is handled.", short=True
)
def fails_once(session: Messages) -> None:
    _fails(session, 1)


@receives.case(5, "T-45 T-47", MUST, "A message whose handler fails four times is handled the fifth time.")
def fails_often(session: Messages) -> None:
    _fails(session, 4)


@receives.case(6, "T-45 T-51", MUST, "A message that fails holds up no other.")
def failing_first(session: Messages) -> None:
    talk = session.live()
    bad = talk.message(b"fail:1:first")
    rest = [talk.message(f"behind it {number}".encode()) for number in range(5)]
    talk.say(bad, *rest)
    for message in rest:
        talk.echoed(message.body)
        talk.acked(message.message_id or 0)
    talk.no_ack(bad.message_id or 0)
    talk.say(bad)
    talk.echoed(bad.body)
    talk.acked(bad.message_id or 0)


@receives.case(7, "T-48 C4", MUST, "Each copy of what was handled is acknowledged again.", short=True)
def copies(session: Messages) -> None:
    talk = session.live()
    said = talk.message(b"again and again")
    for _ in range(3):
        talk.say(said)
        talk.acked(said.message_id or 0)
    talk.echoed(said.body)


@receives.case(8, "T-48", SHOULD, "A copy of what is being handled is not handled beside it; both are acknowledged.")
def copy_meanwhile(session: Messages) -> None:
    talk = session.live()
    said = talk.message(b"slow:1:x")
    talk.say(said, said)
    talk.acked(said.message_id or 0)
    talk.acked(said.message_id or 0)
    talk.echoed(said.body)
    talk.no_echo(said.body, seconds=1.5)


@receives.case(9, "T-48", MUST, "Another message under a known id is handled, too.", short=True)
def reused_id(session: Messages) -> None:
    talk = session.live()
    number = next(talk.ids)
    for body in (b"first of this id", b"second of this id"):
        talk.tell(body, number=number)
        talk.echoed(body)
        talk.acked(number)


@receives.case(10, "T-48", MUST, "The same id under another key is another message.")
def reused_id_other_key(session: Messages) -> None:
    talk = session.meet(listed=session.mine(session.key, f"{session.key} other"))
    number = next(talk.ids)
    for key in (talk.key, f"{talk.key} other"):
        talk.tell(b"same body", key=key, number=number)
        talk.echoed(b"same body", key)
        talk.acked(number)


@receives.case(11, "T-48 T-40", MUST, "A lower id after a higher one is a new message.")
def lower_id(session: Messages) -> None:
    talk = session.meet()
    for number in (1_000_000, 999_999, 5, 999_998):
        body = f"id {number}".encode()
        talk.tell(body, number=number)
        talk.echoed(body)
        talk.acked(number)


@receives.case(12, "T-41 T-40", MUST, "After the id 2^31-2 the id 1 is a new message.")
def wrap(session: Messages) -> None:
    talk = session.meet()
    for number in (LARGEST - 1, LARGEST, 1, 2):
        body = f"wrap {number}".encode()
        talk.tell(body, number=number)
        talk.echoed(body)
        talk.acked(number)


@receives.case(13, "T-48 T-43", MUST, "The same id and body from another peer is another message.")
def same_id_other_peer(session: Messages) -> None:
    first = session.meet()
    first.acked(first.tell(b"from each", number=7))
    first.echoed(b"from each")
    first.close()
    other = session.meet(uuid=session.beside())
    other.tell(b"from each", number=7)
    other.acked(7)
    other.echoed(b"from each")


@receives.case(14, "T-51", MUST, "A hundred messages are handled in their order.", short=True)
def in_order(session: Messages) -> None:
    talk = session.live()
    said = [talk.message(f"number {number}".encode()) for number in range(100)]
    talk.say(*said)
    for message in said:
        talk.acked(message.message_id or 0)
    found: list[bytes] = []
    for _ in said:
        found.append(talk.expect("a body back", lambda frame: is_numbered(frame, talk.key)).body)
    expected = [message.body for message in said]
    first_copies = list(dict.fromkeys(found))
    if first_copies != expected:
        at = next(at for at, pair in enumerate(zip(first_copies, expected, strict=False)) if pair[0] != pair[1])
        raise Failed(f"{expected[at]!r} at place {at}", repr(first_copies[at]))


def is_numbered(frame: object, key: str) -> bool:
    return isinstance(frame, Message) and frame.key == key and frame.body.startswith(b"number ")


@receives.case(15, "T-52 D-9", MUST, "Two thousand messages as fast as they go are all handled.")
def many(session: Messages) -> None:
    talk = session.live()
    said = [talk.message(f"many {number}".encode()) for number in range(2000)]
    for at in range(0, len(said), 50):
        talk.say(*said[at : at + 50])
    for message in said:
        talk.echoed(message.body)
        talk.acked(message.message_id or 0)


@receives.case(16, "D-9 T-52", MUST, "Behind a slow handler nothing is lost: all is handled, here or when sent again.")
def behind_a_slow_one(session: Messages) -> None:
    talk = session.live()
    said = [
        talk.message(b"slow:2:x"),
        *(talk.message(f"{number:05}".encode() + bytes(70_000)) for number in range(300)),  # more than it may take
    ]
    for message in said:
        talk.say(message)
    _all_handled(session, talk, said)


def _all_handled(session: Messages, talk: Talk, said: list[Message]) -> None:
    """All are acknowledged; those that are not after a while are sent again."""
    missing = {message.message_id: message for message in said}

    def settle() -> bool:
        for frame in talk.frames:
            if isinstance(frame, Ack):
                missing.pop(frame.message_id, None)
        talk.frames[:] = [frame for frame in talk.frames if not isinstance(frame, Ack)]
        return not missing or talk.end is not None

    for _ in range(3):
        if talk.wait(settle, session.setup.patience):
            break
        talk.say(*missing.values())
    if missing:
        raise talk.failed(f"acks of all {len(said)} messages, {len(missing)} are missing")
    for message in said:
        talk.echoed(message.body)


@receives.case(17, "D-9 T-52", MUST, "A kit that stops reading for a while loses nothing, and is not cut off.")
def stops_reading(session: Messages) -> None:
    talk = session.live()
    said = [talk.message(f"{number:05}".encode() + bytes(60_000)) for number in range(100)]
    talk.reads = False
    for message in said:
        talk.write(encode(message))
        talk.flush(0.05)
    talk.flush(0.5)
    talk.reads = True
    if not talk.flush(session.setup.patience):
        raise talk.failed("the peer to read on")
    _all_handled(session, talk, said)


@receives.case(
    18, "T-46", SHOULD, "A message that it did not subscribe to is acknowledged, at the latest after its grace."
)
def unwanted(session: Messages) -> None:
    talk = session.live()
    said = talk.message(b"unwanted", channel="conform.elsewhere")
    talk.say(said)
    talk.lives()
    if not talk.wait(lambda: Ack(said.message_id or 0) in talk.frames, session.setup.grace):
        talk.say(said)  # it may have been let go
    talk.acked(said.message_id or 0)
    talk.no_echo(b"unwanted")


@receives.case(19, "T-46 T-56", MUST, "A message on conform.out, to which it does not subscribe, is not handled.")
def not_its_channel(session: Messages) -> None:
    talk = session.live()
    talk.say(Message(OUT, talk.key, b"not for it", next(talk.ids)))
    talk.lives()
    talk.no_echo(b"not for it")


@receives.case(20, "T-80", MUST, "An ack for 2^31-1, a probe, is ignored.")
def probe_ack(session: Messages) -> None:
    talk = session.live()
    talk.say(*[Ack(UNRELIABLE)] * 3)
    talk.lives()


@receives.case(21, "T-80 T-46", SHOULD, "A message on tolliver.probe is acknowledged without a delay.", short=True)
def probe_message(session: Messages) -> None:
    talk = session.live()
    number = next(talk.ids)
    talk.say(Message(PROBE, "", b"", number))
    talk.acked(number)


@receives.case(22, "T-45 T-49", MUST, "A message that was not acknowledged is handled when it is sent again elsewhere.")
def again_elsewhere(session: Messages) -> None:
    talk = session.meet()
    number = talk.tell(b"fail:1:elsewhere")
    talk.lives()
    talk.no_ack(number, 0.0)
    talk = session.again(talk)
    talk.tell(b"fail:1:elsewhere", number=number)
    talk.acked(number)
    talk.echoed(b"fail:1:elsewhere")


@receives.case(23, "T-47", SHOULD, "A message that failed counts its failures alone: another one is not affected.")
def counts_alone(session: Messages) -> None:
    talk = session.live()
    one, other = talk.message(b"fail:2:one"), talk.message(b"fail:2:other")
    for _ in range(2):
        talk.say(one, other)
        talk.lives()
    talk.say(one, other)
    for message in (one, other):
        talk.echoed(message.body)
        talk.acked(message.message_id or 0)


@receives.case(24, "T-42 T-48", MUST, "An unreliable message is handled each time: it has no id that could be known.")
def unreliable_copies(session: Messages) -> None:
    talk = session.live()
    talk.say(*[Message(IN, talk.key, b"each time")] * 3)
    for _ in range(3):
        talk.echoed(b"each time")


@receives.case(
    25, "T-42 T-45", SHOULD, "An unreliable message whose handler fails is gone: no ack, and nothing breaks."
)
def unreliable_failure(session: Messages) -> None:
    talk = session.live()
    talk.say(Message(IN, talk.key, b"fail:1:gone"))
    talk.lives()
    talk.quiet("no ack", lambda frame: isinstance(frame, Ack))


@receives.case(26, "T-51 T-45", MUST, "Ten slow messages are handled in order, each acknowledged.")
def slow_ones(session: Messages) -> None:
    talk = session.live()
    said = [talk.message(f"slow:0.1:number {number}".encode()) for number in range(10)]
    talk.say(*said)
    for message in said:
        talk.acked(message.message_id or 0)
        talk.echoed(message.body)


# The peer sends.


def _owed(session: Messages, count: int = 1, word: str = "owed") -> Talk:
    """A connection on which the peer has sent so many bodies, which the kit did not acknowledge."""
    talk = session.meet()
    talk.withholds = True
    for number in range(count):
        talk.acked(talk.tell(f"{word} {number}".encode()))
    return talk


def _owes(talk: Talk, count: int, word: str = "owed") -> list[Message]:
    """So many different bodies come, in what order they may."""
    found: dict[bytes, Message] = {}
    while len(found) < count:
        frame = talk.expect(
            f"{count} bodies that begin with {word!r}",
            lambda frame: isinstance(frame, Message) and frame.body.startswith(word.encode()),
        )
        found.setdefault(frame.body, frame)
    return [*found.values()]


@sends.case(1, "T-40 T-42", MUST, "Its messages have ids from 1 to 2^31-2.", short=True)
def ids(session: Messages) -> None:
    talk = session.live()
    number = talk.tell(b"an id")
    found = talk.echoed(b"an id")
    talk.acked(number)
    if not 1 <= (found.message_id or 0) <= LARGEST:
        raise Failed("an id from 1 to 2^31-2", f"{found.message_id}")


@sends.case(2, "T-40", MUST, "Messages that are not acknowledged have ids of their own.")
def distinct(session: Messages) -> None:
    found = _owes(_owed(session, 30), 30)
    if len({message.message_id for message in found}) < 30:
        raise Failed("30 ids", repr(sorted(message.message_id or 0 for message in found)))


@sends.case(
    3,
    "T-50 I4",
    MUST,
    "What was not acknowledged comes at once on the next connection, the same id and bytes.",
    short=True,
)
def resent(session: Messages) -> None:
    talk = _owed(session)
    (before,) = _owes(talk, 1)
    talk = session.again(talk)
    (after,) = _owes(talk, 1)
    if before != after:
        raise Failed(repr(before), repr(after))


@sends.case(4, "T-50 T-44 I3", MUST, "What was acknowledged does not come again.", short=True)
def not_resent(session: Messages) -> None:
    talk = session.meet()
    talk.handles(b"acknowledged")
    talk.lives()
    talk.wait(lambda: False, 0.3)  # the ack is read
    talk = session.again(talk)
    talk.lives()
    talk.no_echo(b"acknowledged")


@sends.case(5, "T-50", SHOULD, "What is not acknowledged comes again on the same connection: ours does so after 10 s.")
def resent_here(session: Messages) -> None:
    talk = _owed(session)
    (first,) = _owes(talk, 1)
    again = talk.expect("a copy on the same connection", lambda frame: is_echo(frame, first.body), session.setup.grace)
    if again != first:
        raise Failed(repr(first), repr(again))


@sends.case(6, "T-51 T-50", MUST, "What was not acknowledged comes in its order on the next connection.")
def resent_in_order(session: Messages) -> None:
    talk = session.again(_owed(session, 20))
    found = [message.body for message in _owes(talk, 20)]
    expected = [f"owed {number}".encode() for number in range(20)]
    if found != expected:
        raise Failed("the order of sending", repr(found))


@sends.case(7, "T-50 T-51", SHOULD, "What was not acknowledged comes before what is sent later.")
def resent_first(session: Messages) -> None:
    talk = session.again(_owed(session, 3))
    talk.tell(b"owed later")
    found = [message.body for message in _owes(talk, 4)]
    if found[-1] != b"owed later":
        raise Failed("the new one as the last", repr(found))


@sends.case(8, "T-44 T-50", MUST, "An ack settles its message alone: the others come again.")
def settles_one(session: Messages) -> None:
    talk = _owed(session, 5)
    found = _owes(talk, 5)
    kept = found.pop(2)
    talk.say(Ack(kept.message_id or 0))
    talk.lives()
    talk = session.again(talk)
    again = [message.body for message in _owes(talk, 4)]
    talk.lives()
    talk.no_echo(kept.body)
    if sorted(again) != sorted(message.body for message in found):
        raise Failed(repr([message.body for message in found]), repr(again))


@sends.case(9, "T-44", MUST, "Acks of unknown ids, and repeated ones, are ignored.")
def strange_acks(session: Messages) -> None:
    talk = _owed(session)
    (owed,) = _owes(talk, 1)
    mine = owed.message_id or 0
    known = {mine, UNRELIABLE}
    talk.say(*(Ack(number) for number in (0, 1, 2, 12345, LARGEST, 2**31, 2**32 - 1) if number not in known))
    talk.say(*[Ack(mine)] * 3)
    talk.lives()


@sends.case(10, "T-44 T-43", MUST, "An ack of one peer does not settle another's delivery.", roles=DIAL, short=True)
def another_s_ack(session: Messages) -> None:
    first = _owed(session)
    (owed,) = _owes(first, 1)
    other = session.meet(uuid=session.beside())
    other.say(Ack(owed.message_id or 0))
    other.lives()
    _owes(session.again(first), 1)


@sends.case(11, "T-43", MUST, "Of two recipients each acknowledges for itself.", roles=DIAL)
def each_for_itself(session: Messages) -> None:
    first = session.meet()
    first.withholds = True
    other = session.meet(uuid=session.beside())
    other.acked(other.tell(b"owed both"))
    other.echoed(b"owed both")
    _owes(first, 1)
    other.lives()
    _owes(session.again(first), 1)
    other = session.again(other)
    other.lives()
    other.no_echo(b"owed both")


@sends.case(12, "T-52", MUST, "Four hundred messages all come, though the kit acknowledges them one by one.")
def window(session: Messages) -> None:
    talk = _owed(session, 0)
    said = [talk.message(f"owed {number}".encode()) for number in range(400)]
    talk.say(*said)
    found: set[bytes] = set()
    while len(found) < len(said):
        frame = talk.expect("the rest", lambda f: isinstance(f, Message) and f.body.startswith(b"owed"))
        found.add(frame.body)
        talk.say(Ack(frame.message_id))


@sends.case(13, "T-52", MAY, "At most 256 messages are in flight without an ack, as ours does.")
def in_flight(session: Messages) -> None:
    talk = _owed(session, 0)
    said = [talk.message(f"owed {number}".encode()) for number in range(400)]
    talk.say(*said)
    for message in said:
        talk.acked(message.message_id or 0)
    talk.wait(lambda: False, 0.5)
    found = {frame.body for frame in talk.frames if isinstance(frame, Message)}
    if len(found) > 256:
        raise Failed("256 at most", f"{len(found)}")


@sends.case(14, "T-51", MUST, "First copies come in the order of sending.")
def sent_in_order(session: Messages) -> None:
    found = [message.body for message in _owes(_owed(session, 50), 50)]
    if found != [f"owed {number}".encode() for number in range(50)]:
        raise Failed("the order of sending", repr(found))


@sends.case(15, "T-54 T-45", MUST, "A body is sent back though the connection was reset after its message came.")
def survives_a_reset(session: Messages) -> None:
    talk = session.meet()
    number = talk.tell(b"slow:0.5:reset")
    talk.flush(1.0)
    talk.wait(lambda: False, 0.2)
    talk.reset()
    talk = session.meet()
    talk.tell(b"slow:0.5:reset", number=number)
    talk.echoed(b"slow:0.5:reset")
    talk.acked(number)


@sends.case(16, "T-50 I4", MUST, "A message that was cut off on its way comes whole on the next connection.")
def cut_off_on_its_way(session: Messages) -> None:
    talk = session.meet()
    body = b"large" + bytes(4_000_000)
    talk.withholds = True
    number = talk.tell(body)
    talk.wait(lambda: talk.end is not None or Ack(number) in talk.frames, 1.0)
    acked = Ack(number) in talk.frames
    talk.reset()
    talk = session.meet()
    if not acked:
        talk.tell(body, number=number)
        talk.acked(number)
    talk.echoed(body)


@sends.case(17, "T-27 T-40", MUST, "Control messages of its own have an empty key and ids as messages have.")
def own_control(session: Messages) -> None:
    talk = session.meet()
    talk.lives()
    for frame in talk.frames:
        if isinstance(frame, Message) and frame.channel == "tolliver":
            raise talk.failed("control messages that can be understood")


@sends.case(18, "T-41 T-40", MUST, "Forty messages in a row have ids from 1 to 2^31-2.")
def forty_ids(session: Messages) -> None:
    talk = session.live()
    for number in range(40):
        talk.handles(f"id {number}".encode())


@sends.case(19, "T-43", MUST, "An ack of one recipient leaves the copy of another that is away.", short=True)
def for_one_that_is_away(session: Messages) -> None:
    first = session.meet()
    first.lives()
    uuid = first.uuid
    first.close()
    other = session.meet(uuid=session.beside())
    other.handles(b"for both")
    other.lives()
    other.close()
    session.meet(uuid=uuid).echoed(b"for both")


# Several connections.


@links.case(
    1, "T-70", MUST, "Of two connections of one UUID the newer stays, and the older is ended.", roles=DIAL, short=True
)
def newest_wins(session: Messages) -> None:
    old = session.meet()
    old.lives()
    new = session.meet()
    old.ends("the end of the older connection")
    new.lives()


@links.case(2, "T-70 T-50 I3", MUST, "What the older connection was owed comes on the newer.", roles=DIAL)
def newest_gets_it(session: Messages) -> None:
    old = _owed(session, 3)
    _owes(old, 3)
    new = session.meet()
    _owes(new, 3)
    old.ends()
    new.lives()


@links.case(3, "T-70", MUST, "Connections of different UUIDs leave each other alone.", roles=DIAL)
def side_by_side(session: Messages) -> None:
    one = session.meet()
    other = session.meet(uuid=session.beside())
    one.lives()
    other.lives()
    one.close()
    other.lives()


@links.case(
    4, "T-70 T-49", MUST, "A message that is at its handler while its connection is replaced is not lost.", roles=DIAL
)
def replaced_at_work(session: Messages) -> None:
    old = session.meet()
    number = old.tell(b"slow:1:replaced")
    old.wait(lambda: False, 0.2)
    new = session.meet()
    old.ends()
    new.no_ack(number, 0.2)
    new.tell(b"slow:1:replaced", number=number)
    new.acked(number)
    new.echoed(b"slow:1:replaced")


def _cross(session: Messages, *, lower: bool) -> None:
    """The peer's dial stands; then the kit dials, as the same UUID. The one that the lower UUID dialled stays."""
    stranger = session.stranger(role=Role.LISTEN)
    peer = session.requested(stranger).instance_id
    uuid = type(peer)(int=peer.int - 1 if lower else peer.int + 1)
    session.dress(stranger, uuid)
    stranger.say(session.response(stranger))
    stranger.lives()
    dialled = session.dress(session.transport(role=Role.DIAL), uuid)
    dialled.say(session.request(dialled))
    stays, goes = (dialled, stranger) if lower else (stranger, dialled)
    goes.ends(f"the end of the connection that the {'higher' if lower else 'lower'} UUID did not win")
    if lower:
        session.responded(dialled)
    stays.lives()


@links.case(5, "T-70", MUST, "Of crossing dials the kit's stays where the kit's UUID is lower.", roles=BOTH)
def crossing_lower(session: Messages) -> None:
    _cross(session, lower=True)


@links.case(6, "T-70", MUST, "Of crossing dials the peer's stays where the kit's UUID is higher.", roles=BOTH)
def crossing_higher(session: Messages) -> None:
    _cross(session, lower=False)


@links.case(7, "T-30 T-70", SHOULD, "Two short connections of one UUID, then a third: its list holds.", roles=EITHER)
def third(session: Messages) -> None:
    for _ in range(2):
        session.meet(listed=[Subscription(OUT, "gone")]).close()
    session.meet().lives()


@links.case(8, "T-68 T-05", MUST, "Ten strangers that send garbage keep nobody else out.", roles=DIAL)
def ten_strangers(session: Messages) -> None:
    strangers = [session.stranger() for _ in range(10)]
    for stranger in strangers:
        stranger.say(b"\xee" * 100)
    session.meet().lives()
    for stranger in strangers:
        stranger.ends()


CASES = receives.cases + sends.cases + links.cases

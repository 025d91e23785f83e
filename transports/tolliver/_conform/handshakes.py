"""Cases of the handshake, in both roles, and of TLS below it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from uuid import UUID, uuid4

from tolliver_proto import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Subscription,
    encode,
)

from .._options.instance import TLS
from .._tls.policy import client_context, server_context
from .cases import DIAL, EITHER, LISTEN, Book, Failed, Level, Place, Role, Skipped
from .talk import IN, RESERVED, Messages, Talk
from .wire import End

MUST, SHOULD, MAY = Level
SAME, NEWER, NEWER_REFUSED, OLDER = list(HandshakeStatus)[:4]
NIL, ALL = UUID(int=0), UUID(int=2**128 - 1)
SUCCESS, FAILURE = encode(HandshakeFinal(True)), encode(HandshakeFinal(False))

tls: Book[Messages] = Book("TLS")
asks: Book[Messages] = Book("HS", DIAL)
answers: Book[Messages] = Book("HL", LISTEN)

# TLS.


def _context(session: Messages, *, alpn: bool = True, certificate: bool = True) -> ssl.SSLContext:
    """The kit's own, changed."""
    if session.setup.tls is None:
        raise Skipped("it needs TLS")
    make = client_context if session.role is Role.DIAL else server_context
    context = make(session.setup.tls, alpn=session.setup.alpn)
    if not alpn:
        context.set_alpn_protocols([])
    if not certificate:
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.load_verify_locations(session.setup.tls.ca)
        bare.set_alpn_protocols([session.setup.alpn])
        return bare
    return context


@tls.case(1, "D-1", MUST, "TLS 1.3 is spoken.", short=True)
def tls_version(session: Messages) -> None:
    _context(session)
    talk = session.meet()
    talk.lives()
    found = talk.pump.version
    if found != "TLSv1.3":
        raise Failed("TLSv1.3", str(found))


@tls.case(2, "T-72 D-3 T-03", SHOULD, "The certificate has the UUID that the handshake says, as urn:uuid.")
def tls_uuid(session: Messages) -> None:
    _context(session)
    talk = session.meet()
    talk.lives()
    proved = talk.pump.identity("").uuids
    if talk.peer not in proved:
        raise Failed(f"{talk.peer} in the certificate", f"{', '.join(map(str, proved)) or 'no UUID'} there")


@tls.case(3, "R-35 D-1", SHOULD, "ALPN agrees on tolliver/1 where both offer it.")
def tls_alpn(session: Messages) -> None:
    _context(session)
    talk = session.meet()
    talk.lives()
    found = talk.pump.application_protocol
    if found != session.setup.alpn:
        raise Failed(session.setup.alpn, str(found))


@tls.case(4, "R-35", SHOULD, "A kit that offers no ALPN is taken.")
def tls_no_alpn(session: Messages) -> None:
    session.meet(context=_context(session, alpn=False)).lives()


def _stranger(session: Messages, context: ssl.SSLContext | None = None, who: TLS | None = None) -> None:
    """One that shows this is refused before a frame; the peer serves others on."""
    talk = session.dress(session.begin(context=context, tls=who))
    if talk.shake() and session.role is Role.DIAL:  # in TLS 1.3 the client's is over before the server has looked
        talk.say(session.request(talk))
    talk.ends()
    if talk.frames:
        raise talk.failed("no frame for a stranger")
    if session.role is Role.DIAL:
        session.goes_on()


@tls.case(5, "D-1 T-72", MUST, "A client without a certificate gets no frame.", roles=DIAL, short=True)
def tls_no_certificate(session: Messages) -> None:
    _stranger(session, _context(session, certificate=False))


@tls.case(6, "D-1 T-72", MUST, "A client with a certificate of another CA gets no frame.", roles=DIAL)
def tls_foreign(session: Messages) -> None:
    _stranger(session, who=session.kit.certificates.foreign())


@tls.case(7, "D-1", MUST, "A client whose certificate has expired gets no frame.", roles=DIAL)
def tls_expired(session: Messages) -> None:
    _stranger(session, who=session.kit.certificates.expired())


@tls.case(8, "D-1", SHOULD, "A client that speaks TLS 1.2 at most is refused.", roles=DIAL)
def tls_old(session: Messages) -> None:
    context = _context(session)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    _stranger(session, context)


@tls.case(9, "D-1", MUST, "A request in plaintext is not answered where TLS is spoken.", roles=DIAL)
def tls_plain(session: Messages) -> None:
    _context(session)
    with session.kit.open() as stream:
        stream.settimeout(session.setup.patience)
        stream.sendall(encode(HandshakeRequest(1, session.uuid)))
        try:
            found = stream.recv(4096)
        except ConnectionError:
            found = b""
        except TimeoutError:
            raise Failed("the connection to be ended", "nothing") from None
    if found[:1] not in (b"", b"\x15"):  # an alert
        raise Failed("an end, or an alert of TLS", found[:40].hex())
    session.goes_on()


@tls.case(10, "T-68", MUST, "One that connects and says nothing keeps nobody else out.", roles=DIAL, short=True)
def silent_stranger(session: Messages) -> None:
    with session.kit.open(), session.kit.open():
        session.meet().lives()


@tls.case(11, "T-72 D-3", MUST, "A UUID that the certificate does not have is not taken.", roles=DIAL)
def false_uuid(session: Messages) -> None:
    talk = session.stranger(tls=session.kit.certificates.named())
    talk.say(session.request(talk))
    talk.ends_without_a_word()
    session.goes_on()


@tls.case(12, "T-72", SHOULD, "A UUID that one key has said is not taken from another key.", roles=DIAL)
def taken_uuid(session: Messages) -> None:
    session.meet().lives()
    session.opened[-1].close()
    talk = session.stranger(tls=session.kit.certificates.second())
    talk.say(session.request(talk))
    talk.ends_without_a_word()
    session.goes_on()


@tls.case(13, "D-1 T-73", MUST, "A listener of another CA gets no request.", roles=LISTEN, place=Place.REFUSES)
def foreign_listener(session: Messages) -> None:
    _stranger(session, who=session.kit.certificates.foreign())


@tls.case(
    14, "D-2 T-73", MUST, "A listener under another host name gets no request.", roles=LISTEN, place=Place.REFUSES
)
def listener_elsewhere(session: Messages) -> None:
    _stranger(session, who=session.kit.certificates.elsewhere())


@tls.case(
    15, "T-72 D-3", MUST, "A listener whose certificate has another UUID is left.", roles=LISTEN, place=Place.REFUSES
)
def false_listener(session: Messages) -> None:
    talk = session.stranger(tls=session.kit.certificates.named())
    session.requested(talk)
    talk.say(session.response(talk))
    talk.ends()


@tls.case(16, "D-1 T-74", SHOULD, "A client without a certificate is told so by an alert of TLS.", roles=DIAL)
def told_by_tls(session: Messages) -> None:
    talk = session.begin(context=_context(session, certificate=False))
    if talk.shake():
        talk.ends()
    if talk.end is not End.TLS:
        raise talk.failed("an alert")


# The kit dials.


@asks.case(
    1,
    "T-60 T-61 T-02 T-04 T-31",
    MUST,
    "A request is answered with version 1, status 0, a UUID and the list.",
    short=True,
)
def answered(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk))
    found = session.responded(talk)
    if found.version != 1 or found.instance_id in (NIL, ALL):
        raise Failed("version 1 and a UUID", f"{found.version} and {found.instance_id}")
    if Subscription(IN, "") not in found.subscriptions:
        raise Failed(f"a subscription to {IN} with an empty key", repr(found.subscriptions)[:200])


@asks.case(2, "T-61 T-30", MUST, "The list of a request holds from the response on.", short=True)
def list_holds(session: Messages) -> None:
    session.meet().lives()


@asks.case(
    3, "T-60 T-67", MUST, "An older version that it does not speak: status 2, an empty list, then the end.", short=True
)
def older(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk, version=0))
    found = session.responded(talk, NEWER_REFUSED)
    if found.version != 1 or found.subscriptions:
        raise Failed("its own version and an empty list", repr(found)[:200])
    talk.ends("the end after status 2")
    session.goes_on()


@asks.case(4, "T-60", MUST, "A newer version: status 3, its own version and its list.")
def newer(session: Messages) -> None:
    for version in (2, 2**64 - 1):
        talk = session.stranger()
        talk.say(session.request(talk, version))
        found = session.responded(talk, OLDER)
        if found.version != 1 or Subscription(IN, "") not in found.subscriptions:
            raise Failed("version 1 and the list", f"{found.version} and {found.subscriptions}"[:200])
        talk.close()


@asks.case(5, "T-60 T-61", MUST, "After status 3 a final of success makes the connection live.", short=True)
def newer_compatible(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.say(SUCCESS)
    talk.lives()


def _failing(number: int, final: bytes, rulings: str, text: str) -> None:
    @asks.case(number, rulings, MUST, text)
    def fails(session: Messages) -> None:
        talk = session.stranger()
        talk.say(session.request(talk, 2))
        session.responded(talk, OLDER)
        talk.say(final)
        talk.ends_without_a_word()
        session.goes_on()


_failing(6, FAILURE, "T-60 C1", "After status 3 a final of failure ends the connection.")
_failing(7, b"\x02\x00", "T-60 C1", "The final 0, success in draft 1, is a failure.")
_failing(8, b"\x02\x07", "T-60 C1", "A final that is neither code is a failure.")
_failing(9, encode(Ack(1)), "T-63", "An ack in place of the final ends the connection.")
_failing(10, encode(Message(IN, "", b"early", 1)), "T-63 T-64", "A message in place of the final ends the connection.")


@asks.case(11, "T-64 T-61", MUST, "Nothing is sent between status 3 and the final, not even what it owes.")
def silent_before_final(session: Messages) -> None:
    talk = session.meet()
    talk.withholds = True
    talk.tell(b"owed")
    talk.echoed(b"owed")
    talk.close()
    talk = session.stranger()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.quiet("nothing before the final", lambda frame: True, 1.0)
    talk.say(SUCCESS)
    talk.echoed(b"owed")


def _first(number: int, data: bytes, rulings: str, text: str, level: Level = MUST, *, short: bool = False) -> None:
    """A first frame that ends the connection without an answer."""

    @asks.case(number, rulings, level, text, short=short)
    def refuses(session: Messages) -> None:
        talk = session.stranger()
        talk.say(data)
        talk.ends_without_a_word()
        session.goes_on()


def _opening(uuid: UUID, count: int, entries: bytes = b"") -> bytes:
    return encode(HandshakeRequest(1, uuid))[:-4] + count.to_bytes(4, "big") + entries


def _entry(channel: bytes, key: bytes, length: int | None = None) -> bytes:
    sizes = (len(channel) if length is None else length, len(key))
    return b"".join(size.to_bytes(4, "big") for size in sizes) + channel + key


_first(12, encode(HandshakeRequest(1, UUID(int=5)))[:9] + bytes(20), "T-03", "The nil UUID is refused.")
_first(13, encode(HandshakeRequest(1, UUID(int=5)))[:9] + b"\xff" * 16 + bytes(4), "T-03", "The max UUID is refused.")
_first(
    14, encode(Message(IN, "", b"early", 1)), "T-63", "A message before the request ends the connection.", short=True
)
_first(15, encode(Ack(1)), "T-63", "An ack before the request ends the connection.")
_first(16, b"\x05", "T-05 T-67", "An unknown code before the request ends the connection.")
_first(17, b"\xff" * 64, "T-05 T-67", "Garbage before the request ends the connection.")
_first(18, _opening(uuid4(), 2**32 - 1), "T-08", "A request that announces 2^32-1 subscriptions is refused at once.")
_first(
    19, _opening(uuid4(), 1, _entry(b"", b"", 2**32 - 1)), "T-08 T-07",
    "An entry that announces a name of 4 GiB is refused at once.", SHOULD,
)  # fmt: skip
_first(20, _opening(uuid4(), 1, _entry(b"\xff", b"")), "T-10", "A list with a name that is not UTF-8 is refused.")
_first(21, _opening(uuid4(), 1, _entry(b"a", b"\xed\xa0\x80")), "T-10 T-11", "A lone surrogate in a list is refused.")


def _stray_first(number: int, data: bytes, text: str) -> None:
    @asks.case(number, "T-63 T-65", SHOULD, text)
    def ignores(session: Messages) -> None:
        talk = session.stranger()
        talk.say(data)
        talk.say(session.request(talk))
        session.responded(talk)
        talk.lives()


_stray_first(22, FAILURE, "A final before the request is ignored.")
_stray_first(23, encode(HandshakeResponse(1, UUID(int=9), SAME)), "A response before the request is ignored.")


@asks.case(24, "T-01", MUST, "A request that comes byte by byte is answered.")
def dripped(session: Messages) -> None:
    talk = session.stranger()
    talk.drip(session.request(talk))
    session.responded(talk)
    talk.lives()


@asks.case(25, "T-63 T-61 T-69", SHOULD, "A message in one write with the request is handled after the response.")
def coalesced(session: Messages) -> None:
    talk = session.stranger()
    number = next(talk.ids)
    talk.say(session.request(talk), Message(IN, talk.key, b"with it", number))
    session.responded(talk)
    talk.echoed(b"with it")
    talk.acked(number)


@asks.case(26, "T-71", MUST, "A request with the peer's own UUID ends, before or after an answer.")
def own_uuid(session: Messages) -> None:
    peer = session.meet().peer
    session.opened[-1].close()
    talk = session.dress(session.transport(), peer)
    talk.say(session.request(talk))
    talk.ends()
    session.goes_on()


@asks.case(27, "T-03", MUST, "A UUID of version 4 is taken: the draft's version binds the sender.")
def version_4(session: Messages) -> None:
    session.meet(uuid=uuid4()).lives()


@asks.case(28, "T-03 T-72", MUST, "The peer's UUID is the same on each connection.")
def same_uuid(session: Messages) -> None:
    found = [session.meet().peer, session.meet(uuid=uuid4()).peer]
    if found[0] != found[1]:
        raise Failed("one UUID", f"{found[0]} and {found[1]}")


@asks.case(29, "T-08", MUST, "A list of 1,000 subscriptions is taken.")
def long_list(session: Messages) -> None:
    listed = [Subscription("elsewhere", f"{number}") for number in range(999)]
    session.meet(listed=session.mine() + listed).lives()


@asks.case(30, "T-27", MUST, "A subscription to the reserved channel in a list is passed over.")
def reserved_in_list(session: Messages) -> None:
    talk = session.meet(listed=[*session.mine(), Subscription(RESERVED, "")])
    talk.lives()
    talk.quiet("no control message", lambda frame: isinstance(frame, Message) and frame.channel == RESERVED)


@asks.case(31, "T-68", SHOULD, "A client that says nothing after TLS is cut off: ours waits 10 s.")
def silent_client(session: Messages) -> None:
    session.stranger().ends("the end of a handshake that never comes", session.setup.grace)


@asks.case(32, "T-68", SHOULD, "A client that stops within its request is cut off: ours waits 10 s.")
def half_request(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk)[:20])
    talk.ends("the end of a request that never ends", session.setup.grace)


@asks.case(33, "T-68 T-05", MUST, "A request that is cut off at any byte leaves the peer as it was.")
def cut_anywhere(session: Messages) -> None:
    for size in range(len(encode(HandshakeRequest(1, session.uuid))) + 8):
        talk = session.stranger()
        talk.say(session.request(talk)[:size])
        talk.close()
    session.goes_on()


@asks.case(34, "T-69", SHOULD, "A response is a TLS record of its own, also where a message waits.")
def record_of_its_own(session: Messages) -> None:
    away = session.meet()
    away.lives()
    away.close()
    other = session.meet(uuid=session.beside())
    other.handles(b"waiting")
    other.close()
    talk = session.meet(uuid=away.uuid)
    talk.echoed(b"waiting")
    size = len(encode(HandshakeResponse(1, talk.peer, SAME, talk.subscriptions)))
    if session.setup.tls is not None and len(talk.records[0]) != size:
        raise Failed(f"a record of {size} bytes", f"one of {len(talk.records[0])}")


@asks.case(35, "T-69 T-66", SHOULD, "Three responses at once are each a TLS record of their own.", roles=EITHER)
def records_of_their_own(session: Messages) -> None:
    talk = session.live()
    talk.say(*[session.request(talk)] * 3, talk.message(b"behind them"))
    found = encode([session.responded(talk) for _ in range(3)][-1])
    talk.echoed(b"behind them")
    alone = talk.records.count(found)
    if session.setup.tls is not None and alone < 3:
        raise Failed("three records with a response alone", f"{alone}")


# A live connection, in either role.


def _stray(number: int, rulings: str, text: str, make: Callable[[Talk], bytes], level: Level = MUST) -> None:
    @asks.case(number, rulings, level, text, roles=EITHER)
    def ignores(session: Messages) -> None:
        talk = session.live()
        talk.say(make(talk))
        talk.lives()


_stray(41, "T-65 C3", "A final of failure on a live connection is ignored.", lambda talk: FAILURE)
_stray(42, "T-65 C3", "A final of success on a live connection is ignored.", lambda talk: SUCCESS)
_stray(
    43, "T-65 C3", "A response on a live connection is ignored.",
    lambda talk: encode(HandshakeResponse(1, talk.uuid, NEWER_REFUSED, (Subscription("a", "b"),))),
)  # fmt: skip
_stray(44, "T-65", "Forty finals too many close nothing; they may be slow.", lambda talk: FAILURE * 40, Level.SHOULD)


@asks.case(45, "T-66 C3", MUST, "A request on a live connection is answered as normal.", roles=EITHER, short=True)
def repeated(session: Messages) -> None:
    talk = session.live()
    talk.say(session.request(talk))
    session.responded(talk)
    talk.lives()


@asks.case(46, "T-66 T-30", MUST, "The list of a repeated request replaces the one before.", roles=EITHER)
def repeated_list(session: Messages) -> None:
    talk = session.meet()
    other = f"{talk.key} other"
    talk.say(session.request(talk, listed=session.mine(other)))
    session.responded(talk)
    talk.handles(b"new", other)
    number = talk.tell(b"old")
    talk.acked(number)
    talk.no_echo(b"old")


@asks.case(47, "T-66", SHOULD, "Six requests at once are all answered; they may be slow.", roles=EITHER)
def many_requests(session: Messages) -> None:
    talk = session.live()
    talk.say(*[session.request(talk)] * 6)
    for _ in range(6):
        session.responded(talk)
    talk.lives()


def _other_request(number: int, text: str, change: Callable[[Messages, Talk], bytes]) -> None:
    @asks.case(number, "T-66 T-72", SHOULD, text, roles=EITHER)
    def closes(session: Messages) -> None:
        talk = session.meet()
        talk.say(change(session, talk))
        talk.ends_without_a_word()
        session.goes_on()


_other_request(
    48, "A repeated request with another UUID ends the connection.",
    lambda session, talk: encode(HandshakeRequest(1, uuid4())),
)  # fmt: skip
_other_request(
    49, "A repeated request with another version ends the connection.",
    lambda session, talk: session.request(talk, 2),
)  # fmt: skip


@asks.case(50, "T-66", SHOULD, "After status 3 a repeated request gets status 3; a success after it is ignored.")
def repeated_older(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.say(SUCCESS)
    talk.lives()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.say(SUCCESS)
    talk.lives()


@asks.case(51, "T-66", SHOULD, "After status 3 a final of failure behind a repeated request ends the connection.")
def repeated_failure(session: Messages) -> None:
    talk = session.stranger()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.say(SUCCESS)
    talk.lives()
    talk.say(session.request(talk, 2))
    session.responded(talk, OLDER)
    talk.say(FAILURE)
    talk.ends()


# The kit listens.


@answers.case(
    1,
    "T-60 T-02 T-01 T-04 T-31",
    MUST,
    "The first frame is a request of version 1 with a UUID and the list.",
    short=True,
)
def asked(session: Messages) -> None:
    talk = session.stranger()
    found = session.requested(talk)
    if found.version != 1 or found.instance_id in (NIL, ALL) or Subscription(IN, "") not in found.subscriptions:
        raise Failed(f"version 1, a UUID and a subscription to {IN}", repr(found)[:200])
    talk.say(session.response(talk))
    talk.lives()


@answers.case(2, "T-64 T-63", MUST, "Nothing follows the request before the response.")
def silent_before_response(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    talk.quiet("nothing before the response", lambda frame: True, 1.0)
    talk.say(session.response(talk))
    talk.lives()


@answers.case(3, "T-34 T-61", MUST, "The list of a response holds.")
def response_list(session: Messages) -> None:
    session.meet().lives()


@answers.case(4, "T-01", MUST, "A response that comes byte by byte is read.")
def dripped_response(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    talk.drip(session.response(talk))
    talk.lives()


@answers.case(5, "T-34 T-64", MUST, "A message in one write with the response is handled.")
def coalesced_response(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    number = next(talk.ids)
    talk.say(session.response(talk), Message(IN, talk.key, b"with it", number))
    talk.echoed(b"with it")
    talk.acked(number)


@answers.case(6, "T-60", MUST, "Status 1 of a newer listener makes the connection live.")
def newer_listener(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    talk.say(session.response(talk, 2, NEWER))
    talk.lives()


def _is_met_again(session: Messages) -> None:
    """It dials again, or takes it for a refusal (T-73) and dials no more for now."""
    session.kit.refused = True
    with suppress(Skipped):
        session.goes_on()


def _contradicts(
    number: int, text: str, version: int, status: int, *, uuid: UUID | None = None, final: bool = False,
    rulings: str = "T-60", place: Place = Place.MAY_REFUSE,
) -> None:  # fmt: skip
    """A response that ends the connection."""

    @answers.case(number, rulings, MUST, text, place=place)
    def closes(session: Messages) -> None:
        talk = session.stranger()
        session.requested(talk)
        data = bytearray(session.response(talk, version))
        data[25] = status
        if uuid is not None:
            data[9:25] = uuid.bytes
        talk.say(bytes(data))
        if final:
            talk.expect("a final of failure", lambda frame: frame == HandshakeFinal(False))
        talk.ends_without_a_word()
        if place is Place.MAY_REFUSE:
            _is_met_again(session)


_contradicts(7, "Status 0 with another version is a contradiction: the end.", 2, 0)
_contradicts(8, "Status 1 with the same version is a contradiction: the end.", 1, 1)
_contradicts(9, "Status 1 with an older version is a contradiction: the end.", 0, 1)
_contradicts(10, "Status 2 with the same version is a contradiction: the end.", 1, 2)
_contradicts(
    11, "Status 3 with the same version: a final of failure, then the end.", 1, 3, final=True, rulings="T-60 C1"
)
_contradicts(
    12, "Status 3 with a newer version: a final of failure, then the end.", 2, 3, final=True, rulings="T-60 C1"
)
_contradicts(13, "A status above 3 ends the connection.", 1, 4)
_contradicts(14, "A status of 255 ends the connection.", 1, 255)
_contradicts(15, "The nil UUID in a response ends the connection.", 1, 0, uuid=NIL, rulings="T-03")
_contradicts(16, "The max UUID in a response ends the connection.", 1, 0, uuid=ALL, rulings="T-03")
_contradicts(17, "Status 2 of a newer listener: the end.", 2, 2, place=Place.REFUSES)
_contradicts(
    18, "Status 3 of a listener whose version it does not speak: a final of failure, then the end.", 0, 3,
    final=True, rulings="T-60 C1", place=Place.REFUSES,
)  # fmt: skip


def _instead(number: int, data: bytes, rulings: str, text: str) -> None:
    """Bytes in place of a response."""

    @answers.case(number, rulings, MUST, text, place=Place.MAY_REFUSE)
    def closes(session: Messages) -> None:
        talk = session.stranger()
        session.requested(talk)
        talk.say(data)
        talk.ends_without_a_word()
        _is_met_again(session)


_instead(21, encode(Message(IN, "", b"early", 1)), "T-63", "A message in place of the response ends the connection.")
_instead(22, encode(Ack(1)), "T-63", "An ack in place of the response ends the connection.")
_instead(
    23, encode(HandshakeRequest(1, UUID(int=77))), "T-63", "A request in place of the response ends the connection."
)
_instead(24, b"\x07", "T-05", "An unknown code in place of the response ends the connection.")
_instead(25, b"HTTP/1.1 400 Bad Request\r\n\r\n", "T-05", "An answer of another protocol ends the connection.")
_instead(
    26, encode(HandshakeResponse(1, UUID(int=5), SAME))[:-4] + b"\xff" * 4, "T-08",
    "A response that announces 2^32-1 subscriptions ends the connection at once.",
)  # fmt: skip


@answers.case(27, "T-63 T-65", SHOULD, "A final before the response is ignored.")
def stray_before_response(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    talk.say(FAILURE, session.response(talk))
    talk.lives()


@answers.case(28, "T-68", SHOULD, "A listener that never answers is left: ours waits 10 s.")
def silent_listener(session: Messages) -> None:
    talk = session.stranger()
    session.requested(talk)
    talk.ends("the end of a handshake that never comes", session.setup.grace)
    session.goes_on()


@answers.case(29, "T-76 T-73", MUST, "It dials again after each way in which a connection may end.", short=True)
def dials_again(session: Messages) -> None:
    for end in (Talk.close, Talk.reset, Talk.cut):
        talk = session.meet()
        talk.lives()
        end(talk)
        talk.close()
    session.goes_on()


@answers.case(30, "T-03 T-72", MUST, "The peer's UUID is the same on each connection.")
def same_uuid_again(session: Messages) -> None:
    first = session.meet()
    second = session.again(first)
    if first.peer != second.peer:
        raise Failed("one UUID", f"{first.peer} and {second.peer}")


@answers.case(32, "T-76 T-73", SHOULD, "Dials that end at once are not repeated without pauses.")
def storm(session: Messages) -> None:
    until, dials = monotonic() + 4.0, 0
    while (left := until - monotonic()) > 0 and dials <= 20:
        try:
            session.begin(patience=left).reset()
        except Failed:
            break
        dials += 1
    if dials > 20:
        raise Failed("twenty dials in 4 s at most", "more")
    session.goes_on()


@answers.case(31, "T-71", MUST, "A listener with the peer's own UUID is left.", place=Place.ENDS_ALL)
def itself(session: Messages) -> None:
    talk = session.stranger()
    session.dress(talk, session.requested(talk).instance_id)
    talk.say(session.response(talk))
    talk.ends()


CASES = tls.cases + asks.cases + answers.cases

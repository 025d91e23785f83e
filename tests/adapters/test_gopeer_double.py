"""Defects of the Go peer's double: present when asked for, else absent."""

from __future__ import annotations

import socket
import ssl
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from tests.adapters.gopeer import (
    FLAWLESS,
    PRESETS,
    RANGES,
    Defect,
    GoPeer,
    HandshakeFailed,
    Identity,
    Panicked,
    ack,
    control,
    final,
    go_identity,
    regular,
    request,
    response,
)
from tests.certificates import Certificates

pytestmark = pytest.mark.thorough
PATIENCE = 60.0  # seconds
QUIET = 0.05  # seconds in which nothing may come; what does come takes a tenth of that
OURS = uuid.UUID("01890000-0000-7000-8000-000000000001")
GOS = uuid.UUID("01890000-0000-7000-8000-000000000002")
OTHER = uuid.UUID("01890000-0000-7000-8000-000000000003")


@pytest.fixture(scope="module")
def identity(certs: Certificates) -> Identity:
    return go_identity(certs, "double")


@pytest.fixture(params=[True, False], ids=["with", "without"])
def has(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Raw:
    """The other end, byte by byte."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        self.stream = stream
        stream.settimeout(PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, *frames: bytes) -> None:
        """Together, as one record."""
        self.stream.sendall(b"".join(frames))

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.stream.recv(size - len(data))
            assert chunk, f"the end after {data!r}"
            data += chunk
        return data

    def expect(self, frame: bytes) -> None:
        assert self.read(len(frame)) == frame

    def expect_nothing(self) -> None:
        self.stream.settimeout(QUIET)
        with pytest.raises(TimeoutError):
            self.stream.recv(1)
        self.stream.settimeout(PATIENCE)

    def expect_end(self) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            assert self.stream.recv(1) == b""


def _context(protocol: int, identity: Identity | None) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.cert, identity.key)
    return context


@contextmanager
def dialled(port: int, identity: Identity) -> Iterator[Raw]:
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw,
        context.wrap_socket(raw) as stream,
    ):
        yield Raw(stream)


@contextmanager
def peer(defects: frozenset[Defect], identity: Identity, **options: object) -> Iterator[tuple[GoPeer, int]]:
    with GoPeer(defects, identity, instance_id=GOS, **options) as go:  # type: ignore[arg-type]  # passed on as they are
        yield go, go.listen()


@contextmanager
def established(defects: frozenset[Defect], identity: Identity, **options: object) -> Iterator[tuple[GoPeer, Raw]]:
    with peer(defects, identity, **options) as (go, port), dialled(port, identity) as raw:
        raw.write(request(1, OURS))
        raw.expect(response(1, GOS, 0))
        until(lambda: OURS in go.connections)
        yield go, raw


@contextmanager
def dialling(
    go: GoPeer, identity: Identity, identity_asked: bool = False
) -> Iterator[tuple[Raw, Callable[[], object]]]:
    """The double dials us: the raw end, and what its `dial` comes to."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    if identity_asked:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(identity.ca)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(PATIENCE)
        dial = pool.submit(go.dial, server.getsockname()[1])
        raw, _ = server.accept()
        with raw, context.wrap_socket(raw, server_side=True) as stream:
            yield Raw(stream), lambda: dial.result(PATIENCE)


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)


def only(defect: Defect, has: bool) -> frozenset[Defect]:
    return frozenset([defect]) if has else FLAWLESS


def all_but(defect: Defect, has: bool) -> frozenset[Defect]:
    everything = PRESETS["499b76d"] | {defect}
    return everything if has else everything - {defect}


# The sets.


def test_the_presets_are_the_ranges() -> None:
    assert set(RANGES) == set(Defect)
    held = {commit: {defect.value for defect in preset} for commit, preset in PRESETS.items()}
    always = {"G1", "G2", "G3", "G5", "G6", "G12", "G13", "G14", "G15", "G16", "G18", "G19", "G22"}
    assert held["a9b5f00"] == always | {"G20", "G4, earlier", "T-24", "T-45"}
    assert held["1860a51"] == always | {"G17", "G4, earlier", "T-24", "T-45"}
    assert held["32e5170"] == always | {"G7", "G10", "G11", "G17", "G4, earlier", "T-45"}
    assert held["499b76d"] == always | {"G4", "G7", "G8", "G9", "G10", "G11", "G17", "G21"}
    assert all(always <= one for one in held.values())


def test_its_bytes_are_the_golden_vectors() -> None:
    """The version table (T-60)."""
    one = OURS
    assert request(1, one).hex() == "0000000000000000010189000000007000800000000000000100000000"
    assert request(1, one, [("test", "key")]).hex() == (
        "00000000000000000101890000000070008000000000000001000000010000000400000003746573746b6579"
    )
    assert response(1, GOS, 0).hex() == "010000000000000001018900000000700080000000000000020000000000"
    assert (final(1).hex(), final(2).hex(), ack(1).hex()) == ("0201", "0202", "0400000001")
    assert regular("test", "key", b"hi", 1).hex() == "0300000004000000030000000200000001746573746b65796869"
    assert control(0, "test", "key", 2).hex() == (
        "0300000008000000000000001000000002746f6c6c69766572000000000400000003746573746b6579"
    )
    assert control(1, "test", "key", 3).hex() == (
        "0300000008000000000000001000000003746f6c6c69766572010000000400000003746573746b6579"
    )


# Its right answers, and oddities that are no defects.


@pytest.mark.parametrize("defects", [FLAWLESS, PRESETS["1860a51"]], ids=["flawless", "1860a51"])
def test_it_takes_messages_and_control_and_answers(defects: frozenset[Defect], identity: Identity) -> None:
    with established(defects, identity) as (go, raw):
        go.register("news", "k", lambda body: True)
        raw.write(control(0, "mine", "k", 7), regular("news", "k", b"hi", 8))
        raw.expect(ack(7) + ack(8))
        assert [message.body for message in go.messages] == [b"hi"]
        assert go.send("mine", "k", b"yours") == 1
        raw.expect(regular("mine", "k", b"yours", 1))
        raw.write(control(1, "mine", "k", 9))
        raw.expect(ack(9))
        assert go.send("mine", "k", b"nobody's") == 2
        raw.write(ack(1))
        until(lambda: go.acks == [1])
        assert (go.table, bytes(go.stray), go.panic) == ([], b"", None)


def test_ids_come_from_one_counter(identity: Identity) -> None:
    with established(PRESETS["1860a51"], identity) as (go, raw):
        assert go.send("nobody", "", b"x") == 1
        go.subscribe("news", "")
        raw.expect(control(0, "news", "", 2))
        go.unsubscribe("news", "")
        raw.expect(control(1, "news", "", 3))
        assert go.send("nobody", "", b"x") == 4


@pytest.mark.parametrize("message_id", [0, 2**31 - 1, 2**31])
def test_every_id_but_its_own_unreliable_one_is_acked(message_id: int, identity: Identity) -> None:
    with established(PRESETS["1860a51"], identity) as (_go, raw):
        raw.write(regular("a", "", b"", 2**32 - 1), regular("a", "", b"", message_id))
        raw.expect(ack(message_id))


@pytest.mark.parametrize(("version", "status"), [(0, 2), (1, 0), (2, 3), (9, 3)])
def test_its_answer_to_a_version_carries_its_list(version: int, status: int, identity: Identity) -> None:
    with (
        peer(PRESETS["499b76d"], identity, subscriptions=[("news", "")]) as (_go, port),
        dialled(port, identity) as raw,
    ):
        raw.write(request(version, OURS))
        raw.expect(response(1, GOS, status, [("news", "")]))


@pytest.mark.parametrize("status", [0, 1])
def test_its_client_looks_at_the_status_alone(status: int, identity: Identity) -> None:
    with GoPeer(PRESETS["499b76d"], identity, instance_id=GOS) as go, dialling(go, identity) as (raw, result):
        raw.expect(request(1, GOS))
        raw.write(response(9, OURS, status))
        assert result() == OURS


def test_its_client_refuses_what_is_older_with_a_final(identity: Identity) -> None:
    with GoPeer(PRESETS["499b76d"], identity) as go, dialling(go, identity) as (raw, result):
        raw.read(29)
        raw.write(response(0, OURS, 3))
        raw.expect(final(2))
        with pytest.raises(HandshakeFailed, match="status 3"):
            result()


def test_its_client_shows_a_certificate_where_one_is_asked_for(identity: Identity) -> None:
    with (
        GoPeer(PRESETS["499b76d"], identity) as go,
        dialling(go, identity, identity_asked=True) as (raw, result),
    ):
        raw.read(29)
        assert raw.stream.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(identity.cert.read_text())
        assert raw.stream.version() == "TLSv1.3"
        raw.write(response(1, OURS, 0))
        assert result() == OURS


def test_it_reads_record_by_record(identity: Identity) -> None:
    with established(FLAWLESS, identity) as (go, raw):
        frames = [regular("a", "", b"x", number) for number in (1, 2, 3)]
        raw.write(*frames)
        raw.write(frames[0])
        raw.read(20)
        assert go.conns[0].records[1:] == [b"".join(frames), frames[0]]


def test_it_reads_while_it_writes(identity: Identity) -> None:
    """Two send each other more than the system holds between them: neither waits for the other to read first."""
    body = bytes(2**24)
    with (
        peer(FLAWLESS, identity, subscriptions=[("", "")]) as (one, port),
        GoPeer(FLAWLESS, identity, subscriptions=[("", "")]) as other,
        ThreadPoolExecutor(2) as sending,
    ):
        other.dial(port)
        until(lambda: one.connections)
        both = [sending.submit(each.send, "a", "", body) for each in (one, other)]
        with suppress(AssertionError):  # `until`: then neither of them is through
            until(lambda: all(each.acks for each in (one, other)))
        done = [each.done() for each in both]
        for each in (one, other):
            each.__exit__()  # ends what still waits
    assert done == [True, True]
    assert [[len(message.body) for message in each.messages] for each in (one, other)] == [[2**24]] * 2


# The defects.


def test_g1_the_list_of_a_handshake_is_thrown_away(has: bool, identity: Identity) -> None:
    with peer(only(Defect.LIST_THROWN_AWAY, has), identity) as (go, port), dialled(port, identity) as raw:
        raw.write(request(1, OURS, [("news", "")]))
        raw.expect(response(1, GOS, 0))
        until(lambda: go.connections)
        assert go.table == ([] if has else [("news", "", OURS)])


def test_g2_what_is_in_the_record_of_the_final_is_lost(has: bool, identity: Identity) -> None:
    with peer(all_but(Defect.RECORD_LOST, has), identity) as (go, port), dialled(port, identity) as raw:
        raw.write(request(9, OURS))
        raw.expect(response(1, GOS, 3))
        raw.write(final(1), regular("a", "", b"lost", 1))
        raw.write(regular("a", "", b"kept", 2))
        raw.expect(ack(2) if has else ack(1) + ack(2))
        assert [one.body for one in go.messages] == ([b"kept"] if has else [b"lost", b"kept"])


def test_g2_what_is_in_the_record_of_the_response_is_lost(has: bool, identity: Identity) -> None:
    with GoPeer(all_but(Defect.RECORD_LOST, has), identity) as go, dialling(go, identity) as (raw, _result):
        raw.read(29)
        raw.write(response(1, OURS, 0), regular("a", "", b"lost", 1))
        raw.write(regular("a", "", b"kept", 2))
        raw.expect(ack(2) if has else ack(1) + ack(2))


def test_g2_a_frame_that_is_cut_there_puts_the_stream_out_of_step(identity: Identity) -> None:
    with GoPeer(PRESETS["499b76d"], identity) as go, dialling(go, identity) as (raw, _result):
        raw.read(29)
        frame = regular("a", "", b"body", 1)
        raw.write(response(1, OURS, 0), frame[:20])
        raw.write(frame[20:])
        until(lambda: bytes(go.stray) == frame[20:])
        assert go.messages == []


def test_g3_it_spins_on_a_read_error_and_forgets_nothing(has: bool, identity: Identity) -> None:
    with established(only(Defect.SPINS_ON_READ_ERROR, has), identity) as (go, raw):
        raw.stream.close()
        until((lambda: go.conns[0].spins > 1) if has else (lambda: not go.connections))
        assert go.conns[0].ended
        assert (OURS in go.connections) is has


def test_g4_its_acceptor_stops_at_a_second_connection(has: bool, identity: Identity) -> None:
    with (
        established(only(Defect.DUPLICATE_PEER, has), identity) as (go, first),
        dialled(go.listen(), identity) as second,
    ):
        second.write(request(1, OURS))
        second.expect(response(1, GOS, 0))
        if has:
            until(go._lock.locked)
        second.write(regular("a", "", b"", 1))
        first.write(regular("a", "", b"", 2))
        for raw, number in ((first, 2), (second, 1)):
            raw.expect_nothing() if has else raw.expect(ack(number))


def test_g4_its_dialler_dies_at_a_second_connection(has: bool, identity: Identity) -> None:
    with (
        established(only(Defect.DUPLICATE_PEER, has), identity) as (go, _first),
        dialling(go, identity) as (raw, result),
    ):
        raw.read(29)
        raw.write(response(1, OURS, 0))
        if has:
            with pytest.raises(Panicked, match="already has a connection"):
                result()
            raw.expect_end()
        else:
            assert result() == OURS


def test_g4_earlier_it_leaves_a_second_connection_unread(has: bool, identity: Identity) -> None:
    with (
        established(only(Defect.DUPLICATE_UNREAD, has), identity) as (go, first),
        dialled(go.listen(), identity) as second,
    ):
        second.write(request(1, OURS))
        second.expect(response(1, GOS, 0))
        second.write(regular("a", "", b"", 1))
        second.expect_nothing() if has else second.expect(ack(1))
        first.write(regular("a", "", b"", 2))
        first.expect(ack(2))


def test_g5_it_answers_status_2_and_goes_on(has: bool, identity: Identity) -> None:
    with peer(only(Defect.GOES_ON_AFTER_STATUS_2, has), identity) as (go, port), dialled(port, identity) as raw:
        raw.write(request(0, OURS))
        raw.expect(response(1, GOS, 2))
        if has:
            raw.write(regular("a", "", b"", 1))
            raw.expect(ack(1))
        else:
            raw.expect_end()
        assert (OURS in go.connections) is has


def test_g6_it_closes_nothing_that_failed(has: bool, identity: Identity) -> None:
    with peer(only(Defect.NEVER_CLOSES, has), identity) as (_go, port):
        for broken in (request(9, OURS) + final(2), ack(1), request(9, OURS) + ack(1)):
            with dialled(port, identity) as raw:
                raw.write(broken)
                if broken[0] == 0:
                    raw.expect(response(1, GOS, 3))
                raw.expect_nothing() if has else raw.expect_end()


@pytest.mark.parametrize(("code", "why"), [(0, "no such column"), (1, "syntax error")])
def test_g7_subscribing_kills_it(has: bool, code: int, why: str, identity: Identity) -> None:
    with established(only(Defect.CONTROL_KILLS, has), identity) as (go, raw):
        raw.write(control(code, "news", "", 1))
        raw.expect_end() if has else raw.expect(ack(1))
        assert (why in (go.panic or "")) is has


def _with_one_unacked(go: GoPeer, raw: Raw) -> None:
    raw.write(control(0, "news", "", 1))
    raw.expect(ack(1))
    go.send("news", "", b"\x05bare")
    raw.expect(regular("news", "", b"\x05bare", 1))


def test_g8_its_retry_kills_it(has: bool, identity: Identity) -> None:
    with established(only(Defect.RETRY_PANICS, has), identity) as (go, raw):
        _with_one_unacked(go, raw)
        if has:
            with pytest.raises(Panicked, match="row value"):
                go.retry()
            raw.expect_end()
        else:
            go.retry()
            raw.expect(regular("news", "", b"\x05bare", 1))


def test_g9_its_retry_would_send_the_body_bare(has: bool, identity: Identity) -> None:
    with established(only(Defect.RETRY_UNFRAMED, has), identity) as (go, raw):
        _with_one_unacked(go, raw)
        go.retry()
        raw.expect(b"\x05bare" if has else regular("news", "", b"\x05bare", 1))
        raw.write(ack(1))
        until(lambda: go.acks)
        go.retry()
        raw.expect_nothing()


def test_g10_a_recipient_that_is_away_kills_it(has: bool, identity: Identity) -> None:
    with peer(only(Defect.OFFLINE_RECIPIENT, has), identity, table=[("news", "", OTHER)]) as (go, _port):
        if has:
            with pytest.raises(Panicked, match="nil pointer"):
                go.send("news", "", b"")
        else:
            assert go.send("news", "", b"") == 1


def test_g11_its_own_subscribing_is_routed_by_the_table(has: bool, identity: Identity) -> None:
    with established(only(Defect.CONTROL_BY_TABLE, has), identity) as (go, raw):
        go.subscribe("news", "")
        raw.expect_nothing() if has else raw.expect(control(0, "news", "", 1))
        assert go.subscriptions == [("news", "")]  # for the next handshake


def test_g12_a_malformed_control_body_is_not_taken_off_the_stream(has: bool, identity: Identity) -> None:
    with established(only(Defect.BAD_CONTROL_STAYS, has), identity) as (go, raw):
        raw.write(regular("tolliver", "", struct.pack(">BII", 9, 0, 0) + b"\x05\x06", 1), regular("a", "", b"", 2))
        raw.expect(ack(1) + ack(2))
        assert bytes(go.stray) == (b"\x05\x06" if has else b"")


def test_g12_an_empty_control_body_swallows_what_follows(has: bool, identity: Identity) -> None:
    with established(only(Defect.BAD_CONTROL_STAYS, has), identity) as (go, raw):
        raw.write(regular("tolliver", "", b"", 1), regular("a", "", b"!", 2))
        raw.expect(ack(1))
        raw.expect_nothing() if has else raw.expect(ack(2))
        assert len(go.messages) == (0 if has else 1)


def test_g13_a_repeated_handshake_is_not_answered_and_stays_in_the_stream(has: bool, identity: Identity) -> None:
    with established(only(Defect.REQUEST_STAYS, has), identity) as (go, raw):
        again = request(1, OURS, [("\x07", "")])
        raw.write(again, regular("a", "", b"", 2))
        raw.expect(ack(2) if has else response(1, GOS, 0) + ack(2))
        assert bytes(go.stray) == (again if has else b"")


def test_g14_a_write_error_loops_for_ever(has: bool, identity: Identity) -> None:
    defects = only(Defect.SPINS_ON_WRITE_ERROR, has) | {Defect.SPINS_ON_READ_ERROR, Defect.LIST_THROWN_AWAY}
    with ThreadPoolExecutor(1) as pool, established(defects, identity) as (go, raw):
        raw.write(control(0, "a", "", 1))
        raw.expect(ack(1))
        raw.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.stream.close()
        until(lambda: go.conns[0].ended)
        sending = pool.submit(_send_quietly, go)
        until((lambda: go.write_spins > 1) if has else sending.done)
        assert sending.done() is not has


def _send_quietly(go: GoPeer) -> None:
    with suppress(Exception):  # it is told to stop when the double is closed
        go.send("a", "", b"")


def test_g15_a_silent_client_blocks_those_behind_it(has: bool, identity: Identity) -> None:
    with (
        peer(only(Defect.ACCEPTS_INLINE, has), identity) as (_go, port),
        socket.create_connection(("127.0.0.1", port)),
        socket.create_connection(("127.0.0.1", port)) as raw,
    ):
        raw.settimeout(QUIET if has else PATIENCE)
        context = _context(ssl.PROTOCOL_TLS_CLIENT, None)
        if has:
            with pytest.raises(TimeoutError):
                context.wrap_socket(raw)
        else:
            context.wrap_socket(raw).close()


def test_g16_its_server_asks_for_no_certificate(has: bool, identity: Identity) -> None:
    with peer(only(Defect.VERIFIES_NOBODY, has), identity) as (go, port), dialled(port, identity) as raw:
        raw.write(request(1, OURS))
        raw.expect(response(1, GOS, 0))
        assert (go.conns[0].peer_certificate is None) is has


def test_g16_its_client_trusts_anybody(has: bool, certs: Certificates, identity: Identity) -> None:
    stranger = certs.tls("stranger")
    fake = Identity(stranger.cert, stranger.key, stranger.ca, b"")
    with GoPeer(only(Defect.VERIFIES_NOBODY, has), identity) as go:
        if has:
            with dialling(go, fake) as (raw, result):
                raw.read(29)
                raw.write(response(1, OURS, 0))
                assert result() == OURS
        else:
            with pytest.raises(ssl.SSLError), dialling(go, fake):
                pass


def test_g17_rows_are_never_deleted(has: bool, identity: Identity) -> None:
    with established(only(Defect.KEEPS_ROWS, has), identity) as (go, raw):
        assert go.send("nobody", "", b"") == 1
        raw.write(control(0, "news", "", 1))
        raw.expect(ack(1))
        assert go.send("news", "", b"") == 2
        raw.write(ack(2))
        until(lambda: go.acks == [2])
        until(lambda: list(go.rows) == ([1, 2] if has else []))


def test_g18_its_unreliable_id(has: bool, identity: Identity) -> None:
    reserved, other = (2**32 - 1, 2**31 - 1) if has else (2**31 - 1, 2**32 - 1)
    with established(only(Defect.UNRELIABLE_ID, has), identity, table=[("a", "", OURS)]) as (go, raw):
        go.unreliable_send("a", "", b"")
        raw.expect(regular("a", "", b"", reserved))
        raw.write(regular("a", "", b"", reserved), regular("a", "", b"", other))
        raw.expect(ack(other))


def test_g19_it_allocates_by_the_count(has: bool, identity: Identity) -> None:
    with peer(only(Defect.ALLOCATES_BY_COUNT, has), identity) as (go, port):
        with dialled(port, identity) as raw:
            raw.write(request(1, OURS)[:-4] + b"\xff\xff\xff\xff")
            raw.expect_end()
        assert ("137,438,953,440 bytes" in (go.panic or "")) is has


def test_g20_the_id_of_an_ack_is_not_read(has: bool, identity: Identity) -> None:
    with established(only(Defect.ACK_ID_UNREAD, has), identity) as (go, raw):
        raw.write(ack(5), regular("a", "", b"", 2))
        raw.expect_nothing() if has else raw.expect(ack(2))
        assert go.acks == ([] if has else [5])


def test_g20_it_lives_with_ack_1_and_takes_ack_3_for_a_message(identity: Identity) -> None:
    with established(PRESETS["a9b5f00"], identity) as (_go, raw):
        raw.write(ack(1), regular("a", "", b"", 2))
        raw.expect(ack(2))
        raw.write(ack(3), regular("a", "", b"", 4))
        raw.expect_nothing()


def test_g21_callbacks_behind_a_failed_one_are_skipped(has: bool, identity: Identity) -> None:
    called: list[str] = []
    with established(only(Defect.CALLBACKS_SKIPPED, has), identity) as (go, raw):
        go.register("a", "", lambda body: called.append("first") or False)  # type: ignore[func-returns-value]  # None or
        go.register("a", "", lambda body: called.append("second") or True)  # type: ignore[func-returns-value]  # as above
        raw.write(regular("a", "", b"", 1), regular("b", "", b"", 2))
        raw.expect(ack(2))
        assert called == (["first"] if has else ["first", "second"])


def test_g22_its_certificate_names_no_host(has: bool, certs: Certificates) -> None:
    made = go_identity(certs, f"named-{has}", only(Defect.NO_HOST_NAME, has))
    context = ssl.create_default_context(cafile=made.ca)
    with peer(PRESETS["499b76d"], made) as (_go, port), socket.create_connection(("127.0.0.1", port)) as raw:
        if has:
            with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
                context.wrap_socket(raw, server_hostname="127.0.0.1")
        else:
            context.wrap_socket(raw, server_hostname="127.0.0.1").close()


def test_t24_the_earliest_match_exactly(has: bool, identity: Identity) -> None:
    table = [("", "", OURS), ("news", "k", OURS)]
    with established(only(Defect.EXACT_MATCH, has), identity, table=table) as (go, raw):
        go.send("news", "other", b"1")
        go.send("news", "k", b"2")
        raw.expect(regular("news", "k", b"2", 2) if has else regular("news", "other", b"1", 1))


def test_t45_before_callbacks_could_fail_everything_was_acked(has: bool, identity: Identity) -> None:
    with established(only(Defect.ACKS_ALWAYS, has), identity) as (go, raw):
        go.register("a", "", lambda body: False)
        raw.write(regular("a", "", b"", 1), regular("b", "", b"", 2))
        raw.expect(ack(1) + ack(2) if has else ack(2))

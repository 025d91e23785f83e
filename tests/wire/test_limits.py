"""Limits on lengths and counts, before memory (V11, T-06 to T-08)."""

from __future__ import annotations

import re
import struct
import tracemalloc
from contextlib import nullcontext
from dataclasses import Field, fields

import pytest

from tolliver_proto import (
    Closed,
    Connection,
    Decoder,
    Frame,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    LimitExceeded,
    Limits,
    Message,
    Revision,
    Role,
    Subscription,
    decode,
    encode,
)
from tolliver_proto.layouts import State

from .drive import OURS, PEER, REVISIONS, feed, peak, reach
from .vectors import ONE

KIB, MIB = 2**10, 2**20
HUGE = 2**32 - 1
revisions = pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])


def message_head(channel: int, key: int, body: int) -> bytes:
    return struct.pack(">BIIII", 3, channel, key, body, 1)


def request_head(count: int, *entry: int) -> bytes:
    return struct.pack(">BQ16sI", 0, OURS, PEER.bytes, count) + struct.pack(f">{len(entry)}I", *entry)


def response_head(count: int, *entry: int) -> bytes:
    return struct.pack(">BQ16sBI", 1, OURS, PEER.bytes, 0, count) + struct.pack(f">{len(entry)}I", *entry)


HOSTILE: dict[str, tuple[State, Role, bytes]] = {
    "a body of 4 GiB": (State.ESTABLISHED, Role.SERVER, message_head(4, 4, HUGE)),
    "a body of 16 MiB and one": (State.ESTABLISHED, Role.SERVER, message_head(0, 0, 16 * MIB + 1)),
    "a channel of 4 GiB": (State.ESTABLISHED, Role.CLIENT, message_head(HUGE, 0, 0)),
    "a key of 4 GiB": (State.ESTABLISHED, Role.CLIENT, message_head(0, HUGE, 0)),
    "a channel of 4097": (State.ESTABLISHED, Role.SERVER, message_head(4097, 0, 0)),
    "all three of 4 GiB": (State.ESTABLISHED, Role.SERVER, message_head(HUGE, HUGE, HUGE)),
    "a control message with a key of 4 GiB": (State.ESTABLISHED, Role.SERVER, message_head(8, HUGE, 0)),
    "2^32-1 subscriptions in a request": (State.AWAITING_REQUEST, Role.SERVER, request_head(HUGE)),
    "2^32-1 subscriptions in a response": (State.AWAITING_RESPONSE, Role.CLIENT, response_head(HUGE)),
    "2^32-1 subscriptions on a live connection": (State.ESTABLISHED, Role.CLIENT, request_head(HUGE)),
    "10,001 subscriptions": (State.AWAITING_REQUEST, Role.SERVER, request_head(10_001)),
    "a channel of 4 GiB in a request": (State.AWAITING_REQUEST, Role.SERVER, request_head(1, HUGE, 0)),
    "a key of 4 GiB in a request": (State.AWAITING_REQUEST, Role.SERVER, request_head(2, 0, HUGE)),
    "a key of 4097 in a response": (State.AWAITING_RESPONSE, Role.CLIENT, response_head(1, 0, 4097)),
}


@pytest.mark.parametrize("name", HOSTILE)
@revisions
def test_refused_when_the_head_is_in_and_not_before(name: str, revision: Revision) -> None:
    state, role, head = HOSTILE[name]
    reach(state, role, OURS, revision)  # so that caches that all connections share are not counted
    with peak() as used:
        conn = reach(state, role, OURS, revision)
        assert feed(conn, head[:-1]) == []
        [closed] = feed(conn, head[-1:])
        assert isinstance(closed, Closed)
        assert isinstance(closed.error, LimitExceeded)
        assert used() < 64 * KIB
    assert conn.wants_write_shutdown
    assert conn.buffered_bytes <= len(head)


@pytest.mark.search
def test_a_thousand_hostile_connections_stay_small() -> None:
    heads = [HOSTILE[name] for name in HOSTILE] * 72
    with peak() as used:
        conns = [reach(state, role, OURS) for state, role, _ in heads]
        for conn, (_, _, head) in zip(conns, heads, strict=True):
            feed(conn, head)
        assert len(conns) >= 1000
        assert used() < 8 * MIB


def test_announced_lengths_within_the_limits_take_no_memory_either() -> None:
    with peak() as used:
        conn = reach(State.ESTABLISHED, Role.SERVER, OURS)
        assert feed(conn, message_head(4096, 4096, 16 * MIB)) == []
        server = reach(State.AWAITING_REQUEST, Role.SERVER, OURS)
        assert feed(server, request_head(10_000, 4096, 4096)) == []
        assert used() < 64 * KIB


@revisions
def test_a_handshake_over_one_mebibyte(revision: Revision) -> None:
    """No head tells its size: it is refused at the entry that passes the limit, with that entry's head alone."""
    conn = reach(State.AWAITING_REQUEST, Role.SERVER, OURS, revision)
    entry = struct.pack(">II", 4096, 4096) + b"x" * 8192
    whole, fed = MIB - 29, 29
    assert feed(conn, request_head(10_000)) == []
    for _ in range(whole // len(entry)):
        assert feed(conn, entry) == []
        fed += len(entry)
    [closed] = feed(conn, entry[:8])
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, LimitExceeded)
    assert closed.error.frame == "handshake_request"
    assert closed.error.offset == 0
    assert fed <= MIB


def test_a_count_whose_entries_cannot_fit_is_refused_at_the_count() -> None:
    entries = 5
    head = request_head(entries)
    for most, is_refused in ((len(head) + 8 * entries - 1, True), (len(head) + 8 * entries, False)):
        decoder = Decoder(limits=Limits(max_handshake=most))
        decoder.feed(head)
        with pytest.raises(LimitExceeded) if is_refused else nullcontext():
            assert decoder.next_frame() is None


@revisions
def test_what_is_exactly_at_a_limit_passes(revision: Revision) -> None:
    limits = Limits(max_body=1000, max_name=10, max_subscriptions=3, max_handshake=29 + 3 * 28)
    wide = Subscription("c" * 10, "k" * 10)
    passing: list[Frame] = [
        Message("c" * 10, "k" * 10, b"b" * 1000, 1),
        HandshakeRequest(1, ONE, (wide,) * 3),
        HandshakeResponse(1, ONE, HandshakeStatus.SAME_VERSION, (wide,) * 2),
    ]
    for frame in passing:
        assert decode(encode(frame, revision), revision, limits) == [frame]
    passing_a_limit: list[Frame] = [
        Message("c" * 11, "k", b"", 1),
        Message("c", "k" * 11, b"", 1),
        Message("c", "k", b"b" * 1001, 1),
        HandshakeRequest(1, ONE, (wide,) * 4),
        HandshakeRequest(1, ONE, (Subscription("c" * 11, ""),)),
        HandshakeResponse(1, ONE, HandshakeStatus.SAME_VERSION, (wide,) * 3),  # 30 + 84 bytes
    ]
    for over in passing_a_limit:
        with pytest.raises(LimitExceeded):
            decode(encode(over, revision), revision, limits)


@revisions
def test_a_frame_over_a_limit_is_refused_even_if_it_is_there_whole(revision: Revision) -> None:
    """After a good one with the same names, which the reader then takes on its fast way."""
    limits = Limits(max_body=1000)
    decoder = Decoder(revision, limits)
    good, over = Message("a", "b", bytes(1000), 1), Message("a", "b", bytes(1001), 2)
    decoder.feed(encode(good, revision) * 2 + encode(over, revision))
    assert [decoder.next_frame(), decoder.next_frame()] == [good, good]
    with pytest.raises(LimitExceeded):
        decoder.next_frame()


def test_no_limit_of_ours_passes_the_formats_own() -> None:
    """T-06: 2^31-1 is the most a body may have, whatever the configuration."""
    for limits in (Limits.format(), Limits(max_body=2**40)):
        decoder = Decoder(limits=limits)
        decoder.feed(message_head(0, 0, 2**31))
        with pytest.raises(LimitExceeded):
            decoder.next_frame()
    decoder = Decoder()
    decoder.feed(message_head(HUGE, HUGE, 2**31 - 1))
    assert decoder.next_frame() is None


def test_the_defaults_are_those_of_the_rulings() -> None:
    limits = Limits()
    assert (limits.max_body, limits.max_name) == (16 * MIB, 4096)
    assert (limits.max_subscriptions, limits.max_handshake) == (10_000, MIB)
    assert (limits.handshake_timeout, limits.unexpected_per_minute, limits.handshake_burst) == (10.0, 16, 3)
    assert (limits.inbox_messages, limits.inbox_bytes) == (1024, 16 * MIB)
    assert (limits.window_messages, limits.window_bytes, limits.backoff_messages) == (256, 8 * MIB, 10_000)
    assert (limits.high_water, limits.low_water, limits.max_answers) == (MIB, 256 * KIB, MIB)
    assert (limits.max_handshakes, limits.max_handshakes_per_address, limits.peers_per_key) == (256, 16, 1000)
    assert (limits.control_per_second, limits.resend_max, limits.crossing_dial_window) == (100, 300.0, 10.0)
    assert (limits.handler_grace, limits.subscription_grace, limits.keep_bytes) == (5.0, 30.0, 4 * MIB)
    assert (limits.max_message_key_bytes, limits.max_answer_bytes) == (16 * MIB, 64 * MIB)
    assert limits.max_later == 1_000_000


UNITS = {"KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}


@pytest.mark.parametrize("field", fields(Limits), ids=lambda field: field.name)
def test_a_number_in_a_sentence_about_a_bound_is_its_default(field: Field[float]) -> None:
    for number, unit in re.findall(r"(\d[\d,]*) (\w+)", field.metadata["sentence"]):
        assert field.default == int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize(
    "wrong", [{"max_body": 0}, {"max_name": -1}, {"handshake_timeout": -0.1}, {"low_water": 2 * MIB}], ids=str
)
def test_limits_that_make_no_sense_are_refused_where_they_are_written(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"give a positive number|lower it"):
        Limits(**wrong)


def test_an_idle_connection_does_not_hold_its_last_message() -> None:
    data = encode(Message("a", "b", b"x" * MIB, 1))
    first, second = data[: MIB // 2], data[MIB // 2 :]
    with peak() as used:
        conn: Connection = reach(State.ESTABLISHED, Role.SERVER, OURS)
        assert feed(conn, first) == []
        assert len(feed(conn, second)) == 1
        assert used() > MIB
        tracemalloc.reset_peak()
        assert used() < 64 * KIB
    assert conn.buffered_bytes == 0

"""Sink without Spark: one partition at a time, to real instances."""

from __future__ import annotations

import pickle
import socket
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from tolliver.derived import derived_identity
from tolliver.spark.source import TolliverSource
from tolliver.spark.write import _sending
from tolliver.spark.write._encode import Ids, encode_rows, take_rows
from tolliver.spark.write._link import Link
from tolliver.spark.write._numbering import Numbering
from tolliver.spark.write._options import WriteOptions, write_options
from tolliver.spark.write._sending import NotAcknowledged, NotSubscribed, Run, unwanted
from tolliver.spark.write._sink import BatchWriter, StreamWriter, Written, write_rows

from tests.certificates import PREFIX, Certificates
from tests.raw import RawListener, RawPeer
from tests.spark.receivers import PATIENCE, Inbox, Receivers, wait_for
from tests.spark.rows import Row, batch, batches, numbered
from tolliver_proto import (
    Ack,
    Connection,
    HandshakeRejected,
    HandshakeRequest,
    IdentityConflict,
    Limits,
    Message,
    Policy,
    Revision,
    Role,
    StoreError,
    Subscribe,
    Subscription,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto.errors import CertificateError
from tolliver_proto.recording import Block, Damage, Direction, read_blocks

ROWS = numbered(3000)
SOMEBODY = UUID("01890000-0000-7000-8000-00000000aaaa")
SCHEMA = (
    StructType()
    .add(StructField("channel", StringType()))
    .add(StructField("key", StringType()))
    .add(StructField("body", BinaryType()))
)


@pytest.fixture
def receivers(tmp_path: Path, certs: Certificates) -> Receivers:
    return Receivers(tmp_path, certs)


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.gate.set()  # no handler waits for ever


def bodies(rows: list[Row]) -> list[bytes]:
    return [body for _, _, body in rows]


# Messages that count once.


@pytest.mark.parametrize("revision", [Revision.DRAFT_1, Revision.DRAFT_2])
def test_a_partition_arrives_once_and_in_order_however_often_it_is_written(
    receivers: Receivers, inbox: Inbox, tmp_path: Path, revision: Revision
) -> None:
    with receivers.open(inbox, record=tmp_path / "seen", revision=revision) as right:
        number = {Revision.DRAFT_1: 1, Revision.DRAFT_2: 2}[revision]
        told = tmp_path / "told"
        options = receivers.options(right.port, rowsPerSend=500, window=1000, revision=number, record=told)
        wrote = write_rows(batches(ROWS, 700), options, "write/3")
        assert (wrote.rows, wrote.dropped, wrote.resent) == (3000, 0, 0)
        assert inbox.bodies == bodies(ROWS)
        assert [delivery.message.message_id for delivery in inbox.deliveries] == list(range(1, 3001))
        assert {delivery.peer_id for delivery in inbox.deliveries} == {derived_identity(PREFIX, "write/3")}
        again = pickle.loads(pickle.dumps(options))
        assert write_rows(batches(ROWS, 1111), again, "write/3").rows == 3000, "a replay, cut otherwise"
        assert (len(inbox.bodies), right.stats()["duplicates"]) == (3000, 3000)
        write_rows(batches(ROWS, 700), options, "write/4")
        assert inbox.often == {2}, "another partition is somebody else"
    expected = [Message(*row, at) for at, row in enumerate(ROWS, 1)] * 3
    assert messages_in(tmp_path / "seen", revision) == messages_in(told, revision, Direction.OUT) == expected
    identities = {derived_identity(PREFIX, f"write/{number}") for number in (3, 4)}
    blocks = [block for path in told.glob("*.rec") for block in read_blocks([path.read_bytes()])]
    assert {block.header.local for block in blocks if isinstance(block, Block)} == identities
    acks = [frame for block in blocks for frame in frames_of(block, revision) if isinstance(frame, Ack)]
    assert len(acks) == len(expected)


def frames_of(block: Block | Damage, revision: Revision) -> Sequence[object]:
    assert isinstance(block, Block)
    return decode(block.payload, revision)


def messages_in(directory: Path, revision: Revision, direction: Direction = Direction.IN) -> list[Message]:
    """Messages that passed, by a recording."""
    found: list[Message] = []
    for path in sorted(directory.glob("*.rec")):
        for block in read_blocks([path.read_bytes()]):
            assert isinstance(block, Block)
            if block.header.direction is direction:
                found += [frame for frame in decode(block.payload, revision) if isinstance(frame, Message)]
    return found


def test_a_try_that_failed_in_the_middle_counts_once(receivers: Receivers, inbox: Inbox) -> None:
    def failing() -> Iterator[Any]:
        yield batch(ROWS[:1700])
        raise RuntimeError("the executor died")

    with receivers.open(inbox) as right:
        options = receivers.options(right.port, rowsPerSend=100)
        with pytest.raises(RuntimeError, match="executor died"):
            write_rows(failing(), options, "write/0")
        assert write_rows(batches(ROWS, 1000), options, "write/0").rows == 3000
        assert inbox.bodies == bodies(ROWS)


def test_twins_at_the_same_time_count_once(receivers: Receivers, inbox: Inbox) -> None:
    with receivers.open(inbox) as right, ThreadPoolExecutor(2) as pool:
        options = receivers.options(right.port, rowsPerSend=100, window=500, ackTimeout=6)
        twins = [pool.submit(write_rows, batches(ROWS, 1000), options, "write/0") for _ in range(2)]
        assert [twin.result(PATIENCE).rows for twin in twins] == [3000, 3000]
        assert sorted(inbox.bodies) == sorted(bodies(ROWS))


def test_what_comes_twice_while_it_is_handled_shares_the_answer(receivers: Receivers, inbox: Inbox) -> None:
    """T-48: each on its own connection."""
    with receivers.open(inbox) as right, ThreadPoolExecutor(2) as pool:
        options = receivers.options(right.port)
        inbox.gate.clear()
        twins = [pool.submit(write_rows, batches(ROWS[:10], 10), options, "write/0") for _ in range(2)]
        wait_for(lambda: right.stats()["waited"] == 10)
        inbox.gate.set()
        assert [twin.result(PATIENCE).rows for twin in twins] == [10, 10]
        assert inbox.bodies == bodies(ROWS[:10])


def test_ids_of_a_column_count_once_in_any_order(receivers: Receivers, inbox: Inbox) -> None:
    ids = [7 * number for number in range(1, 1001)]
    with receivers.open(inbox) as right:
        options = receivers.options(right.port, idColumn="number", rowsPerSend=64)
        write_rows(iter([batch(ROWS[:1000], ids)]), options, "write/0")
        write_rows(iter([batch(ROWS[:1000][::-1], ids[::-1])]), options, "write/0")
        assert inbox.bodies == bodies(ROWS[:1000])
        assert [delivery.message.message_id for delivery in inbox.deliveries] == ids
        for twice in ([batch(ROWS[:3], [1, 5, 5])], [batch(ROWS[:2], [5, 1]), batch(ROWS[:2], [2, 5])]):
            with pytest.raises(ValueError, match="the id 5 comes twice in column 'number'"):
                write_rows(iter(twice), options, "write/1")


def numbered_by(column: str) -> Numbering:
    return Numbering(
        write_options({"connect": "127.0.0.1:1", "plaintext": "true", "idColumn": column}, streaming=False)
    )


def given_ids(*batches: Any) -> None:
    with closing(numbered_by("n")) as numbering:
        for ids in batches:
            numbering.ids(pa.record_batch({"n": ids}))
        numbering.finish()


@pytest.mark.parametrize("order", ["falling", "spread", "mixed"])
def test_ids_of_a_column_take_bounded_memory(order: str) -> None:
    """However many there are, and from wherever in the range."""
    count, each = 2_500_000, 100_000
    ids = np.arange(1, count + 1, dtype=np.int64) * 800
    ids = {
        "falling": ids[::-1],
        "spread": ids * 7919 % 2_147_483_629 + 1,  # a prime: different
        "mixed": np.random.default_rng(1).permutation(ids),
    }[order]
    tracemalloc.start()
    try:
        given_ids(*(ids[at : at + each] for at in range(0, count, each)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


@pytest.mark.parametrize("first", [0, 1_000_000, 2_000_000])
@pytest.mark.parametrize("second", [1_200_000, 2_499_999])
def test_an_id_that_comes_twice_is_found_wherever_it_stands(first: int, second: int) -> None:
    ids = np.random.default_rng(1).permutation(np.arange(1, 2_500_001))
    ids[second] = ids[first]
    with pytest.raises(ValueError, match=f"the id {ids[first]} comes twice in column 'n'"):
        given_ids(*(ids[at : at + 50_000] for at in range(0, len(ids), 50_000)))


def test_a_disk_that_takes_no_ids_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"the ids of a partition cannot be sorted in .*nowhere: No such file"):
        given_ids(np.arange(1, 2_000_000))


def test_a_receiver_without_dedupe_sees_a_second_try(receivers: Receivers, inbox: Inbox) -> None:
    with receivers.open(inbox, policy=Policy(dedupe=0)) as right:
        for _ in range(2):
            write_rows(batches(ROWS[:10], 10), receivers.options(right.port), "write/0")
        assert inbox.often == {2}


# A receiver that comes and goes.


def test_a_receiver_that_goes_away_and_comes_back_gets_all_of_it_once(receivers: Receivers) -> None:
    rows, inbox = numbered(3_000), Inbox(most=1000)
    with ThreadPoolExecutor(1) as pool:
        with receivers.open(inbox, policy=Policy(dedupe=100_000, dedupe_durable=True)) as right:
            port = right.port
            options = receivers.options(port, rowsPerSend=50, window=100)
            writing = pool.submit(write_rows, batches(rows, 1000), options, "write/0")
            wait_for(lambda: inbox.refused)  # so that something is unacknowledged when it goes
        inbox.most = None
        with receivers.open(inbox, policy=Policy(dedupe=100_000, dedupe_durable=True), listen=f"127.0.0.1:{port}"):
            wrote = writing.result(PATIENCE)
    assert (wrote.rows, wrote.resent > 0) == (3_000, True)
    assert set(inbox.bodies) == set(bodies(rows))
    handled_unsaid = len(inbox.bodies) - 3_000  # handled, and it was closed before that was on disk
    assert handled_unsaid <= options.window


def test_nobody_there_is_an_error_after_ack_timeout(receivers: Receivers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with pytest.raises(NotAcknowledged, match=rf"127.0.0.1:{port} has acknowledged nothing for 0.5 s: .*refused"):
        write_rows(batches(ROWS, 100), receivers.options(port, ackTimeout=0.5), "write/0")


def test_a_receiver_that_does_not_acknowledge_is_an_error_after_ack_timeout(receivers: Receivers, inbox: Inbox) -> None:
    inbox.gate.clear()
    with receivers.open(inbox) as right:
        options = receivers.options(right.port, ackTimeout=0.6)
        with pytest.raises(NotAcknowledged, match="10 rows are unacknowledged, the first has the id 1"):
            write_rows(batches(ROWS[:10], 10), options, "write/0")
        inbox.gate.set()


def test_slow_acknowledgements_are_progress(receivers: Receivers, inbox: Inbox) -> None:
    with receivers.open(inbox, policy=Policy(dedupe=0)) as right:
        right.register_callback("rows", "", lambda _delivery: time.sleep(0.4))
        options = receivers.options(right.port, ackTimeout=2)
        assert write_rows(batches(ROWS[:6], 6), options, "write/0").rows == 6


# Rights to write.


def test_what_nobody_subscribes_to_is_an_error_or_counted(receivers: Receivers, inbox: Inbox) -> None:
    rows = [("rows", "k", b"1"), ("other", "k", b"2"), ("rows", "k", b"3"), ("kept", "a", b"4"), ("kept", "b", b"5")]
    with receivers.open(inbox) as right:
        right.subscribe("kept", "b")
        right.register_callback("kept", "b", inbox)
        with pytest.raises(NotSubscribed, match="does not subscribe to channel 'other' and key 'k'"):
            write_rows(batches(rows, 2), receivers.options(right.port), "write/0")
        assert inbox.bodies == []
        wrote = write_rows(batches(rows, 2), receivers.options(right.port, unsubscribed="drop"), "write/0")
        assert (wrote.rows, wrote.dropped) == (3, 2)
        arrived = {(delivery.message.message_id, delivery.message.body) for delivery in inbox.deliveries}
        assert arrived == {(1, b"1"), (3, b"3"), (5, b"5")}


@contextmanager
def by_hand(*scripts: Callable[[RawPeer], None], wants: Sequence[Sequence[str]]) -> Iterator[str]:
    """The address of a receiver in plaintext: what it does on its first connection, on its second, and so on."""
    turns = iter(zip(scripts, wants, strict=True))

    def serve(stream: socket.socket) -> None:
        script, channels = next(turns)
        with RawPeer.accepted(stream, SOMEBODY, channels) as peer:
            peer.establish()
            script(peer)

    with RawListener(None, serve) as listener:
        yield listener.address


def acknowledges(count: int, *ids: int) -> Callable[[RawPeer], None]:
    """Takes so many messages, and acknowledges these."""

    def script(peer: RawPeer) -> None:
        peer.receive_messages(count)
        peer.connection.send_acks(ids)
        peer.flush()

    return script


def in_plaintext(address: str, **options: str) -> WriteOptions:
    given = {"connect": address, "plaintext": "true", "ackTimeout": "10", **options}
    return write_options(given, streaming=False)


def test_a_message_without_an_answer_is_sent_again() -> None:
    seen: list[Message] = []

    def slow(peer: RawPeer) -> None:
        acknowledges(3, 1)(peer)
        seen.extend(peer.receive_messages(3 + 2)[3:])
        peer.connection.send_acks([2, 3])
        peer.flush()
        peer.read_to_the_end()

    with by_hand(slow, wants=[["rows"]]) as address:
        wrote = write_rows(batches(ROWS[:3], 3), in_plaintext(address, ackTimeout="2"), "write/0")
    assert (wrote.rows, wrote.resent) == (3, 2)
    assert [message.message_id for message in seen] == [2, 3]


def test_only_what_is_unacknowledged_is_sent_to_the_next_connection() -> None:
    seen: list[Message] = []

    def rest(peer: RawPeer) -> None:
        seen.extend(peer.receive_messages(3))
        acknowledges(3, 5, 2, 3)(peer)
        peer.read_to_the_end()

    with by_hand(acknowledges(5, 4, 1), rest, wants=[["rows"], ["rows"]]) as address:
        wrote = write_rows(batches(ROWS[:5], 5), in_plaintext(address), "write/0")
    assert (wrote.rows, wrote.resent) == (5, 3)
    assert [message.message_id for message in seen] == [2, 3, 5]


@pytest.mark.parametrize(("window", "size", "at_once"), [("10", 2**20, 10), ("1000", 1, 5)])
def test_no_more_is_unacknowledged_than_the_window(
    monkeypatch: pytest.MonkeyPatch, window: str, size: int, at_once: int
) -> None:
    """In rows, and in bytes, of which one run is enough in any case."""
    monkeypatch.setattr(_sending, "WINDOW_BYTES", size)
    seen: list[int] = []

    def slowly(peer: RawPeer) -> None:
        while len(peer.receive_messages(min(20, at_once + len(seen) * 5))) < 20:
            time.sleep(0.1)  # for what should not come
            peer._socket.setblocking(False)
            with suppress(BlockingIOError):
                peer.receive()
            peer._socket.settimeout(PATIENCE)
            seen.append(len(peer.messages))
            acknowledges(0, *range(len(seen) * 5 - 4, len(seen) * 5 + 1))(peer)
        acknowledges(20, *range(1, 21))(peer)
        peer.read_to_the_end()

    with by_hand(slowly, wants=[["rows"]]) as address:
        options = in_plaintext(address, window=window, rowsPerSend="5")
        assert write_rows(batches(ROWS[:20], 20), options, "write/0").rows == 20
    assert seen == list(range(at_once, 20, 5))


def test_a_receiver_that_comes_back_wanting_less_is_asked_again() -> None:
    """Rows that were promised to it before, and that it would now drop and acknowledge."""
    rows = [("rows", "k", b"1"), ("other", "k", b"2"), ("rows", "k", b"3")]

    def rest(peer: RawPeer) -> None:
        with suppress(AssertionError):  # it is closed at once, or
            acknowledges(1, 3)(peer)
        peer.read_to_the_end()

    less = [["rows", "other"], ["rows"]]
    with by_hand(acknowledges(3, 1), rest, wants=less) as address, pytest.raises(NotSubscribed, match="'other'"):
        write_rows(batches(rows, 3), in_plaintext(address), "write/0")
    with by_hand(acknowledges(3, 1), rest, wants=less) as address:
        wrote = write_rows(batches(rows, 3), in_plaintext(address, unsubscribed="drop"), "write/0")
    assert (wrote.rows, wrote.dropped, wrote.resent) == (2, 1, 1)


def test_subscriptions_that_change_on_the_way_count() -> None:
    def first_one_more(peer: RawPeer) -> None:
        peer.receive_messages(1)
        peer.connection.send(Subscribe("other", "", 77))
        acknowledges(1, 1)(peer)
        while Ack(77) not in peer.events:
            assert peer.receive()
        acknowledges(2, 2)(peer)
        peer.read_to_the_end()

    rows = [("rows", "k", b"1"), ("other", "k", b"2")]
    with by_hand(first_one_more, wants=[["rows"]]) as address:
        options = in_plaintext(address, window="1")
        assert write_rows(batches(rows, 1), options, "write/0").rows == 2


def test_a_handshake_on_a_live_connection_says_anew_what_is_wanted() -> None:
    """T-66."""

    def renews(peer: RawPeer) -> None:
        peer.receive_messages(1)
        peer.send_raw(encode(HandshakeRequest(1, SOMEBODY, (Subscription("other", ""),))))
        acknowledges(1, 1)(peer)
        acknowledges(2, 2)(peer)
        peer.read_to_the_end()

    rows = [("rows", "k", b"1"), ("other", "k", b"2")]
    with by_hand(renews, wants=[["rows"]]) as address:
        assert write_rows(batches(rows, 1), in_plaintext(address, window="1"), "write/0").rows == 2


def test_unreliable_rows_go_on_over_the_next_connection() -> None:
    """Those that the broken one had taken are lost."""
    seen: list[Message] = []

    def first(peer: RawPeer) -> None:
        peer.receive_messages(1)

    def second(peer: RawPeer) -> None:
        peer.read_to_the_end()
        seen.extend(peer.messages)

    def slowly() -> Iterator[Any]:
        for row in ROWS[:10]:
            yield batch([row])
            time.sleep(0.02)

    with by_hand(first, second, wants=[["rows"], ["rows"]]) as address:
        assert write_rows(slowly(), in_plaintext(address, reliable="false"), "write/0").rows == 10
        wait_for(lambda: seen)
    assert 0 < len(seen) < 10
    assert [message.body for message in seen] == [row[2] for row in ROWS[10 - len(seen) : 10]]


def test_a_receiver_of_another_version_ends_the_task() -> None:
    def serve(stream: socket.socket) -> None:
        peer = RawPeer.accepted(stream, SOMEBODY)
        peer.connection.version = 2
        with peer:
            peer.establish()
            peer.read_to_the_end()

    with RawListener(None, serve) as listener, pytest.raises(HandshakeRejected):
        write_rows(batches(ROWS, 100), in_plaintext(listener.address), "write/0")


def test_a_task_needs_a_certificate_with_a_prefix_and_the_right_receiver(receivers: Receivers, inbox: Inbox) -> None:
    with receivers.open(inbox) as right:
        with pytest.raises(CertificateError, match="has no derive prefix"):
            write_rows(batches(ROWS, 10), receivers.options(right.port, "left"), "write/0")
        pinned = receivers.options(right.port, peer=receivers.certs.uuid("left"))
        with pytest.raises(IdentityConflict):
            write_rows(batches(ROWS, 10), pinned, "write/0")
        pinned = receivers.options(right.port, peer=receivers.certs.uuid("right"))
        assert write_rows(batches(ROWS[:5], 10), pinned, "write/0").rows == 5
        assert inbox.bodies == bodies(ROWS[:5])


def test_unreliable_rows_have_no_ids_and_wait_for_nobody(receivers: Receivers, inbox: Inbox) -> None:
    inbox.gate.clear()
    with receivers.open(inbox) as right:
        options = receivers.options(right.port, reliable=False)
        assert write_rows(batches(ROWS[:100], 40), options, "write/0").rows == 100
        inbox.gate.set()
        wait_for(lambda: len(inbox.bodies) == 100)
        assert {delivery.message.message_id for delivery in inbox.deliveries} == {None}


def test_a_trial_in_plaintext(receivers: Receivers, inbox: Inbox) -> None:
    with receivers.open(inbox, tls=None, plaintext=True) as right:
        given = {"connect": f"127.0.0.1:{right.port}", "plaintext": "true"}
        assert write_rows(batches(ROWS, 1000), write_options(given, streaming=False), "write/0").rows == 3000
        assert inbox.bodies == bodies(ROWS)


def test_a_row_that_cannot_be_sent_ends_the_task(receivers: Receivers, inbox: Inbox) -> None:
    with (
        receivers.open(inbox) as right,
        pytest.raises(ValueError, match="row 3001 of this partition cannot be sent: its channel"),
    ):
        write_rows(iter([batch(ROWS), batch([("tolliver", "", b"")])]), receivers.options(right.port), "write/0")


# The writers, as Spark makes them.


def in_a_task(partition: int, **properties: str) -> TaskContext:
    """The context that Spark sets before it calls write()."""
    context = TaskContext._getOrCreate()
    context._partitionId = partition
    context._localProperties = properties
    return context


def test_the_writers_are_pickled_and_name_their_tasks(
    receivers: Receivers, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    caplog.set_level("INFO", "tolliver")
    with receivers.open(inbox) as right:
        given = receivers.given(right.port)
        batch_writer: BatchWriter = pickle.loads(pickle.dumps(TolliverSource(given).writer(SCHEMA, False)))
        stream = {**given, "checkpointLocation": "here", "queryName": "q"}
        stream_writer: StreamWriter = pickle.loads(pickle.dumps(TolliverSource(stream).streamWriter(SCHEMA, True)))
        with pytest.raises(RuntimeError, match="in a task of Spark"):
            batch_writer.write(batches(ROWS, 10))
        in_a_task(4)
        done = batch_writer.write(batches(ROWS[:5], 10))
        with pytest.raises(RuntimeError, match="use foreachBatch"):
            stream_writer.write(batches(ROWS[:5], 10))
        in_a_task(4, **{"sql.streaming.queryId": "q-1", "streaming.sql.batchId": "0"})
        stream_writer.write(batches(ROWS[:5], 10))
        assert isinstance(done, Written)
        assert done.rows == 5
        assert list(dict.fromkeys(delivery.peer_id for delivery in inbox.deliveries)) == [
            derived_identity(PREFIX, f"{batch_writer.options.write_id}/4"),
            derived_identity(PREFIX, "q-1/0/4"),
        ]
        for writer, more in ((batch_writer, ()), (stream_writer, (7,))):
            writer.commit([done], *more)
            writer.abort([None, done], *more)
        said = [text.partition(": 5 rows")[0] for text in caplog.messages if ": 5 rows of 1 tasks" in text]
        assert said[2:] == ["batch 7 is done", "batch 7 failed; of it arrived at least"]
        assert len(said) == 4


def test_a_write_has_a_name_of_its_own_unless_it_is_given_one(certs: Certificates, tmp_path: Path) -> None:
    given = Receivers(tmp_path, certs).given(1)
    names = [TolliverSource(given).writer(SCHEMA, False).options.write_id for _ in range(2)]
    assert names[0] != names[1]
    assert TolliverSource({**given, "WRITEID": "mine"}).writer(SCHEMA, False).options.write_id == "mine"


# Acks, by property.


@given(
    st.lists(st.integers(1, 60), unique=True, min_size=1),
    st.lists(st.lists(st.integers(0, 70), max_size=20), max_size=8),
)
def test_acks_of_any_order_are_counted_once(ids: list[int], acks: list[list[int]]) -> None:
    rows = take_rows(batch(numbered(len(ids))), np.array(ids, np.uint32))
    run = Run(rows, encode_rows(rows, Revision.DRAFT_2))
    left = set(ids)
    for some in acks:
        assert run.acked(np.array(some, np.uint32)) == len(left & set(some))
        left -= set(some)
        assert run.left == len(left)
        waiting = [Message(*row, number) for row, number in zip(numbered(len(ids)), ids, strict=True) if number in left]
        assert run.unacked_bytes() == b"".join(map(encode, waiting))
        assert not waiting or run.first_unacked() == waiting[0].message_id


NAMES = st.sampled_from(["", "a", "b", "c"])


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1), st.sets(st.builds(Subscription, NAMES, NAMES)))
def test_who_is_subscribed_to_what(names: list[tuple[str, str]], subscriptions: set[Subscription]) -> None:
    from tolliver_proto._node.subscriptions import matching

    rows = take_rows(batch([(*pair, b"") for pair in names]), None)
    flags = unwanted(rows.channel, rows.key, subscriptions)
    expected = [subscriptions.isdisjoint(matching(*pair)) for pair in names]
    assert (flags is None and not any(expected)) or (flags is not None and flags.tolist() == expected)


FRAMES = st.one_of(
    st.builds(Ack, st.integers(0, 2**32 - 1)),
    st.builds(Ack, st.integers(0x04040404, 0x04040405)),  # of which each byte looks like a frame's beginning
    st.builds(Subscribe, NAMES, NAMES, st.integers(1, 9)),
    st.builds(Unsubscribe, NAMES, NAMES, st.integers(1, 9)),
)


@contextmanager
def linked(on_acks: Callable[[Ids], None], **limits: int) -> Iterator[tuple[Link, socket.socket]]:
    """A Link that is established, and the other end of its socket."""
    ours, theirs = socket.socketpair()
    with theirs, Link(ours, on_acks, revision=Revision.DRAFT_2, limits=Limits(**limits)) as link:
        server = Connection(Role.SERVER, instance_id=SOMEBODY)
        link.flush()
        server.receive_data(theirs.recv(65536))
        assert [type(event) for event in server.events()] == [HandshakeRequest]
        server.accept()
        theirs.sendall(b"".join(server.data_to_send()))
        link.establish(PATIENCE)
        yield link, theirs
        theirs.shutdown(socket.SHUT_RDWR)


def test_what_a_receiver_says_is_bounded() -> None:
    with linked(lambda _ids: None, max_subscriptions=3, high_water=10_000, low_water=1) as (link, theirs):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wanted = [Subscribe("c", str(number), number) for number in range(1, 3001)]
        for start in range(0, 3000, 100):
            for _ in range(20):
                theirs.sendall(b"".join(map(encode, wanted[start : start + 100])))
                link.poll()
        assert link.subscriptions == {Subscription("c", str(number)) for number in (1, 2, 3)}
        assert 0 < link.machine.unsent_bytes <= 10_000 + 100 * 5
        message = encode(Message("c", "k", b"for nobody", 7))
        before = link.machine.unsent_bytes
        theirs.sendall(message)
        link.poll()
        assert link.machine.unsent_bytes == before


@given(st.lists(FRAMES, max_size=40), st.lists(st.integers(0, 999), max_size=10))
def test_acks_come_out_however_they_are_cut(frames: list[Ack | Subscribe | Unsubscribe], places: list[int]) -> None:
    acks: list[int] = []
    with linked(lambda ids: acks.extend(ids.tolist())) as (link, theirs):
        stream = b"".join(map(encode, frames))
        cuts = sorted(place % (len(stream) + 1) for place in places)
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            theirs.sendall(stream[start:stop])
            link.step(0)
            passed_on = link.machine.buffered_bytes
            assert not passed_on or not all(isinstance(frame, Ack) for frame in frames), "acks are not the machine's"
            link.wait(lambda: True, 1)
        assert sorted(acks) == sorted(frame.message_id for frame in frames if isinstance(frame, Ack))
        expected: set[Subscription] = set()
        for frame in frames:
            if not isinstance(frame, Ack):
                change = expected.add if isinstance(frame, Subscribe) else expected.discard
                change(Subscription(frame.channel, frame.key))
        assert link.subscriptions == expected
        assert link.machine.buffered_bytes == 0

"""Publishers into a stage that holds them back. Without a session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver.blocking import InstanceOptions, StreamsOptions, bridge, create_instance
from tolliver.spark.demand import _stager
from tolliver.spark.demand._credit import Credit
from tolliver.spark.demand._stager import DemandStageOptions, DemandStager
from tolliver.staging import FolderOptions, StageInUse, _loop

from tests.certificates import Certificates
from tests.spark.publishers import few, numbers, publishing
from tests.spark.receivers import wait_for
from tests.staging.disks import small_disk
from tolliver_proto import Message, decode
from tolliver_proto.reactive import Limits, StreamError
from tolliver_proto.recording import Block, read_blocks

CAPACITY = 2**17
ONE_SEGMENT = {"segment_bytes": CAPACITY // 2}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stager, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(_stager, "LONGEST_PAUSE", 0.05)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "stage"


def options(certs: Certificates, publisher: Any, *names: str, **more: Any) -> DemandStageOptions:
    port = publisher if isinstance(publisher, int) else publisher.port
    limits = Limits(max_element=more.pop("max_element", 1000), close_timeout=1)
    streams = StreamsOptions(tls=certs.tls("job"), limits=limits)
    folder = FolderOptions(max_staged_bytes=CAPACITY, **more.pop("folder"))
    return DemandStageOptions(
        remote=streams.remote(f"127.0.0.1:{port}"),
        streams=streams,
        publishers=names,
        window=more.pop("window", 4096),
        folder=folder,
    )


@contextmanager
def staging(certs: Certificates, publisher: Any, directory: Path, *names: str, **more: Any) -> Iterator[DemandStager]:
    with DemandStager(options(certs, publisher, *names, folder={"directory": directory}, **more)) as stager:
        yield stager
        stager.check()


def staged(directory: Path) -> dict[str, list[bytes]]:
    """By publisher, in the order of the stage."""
    found: dict[str, list[bytes]] = {}
    for file in sorted((directory / "segments").glob("*.rec")):
        for block in read_blocks([file.read_bytes()]):
            if isinstance(block, Block):
                for message in decode(block.payload, block.header.revision):
                    assert isinstance(message, Message)
                    assert (message.key, message.message_id) == ("", None)
                    found.setdefault(message.channel, []).append(message.body)
    return found


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "segments").glob("*.rec"))


# The credit.


STEPS = st.tuples(st.sampled_from(["begin", "grant", "stage", "delete", "end"]), st.sampled_from("ab"), st.floats(0, 1))


@settings(max_examples=100)
@given(st.integers(100, 2000), st.floats(0, 1), st.integers(1, 30), st.integers(1, 50), st.lists(STEPS, max_size=20))
def test_what_is_staged_and_what_may_come_always_fit(
    capacity: int, full: float, window: int, cost: int, steps: list[tuple[str, str, float]]
) -> None:
    costs = {"a": cost, "b": 1 + cost // 2}
    try:
        credit = Credit(capacity, window, costs)
    except ValueError:
        assert sum(costs.values()) > capacity // 2
        return
    used = int(capacity * full)
    for step, name, part in steps:
        out = credit.out[name]
        if step == "begin":
            assert credit.begin(name, used) in (0, credit.window)
        elif step == "grant":
            more = credit.grant(name, used)
            assert credit.out[name] == out + more
        elif step == "delete":
            used = int(used * part)
        else:
            count = out if step == "end" else int(out * part)
            used += count * costs[name] if step == "stage" else 0
            credit.settle(name, count)
        assert used + credit.reserved <= capacity
        assert all(0 <= count <= credit.window <= window for count in credit.out.values())
    for name in costs:  # once readers are through with half of the stage, all of them may begin
        credit.settle(name, credit.out[name])
    assert [credit.begin(name, capacity // 2) for name in costs] == 2 * [credit.window]


def test_a_stage_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="maxStagedBytes is 99, and an element of each publisher may take 50 bytes"):
        Credit(99, 10, {"a": 20, "b": 30})


# Publishers.


def test_what_publishers_give_is_staged_in_order(certs: Certificates, directory: Path) -> None:
    with (
        publishing(certs, few=few(500), other=[b"", b"\xff"]) as publisher,
        staging(certs, publisher, directory, "few", "other") as stager,
    ):
        wait_for(lambda: stager.stats()["staged"] == 502)
        assert staged(directory) == {"few": few(500), "other": [b"", b"\xff"]}
        wait_for(lambda: stager.stats()["completed"] == 2)
        wait_for(lambda: stager.stats()["out"] == 0)
        assert len(publisher.ledgers) == 2, "who has completed is not asked again"
        with pytest.raises(StageInUse):
            DemandStager(options(certs, publisher, "few", folder={"directory": directory, "lock_timeout": 0})).start()


def test_the_stage_holds_publishers_back_and_those_who_read_let_them_go_on(
    certs: Certificates, directory: Path
) -> None:
    body = bytes(900)
    endless = lambda _name: itertools.repeat(body)  # noqa: E731
    with (
        publishing(certs, one=endless, two=endless) as publisher,
        staging(certs, publisher, directory, "one", "two") as stager,
    ):
        window = options(certs, publisher, "one", "two", folder={"directory": directory}).credit().window
        for _ in range(5):
            wait_for(lambda: stager.stats()["staged_bytes"] + 1300 * stager.stats()["out"] > CAPACITY - 2 * 1300)
            wait_for(lambda: stager.stats()["out"] == 0)
            assert size_of(directory) <= CAPACITY
            elements = stager.stats()["staged"]
            assert sum(ledger.granted for ledger in publisher.ledgers) == elements
            head = stager.folder.head()
            assert head is not None
            assert stager.folder.delete_before(head)
            wait_for(lambda: stager.stats()["staged"] > elements)  # noqa: B023
        assert [ledger.most for ledger in publisher.ledgers] == [window, window]
        assert 1 < window < 100


def test_a_disk_that_takes_nothing_is_no_reason_to_ask_for_more(
    certs: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_loop, "RETRY", 0.02)
    body = bytes(900)
    with (
        small_disk(tmp_path / "disk", 64) as enlarge,
        publishing(certs, endless=lambda _name: itertools.repeat(body)) as publisher,
        DemandStager(
            options(
                certs, publisher, "endless", window=16, folder={"directory": tmp_path / "disk" / "stage", **ONE_SEGMENT}
            )
        ) as stager,
    ):
        wait_for(lambda: stager.held)
        staged_now = len(staged(tmp_path / "disk" / "stage")["endless"])
        (ledger,) = publisher.ledgers
        wait_for(lambda: ledger.granted >= staged_now + 16)  # the last grant may be on its way
        assert ledger.granted == staged_now + 16
        enlarge()
        wait_for(lambda: stager.stats()["staged"] > staged_now + 16)
        stager.check()


def test_a_publisher_that_goes_away_is_asked_again(certs: Certificates, directory: Path) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        port = publisher.port
        stager = DemandStager(options(certs, port, "numbers", folder={"directory": directory}, window=10))
        stager.start()
        wait_for(lambda: stager.stats()["staged"] > 20)
    with publishing(certs, numbers=lambda _name: iter([b"again"]), listen=f"127.0.0.1:{port}"):
        wait_for(lambda: stager.stats()["completed"])
        wait_for(lambda: not stager.stats()["out"])
    stager.close()
    found = staged(directory)["numbers"]
    assert found == [*few(len(found) - 1), b"again"]
    assert stager.failure is None


def test_an_error_of_a_publisher_that_never_gave_anything_ends_it(certs: Certificates, directory: Path) -> None:
    with publishing(certs, few=few(1)) as publisher:
        stager = DemandStager(options(certs, publisher, "few", "moons", folder={"directory": directory}))
        with stager:
            wait_for(lambda: stager.failure)
            with pytest.raises(StreamError, match="nothing is published here as 'moons'"):
                stager.check()


def test_an_error_later_on_is_one_to_try_again_after(certs: Certificates, directory: Path) -> None:
    tries = itertools.count()

    def broken(_name: str) -> Iterator[bytes]:
        number = next(tries)
        yield b"%d" % number
        if number < 3:
            raise LookupError("the sensor is gone")

    with publishing(certs, broken=broken) as publisher, staging(certs, publisher, directory, "broken") as stager:
        wait_for(lambda: stager.stats()["completed"])
        wait_for(lambda: stager.stats()["staged"] == 4)
        assert staged(directory)["broken"] == few(4)


def test_an_element_above_the_limit_ends_it(certs: Certificates, directory: Path) -> None:
    with publishing(certs, few=[b"1", bytes(1001)]) as publisher:
        stager = DemandStager(options(certs, publisher, "few", folder={"directory": directory}))
        with stager:
            wait_for(lambda: stager.failure)
            with pytest.raises(Exception, match="1000"):
                stager.check()


# The bridge.


def test_messages_behind_a_bridge_are_acknowledged_when_staged_and_none_is_lost(
    certs: Certificates, directory: Path, tmp_path: Path
) -> None:
    """The stager ends while messages are under way, and another one goes on in the same stage."""
    name = "tolliver://weather"
    sent = few(1000)
    bob = InstanceOptions(database=tmp_path / "bob.db", tls=certs.tls("bob"), listen="127.0.0.1:0")
    alice = InstanceOptions(database=tmp_path / "alice.db", tls=certs.tls("alice"), retry_interval=0.3)
    with create_instance(bob) as receiver, create_instance(alice) as sender, publishing(certs) as publisher:
        receiver.subscribe("weather", "")
        publisher.publish("tolliver://*", bridge(receiver))
        sender.new_connection(f"127.0.0.1:{receiver.port}")
        wait_for(lambda: sender.peers())
        sender.send_many([("weather", "berlin", body) for body in sent])
        with staging(certs, publisher, directory, name, window=16) as stager:
            wait_for(lambda: stager.stats()["staged"] > 100)
        unacknowledged = sender.stats()["pending"]
        assert unacknowledged > 0
        assert len(set(staged(directory)[name])) >= len(sent) - unacknowledged
        with staging(certs, publisher, directory, name) as stager:
            wait_for(lambda: not sender.stats()["pending"])
        assert set(staged(directory)[name]) == set(sent)

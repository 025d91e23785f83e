"""Batches of elements: bounded demand, and every end. Without a session."""

from __future__ import annotations

import itertools
import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, LongType, StringType, StructType
from tolliver.blocking import TLS
from tolliver.spark.demand._options import BATCH, demand_options
from tolliver.spark.demand._reader import Demand, DemandReader
from tolliver.spark.demand_source import DemandSource
from tolliver.spark.source import TolliverSource

from tests.certificates import Certificates
from tests.spark.publishers import asking, few, numbers, publishing
from tests.spark.receivers import wait_for
from tolliver_proto import ConnectionLost
from tolliver_proto.errors import CertificateError
from tolliver_proto.reactive import StreamError

PLAIN = {"connect": "127.0.0.1", "plaintext": "true", "publishers": "a", "untilComplete": "true"}
KINDS = {"publisher": StringType(), "element": BinaryType()}


def schema(*names: str, nullable: bool = True) -> StructType:
    made = StructType()
    for name in names:
        made.add(name, KINDS.get(name, LongType()), nullable)
    return made


ALL = schema(*KINDS)


def reader(options: dict[str, str], columns: StructType = ALL) -> DemandReader:
    made: DemandReader = pickle.loads(pickle.dumps(DemandReader(demand_options(options), columns)))
    return made


def batches(options: dict[str, str], columns: StructType = ALL) -> list[list[Any]]:
    """Of each partition."""
    planned = reader(options, columns)
    return [list(planned.read(part)) for part in planned.partitions()]


def elements(options: dict[str, str]) -> list[list[bytes]]:
    return [[row["element"] for batch in part for row in batch.to_pylist()] for part in batches(options)]


# How much is asked for.


@given(
    st.integers(1, 50),
    st.none() | st.integers(1, 200),
    st.lists(st.integers(1, 60), max_size=100),
)
def test_what_is_granted_is_wanted_fits_and_never_runs_dry(window: int, planned: int | None, comes: list[int]) -> None:
    demand = Demand(window, planned)
    granted, taken = demand.granted, 0
    for most in comes:
        assert granted == demand.granted <= (planned or granted)
        assert 0 <= granted - taken <= window
        assert demand.done == (taken == planned)
        if demand.done:
            return
        assert granted > taken
        count = min(most, granted - taken)
        taken += count
        granted += demand.take(count)


@pytest.mark.parametrize(("window", "planned"), [(16, 200), (4096, 10), (1, 5), (64, 64)])
def test_a_publisher_is_asked_for_the_planned_count_and_a_window_at_a_time(
    certs: Certificates, window: int, planned: int
) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        asked = asking(certs, publisher, "numbers", window=window, maxElements=planned)
        assert elements(asked) == [few(planned)]
        (ledger,) = publisher.ledgers
        assert ledger.granted == planned
        assert ledger.most == min(window, planned)
        wait_for(lambda: ledger.cancelled and not publisher.stats()["connections"])


# How it ends.


def test_a_publisher_that_completes_ends_its_partition(certs: Certificates) -> None:
    with publishing(certs, few=few(10_000), none=[], more=numbers) as publisher:
        asked = asking(certs, publisher, "few, none, more", maxElements=12_000)
        assert elements(asked) == [few(10_000), [], few(12_000)]
        assert elements(asking(certs, publisher, "none,few", untilComplete=True)) == [[], few(10_000)]
        assert max(ledger.most for ledger in publisher.ledgers) == 4096


def test_a_deadline_ends_a_publisher_that_never_stops_and_one_that_is_silent(certs: Certificates) -> None:
    def silent(_name: str) -> Iterator[bytes]:
        yield b"0"
        wait_for(lambda: all(ledger.cancelled for ledger in publisher.ledgers if ledger.name == "silent"))

    with publishing(certs, numbers=numbers, silent=silent) as publisher:
        for seconds in (0.2, 1, 5, 25):  # until something comes in that time, on a machine that is busy
            endless, one = elements(asking(certs, publisher, "numbers,silent", deadline=seconds))
            assert endless == few(len(endless))
            assert one in ([], [b"0"])
            if endless and one:
                break
        assert (len(endless) > 1, one) == (True, [b"0"])


def test_an_error_fails_the_task_with_the_publisher_s_text(certs: Certificates) -> None:
    def broken(_name: str) -> Iterator[bytes]:
        yield from few(10)
        raise LookupError("the sensor is gone")

    with publishing(certs, broken=broken) as publisher:
        with pytest.raises(StreamError, match="'broken' ended with an error: LookupError: the sensor is gone"):
            elements(asking(certs, publisher, "broken", untilComplete=True))
        with pytest.raises(StreamError, match="nothing is published here as 'moons'"):
            elements(asking(certs, publisher, "moons", deadline=5))


def test_a_publisher_that_goes_away_fails_the_task(certs: Certificates) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        planned = reader(asking(certs, publisher, "numbers", untilComplete=True, rowsPerBatch=10, window=20))
        rows = planned.read(planned.partitions()[0])
        next(rows)
        publisher.close()
        with pytest.raises(Exception, match="the connection"):
            for _ in itertools.islice(rows, 1000):
                pass


def test_nobody_is_there(certs: Certificates) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionLost):
            elements(asking(certs, free.getsockname()[1], "numbers", deadline=1))


def test_a_stranger_is_no_subscriber(certs: Certificates) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        stranger = certs.tls("stranger")
        files = {"tls.cert": stranger.cert, "tls.key": stranger.key, "tls.ca": stranger.ca}
        with pytest.raises(CertificateError):
            elements(asking(certs, publisher, "numbers", deadline=1, **files))
        assert publisher.ledgers == []


def test_leaving_the_reader_cancels_its_stream(certs: Certificates) -> None:
    with publishing(certs, numbers=numbers) as publisher:
        planned = reader(asking(certs, publisher, "numbers", deadline=60, rowsPerBatch=10))
        rows = planned.read(planned.partitions()[0])
        next(rows)
        del rows
        wait_for(lambda: publisher.ledgers[0].cancelled)


def test_another_try_asks_anew(certs: Certificates) -> None:
    counter = itertools.count()
    with publishing(certs, shared=lambda _name: (b"%d" % number for number in counter)) as publisher:
        asked = asking(certs, publisher, "shared", maxElements=5, window=1)
        tries = [elements(asked)[0] for _ in range(2)]
        assert set(tries[0]).isdisjoint(tries[1])
        assert len(publisher.ledgers) == 2


def test_every_task_shows_the_identity_in_the_certificate(certs: Certificates) -> None:
    with publishing(certs, a=few(1), b=few(1)) as publisher:
        elements(asking(certs, publisher, "a,b", untilComplete=True))
        assert [ledger.who.uuids for ledger in publisher.ledgers] == 2 * [frozenset({certs.uuid("job")})]


# The rows.


def test_columns_in_any_order_and_number_and_batches_of_a_size(certs: Certificates) -> None:
    large = [bytes([number]) * 2**20 for number in range(10)]
    with publishing(certs, **{"few": few(1000), "large": large, "a,ß": [b"", b"\xff"]}) as publisher:
        asked = asking(certs, publisher, "few", untilComplete=True, rowsPerBatch=300, window=64)
        (part,) = batches(asked)
        assert sum(batch.num_rows for batch in part) == 1000
        assert max(batch.num_rows for batch in part) <= 300
        assert len(part) <= 8
        assert str(part[0].schema) == "publisher: string\nelement: binary"
        assert {row["publisher"] for batch in part for row in batch.to_pylist()} == {"few"}
        (part,) = batches(asked, schema("element", "publisher", nullable=False))
        assert part[0].schema.names == ["element", "publisher"]
        (part,) = batches(asked, schema("publisher"))
        assert part[0].schema.names == ["publisher"]
        (part,) = batches(asking(certs, publisher, "large", untilComplete=True))
        assert len(part) > 1
        assert [row["element"] for batch in part for row in batch.to_pylist()] == large
        assert elements(asking(certs, publisher, '["a,ß"]', untilComplete=True)) == [[b"", b"\xff"]]


def test_an_element_above_the_limit_ends_the_task(certs: Certificates) -> None:
    with publishing(certs, few=[b"1", bytes(1001)]) as publisher:
        assert len(elements(asking(certs, publisher, "few", untilComplete=True, maxElementBytes=1001))[0]) == 2
        with pytest.raises(Exception, match="1000"):
            elements(asking(certs, publisher, "few", untilComplete=True, maxElementBytes=1000))


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no column body bigint: choose among publisher string, element binary"):
        reader(PLAIN, schema("body"))


# Options.


def test_all_options_in_any_case() -> None:
    asked = {
        "Connect": "example.org",
        "PEER": "01890000-0000-7000-8000-000000000001",
        "tls.cert": "job.pem",
        "TLS.KEY": "job.key",
        "Tls.Ca": "ca.pem",
        "publishers": '["a", "b,c"]',
        "Window": "100",
        "MAXELEMENTS": "7",
        "deadline": "2.5",
        "untilcomplete": "True",
        "rowsPerBatch": "10",
        "maxElementBytes": "1000",
    }
    assert {name.lower() for name in asked} == {name.lower() for name in BATCH} - {"plaintext"}
    made = demand_options(CaseInsensitiveDict(asked))
    assert made == demand_options(asked) == pickle.loads(pickle.dumps(made))
    assert (made.remote.host, made.remote.port, made.tls) == ("example.org", 7012, TLS("job.pem", "job.key", "ca.pem"))
    assert (made.publishers, made.window, made.max_elements, made.deadline) == (("a", "b,c"), 100, 7, 2.5)
    assert (made.until_complete, made.rows_per_batch, made.of_streams.limits.max_element) == (True, 10, 1000)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"publishers": None}, "needs the option publishers"),
        ({"connect": None}, "needs the option connect: the address of the publisher"),
        ({"untilComplete": "false"}, "nothing ends this batch"),
        ({"publishers": " , "}, "give the names of publishers"),
        ({"publishers": "a, b,a"}, "a name comes twice"),
        ({"publishers": '["a", 1]'}, "JSON list"),
        ({"publishers": '["\\ud800"]'}, "is no name"),
        ({"publishers": '[""]'}, "is no name"),
        ({"publishers": "x" * 4097}, "4096 bytes"),
        ({"window": "0"}, "the option window is '0': give a whole number from 1 on"),
        ({"maxElements": "1e3"}, "maxElements"),
        ({"maxElements": "9" * 30}, "maxElements"),
        ({"maxElementBytes": str(2**30 + 1)}, "maxElementBytes"),
        ({"deadline": "-1"}, "positive number of seconds"),
        ({"plaintext": "false"}, "neither of plaintext=true and a certificate"),
        ({"connect": "example.org"}, "would leave this machine"),
        ({"tls.cert": "job.pem"}, "some are missing"),
        ({"chanels": "a"}, "the format \"tolliver-rs\" has no option 'chanels': it knows connect, peer"),
    ],
)
def test_what_is_wrong_is_said_on_the_driver(options: dict[str, str | None], says: str) -> None:
    asked = {name: text for name, text in (PLAIN | options).items() if text is not None}
    with pytest.raises(ValueError, match=says):
        DemandSource(asked).reader(ALL)


def test_the_other_format_says_where_publishers_are_read() -> None:
    with pytest.raises(ValueError, match=r'are format\("tolliver-rs"\), after .*register\(spark\)'):
        TolliverSource({"publishers": "a"}).schema()

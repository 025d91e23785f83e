"""Options and columns of the sink, and the words of refusals."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType
from tolliver.blocking import TLS, Remote
from tolliver.spark.source import TolliverSource
from tolliver.spark.write._options import OPTIONS, WriteOptions, write_options
from tolliver.spark.write._sink import batch_writer, check_schema, stream_writer

from tests.certificates import Certificates
from tolliver_proto import Revision
from tolliver_proto.errors import CertificateError

PLAIN = {"connect": "127.0.0.1:7011", "plaintext": "true"}
COLUMNS: dict[str, DataType] = {"channel": StringType(), "key": StringType(), "body": BinaryType()}


def schema(columns: dict[str, DataType]) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind)
    return made


def test_all_options_in_any_case() -> None:
    files = {"tls.cert": "job.pem", "TLS.KEY": "job.key", "Tls.Ca": "ca.pem"}
    peer = "01890000-0000-7000-8000-000000000001"
    given = {
        "Connect": "example.org:5",
        **files,
        "peer": peer,
        "RELIABLE": "True",
        "IDCOLUMN": "number",
        "writeid": "nightly",
        "Window": "100",
        "rowsPerSend": "10",
        "acktimeout": "2.5",
        "unsubscribed": "Drop",
        "revision": "1",
        "record": "/mnt/told",
    }
    made = write_options(CaseInsensitiveDict(given), streaming=False)  # which keeps lower case only
    assert made == write_options(given, streaming=False) == pickle.loads(pickle.dumps(made))
    assert (made.remote.host, made.remote.port, str(made.remote.identity)) == ("example.org", 5, peer)
    assert made.tls == TLS("job.pem", "job.key", "ca.pem")
    assert (made.reliable, made.id_column, made.write_id) == (True, "number", "nightly")
    assert (made.window, made.rows_per_send, made.ack_timeout) == (100, 10, 2.5)
    assert (made.drop_unsubscribed, made.revision, made.record) == (True, Revision.DRAFT_1, Path("/mnt/told"))


def test_what_is_not_given() -> None:
    made = write_options(PLAIN, streaming=True)
    assert (made.remote, made.tls) == (Remote("127.0.0.1"), None)
    assert (made.reliable, made.id_column, made.write_id) == (True, None, None)
    assert (made.window, made.rows_per_send, made.ack_timeout) == (50_000, 5_000, 60.0)
    assert (made.drop_unsubscribed, made.revision) == (False, Revision.DRAFT_2)
    assert write_options({**PLAIN, "window": "7"}, streaming=True).rows_per_send == 7
    assert write_options({**PLAIN, "checkpointLocation": "x", "queryName": "y"}, streaming=True) == made


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"windows": "5"}, "no option 'windows': it knows connect, peer, tls.cert"),
        ({"path": "x"}, "no option 'path'"),
        ({"window": "0"}, "the option window is '0': give a whole number"),
        ({"window": "many"}, "the option window is 'many': give a whole number"),
        ({"window": "5", "rowsPerSend": "6"}, "rowsPerSend is 6 and window 5"),
        ({"ackTimeout": "inf"}, "the option ackTimeout is 'inf': give a positive"),
        ({"ackTimeout": "soon"}, "the option ackTimeout is 'soon': give a positive"),
        ({"reliable": "yes"}, "the option reliable is 'yes': give true or false"),
        ({"unsubscribed": "keep"}, "the option unsubscribed is 'keep': give error or drop"),
        ({"revision": "3"}, "the option revision is '3': give 1, 2, go-seed, .* or 2-letter"),
        ({"peer": "bob"}, "the option peer is 'bob': "),
        ({"writeId": ""}, "the option writeId is '': give a text"),
        ({"writeId": "x"}, "the option writeId is for a batch"),
        ({"idColumn": "n", "reliable": "false"}, "idColumn gives ids, and reliable=false sends none"),
        ({"connect": "example.org"}, "the option plaintext is true: plaintext with example.org:7011"),
        ({"connect": "::1"}, "the option connect is '::1': .* several colons"),
        ({"plaintext": "false"}, "neither of plaintext=true and a certificate"),
        ({"tls.cert": "c", "tls.key": "k", "tls.ca": "a"}, "both of plaintext=true and a certificate"),
        ({"tls.cert": "c", "plaintext": "false"}, "tls.key and tls.ca some are missing"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TolliverSource({**PLAIN, **given}).streamWriter(schema(COLUMNS), False)


def test_somewhere_to_send_is_needed() -> None:
    with pytest.raises(ValueError, match="needs the option connect"):
        TolliverSource({}).writer(schema(COLUMNS), False)


def test_columns() -> None:
    plain = write_options(PLAIN, streaming=False)
    numbered = write_options({**PLAIN, "idColumn": "n"}, streaming=False)
    check_schema(schema(dict(reversed(COLUMNS.items()))), plain)
    check_schema(schema({**COLUMNS, "body": StringType()}), plain)
    check_schema(schema({**COLUMNS, "n": LongType()}), numbered)
    check_schema(schema({**COLUMNS, "n": IntegerType()}), numbered)
    refused: list[tuple[dict[str, DataType], WriteOptions, str]] = [
        (
            {**COLUMNS, "n": LongType()},
            plain,
            "takes the columns channel, key, body, and these are channel, key, body, n",
        ),
        (COLUMNS, numbered, "takes the columns channel, key, body, n, and these are channel, key, body:"),
        ({"channel": StringType()}, plain, "and these are channel:"),
        ({**COLUMNS, "key": LongType()}, plain, "the column key is bigint: cast it to string"),
        ({**COLUMNS, "body": LongType()}, plain, "the column body is bigint: cast it to binary or string"),
        (
            {**COLUMNS, "n": StringType()},
            numbered,
            "the column n is string: cast it to byte or short or integer or long",
        ),
    ]
    for columns, options, text in refused:
        with pytest.raises(ValueError, match=text):
            check_schema(schema(columns), options)
    twice = schema(COLUMNS).add("key", StringType())
    with pytest.raises(ValueError, match="the column key is there twice: name each column once"):
        check_schema(twice, plain)


def test_nothing_can_be_overwritten() -> None:
    with pytest.raises(ValueError, match=r'mode\("append"\)'):
        TolliverSource(PLAIN).writer(schema(COLUMNS), True)


def test_the_page_names_all_options() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark-sink.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([^`]+)`", "".join(rows))) == sorted(OPTIONS)


def test_a_certificate_that_is_no_good_is_told_before_a_task_begins(certs: Certificates, tmp_path: Path) -> None:
    """It is looked at on the machine that plans; where it is not there, the tasks' machines have it."""
    columns = schema(COLUMNS)

    def given(cert: str) -> dict[str, str]:
        tls = certs.tls("alice")
        return {"connect": "h", "tls.cert": cert, "tls.key": str(tls.key), "tls.ca": str(tls.ca)}

    for make in (partial(batch_writer, columns, False), partial(stream_writer, columns)):
        with pytest.raises(CertificateError, match="has no derive prefix"):
            make(given(str(certs.tls("alice").cert)))
        make(given(str(tmp_path / "elsewhere.pem")))

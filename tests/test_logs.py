"""Logs: one logger for each area, fields for programs, and nothing of a message in them."""

from __future__ import annotations

import ast
import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tolliver._cli import words
from tolliver._driver import logs
from tolliver.blocking import Instance, InstanceOptions, StreamsOptions, create_instance, create_streams

from tests.cli.commands import listener, tolliver
from tests.ports import free_address
from tolliver_proto import ConnectionLost, NoticeKind
from tolliver_proto.errors import RequestFailed
from tolliver_proto.node import DialCause

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubles.md").read_text()
LOGGERS = set(re.findall(r"^\| `(tolliver\.[a-z]+)` \|", PAGE, re.MULTILINE))
FIELDS = set(re.findall(r"^\| `([a-z]+)` \|", PAGE.partition("## Logs")[2], re.MULTILINE))
SECRET = "secret of a message"
USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


def named_loggers() -> dict[str, str]:
    """Names given to getLogger, and the file."""
    found = {}
    for path in (ROOT / "transports").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "getLogger":
                (name,) = node.args
                assert isinstance(name, ast.Constant), path
                found[str(name.value)] = path.name
    return found


def test_every_logger_is_one_of_an_area_that_the_page_lists() -> None:
    assert set(named_loggers()) - {"tolliver"} <= LOGGERS
    assert {logs.of(kind).name for kind in NoticeKind} <= LOGGERS
    assert set(named_loggers()) <= {logger.name for logger in logs.ALL}, "else its tracebacks are not escaped"


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    found = {name: value for name, value in vars(record).items() if name not in USUAL}
    assert set(found) <= FIELDS, f"{set(found) - FIELDS} of {record.name}"
    return found


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def instance(**options: object) -> Instance:
    return create_instance(
        InstanceOptions(database=":memory:", plaintext=True, **options)  # type: ignore[arg-type]  # of the options
    )


def test_records_have_fields_and_nothing_of_a_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tolliver")
    nobody = free_address()

    def told(kind: NoticeKind) -> logging.LogRecord | None:
        return next((record for record in caplog.records if getattr(record, "kind", None) == kind), None)

    def fails(_message: object) -> None:
        raise ValueError("no")

    with instance(listen="127.0.0.1:0") as alice, instance(remotes=[nobody]) as bob:
        until(lambda: told(NoticeKind.DIAL_FAILED))
        bob.new_connection(f"127.0.0.1:{alice.port}", timeout=30.0)
        bob.register_callback("channel", SECRET, fails)
        bob.subscribe("channel", SECRET)
        until(lambda: any(peer.subscriptions for peer in alice.peers()))
        alice.send("channel", SECRET, SECRET.encode())
        until(lambda: told(NoticeKind.HANDLER_FAILED))
        names = {alice.instance_id: "alice", bob.instance_id: "bob"}
    ours = [record for record in caplog.records if record.name.partition(".")[0] == "tolliver"]
    assert ours
    for record in ours:
        assert SECRET not in map(str, fields_of(record).values())
        assert record.name in LOGGERS
    failed = told(NoticeKind.DIAL_FAILED)
    assert failed is not None
    assert failed.name == "tolliver.dial"
    assert fields_of(failed) == {"kind": "dial_failed", "remote": nobody, "cause": DialCause.REFUSED.value}
    handler = told(NoticeKind.HANDLER_FAILED)
    assert handler is not None
    assert handler.name == "tolliver.messages"
    fields = fields_of(handler)
    assert {name: fields[name] for name in ("kind", "channel")} == {"kind": "handler_failed", "channel": "channel"}
    assert names[next(uuid for uuid in names if str(uuid) == fields["peer"])] == "alice"
    up = [record for record in ours if " is up, version 1" in record.getMessage()]
    assert {fields_of(record)["version"] for record in up} == {1}
    assert {record.name for record in up} == {"tolliver.dial"}


def test_the_body_is_in_no_text_though_an_error_carries_it(caplog: pytest.LogCaptureFixture) -> None:
    """A UnicodeDecodeError shows all that it could not decode in its repr, and so does what a handler returns."""
    body = b"\xff" + SECRET.encode()

    class Answer:
        def __init__(self, given: bytes) -> None:
            self.given = given

        def __repr__(self) -> str:
            return f"Answer({self.given!r})"

        def __bool__(self) -> bool:
            return False

    with instance(listen="127.0.0.1:0") as alice, instance(remotes=[f"127.0.0.1:{alice.port}"]) as bob:
        alice.subscribe("decodes", handler=lambda one: one.body.decode())
        alice.subscribe("returns", handler=lambda one: Answer(one.body))
        alice.respond("answers", lambda one: one.body.decode())
        for channel in ("decodes", "returns", "tolliver.request/answers"):
            bob.wait_subscribed(channel, timeout=30.0)
        bob.send("decodes", "", body)
        bob.send("returns", "", body)
        with pytest.raises(RequestFailed):
            bob.request("answers", body, timeout=30.0)
        failures = (NoticeKind.HANDLER_FAILED, NoticeKind.RESPONDER_FAILED)
        until(lambda: {one.kind for one in alice.notices()} >= {*failures})
        until(lambda: len([one for one in caplog.records if getattr(one, "kind", None) in failures]) == 3)
        texts = [one.detail for one in alice.notices()] + [one.getMessage() for one in caplog.records]
    assert [one for one in texts if SECRET in one] == []
    assert any("raised UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff" in one for one in texts)
    assert any("returned an Answer" in one for one in texts)


def test_streams_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tolliver")
    nobody = free_address()
    with create_streams(StreamsOptions(plaintext=True)) as streams, pytest.raises(ConnectionLost, match="refused"):
        streams.connect(nobody, timeout=30.0)
    [record] = [record for record in caplog.records if hasattr(record, "cause")]
    assert record.name == "tolliver.dial"
    assert fields_of(record) == {"remote": nobody, "cause": "refused"}


# The command line.


def test_a_line_of_json_for_each_record() -> None:
    record = logging.makeLogRecord({"name": "tolliver.dial", "levelname": "WARNING", "msg": "x %s", "args": ("y",)})
    record.peer, record.created = "p", 0.0
    assert json.loads(words.as_json(record)) == {
        "time": "1970-01-01T00:00:00+00:00",
        "level": "warning",
        "logger": "tolliver.dial",
        "text": "x y",
        "peer": "p",
    }
    try:
        raise ValueError("what happened")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: what happened" in json.loads(words.as_json(record))["traceback"]
    assert "\n" not in words.as_json(record)


def test_standard_error_is_json_all_of_it(tmp_path: Path) -> None:
    nobody = free_address()
    result = tolliver(
        *("--log-json", "--log-level", "info", "send", "c", "k", SECRET, "--connect", nobody),
        *("--plaintext", "--database", tmp_path / "a.db", "--timeout", 0.2),
    )
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert {one["logger"] for one in told} == {"tolliver.cli", "tolliver.dial"}
    [failed] = [one for one in told if one.get("kind") == "dial_failed"]
    assert (failed["remote"], failed["cause"], failed["level"]) == (nobody, "refused", "warning")
    assert SECRET not in result.stderr
    failure = tolliver("--log-json", "send", "c", "k", "x", "--connect", nobody)
    assert failure.exit_code == 1
    assert json.loads(failure.stderr)["level"] == "error"
    assert tolliver("send", "c", "k", "x", "--connect", nobody).stderr.startswith("tolliver: ")
    assert logging.getLogger("tolliver").level == logging.NOTSET


def test_levels(tmp_path: Path) -> None:
    nobody = free_address()
    place = ("--plaintext", "--database", tmp_path / "a.db")
    send = ("send", "c", "k", "x", "--connect", nobody, *place, "--timeout", 0.1)
    assert "dial_failed" in tolliver(*send).stderr
    assert "dial_failed" not in tolliver("--log-level", "error", *send).stderr
    with listener(tmp_path / "out", ("--plaintext", "--database", tmp_path / "b.db"), "--listen", "127.0.0.1:0") as bob:
        send = (*send[:5], bob.address, *send[6:-1], 30)
        assert " is up, version 1" in tolliver("--log-level", "info", *send).stderr
        assert " is up, version 1" not in tolliver(*send).stderr

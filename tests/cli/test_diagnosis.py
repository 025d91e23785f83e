"""Diagnosis without I/O: facts that no test can bring about everywhere, and the edges of the others."""

from __future__ import annotations

import errno
import socket
import time
from uuid import UUID

import pytest
from tolliver._cli import diagnosis
from tolliver._cli.causes import CAUSES, Finding, Grade, no_name, unreached
from tolliver._cli.diagnosis import Papers
from tolliver._cli.endpoints import split, time_in
from tolliver._options.instance import Remote

from scripts.draw.causes import rows
from tolliver_proto import ConnectionLost
from tolliver_proto.node import DialCause

HERE = Remote("alice.example")
NOW = 1_800_000_000.0
DAY = 86400.0


def graded(finding: Finding) -> tuple[Grade, str | None]:
    assert bool(finding.remedy) == (finding.grade is not Grade.OK)
    return finding.grade, finding.cause


def papers(
    begins: float = -DAY, ends: float = 100 * DAY, hosts: tuple[str, ...] = ("alice.example",), *uuids: UUID
) -> Papers:
    return Papers("alice", "ca", NOW + begins, NOW + ends, frozenset(uuids), frozenset(), hosts)


def test_the_reference_has_every_cause_in_words() -> None:
    table = [*rows()][2:]
    assert {line.split("`")[1] for line in table} == CAUSES
    assert [line for line in table if "{" in line or line.count(" | ") != 4] == []


@pytest.mark.parametrize(
    ("host", "names", "named"),
    [
        ("alice.example", ["ALICE.example"], True),
        ("alice.example.", ["alice.example"], True),
        ("alice.example", ["*.example"], True),
        ("a.alice.example", ["*.example"], False),
        ("example", ["*.example", "*."], False),
        ("127.0.0.1", ["127.0.0.1"], True),
        ("127.0.0.1", ["*.0.0.1", "alice.example"], False),
        ("::1", ["0:0:0:0:0:0:0:1"], True),
        ("fe80::1%eth0", ["fe80::1"], True),
        ("alice.example", [], False),
    ],
)
def test_names(host: str, names: list[str], named: bool) -> None:
    assert diagnosis.is_named(host, names) is named


def test_names_that_are_not_found() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    for finding in (no_name("alice.example", error), no_name("alice.example", TimeoutError())):
        assert graded(finding) == (Grade.FAIL, "name")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), "refused"),
        (TimeoutError(), "no_answer"),
        (OSError(errno.ETIMEDOUT, ""), "no_answer"),
        (OSError(errno.EHOSTUNREACH, ""), "unreachable"),
        (OSError(errno.ENETUNREACH, ""), "unreachable"),
        (ConnectionResetError(errno.ECONNRESET, ""), "closed"),
        (OSError(errno.EMFILE, ""), "unreachable"),
    ],
)
def test_ways_that_lead_nowhere(error: OSError, cause: str) -> None:
    assert graded(unreached("there", error, 5.0)) == (Grade.FAIL, cause)
    assert graded(unreached("there", error, 5.0, Grade.WARN)) == (Grade.WARN, cause)


def test_ends_of_certificates() -> None:
    for begins, ends, ours, theirs in (
        (-DAY, 31 * DAY, None, None),
        (-DAY, 29 * DAY, "ours_expires", "theirs_expires"),
        (-DAY, -1.0, "ours_expired", "theirs_expired"),
        (1.0, DAY, "clock", "clock"),
    ):
        shown = papers(begins, ends)
        assert [one.cause for one in diagnosis.our_certificate(shown, "bob.pem", NOW)] == [ours]
        assert [one.cause for one in diagnosis.their_certificate(shown, HERE, NOW)] == [theirs]


def test_a_uuid_of_a_year_that_no_calendar_has() -> None:
    shown = papers(-DAY, 99 * DAY, (), UUID("ffffffff-ffff-7fff-bfff-ffffffffffff"))
    made = [one for one in diagnosis.our_certificate(shown, "bob.pem", NOW) if one.cause == "clock"]
    assert "s after 1970" in made[0].text


def test_all_faults_of_a_certificate_are_told() -> None:
    found = diagnosis.their_certificate(papers(ends=-1.0, hosts=()), HERE, NOW, code=20)
    assert [one.cause for one in found] == ["other_ca", "theirs_expired", "host_name"]


def test_room_on_the_disk() -> None:
    for free, least, grade in (
        (2**20, 0, Grade.FAIL),
        (2**29, 0, Grade.WARN),
        (2**31, 0, Grade.OK),
        (2**31, 2**31 - 1, Grade.WARN),
        (2**31, 2**32, Grade.FAIL),
    ):
        assert diagnosis.disk("here", free, least).grade is grade


def test_clocks_within_what_is_known_of_them() -> None:
    assert diagnosis.clocks("there", NOW + 60.4, NOW, 0.5).grade is Grade.OK
    assert graded(diagnosis.clocks("there", NOW + 61, NOW, 0.5)) == (Grade.WARN, "clock")
    assert graded(diagnosis.clocks("there", NOW - 61, NOW, 0.5)) == (Grade.WARN, "clock")


def test_times_in_answers() -> None:
    head = b"HTTP/1.0 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
    assert time_in(*split(head)) == (784111777.5, 0.5)
    assert time_in(*split(head + b'{"time": 5}')) == (5.0, 0.0)
    for body in (b"[", b"[]", b'{"time": null}', b'{"time": "soon"}', b'{"time": NaN}', b"[" * 100_000):
        assert time_in(*split(head + body)) == (784111777.5, 0.5)
    for answer in (b"", b"SSH-2.0", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nDate: soon\r\n\r\n"):
        with pytest.raises(ValueError, match=r"HTTP|[Dd]ate"):
            time_in(*split(answer))


def test_a_peer_that_hangs_after_tls() -> None:
    assert graded(diagnosis.shaken(HERE, "TLSv1.3", TimeoutError())) == (Grade.WARN, "silent")
    lost = ConnectionLost("TLS broke down", DialCause.TLS)
    assert graded(diagnosis.shaken(HERE, "TLSv1.3", lost)) == (Grade.FAIL, "tls")
    assert diagnosis.shaken(HERE, "TLSv1.3", None).grade is Grade.OK


def test_a_line_of_text_is_one_line_whoever_wrote_it() -> None:
    from tolliver._cli.doctor import as_lines

    shown = papers(ends=-1.0, hosts=("x\ny\x1b[31m",))
    for finding in diagnosis.their_certificate(shown, HERE, time.time()):
        assert all(line.isprintable() for line in as_lines(finding, as_json=False))
        assert len(as_lines(finding, as_json=True)) == 1

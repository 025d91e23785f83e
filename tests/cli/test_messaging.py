"""`tolliver send` and `tolliver listen` between real processes."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from tolliver._cli.send import Batch, Tally, job_of_lines, send
from tolliver.anyio import TLS, InstanceOptions, create_instance

from tests.cli.commands import SECONDS, listener, run_process, tolliver
from tests.cli.conftest import Who
from tests.ports import free_address
from tolliver_proto import Receipt
from tolliver_proto.errors import UndeliveredReason


def objects(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def bodies(lines: list[str]) -> list[bytes]:
    return [base64.b64decode(one["body"]) for one in objects(lines)]


def test_one_message_between_two_processes(who: Who, tmp_path: Path) -> None:
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--count", 1) as alice:
        result = run_process(
            *("send", "greeting", "to\nyou", "hi \x1b[2J", "--json"),
            *("--connect", alice.address, *who("bob", own=True)),
        )
        assert alice.process.wait(SECONDS) == 0
    assert result.exit_code == 0, result.stderr
    sent = json.loads(result.stdout)
    assert sent.pop("seconds") < SECONDS
    assert sent == {
        "messages": 1,
        "connected": 1,
        "stored": 1,
        "sent_unreliably": 0,
        "nobody_wants": 0,
        "deliveries": 1,
        "recipients": {"least": 1, "most": 1},
        "acknowledged": 1,
        "unacknowledged": {},
    }
    (line,) = alice.lines()
    assert line.endswith(r" 'greeting' 'to\nyou' hi \x1b[2J")


def test_what_is_recorded_can_be_decoded_and_sent_again(who: Who, tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    arguments = ("--listen", "127.0.0.1:0", "--count", 2)
    with listener(tmp_path / "out", who("alice"), *arguments) as alice:
        there = ("--connect", alice.address, *who("bob", own=True))
        assert tolliver("send", "c", "k", "once", *there, "--record", recordings).exit_code == 0
        shown = tolliver("decode", recordings, "--json", "--channel", "c", "--direction", "out")
        assert bodies(shown.stdout.splitlines()) == [b"once"]
        assert tolliver("replay", recordings, *there).exit_code == 0
        assert alice.process.wait(SECONDS) == 0
    assert [line.split()[-1] for line in alice.lines()] == ["once", "once"]


def test_files_of_lines_reliable_and_not(who: Who, tmp_path: Path) -> None:
    lines = [b"line %d \xc3\xa9" % number for number in range(999)] + [b"\xff\x00 no text"]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))
    send = ("send", "c", "k", "--file", tmp_path / "lines")
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--json", "--channel", "c") as alice:
        to_alice = ("--connect", alice.address, *who("bob", own=True))
        reliable = tolliver(*send, *to_alice)
        assert reliable.exit_code == 0
        assert reliable.stdout.startswith("stored 1,000 of 1,000 messages for 1 recipient, 1,000 acknowledged, in ")
        got = alice.lines()
        assert bodies(got) == lines
        first = objects(got)[0]
        assert set(first) == {"time", "peer", "channel", "key", "message_id", "attempt", "body"}
        assert (first["channel"], first["key"], first["attempt"]) == ("c", "k", 1)

        unreliable = tolliver(*send, *to_alice, "--unreliable", "--trio")
        assert unreliable.exit_code == 0
        assert unreliable.stdout.startswith("sent 1,000 of 1,000 messages for 1 recipient, in ")

        stranger = tolliver("send", "c", "k", "x", *to_alice, "--peer", UUID(int=7), "--timeout", 0.1)
        assert stranger.exit_code == 1
        assert stranger.stdout.startswith("stored 0 of 1 message for 0 recipients")

        nobody = tolliver("send", "another", "k", "x", *to_alice)
        assert nobody.exit_code == 1
        assert nobody.stdout.startswith("stored 0 of 1 message for 0 recipients")
        assert nobody.stderr == "tolliver: 1 peer connected, nothing stored: no peer is subscribed to 'another' 'k'\n"
        assert alice.interrupt() == 0
    got = alice.lines()[1000:]
    assert bodies(got) == lines
    assert {one["message_id"] for one in objects(got)} == {None}


def test_what_nobody_is_there_for_waits_in_the_database(who: Who, tmp_path: Path) -> None:
    """The listener dials here, and the sender gives it time to."""
    address = "127.0.0.1:0"
    with listener(tmp_path / "out", who("alice"), "--listen", address, "--json") as alice:
        assert tolliver("send", "c", "k", "one", "--connect", alice.address, *who("bob", own=True)).exit_code == 0
        assert alice.interrupt() == 0
        address = alice.address
    away = ("--connect", address, *who("bob", own=True), "--timeout", 0.1)
    unseen = tolliver("send", "c", "k", "two", *away)
    assert unseen.exit_code == 1
    assert unseen.stdout.startswith("stored 1 of 1 message for 1 recipient, 0 acknowledged")
    assert "no acknowledgement within 0.1 s" in unseen.stderr
    assert ", not connected, has not acknowledged 1 message\n" in unseen.stderr
    stored = tolliver("send", "c", "k", "three", *away, "--no-wait")
    assert stored.exit_code == 0
    assert stored.stdout.startswith("stored 1 of 1 message for 1 recipient, in ")
    assert "0 peers connected within 0.1 s" in stored.stderr
    with listener(tmp_path / "again", who("alice"), "--listen", address, "--json", "--count", 3) as alice:
        last = tolliver("send", "c", "k", "four", "--connect", address, *who("bob", own=True))
        assert (last.exit_code, alice.process.wait(SECONDS)) == (0, 0)
    assert bodies(alice.lines()) == [b"two", b"three", b"four"]


def test_the_sender_listens_and_waits_for_a_subscriber(who: Who, tmp_path: Path) -> None:
    address = free_address()
    with listener(
        tmp_path / "out", who("alice"), "--connect", address, "--json", "--count", 2, "--trio", "--channel", "c"
    ) as alice:
        result = tolliver("send", "c", "k", "-", "--listen", address, *who("bob", own=True), stdin=b"one\n\x00two")
        assert (result.exit_code, alice.process.wait(SECONDS)) == (0, 0), result.stderr
    assert bodies(alice.lines()) == [b"one", b"\x00two"]


def test_subscriptions_of_earlier_runs_stay_until_only(who: Who, tmp_path: Path) -> None:
    directory = Path(str(who("alice")[1]))
    tls = TLS(directory / "alice.pem", directory / "alice.key", directory / "ca.pem")

    async def subscribe() -> None:
        async with create_instance(InstanceOptions(database=directory / "alice.db", tls=tls)) as instance:
            await instance.subscribe("a")

    anyio.run(subscribe)
    for arguments, subscribed in (
        (("--key", "b"), ["'' 'b'", "'a' ''"]),
        (("--channel", "c", "--channel", "d", "--only"), ["'c' ''", "'d' ''"]),
    ):
        with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", *arguments) as alice:
            listed = alice.words.partition("subscribed to ")[2].partition(" (")[0]
            assert sorted(listed.split(", ")) == subscribed
            assert alice.interrupt() == 0


def test_a_message_that_got_its_recipient_late_counts_as_stored() -> None:
    """It was kept for a remote that was just connecting (T-62); the last one was let go for nobody."""
    tally, receipt = Tally(), Receipt(1, 3, [2, 0, 0])
    tally.begin(Batch([("c", "", b"x")] * 3, True))
    tally.add(receipt.counts, True)
    receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, 1)
    tally.settle(receipt)
    assert (tally.stored, tally.unwanted, tally.acknowledged, tally.deliveries) == (2, 1, 2, 3)
    assert tally.recipients == (1, 2)


def test_the_time_of_a_run_ends_before_the_instance_is_closed(tmp_path: Path) -> None:
    options = InstanceOptions(plaintext=True, database=tmp_path / "node.db")
    job = job_of_lines("c", "", b"x", reliable=True, waits=True, timeout=1)
    tally = Tally()
    anyio.run(send, options, job, tally, lambda: None)
    said = tally.summary(job)
    time.sleep(0.02)
    assert tally.summary(job) == said

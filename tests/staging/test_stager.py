"""Receiver of a stage, with real peers over mutual TLS.

Messages that they saw acknowledged stand in it, once.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tolliver.blocking import Instance
from tolliver.staging import (
    StageFolder,
    StageFull,
    StageInUse,
    StageOptions,
    Stager,
    _loop,
    _stager,
    _writer,
)

from tests.adapters.gopeer import TODAY, Forms2026, GoPeer, go_identity
from tests.blocking.nodes import PATIENCE, Nodes, until
from tests.ports import free_address
from tests.staging.disks import small_disk
from tests.staging.stages import staged
from tolliver_proto import (
    Ack,
    ConnectionClosing,
    ConnectionLost,
    Limits,
    Message,
    Receipt,
    Revision,
    Subscription,
    decode,
)
from tolliver_proto.layouts import Dialect
from tolliver_proto.recording import Block, read_blocks


def options(nodes: Nodes, **more: Any) -> StageOptions:
    given = {"directory": nodes.directory / "stage", "listen": "127.0.0.1:0", "subscriptions": [("news", "")], **more}
    return StageOptions(**{"tls": nodes.certs.tls("stager"), **given})


@contextmanager
def sender(nodes: Nodes, stager: Stager, name: str = "bob", **more: Any) -> Iterator[Instance]:
    """Connected."""
    ((_, port),) = stager.addresses
    quick = {"retry_interval": 0.3, "limits": Limits(redial_max=0.5), "listen": None, **more}
    with nodes.open(name, **quick) as instance:
        instance.new_connection(f"127.0.0.1:{port}", timeout=PATIENCE)
        yield instance


def send(instance: Instance, bodies: Sequence[bytes], channel: str = "news", key: str = "k") -> Receipt:
    receipt = instance.send_many([(channel, key, body) for body in bodies])
    assert receipt.deliveries == len(bodies)
    return receipt


def numbered(first: int, last: int, size: int = 0) -> list[bytes]:
    return [b"%d " % number + bytes(size) for number in range(first, last + 1)]


def bodies(directory: Path) -> list[bytes]:
    return [message.body for _, message in staged(directory)]


def test_what_peers_saw_acknowledged_is_staged(nodes: Nodes) -> None:
    seen = nodes.directory / "seen"
    with Stager(options(nodes, record=seen)) as stager:
        with sender(nodes, stager, "bob") as bob, sender(nodes, stager, "carol") as carol:
            receipts = [(bob, send(bob, numbered(1, 500))), (carol, send(carol, numbered(1, 500)))]
            for instance, receipt in receipts:
                instance.wait_acked(receipt, timeout=PATIENCE)
                rows = staged(stager.options.directory)
                mine = [message.body for who, message in rows if who == instance.instance_id]
                assert mine == numbered(1, 500)
        stats = stager.stats()
        assert stats["staged"] == stager.position.frames == 1000
        assert stats["bytes"] == stats["staged_bytes"] == stager.position.pos
        assert (stats["dropped"], stats["unwanted"]) == (0, 0)
        assert stager.held is None
        assert stager.instance_id == nodes.certs.uuid("stager")
        assert stager.folder.head() == stager.position
        stager.check()
    stager.close()
    blocks = [block for path in seen.glob("*.rec") for block in read_blocks([path.read_bytes()])]
    frames = [frame for one in blocks if isinstance(one, Block) for frame in decode(one.payload, Revision.DRAFT_2)]
    assert Counter(type(one) for one in frames if isinstance(one, Ack | Message)) == {Ack: 1000, Message: 1000}
    with Stager(options(nodes)) as stager:
        assert stager.position.frames == 1000
    StageFolder(stager.options.directory).check(stager.position)


def test_what_a_sender_sends_after_it_was_put_back_from_a_copy_is_staged(nodes: Nodes) -> None:
    """T-48: its ids begin where they began before, and are those of other messages."""
    database, copy = nodes.directory / "bob.db", nodes.directory / "copy"
    with Stager(options(nodes)) as stager:
        with sender(nodes, stager, "bob"):
            pass
        shutil.copy(database, copy)
        for first in (1, 1001):
            with sender(nodes, stager, "bob") as bob:
                bob.wait_acked(send(bob, numbered(first, first + 499)), timeout=PATIENCE)
            shutil.copy(copy, database)
        assert sorted(bodies(stager.options.directory)) == sorted([*numbered(1, 500), *numbered(1001, 1500)])


def test_what_comes_under_the_unreliable_id_of_its_sender_is_staged_each_time(nodes: Nodes) -> None:
    """T-42: a stage that took it for an ordinary id would take all of it for copies of the first."""
    bob, mark = nodes.certs.uuid("bob"), 2**32 - 1
    known = options(nodes, dialects={bob: Dialect(unreliable_id=mark)})
    with (
        Stager(known) as stager,
        sender(nodes, stager, "bob", dialect=Dialect(unreliable_id=mark)) as instance,
    ):
        until(lambda: any(peer.subscriptions for peer in instance.peers()))
        for _ in range(3):
            assert instance.unreliable_send("news", "k", b"again") == 1
        instance.wait_acked(send(instance, [b"last"]), timeout=PATIENCE)
        assert bodies(stager.options.directory) == [b"again", b"again", b"again", b"last"]
        assert stager.stats()["duplicates"] == 0


def test_ids_of_a_peer_of_another_layout_are_staged_as_they_came(nodes: Nodes) -> None:
    """One of 64 bits, and the one that means unreliable in the stage's own layout."""
    with GoPeer(TODAY, go_identity(nodes.certs, "gostaged"), forms=Forms2026()) as go:
        known = options(nodes, dialects={go.instance_id: Dialect(revision=Revision.GO_2026)})
        with Stager(known) as stager:
            go.dial(stager.addresses[0][1])
            until(lambda: go.table)
            for number in (2**31 - 1, 2**40, 7):
                go._ids = itertools.count(number)
                go.send("news", "k", b"%d" % number)
            until(lambda: len(go.acks) == 3)
            assert [(one.message_id, one.body) for _, one in staged(stager.options.directory)] == [
                (number, b"%d" % number) for number in (2**31 - 1, 2**40, 7)
            ]


def test_it_dials_too(nodes: Nodes) -> None:
    with (
        nodes.open("bob") as bob,
        Stager(options(nodes, listen=None, remotes=[f"127.0.0.1:{bob.port}"])) as stager,
    ):
        assert not stager.addresses
        until(lambda: any(peer.subscriptions for peer in bob.peers()))
        bob.wait_acked(send(bob, [b"1"]), timeout=PATIENCE)
        assert bodies(stager.options.directory) == [b"1"]


def test_only_what_is_asked_for_now_is_subscribed_to(nodes: Nodes) -> None:
    with Stager(options(nodes, subscriptions=[("news", ""), ("old", "")])):
        pass
    with Stager(options(nodes, subscriptions=[("news", "cpu*"), ("news", "mem"), ("all", "*")])) as stager:
        with sender(nodes, stager) as bob:
            (peer,) = bob.peers()
            assert set(peer.subscriptions) == {
                Subscription("news", ""),
                Subscription("news", "mem"),
                Subscription("all", ""),
            }
            for channel, key in [("news", "cpu1"), ("news", "disk"), ("news", "mem"), ("news", "mem2"), ("all", "x")]:
                bob.wait_acked(send(bob, [key.encode()], channel, key), timeout=PATIENCE)
            assert not bob.send("old", "k", b"").recipients
        assert bodies(stager.options.directory) == [b"cpu1", b"mem", b"x"]
        assert stager.stats()["unwanted"] == 2


def test_the_names_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stager, "_NAMES", 3)
    wanted = _stager._Wanted([("", "a*")])
    for number in range(10):
        assert wanted("c", f"a{number}")
        assert not wanted("c", f"b{number}")
        assert len(wanted._known) <= 3


@pytest.mark.parametrize(("unreliable", "kept"), [("keep", [b"1", b"2", b"3"]), ("drop", [b"3"])])
def test_unreliable_messages(nodes: Nodes, unreliable: str, kept: list[bytes]) -> None:
    with Stager(options(nodes, unreliable=unreliable)) as stager, sender(nodes, stager) as bob:
        for body in (b"1", b"2"):
            assert bob.unreliable_send("news", "k", body) == 1
        bob.wait_acked(send(bob, [b"3"]), timeout=PATIENCE)
        until(lambda: sum(stager.stats()[name] for name in ("staged", "dropped")) == 3)
        assert sorted(bodies(stager.options.directory)) == kept
        assert stager.stats()["dropped"] == 3 - len(kept)


def test_at_its_bound_the_stage_takes_no_more_and_the_peers_keep_it(nodes: Nodes) -> None:
    limits = Limits(inbox_messages=10)
    with Stager(options(nodes, max_staged_bytes=40_000, limits=limits)) as stager, sender(nodes, stager) as bob:
        receipt = send(bob, numbered(1, 200, 1000))
        until(lambda: stager.held is not None)
        assert "readers must delete" in str(stager.held)
        full = stager.position
        assert 40_000 <= stager.stats()["staged_bytes"] < 60_000
        assert bob.stats()["pending"] >= 200 - full.frames
        read: list[bytes] = []
        at = stager.folder.first()
        while len(read) < 200:
            until(lambda: stager.position > at)  # noqa: B023  # called at once
            head = stager.folder.head()
            assert head is not None
            read += [message.body for _, message in staged(stager.options.directory, at, head)]
            at = head
            stager.folder.delete_before(at)
        bob.wait_acked(receipt, timeout=PATIENCE)
        assert read == numbered(1, 200, 1000)
        until(lambda: stager.held is None)


def test_a_full_disk_is_waited_for_and_the_peers_keep_what_comes(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_loop, "RETRY", 0.05)
    with (
        small_disk(nodes.directory / "disk", 1024) as enlarge,
        Stager(options(nodes, directory=nodes.directory / "disk" / "stage")) as stager,
        sender(nodes, stager) as bob,
    ):
        receipt = send(bob, numbered(1, 200, 10_000))
        until(lambda: stager.held is not None)
        assert "the disk takes nothing" in str(stager.held)
        with pytest.raises(TimeoutError):
            bob.wait_acked(receipt, timeout=0.1)
        stager.check()
        enlarge()
        bob.wait_acked(receipt, timeout=PATIENCE)
        assert Counter(bodies(stager.options.directory)) == Counter(numbered(1, 200, 10_000))
        until(lambda: stager.held is None)
        assert len([record for record in caplog.records if "the disk takes nothing" in record.message]) == 1


def test_a_disk_that_stays_full_ends_it(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loop, "RETRY", 0.05)
    directory = nodes.directory / "disk" / "stage"
    with (
        small_disk(nodes.directory / "disk", 1024) as enlarge,
        Stager(options(nodes, directory=directory, full_timeout=0.2)) as stager,
        sender(nodes, stager) as bob,
    ):
        receipt = send(bob, numbered(1, 200, 10_000))
        until(lambda: stager.failure is not None)
        with pytest.raises(StageFull, match="the peers keep"):
            stager.check()
        with pytest.raises(TimeoutError):
            bob.wait_acked(receipt, timeout=0.1)
        enlarge()
        ((_, port),) = stager.addresses
        stager.close()
        with Stager(options(nodes, directory=directory, listen=f"127.0.0.1:{port}")):
            bob.wait_acked(receipt, timeout=PATIENCE)
        assert Counter(bodies(directory)) == Counter(numbered(1, 200, 10_000))


def test_it_ends_while_the_disk_is_full(nodes: Nodes) -> None:
    with (
        small_disk(nodes.directory / "disk", 1024),
        Stager(options(nodes, directory=nodes.directory / "disk" / "stage")) as stager,
        sender(nodes, stager) as bob,
    ):
        send(bob, numbered(1, 200, 10_000))
        until(lambda: stager.held is not None)
        stager.close()
        assert bob.stats()["pending"] > 100
        stager.check()


def test_a_copy_is_acknowledged_and_not_staged(nodes: Nodes) -> None:
    """A sender's database is put back to what it was before the acknowledgements: it sends all of it again."""
    database = nodes.directory / "bob.db"
    with Stager(options(nodes)) as stager, sender(nodes, stager):
        pass  # now it knows who subscribes
    with nodes.open("bob", listen=None) as bob:
        send(bob, numbered(1, 50))
    before = database.read_bytes()
    for duplicates in (0, 50):
        database.write_bytes(before)
        with Stager(options(nodes)) as stager, sender(nodes, stager) as bob:
            until(lambda: not bob.stats()["pending"])  # called at once
            assert (stager.stats()["duplicates"], stager.stats()["staged"]) == (duplicates, 50 - duplicates)
    assert bodies(stager.options.directory) == numbered(1, 50)


def test_a_disk_that_hangs_does_not_keep_it_from_ending(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the lock as long: what hangs may still be written."""
    hanging, goes_on = threading.Event(), threading.Event()

    def hang(_fd: int) -> None:
        hanging.set()
        assert goes_on.wait(PATIENCE)

    monkeypatch.setattr(_loop, "_ENDING", 0.05)
    with Stager(options(nodes)) as stager, sender(nodes, stager) as bob:
        monkeypatch.setattr(_writer, "sync_file", hang)
        send(bob, [b"1"])
        assert hanging.wait(PATIENCE)
        stager.close()
        with pytest.raises(StageInUse):
            Stager(options(nodes, lock_timeout=0)).start()
        goes_on.set()
        monkeypatch.undo()  # so the receiver below has its time to end
        assert bob.stats()["pending"] == 1
        assert stager._thread is not None
        stager._thread.join(PATIENCE)
        stager.close()
    with Stager(options(nodes)):
        assert bodies(stager.options.directory) == [b"1"]


def test_an_instance_that_fails_ends_it(nodes: Nodes) -> None:
    with Stager(options(nodes)) as stager:
        assert stager._instance is not None
        stager._instance.close()
        until(lambda: stager.failure is not None)
        with pytest.raises(ConnectionClosing):
            stager.check()


def test_where_it_cannot_start_it_lets_go(nodes: Nodes) -> None:
    with nodes.open("bob") as bob, pytest.raises(ConnectionLost):
        Stager(options(nodes, listen=f"127.0.0.1:{bob.port}")).start()
    with Stager(options(nodes)) as stager:
        with pytest.raises(RuntimeError, match="started once"):
            stager.start()
        with pytest.raises(StageInUse):
            Stager(options(nodes, lock_timeout=0)).start()
    unused = Stager(options(nodes, directory=nodes.directory / "untouched"))
    with pytest.raises(RuntimeError, match="was not started"):
        _ = unused.position
    unused.close()
    assert not (nodes.directory / "untouched").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"listen": None}, "nobody could send anything"),
        ({"tls": None}, "neither of the options tls and plaintext"),
        ({"subscriptions": ()}, "give .channel, key. pairs"),
        ({"subscriptions": "news"}, "give .channel, key. pairs"),
        ({"subscriptions": ["ab"]}, "give .channel, key. pairs"),
        ({"subscriptions": [("a", 1)]}, "give .channel, key. pairs"),
        ({"unreliable": "maybe"}, 'give "keep" or "drop"'),
        ({"limits": Limits(max_body=2**28)}, "a stage takes less than"),
    ],
)
def test_options_that_cannot_work_are_refused(nodes: Nodes, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        options(nodes, **more)


# Processes.


@contextmanager
def receiver(nodes: Nodes, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """It is ready."""
    tls = nodes.certs.tls("stager")
    arguments = [nodes.directory / "stage", address, tls.cert, tls.key, tls.ca]
    command = [sys.executable, "-m", "tests.staging.receiver", *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", process.communicate()
            yield process
        finally:
            process.kill()


def test_killed_again_and_again_every_message_is_staged_once(nodes: Nodes) -> None:
    directory, address = nodes.directory / "stage", free_address()
    sent: list[bytes] = []
    ending = threading.Event()
    with nodes.open("bob", remotes=[address], listen=None, limits=Limits(redial_max=0.5)) as bob:

        def keep_sending() -> None:
            number = 0
            while not ending.wait(0.002):
                if bob.stats()["pending"] < 500:
                    lines = numbered(number, number + 19, 100)
                    if bob.send_many([("news", "k", line) for line in lines]).recipients:
                        sent.extend(lines)
                        number += 20

        thread = threading.Thread(target=keep_sending)
        for life in range(3):
            with receiver(nodes, address):
                if not life:
                    until(lambda: any(peer.subscriptions for peer in bob.peers()))
                    thread.start()
                before = frames(directory)
                until(lambda: frames(directory) > before + 100)  # noqa: B023  # called at once
        ending.set()
        thread.join()
        with receiver(nodes, address) as process:
            until(lambda: not bob.stats()["pending"])
            _, errors = process.communicate(b"\n", timeout=PATIENCE)  # leaves without close
            assert (process.returncode, errors) == (0, b"")
    assert len(sent) > 300
    assert Counter(bodies(directory)) == Counter(sent)


def frames(directory: Path) -> int:
    with suppress(Exception):  # it is not made yet
        head = StageFolder(directory).head()
        return head.frames if head is not None else 0
    return 0

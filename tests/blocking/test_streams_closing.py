"""Reactive Streams on threads: closing, forks, interrupts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.blocking.nodes import PATIENCE, until
from tests.blocking.streams import Blocks, Raw, connected_to, feeds, numbers, opened, pair
from tests.blocking.test_process import needs_fork, run
from tolliver_proto import ConnectionClosing
from tolliver_proto.reactive import ConnectionClosed, Limits

pytestmark = pytest.mark.usefixtures("no_feed_is_left")


def test_closing_does_not_wait_for_a_source_that_blocks(blocks: Blocks) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        with opened() as subscriber:
            with opened(listen="127.0.0.1:0") as publisher:
                publisher.publish("three", blocks)
                subscriber.connect(f"127.0.0.1:{publisher.port}", timeout=PATIENCE)
                subscription = subscriber.subscribe("three")
                taken = [subscription.next(PATIENCE) for _ in range(3)]
                assert blocks.blocked.wait(PATIENCE)
                waiting = pool.submit(subscription.next)
            assert taken == [b"1", b"2", b"3"]
            with pytest.raises(ConnectionClosed):
                waiting.result(PATIENCE)
        assert time.monotonic() - started < publisher._core.options.limits.close_timeout + 1
        assert len(feeds()) == 1
        blocks.go_on.set()
        until(lambda: not feeds())
        assert blocks.ended


def test_closing_waits_for_a_silent_peer_only_so_long(raw: Raw, blocks: Blocks) -> None:
    started = time.monotonic()
    with opened(limits=Limits(close_timeout=0.1)) as streams:
        subscription = connected_to(raw, streams).subscribe("numbers")
        streams.publish("three", blocks)
        raw.machine.subscribe("three", 9)
        raw.read_until(blocks.blocked.is_set)
    assert time.monotonic() - started < PATIENCE / 2
    with pytest.raises(ConnectionClosed):
        subscription.next(PATIENCE)


@pytest.mark.parametrize("way", ["close", "goodbye"])
def test_a_source_may_close_its_own_streams(way: str) -> None:
    """The elements that it has yielded before go out."""
    with pair() as (publisher, subscriber):

        def source(_name: str) -> Iterator[bytes]:
            yield b"x"
            if way == "close":
                publisher.close()
            else:
                publisher.peers()[0].goodbye()
            yield b"y"

        publisher.publish("closes", source)
        subscription = subscriber.subscribe("closes")
        assert subscription.next(PATIENCE) == b"x"
        with pytest.raises(ConnectionClosed):
            subscription.next(PATIENCE)
        until(lambda: not feeds())


def test_a_failure_of_our_own_tells_everybody_who_waits(blocks: Blocks, caplog: pytest.LogCaptureFixture) -> None:
    with pair() as (publisher, subscriber), ThreadPoolExecutor(2) as pool:
        publisher.publish("three", blocks)
        subscriber.publish("numbers", numbers)
        back = publisher.subscribe("numbers", prefetch=1)
        assert back.next(PATIENCE) == b"0"
        subscription = subscriber.subscribe("three")
        assert [subscription.next(PATIENCE) for _ in range(3)] == [b"1", b"2", b"3"]
        waiting: list[Future[Any]] = [pool.submit(subscription.next), pool.submit(list, subscription)]
        subscriber._core._loop.soon(lambda: 1 // 0)
        for one in waiting:
            with pytest.raises(ConnectionClosing, match="have failed"):
                one.result(PATIENCE)
        assert "ZeroDivisionError" in caplog.text
        until(lambda: [thread.name for thread in feeds()] == ["tolliver reads 'three'"])
        with pytest.raises(ConnectionClosing):
            subscriber.subscribe("three")


@needs_fork
def test_a_forked_child_is_told_to_open_its_own(tmp_path: Path) -> None:
    body = """
        from tolliver.blocking import StreamsOptions, create_streams
        pub = create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)).__enter__()
        sub = create_streams(StreamsOptions(plaintext=True)).__enter__()
        endless = pub.publish("endless", lambda name: (b"x" for _ in iter(int, 1)))
        peer = sub.connect(f"127.0.0.1:{pub.port}")
        subscription = sub.subscribe("endless")
        subscription.next(10)
        child = os.fork()
        if not child:
            for call in (
                lambda: sub.connect("127.0.0.1:1"),
                lambda: pub.publish("more", []),
                lambda: endless.close(),
                lambda: sub.subscribe("endless"),
                lambda: peer.subscribe("endless"),
                lambda: peer.goodbye(),
                lambda: sub.peers(),
                lambda: sub.stats(),
                lambda: next(subscription),
                lambda: subscription.next(0),
                lambda: list(subscription.runs()),
                lambda: subscription.request(1),
                lambda: subscription.cancel(),
            ):
                try:
                    call()
                except TolliverError as error:
                    print(error)
            sub.close()
            raise SystemExit(7)
        _, status = os.waitpid(child, 0)
        for _ in range(1000):
            subscription.next(10)
        subscription.cancel()
        print("the parent goes on,", os.waitstatus_to_exitcode(status), len(list(sub.peers())))
    """
    done = run(body, tmp_path)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "the parent goes on, 7 1"
    assert len(said) == 13
    assert all("open another one" in line and "(T-79)" in line for line in said)
    assert done.stderr == ""


def test_a_script_that_forgets_to_close_ends_in_order(tmp_path: Path) -> None:
    body = """
        from tolliver.blocking import StreamsOptions, create_streams
        pub = create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)).__enter__()
        sub = create_streams(StreamsOptions(plaintext=True)).__enter__()
        def blocks(name):
            yield b"x"
            time.sleep(1000)
        pub.publish("blocks", blocks)
        sub.connect(f"127.0.0.1:{pub.port}")
        subscription = sub.subscribe("blocks")
        print(subscription.next(10))
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'x'\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_ctrl_c_in_a_wait_closes_in_order(tmp_path: Path) -> None:
    body = """
        import signal
        from tolliver.blocking import StreamsOptions, create_streams
        with create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as pub:
            pub.publish("endless", lambda name: iter(threading.Event().wait, True))
            try:
                with create_streams(StreamsOptions(plaintext=True)) as sub:
                    sub.connect(f"127.0.0.1:{pub.port}")
                    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                    sub.subscribe("endless").next()
            except KeyboardInterrupt:
                print("interrupted")
            while pub.peers():
                time.sleep(0.01)
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")

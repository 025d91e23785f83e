"""Instances and their process: its end, Ctrl-C, and forks."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.blocking.nodes import PATIENCE

AROUND = """
import os, socket, threading, time
from tolliver_proto import TolliverError
from tolliver.blocking import InstanceOptions, create_instance

def opened(name, **options):
    return create_instance(InstanceOptions(database=name + ".db", listen="127.0.0.1:0", plaintext=True, **options))

def pair():
    right, left = opened("right").__enter__(), opened("left").__enter__()
    right.subscribe("news")
    left.new_connection(f"127.0.0.1:{right.port}")
    return left, right
"""


def program(body: str) -> list[str]:
    return [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", AROUND + textwrap.dedent(body)]


def run(body: str, directory: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(program(body), cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False)
    done.stderr = without_dials(done.stderr)
    return done


def without_dials(log: str) -> str:
    """Without dials that fail: of two that are closed one after the other, the last may dial the first."""
    return "".join(line for line in log.splitlines(keepends=True) if not line.startswith("dial_failed: "))


# The end.


def test_a_script_that_forgets_to_close_ends_in_order(tmp_path: Path) -> None:
    body = """
        left, right = pair()
        right.register_callback("news", "", lambda message: None)
        messages = right.messages("news")
        left.send("news", "", b"x")
        threading.Thread(target=lambda: list(messages), daemon=True).start()
        print("the end")
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
    again = run("left, right = pair(); print(left._core._store.unclean, right._core._store.unclean)", tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "False False\n", "")  # both were closed, not dropped


def test_a_script_that_fails_shows_its_own_error_alone(tmp_path: Path) -> None:
    done = run("left, right = pair()\nraise SystemExit(3)", tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    done = run("left, right = pair()\n1 / 0", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_callback_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    body = """
        left, right = pair()
        running = threading.Event()
        def hangs(message):
            running.set()
            time.sleep(1000)
        right.register_callback("news", "", hangs)
        left.send("news", "", b"x")
        running.wait(10)
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


# Ctrl-C.

WAITS = {
    "send": "left._core.store(lambda: time.sleep(1), lambda *_: None); say(); left.send('news', '', b'x')",
    "dial": "say(); left.new_connection('127.0.0.1:1')",
    "acked": "receipt = left.send('news', '', b'x'); say(); left.wait_acked(receipt)",
    "messages": "messages = left.messages('sport'); say(); next(messages)",
    "next": "messages = left.messages('sport'); say(); messages.next(100)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_in_a_wait_closes_in_order(wait: str, tmp_path: Path) -> None:
    body = f"""
        def say():
            print("waiting", flush=True)
        _, right = pair()
        try:
            with opened("third") as left:
                left.new_connection(f"127.0.0.1:{{right.port}}")
                {wait_lines(WAITS[wait])}
        except KeyboardInterrupt:
            print("interrupted")
        while right.stats()["peers_up"] > 1:
            time.sleep(0.01)
        print(right.notices())
        with opened("third") as left:
            print(left._core._store.unclean)
    """
    with subprocess.Popen(
        program(body), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)  # it may still be on its way there
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, without_dials(err)) == (0, "interrupted\n[]\nFalse\n", "")


def wait_lines(text: str) -> str:
    return ("\n" + " " * 16).join(text.split("; "))


# Forks (T-79).

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


@needs_fork
def test_a_forked_child_is_told_to_open_its_own(tmp_path: Path) -> None:
    body = """
        left, right = pair()
        messages = right.messages("news")
        left.send("news", "", b"x")
        message = messages.next(10)
        child = os.fork()
        if not child:
            for call in (
                lambda: left.send("news", "", b"x"),
                lambda: left.subscribe("news"),
                lambda: left.unreliable_send("news", "", b"x"),
                lambda: left.register_callback("news", "", print),
                lambda: left.messages("news"),
                lambda: left.peers(),
                lambda: left.stats(),
                lambda: left.notices(),
                lambda: next(messages),
                lambda: messages.next(0),
                lambda: messages.close(),
                lambda: message.ack(),
            ):
                try:
                    call()
                except TolliverError as error:
                    print(error)
            left.close()
            raise SystemExit(7)  # its end runs what is registered for it, and does not hang
        _, status = os.waitpid(child, 0)
        message.ack()
        receipt = left.send("news", "", b"y")
        messages.next(10).ack()
        left.wait_acked(receipt, timeout=10)
        print("the parent goes on,", os.waitstatus_to_exitcode(status), left.notices(), right.notices())
    """
    done = run(body, tmp_path)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "the parent goes on, 7 [] []"
    assert len(said) == 12
    assert all("open another one" in line and "(T-79)" in line for line in said)
    assert done.stderr == ""


@needs_fork
def test_forks_while_everybody_is_busy_hang_nobody(tmp_path: Path) -> None:
    """A thread that holds a lock when the process is copied does not exist in the child."""
    body = """
        left, right = pair()
        right.register_callback("news", "", lambda message: None)
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                left.send("news", "", b"x")
                left.stats()
        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads:
            thread.start()
        codes = set()
        for _ in range(10):
            child = os.fork()
            if not child:
                try:
                    left.send("news", "", b"x")
                except TolliverError:
                    left.close()
                    raise SystemExit(5)
            codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        left.wait_acked(left.send("news", "", b"x"), timeout=10)
        print(codes)
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{5}\n", "")


@needs_fork
def test_a_child_that_lives_on_keeps_neither_port_nor_connection(tmp_path: Path) -> None:
    body = """
        left, right = pair()
        reading, writing = os.pipe()
        heard, ready = os.pipe()
        child = os.fork()
        if not child:
            os.close(writing)
            os.write(ready, b"x")
            os.read(reading, 1)  # lives until the parent has seen all this
            os._exit(0)
        os.read(heard, 1)
        right.close()
        while left.stats()["peers_up"]:
            time.sleep(0.01)
        with opened("third"):
            pass
        socket.create_server(right.addresses[0]).close()
        os.close(writing)
        os.waitpid(child, 0)
        print("free")
    """
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "free\n", "")

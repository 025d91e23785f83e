"""Life of an instance: identity, addresses, start and end."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import time
from functools import partial
from typing import Any

import psutil
import pytest

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import Acl, ConnectionClosing, ConnectionLost, IdentityConflict, Limits, NoticeKind, StoreError

from .facade import until
from .nodes import SOMEBODY, Nodes, address, connected, noticed, silent_port

# Its identity.


def test_the_certificate_says_who_it_is(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("left") as node:
        assert node.instance_id == certs.uuid("left")


def test_it_says_what_it_is(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        where = "".join(f", listening on {host}:{port}" for host, port in right.addresses)
        assert right.shown == f"<Instance {right.instance_id} on {right.database}{where}, 1 peer up>"
    assert left.shown == f"<Instance on {left.database}, not open>"


def test_without_a_certificate_the_database_or_the_option_says_it(nodes: Nodes) -> None:
    with nodes.open("new", plaintext=True) as node:
        made_up = node.instance_id
    with nodes.open("new", plaintext=True) as node:
        assert node.instance_id == made_up
    with nodes.open("given", plaintext=True, identity=SOMEBODY) as node:
        assert node.instance_id == SOMEBODY
    with nodes.open("given", plaintext=True) as node:
        assert node.instance_id == SOMEBODY


def test_a_certificate_without_a_uuid_leaves_it_to_the_database(nodes: Nodes) -> None:
    with nodes.open("node", tls=nodes.certs.tls("anonymous"), identity=SOMEBODY) as node:
        assert node.instance_id == SOMEBODY


def test_who_it_is_must_not_be_contradicted(nodes: Nodes) -> None:
    with nodes.open("left"):
        pass
    for name, options in (
        ("option against certificate", {"tls": nodes.certs.tls("left"), "identity": SOMEBODY}),
        ("certificate against database", {"tls": nodes.certs.tls("right"), "database": nodes.directory / "left.db"}),
        ("option against database", {"plaintext": True, "identity": SOMEBODY, "database": nodes.directory / "left.db"}),
    ):
        with pytest.raises(IdentityConflict), nodes.open("any", **options):
            pytest.fail(name)
    assert not (nodes.directory / "any.db").exists(), "nothing was made for an identity that is refused"
    with nodes.open("left"):  # and a refused one has let everything go
        pass


def test_one_instance_at_a_time_uses_a_database(nodes: Nodes) -> None:
    with nodes.open("left") as first:
        with pytest.raises(StoreError, match="in use by another instance"), nodes.open("left"):
            pytest.fail("two on one database (T-79)")
        assert first.peers() == []


def test_the_database_is_private(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        assert os.stat(left.database).st_mode & 0o777 == 0o600


# Where it listens.


def test_it_listens_before_it_is_returned(nodes: Nodes) -> None:
    with nodes.open("left") as node:
        assert node.port
        assert node.addresses == [("127.0.0.1", node.port)]
        socket.create_connection(("127.0.0.1", node.port)).close()
    with nodes.open("left", listen=None) as deaf:
        assert deaf.port is None
        assert deaf.addresses == []


def test_a_host_with_two_addresses_is_listened_to_on_both(nodes: Nodes) -> None:
    with nodes.open("left", listen="localhost:0") as left, nodes.open("right", listen=None) as right:
        for host, port in left.addresses:
            right.new_connection(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        assert connected(right) == 1


def test_a_port_in_use_is_a_clear_error_that_leaves_nothing_behind(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        said = f"cannot listen on 127.0.0.1:{left.port}.*Choose another"
        with pytest.raises(ConnectionLost, match=said) as refused, nodes.open("right", listen=address(left)):
            pytest.fail("two listeners on one port")
        assert refused.value.__suppress_context__  # the frames of the system's error tell nothing more
    with nodes.open("right"):
        pass


@pytest.mark.parametrize("names", [(print, ""), ("c", print), (b"c", "k")])
def test_a_function_in_place_of_a_name_is_told_as_such(names: tuple[Any, Any], nodes: Nodes) -> None:
    with nodes.open("left") as left:
        for call in (left.subscribe, partial(left.send, body=b"")):
            with pytest.raises(TypeError, match="is no text: give a str as channel and key, and a handler as handler="):
                call(*names)


def test_an_address_of_another_machine_is_a_clear_error(nodes: Nodes) -> None:
    with pytest.raises(ConnectionLost, match=r"cannot listen on 192\.0\.2\.1:0.*Choose another"):  # RFC 5737: nobody's
        nodes.open("left", listen="192.0.2.1:0").__enter__()
    with nodes.open("left"):
        pass


# How it ends.


def test_whoever_waits_when_it_closes_is_told(nodes: Nodes) -> None:
    with silent_port() as remote, nodes.open("left") as left:
        dialling = [left.start("new_connection", remote) for _ in range(2)]
        until(lambda: left.stats()["connections"])
        reading = [left.start("admin.dead_letters") for _ in range(5)]
        sending = [left.start("send", "news", "", b"x") for _ in range(5)]
        left.close()
        for one in dialling:
            assert isinstance(one.outcome(), ConnectionClosing)
        for one in reading + sending:
            outcome = one.outcome()
            assert isinstance(outcome, ConnectionClosing) or not isinstance(outcome, Exception)


def test_after_its_end_every_call_says_so(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        receipt = left.send("nobody", "", b"x", to=())
        left.notice(NoticeKind.RELOAD_REFUSED, "the program's own file")
        assert noticed(left, NoticeKind.RELOAD_REFUSED) == ["the program's own file"]
        assert left.stats()["notices_reload_refused"] == 1
    for call in (
        lambda: left.new_connection("127.0.0.1:1"),
        lambda: left.remove_connection("127.0.0.1:1"),
        lambda: left.subscribe("news"),
        lambda: left.unsubscribe("news"),
        lambda: left.send("news", "", b"too late"),
        lambda: left.send_many([("news", "", b"too late")]),
        lambda: left.unreliable_send("news", "", b"too late"),
        lambda: left.register_callback("news", "", print),
        lambda: left.messages("news"),
        lambda: left.message_runs("news"),
        lambda: left.wait_acked(receipt),
        lambda: left.forget_peer(SOMEBODY),
        lambda: left.repin(SOMEBODY),
        lambda: left.retry(SOMEBODY),
        lambda: left.drop_parked(SOMEBODY),
        lambda: left.dead_letters(),
        lambda: left.drop_dead_letters([1]),
        lambda: left.replay([]),
        lambda: left.notice(NoticeKind.RELOAD_REFUSED, "x"),
        lambda: left.set_acl(Acl()),
        lambda: left.reload_tls(),
    ):
        with pytest.raises(ConnectionClosing):
            call()
    assert not left.peers()
    assert [one.kind for one in left.notices()] == [NoticeKind.RELOAD_REFUSED]
    assert left.stats()["peers"] == 0


def test_closing_does_not_wait_for_a_handler_that_hangs(nodes: Nodes) -> None:
    with nodes.open("left") as left, nodes.open("right", limits=Limits(inbox_messages=10)) as right:
        right.subscribe("news", handler=lambda _: nodes.gate())
        left.new_connection(address(right))
        left.send_many([("news", "", bytes(100_000))] * 50)
        until(lambda: right.stats()["received_bytes"] > 1_000_000)  # reading is paused, too
        started = time.monotonic()
        right.close()
        assert time.monotonic() - started < right.options.limits.close_timeout


def test_it_listens_no_more_while_it_closes(nodes: Nodes, certs: Certificates) -> None:
    with (
        nodes.open("right", limits=Limits(close_timeout=0.25)) as right,
        RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw,
    ):
        raw.establish()  # and does not answer the close
        closing = right.start_close()

        def refused() -> int:
            with socket.socket() as late:
                return late.connect_ex(("127.0.0.1", right.port or 0))

        until(refused)
        assert not closing.done
        until(lambda: right.stats()["connections"] <= 1)  # one that was accepted just before is gone by now
        closing.wait()


def test_closing_with_calls_under_way_from_everywhere(nodes: Nodes) -> None:
    """However it falls, each call is answered and the database can be opened again."""
    for number in range(3):
        with nodes.pair() as (left, right, _inbox):
            calls = [left.start("send", "news", "", b"%d" % number) for _ in range(10)]
            calls += [right.start("subscribe", f"{number} {more}") for more in range(5)]
            calls += [left.start("new_connection", address(right)), left.start("unsubscribe", "nothing")]
            calls.append(left.start("admin.forget_peer", right.instance_id))
            ends = [left.start_close(), right.start_close()]
            for one in (*calls, *ends):
                outcome = one.outcome()
                assert isinstance(outcome, ConnectionClosing) or not isinstance(outcome, Exception), one.name


def _left_open() -> tuple[int, set[str], int]:
    files = {file.path for file in psutil.Process().open_files()}
    return psutil.Process().num_fds(), {path for path in files if ".db" in path}, psutil.Process().num_threads()


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are counted as POSIX does")
def test_nothing_is_left_open(nodes: Nodes) -> None:
    def use(times: int) -> None:
        for _ in range(times):
            with nodes.pair() as (left, right, inbox):
                left.wait_acked(left.send("news", "", b"x"))
                inbox.holds(1)
                dialling = left.start("new_connection", "127.0.0.1:1")
                right.messages("news")  # never used nor closed
            assert isinstance(dialling.outcome(), ConnectionClosing)
        gc.collect()

    use(2)  # from here on a loop and its pool of threads have what they keep
    descriptors, databases, threads = _left_open()
    assert databases == set()
    use(4)
    until(lambda: _left_open()[0] <= descriptors, f"{descriptors} descriptors as before, now {_left_open()}")
    assert _left_open()[1] == set()
    until(lambda: _left_open()[2] <= threads + 2, f"{threads} threads as before, now {_left_open()}")


# Processes that get no more threads.


@pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted"])  # on threads, see tests/blocking
@pytest.mark.skipif(sys.platform == "win32", reason="there a thread may have a stack of any size")
def test_without_threads_it_says_so_and_leaves_nothing(nodes: Nodes, kind: str) -> None:
    command = [sys.executable, "-m", "tests.adapters.threadless", kind, str(nodes.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    opening, streams, call, connected, *rest = done.stdout.splitlines()
    for line in (opening, streams, call):
        assert "no further thread" in line
        assert "ulimit -u" in line
    assert (connected, rest) == ("0", ["all goes on", "True"])


# Forks (T-79).


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told_to_open_its_own(nodes: Nodes, kind: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.adapters.fork", kind, str(nodes.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "the parent goes on"
    assert len(said) == 6
    assert all("open another one" in line and "(T-79)" in line for line in said)

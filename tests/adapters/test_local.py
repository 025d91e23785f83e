"""Local programs at every adapter: what they hand over, who they are, and what hostile ones can do."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import anyio
import pytest
from tolliver import local
from tolliver.codecs import Json
from tolliver.derived import derived_identity
from tolliver.local import Client, local_prefix

from tolliver_proto import Acl, Connection, ConnectionLost, Limits, Message, ReservedChannel, Rights, Role, encode
from tolliver_proto.errors import (
    AccessDenied,
    Blocked,
    BodyNotEncoded,
    CannotListen,
    NoResponders,
    NotOpenYet,
    OwnLimitExceeded,
    RequestFailed,
    TooFewRecipients,
)
from tolliver_proto.node import SendState

from .facade import Facade, until
from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import Inbox, Nodes, address

ME = os.getuid()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def at(path: Path, **more: Any) -> dict[str, Any]:
    return {"accept": f"unix:{path}", **more}


@contextmanager
def handed_over(nodes: Nodes, path: Path, **more: Any) -> Iterator[tuple[Facade, Facade, Inbox, Client]]:
    """Two connected instances, of which the left one accepts local programs, and such a program."""
    with nodes.pair(left=at(path, **more)) as (left, right, inbox):
        left.wait_subscribed("news", "")
        with local.connect(path, timeout=20) as me:
            yield left, right, inbox, me


@EACH_ADAPTER
def test_what_a_program_hands_over_is_on_the_disk_and_handled_once(nodes: Nodes, path: Path) -> None:
    with handed_over(nodes, path) as (_, _, inbox, me):
        assert me.send("nobody", "", b"").recipients == 0
        first = me.send("news", "k", b"1", message_key="one")
        assert (first.recipients, first.deliveries, first.repeats) == (1, 1, False)
        again = me.send("news", "k", b"another body", message_key="one")
        assert again.repeats
        assert again.first_seq == first.first_seq
        assert again.state in (SendState.WAITING, SendState.ACKNOWLEDGED)
        many = me.send_many([("news", "k", b"2"), ("nobody", "", b""), ("news", "", b"3")])
        assert many.counts == [1, 0, 1]
        assert me.send_many([]).counts == []
        inbox.holds(3)
        assert inbox.bodies == [b"1", b"2", b"3"]


@EACH_ADAPTER
def test_requests_jobs_and_values_go_the_same_way(nodes: Nodes, path: Path) -> None:
    def respond(request: Any) -> bytes:
        if not request.body:
            raise ValueError("empty")
        return bytes(request.body * 2)

    with handed_over(nodes, path) as (left, right, inbox, me):
        right.respond("double", respond)
        left.wait_responder("double", "")
        reply = me.request("double", "", b"ab", timeout=20)
        assert (reply.body, reply.peer_id) == (b"abab", right.instance_id)
        with pytest.raises(RequestFailed, match="empty") as failed:
            me.request("double", "", b"")
        assert failed.value.peer == right.instance_id
        with pytest.raises(NoResponders):
            me.request("nobody", "", b"", timeout=0.05)
        assert me.put("jobs", "k", b"job", message_key="j").recipients == 1
        assert me.put("jobs", "k", b"job", message_key="j").repeats
        assert left.stats()["pending"] >= 1
        typed = me.channel("news", codec=Json(dict[str, int]))
        assert typed.send("k", {"a": 1}, message_key="t").recipients == 1
        assert typed.send_many([("k", {"a": 2})]).counts == [1]
        assert me.channel("jobs", codec=Json(dict[str, int])).put("k", {"a": 3}).recipients == 1
        with pytest.raises(BodyNotEncoded):
            typed.send("k", {"a": object()})  # type: ignore[dict-item]
        inbox.holds(2)
        assert inbox.bodies[:2] == [b'{"a":1}', b'{"a":2}']


@ONE_KIND
def test_a_program_gets_the_errors_of_the_instance_s_calls(nodes: Nodes, path: Path) -> None:
    with handed_over(nodes, path) as (_, right, _, me):
        for channel in ("tolliver", "tolliver.probe", "tolliver.local", f"tolliver.reply/{right.instance_id}"):
            with pytest.raises(ReservedChannel):
                me.send(channel, "", b"")
            with pytest.raises(ReservedChannel):
                me.put(channel, "", b"")
        with pytest.raises(TooFewRecipients) as few:
            me.send("news", "", b"", require_recipients=2)
        assert (few.value.required, few.value.found) == (2, 1)
        with pytest.raises(TypeError, match="require_recipients"):
            me.send("news", "", b"", require_recipients="2")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="message_key is empty"):
            me.send("news", "", b"", message_key="")
        with pytest.raises(OwnLimitExceeded):
            me.send("news", "k" * 5000, b"")
        with pytest.raises(TypeError, match="bytes"):
            me.send("news", "", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="give \\(channel, key, body\\)"):
            me.send_many([("news", b"")])  # type: ignore[list-item]
        assert me.send("news", "", b"", to=UUID(int=1 << 80)).recipients == 0
        assert me.send("news", "", b"", to=[right.instance_id]).recipients == 1


@ONE_KIND
def test_access_rules_say_where_a_user_s_programs_write(nodes: Nodes, path: Path) -> None:
    rights = Rights(publish=(("news", "*"),))
    acl = Acl(derived={local_prefix(ME): rights})
    with handed_over(nodes, path, acl=acl) as (left, _, _, me):
        assert me.send("news", "", b"").recipients == 1
        with pytest.raises(AccessDenied, match=local_prefix(ME)):
            me.send("other", "", b"")
        with pytest.raises(AccessDenied):
            me.send_many([("news", "", b""), ("other", "", b"")])
        left.set_acl(Acl(derived={local_prefix(ME): Rights.none()}))
        with pytest.raises(AccessDenied):
            me.send("news", "", b"")


@EACH_ADAPTER
def test_threads_share_a_client(nodes: Nodes, path: Path) -> None:
    with handed_over(nodes, path) as (_, _, inbox, me):
        sent: list[int] = []

        def send(number: int) -> None:
            for turn in range(10):
                sent.append(me.send("news", "", b"%d %d" % (number, turn)).recipients)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(20)
        assert sent == [1] * 80
        inbox.holds(80)
        assert len(set(inbox.bodies)) == 80


@ONE_KIND
def test_of_threads_that_wait_for_answers_one_reads(nodes: Nodes, path: Path) -> None:
    """Threads change places at every step here, and answers come in several pieces. Two readers mixed them up."""
    turns = sys.getswitchinterval()
    with handed_over(nodes, path) as (left, right, _, me):
        right.respond("large", lambda request: bytes(100_000))
        left.wait_responder("large", "")
        sizes: list[int] = []

        def ask() -> None:
            for _ in range(130):
                sizes.append(len(me.request("large", "", b"", timeout=20).body))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        sys.setswitchinterval(1e-6)
        try:
            for one in threads:
                one.start()
            for one in threads:
                one.join(40)
        finally:
            sys.setswitchinterval(turns)
        assert sizes == [100_000] * 780


@EACH_ADAPTER
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_share_a_client_that_another_task_opened(nodes: Nodes, path: Path, backend: str) -> None:
    with handed_over(nodes, path) as (_, _, inbox, _):

        async def main() -> None:
            client = local.connect(path)
            opened: list[local.AsyncClient] = []

            async def open_it() -> None:
                opened.append(await client.__aenter__())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(open_it)
            [me] = opened
            sent: list[int] = []

            async def send(number: int) -> None:
                for turn in range(5):
                    receipt = await me.send("news", "", b"%d %d" % (number, turn))
                    sent.append(receipt.recipients)

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(send, number)
            assert sent == [1] * 100
            with anyio.move_on_after(0):
                await me.send("news", "", b"cancelled")
            typed = me.channel("news", codec=Json(int))
            assert (await typed.send("", 1, message_key="typed")).recipients == 1
            assert (await typed.send_many([("", 2)])).counts == [1]
            assert (await me.channel("jobs").put("", b"job")).recipients == 1
            with pytest.raises(NoResponders):
                await me.request("nobody", "", b"", timeout=0.05)
            await client.__aexit__()
            with pytest.raises(NotOpenYet):
                await me.send("news", "", b"")

        anyio.run(main, backend=backend)
        inbox.holds(102)


class Patience:
    """An instance that answers no request, or something silent in its place; a call of a client waits for it."""

    def __init__(self, nodes: Nodes, path: Path, answers: bool) -> None:
        self.path = path
        self.answers = answers
        self.life = ExitStack()
        self.left = self.life.enter_context(nodes.open("left", **at(path)))
        self.silent = self.life.enter_context(socket.socket(socket.AF_UNIX))

    def begin(self) -> None:
        if not self.answers:
            self.life.close()
            self.silent = self.life.enter_context(socket.socket(socket.AF_UNIX))
            self.silent.settimeout(20)
            self.silent.bind(os.fspath(self.path))
            self.silent.listen()

    def is_called(self) -> None:
        if self.answers:
            until(lambda: self.left.stats()["requests_outstanding"] == 1)
        else:
            self.life.enter_context(self.silent.accept()[0])


WAITING: dict[str, Any] = {"timeout": 20, "durable": True, "message_key": "k"}


@ONE_KIND
@pytest.mark.parametrize("answers", [True, False])
def test_a_call_that_waits_on_a_thread_ends_with_its_client(nodes: Nodes, path: Path, answers: bool) -> None:
    patience = Patience(nodes, path, answers)
    ended: list[str] = []

    def call() -> None:
        try:
            me.request("slow", "", b"", **WAITING)
        except ConnectionLost as error:
            ended.append(str(error))

    with patience.life:
        me = local.connect(path, timeout=20).__enter__()
        patience.begin()
        waiting = threading.Thread(target=call)
        waiting.start()
        patience.is_called()
        me.close()
        waiting.join(10)
        assert ended == ["the client was closed"]


@ONE_KIND
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("answers", [True, False])
def test_a_call_that_waits_in_a_task_ends_with_its_client(
    nodes: Nodes, path: Path, answers: bool, backend: str
) -> None:
    patience = Patience(nodes, path, answers)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            me = await local.connect(path, timeout=20).__aenter__()
            patience.begin()

            async def call() -> None:
                with pytest.raises(ConnectionLost, match="the client was closed"):
                    await me.request("slow", "", b"", **WAITING)

            tasks.start_soon(call)
            await anyio.to_thread.run_sync(patience.is_called)
            with anyio.fail_after(10):
                await me.close()

    with patience.life:
        anyio.run(main, backend=backend)


@EACH_ADAPTER
def test_a_client_outlives_its_instance(nodes: Nodes, path: Path) -> None:
    with nodes.open("right") as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        with nodes.open("left", **at(path)) as left:
            left.new_connection(address(right))
            left.wait_subscribed("news", "")
            me = local.connect(path, timeout=20).__enter__()
            assert me.send("news", "", b"1", message_key="1").recipients == 1
        assert not path.exists()
        outcomes: list[Any] = []

        def send() -> None:
            outcomes.append(me.send("news", "", b"2", message_key="2"))
            outcomes.append(me.send("news", "", b"1", message_key="1"))

        waiting = threading.Thread(target=send)
        waiting.start()
        with nodes.open("left", **at(path)) as left, closing(me):
            left.new_connection(address(right))
            waiting.join(20)
            assert [one.recipients for one in outcomes] == [1, 1]
            assert [one.repeats for one in outcomes] == [False, True]
            inbox.holds(2)
        assert {*inbox.bodies} == {b"1", b"2"}  # a copy may come, where an ack was lost with the connection


@ONE_KIND
def test_an_answer_that_is_lost_is_asked_for_again_only_with_a_key(nodes: Nodes, path: Path, tmp_path: Path) -> None:
    """Something between the two ends each connection once the ask has come through."""
    between = tmp_path / "b"
    with handed_over(nodes, path) as (_, _, inbox, _), lossy(between, path) as (cut, _):
        with local.connect(between, timeout=20) as me:
            cut.append(2)
            assert me.send("news", "", b"keyed", message_key="k").repeats
            cut.append(1)
            with pytest.raises(ConnectionLost, match="may have been done, or not"):
                me.send("news", "", b"not keyed")
        inbox.holds(2)
        assert inbox.bodies == [b"keyed", b"not keyed"]


@ONE_KIND
@pytest.mark.parametrize("is_async", [False, True])
def test_an_instance_that_is_killed_in_a_handshake_is_tried_again(
    nodes: Nodes, path: Path, tmp_path: Path, is_async: bool
) -> None:
    """A refusal looks the same: the connection ends without a word. Three in a row are one."""
    between = tmp_path / "b"
    with handed_over(nodes, path) as (_, _, inbox, _), lossy(between, path) as (cut, refused):

        def send() -> None:
            with local.connect(between, timeout=20) as me:
                cut.append(1)
                refused.extend([None] * 2)
                assert me.send("news", "", b"", message_key="k").repeats
                cut.append(1)
                refused.extend([None] * 3)
                with pytest.raises(ConnectionLost, match="before it took this program in"):
                    me.send("news", "", b"", message_key="k")

        async def send_async() -> None:
            async with local.connect(between, timeout=20) as me:
                cut.append(1)
                refused.extend([None] * 2)
                assert (await me.send("news", "", b"", message_key="k")).repeats
                cut.append(1)
                refused.extend([None] * 3)
                with pytest.raises(ConnectionLost, match="before it took this program in"):
                    await me.send("news", "", b"", message_key="k")

        if is_async:
            anyio.run(send_async)
        else:
            send()
        inbox.holds(1)


@contextmanager
def lossy(path: Path, target: Path, answer: bytes = b"receipt") -> Iterator[tuple[list[int], list[None]]]:
    """A socket that passes bytes on to another. It loses so many answers, as the first list says, by ending
    connections, and ends as many connections in their handshake as the second one has entries."""
    cut: list[int] = []
    refused: list[None] = []
    over = threading.Event()

    def pass_on(source: socket.socket, to: socket.socket, *, back: bool) -> None:
        with source, to:
            try:
                while data := source.recv(65536):
                    if back and answer in data and cut and cut[-1]:
                        cut[-1] -= 1
                        break
                    to.sendall(data)
            except OSError:
                pass
            for one in (source, to):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while not over.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if refused:
                refused.pop()
                near.recv(65536)
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(os.fspath(target))
            for ends, back in (((near, far), False), ((far, near), True)):
                pair = [one.dup() for one in ends]
                threading.Thread(target=partial(pass_on, *pair, back=back), daemon=True).start()
            near.close()
            far.close()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        listener.settimeout(0.1)
        thread = threading.Thread(target=_until(over, accept))
        thread.start()
        try:
            yield cut, refused
        finally:
            over.set()
            thread.join(20)


def _until(over: threading.Event, accept: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        while not over.is_set():
            accept()

    return run


@EACH_ADAPTER
def test_jobs_go_on_after_a_restart_though_no_program_puts_one(nodes: Nodes, path: Path) -> None:
    with nodes.open("left", **at(path)), local.connect(path, timeout=20) as me:
        assert me.put("jobs", "k", b"job", message_key="j").recipients == 1
    with nodes.open("right") as right, right.work("jobs") as jobs, nodes.open("left", **at(path)) as left:
        left.new_connection(address(right))
        job = next(jobs)
        assert job.body == b"job"
        job.answer(b"")
        with local.connect(path, timeout=20) as me:
            assert me.put("jobs", "k", b"job", message_key="j").repeats


@EACH_ADAPTER
def test_a_request_that_is_asked_again_while_it_is_outstanding_gets_the_one_answer(nodes: Nodes, path: Path) -> None:
    """A program was killed while it waited, and its next life asks under the same key."""
    with handed_over(nodes, path) as (left, right, _, me):
        with speaking(path) as first:
            head = b'{"verb": "request", "timeout": 20, "durable": true, "message_key": "k"}'
            first.ask(head, Message("slow", "", b"first"))
            until(lambda: left.stats()["requests_outstanding"] == 1)
        answers: list[Any] = []
        again = threading.Thread(
            target=lambda: answers.append(me.request("slow", "", b"again", durable=True, message_key="k", timeout=20))
        )
        again.start()
        assert me.send("news", "", b"").recipients == 1  # so the desk has most likely been asked again
        right.respond("slow", lambda request: bytes(request.body))
        again.join(20)
        assert [one.body for one in answers] == [b"first"]


# Instances among themselves.


@EACH_ADAPTER
@pytest.mark.parametrize("plaintext", [True, False])
def test_instances_of_one_machine_talk_over_a_unix_socket(nodes: Nodes, path: Path, plaintext: bool) -> None:
    way = {"plaintext": True} if plaintext else {}
    with nodes.open("right", listen=f"unix:{path}", **way) as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with nodes.open("left", listen=None, **way) as left:
            assert left.new_connection(f"unix:{path}") == right.instance_id
            left.wait_subscribed("news", "")
            assert left.send("news", "", b"1").recipients == 1
            inbox.holds(1)
            [peer] = left.peers()
            assert peer.address == f"unix:user {ME}"
            [remote] = left.remotes()
            assert str(remote.remote) == f"unix:{path}"
    assert not path.exists()
    with nodes.open("left", listen=None, remotes=[f"unix:{path}"], **way) as left:
        with nodes.open("right", listen=f"unix:{path}", **way):
            until(lambda: left.stats()["peers_up"] == 1)
        assert inbox.bodies == [b"1"]


# The socket's file.


@EACH_ADAPTER
def test_the_socket_is_its_owner_s_and_goes_with_the_instance(nodes: Nodes, path: Path) -> None:
    before = os.umask(0)
    try:
        with nodes.open("left", **at(path)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()
        os.umask(0o077)
        with nodes.open("left", accept=f"unix:{path}?mode=660"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
    finally:
        os.umask(before)


@ONE_KIND
def test_a_stale_socket_is_replaced_and_nothing_else_is(nodes: Nodes, path: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    with pytest.raises(ConnectionLost, match="is gone"), local.connect(path):
        pass
    with nodes.open("left", **at(path)), local.connect(f"unix:{path}") as me:
        with pytest.raises(CannotListen, match="another program listens there"), nodes.open("right", **at(path)):
            pass
        assert me.send("news", "", b"").recipients == 0
        path.unlink()
        other = nodes.open("right", **at(path))
    with other, local.connect(path) as me:  # the first one has not removed a file that was not its own
        assert me.send("news", "", b"").recipients == 0
    path.write_text("mine")
    with pytest.raises(CannotListen, match="no socket"), nodes.open("left", **at(path)):
        pass
    assert path.read_text() == "mine"
    with pytest.raises(CannotListen, match="directory"), nodes.open("left", **at(tmp_path / "missing" / "s")):
        pass
    with pytest.raises(CannotListen, match="at most 107"), nodes.open("left", **at(tmp_path / ("s" * 120))):
        pass


def test_a_client_says_what_is_wrong(path: Path) -> None:
    with pytest.raises(ConnectionLost, match="no such socket"), local.connect(path):
        pass
    with pytest.raises(ValueError, match="at most 107"):
        local.connect("x" * 108)
    with pytest.raises(ValueError, match="timeout"):
        local.connect(path, timeout=0)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(path))
        other.listen()
        with pytest.raises(TimeoutError, match="has not answered"), local.connect(path, timeout=0.1):
            pass


@EACH_ADAPTER
def test_a_forked_child_connects_anew(nodes: Nodes, path: Path) -> None:
    with handed_over(nodes, path) as (_, _, inbox, me):
        assert me.send("news", "", b"parent").recipients == 1
        child = os.fork()
        if not child:
            try:
                os._exit(0 if me.send("news", "", b"child").recipients == 1 else 1)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert me.send("news", "", b"parent again").recipients == 1
        inbox.holds(3)


# Another user.


def said_by_nobody(program: Callable[[], object]) -> str:
    """The result of a program, or the error that it raises, in a process of the user "nobody"."""
    import pwd  # imported late: Windows has none

    nobody = pwd.getpwnam("nobody")
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            said = repr(program())
        except BaseException as error:
            said = repr(error)
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as reading:
        said = reading.read().decode()
    os.waitpid(child, 0)
    return said


@ONE_KIND
@pytest.mark.skipif(ME != 0, reason="only root can begin a process of another user")
def test_another_user_is_refused_unless_the_mode_lets_it_in_and_then_is_who_the_system_says(nodes: Nodes) -> None:
    import pwd  # imported late: Windows has none

    prefix = local_prefix(pwd.getpwnam("nobody").pw_uid)

    def send(channel: str) -> object:
        with local.connect(file, timeout=5) as me:
            return me.send(channel, "", b"from another user").recipients

    with TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o711)  # its file alone decides
        file = Path(directory) / "s"
        with nodes.open("left", **at(file)):
            assert "this user may not connect" in said_by_nobody(lambda: send("news"))
            file.chmod(0o666)  # somebody's mistake: the instance was told 0600
            assert "before it took this program in" in said_by_nobody(lambda: send("news"))
            assert send("news") == 0
        acl = Acl(derived={local_prefix(ME): Rights(), prefix: Rights(publish=(("news", "*"),))})
        with nodes.open("left", accept=f"unix:{file}?mode=666", acl=acl):
            assert said_by_nobody(lambda: send("news")) == "0"
            assert "AccessDenied" in said_by_nobody(lambda: send("other"))
            assert said_by_nobody(lambda: spoken(file, derived_identity(prefix, "x")) != b"") == "True"
            assert said_by_nobody(lambda: spoken(file, derived_identity(local_prefix(ME), "x"))) == "b''"
            assert send("other") == 0


# Hostile programs.


class Speaker:
    """A program that the desk has taken in, and that says what it likes."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(os.fspath(path))
        self.connection = Connection(Role.CLIENT, instance_id=derived_identity(local_prefix(ME), "x"))
        self.sock.sendall(b"".join(self.connection.data_to_send()))
        while not self.connection.live:
            self.hear()
        self._asks = 0
        self._answers: list[bytes] = []

    def hear(self) -> list[Any]:
        """The next events of the wire protocol. Raises ConnectionResetError at the end."""
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionResetError
        self.connection.receive_data(data)
        return [*self.connection.events()]

    def ask_bytes(self, head: bytes, *messages: Message) -> bytes:
        body = len(head).to_bytes(4, "big") + head + b"".join(encode(one) for one in messages)
        self._asks += 1
        self.connection.send(Message("tolliver.local", "", body, self._asks))
        return b"".join(self.connection.data_to_send())

    def ask(self, head: bytes, *messages: Message) -> None:
        self.sock.sendall(self.ask_bytes(head, *messages))

    def answer(self) -> bytes:
        """The body of the next answer."""
        while not self._answers:
            self._answers += [one.body for one in self.hear() if isinstance(one, Message)]
        return self._answers.pop(0)


@contextmanager
def speaking(path: Path) -> Iterator[Speaker]:
    speaker = Speaker(path)
    with speaker.sock:
        yield speaker


@ONE_KIND
def test_rows_that_are_no_rows_are_refused(nodes: Nodes, path: Path) -> None:
    with nodes.open("left", **at(path)) as left, speaking(path) as hostile:
        terms = {"verb": "rows", "instance": str(left.instance_id), "message_keys": ["k"], "times": [None]}
        row = Message("news", "", b"")
        hostile.ask(b'{"verb": "put"}', Message("jobs", "", b""))  # declares the queue
        assert b"receipt" in hostile.answer()
        for change, messages, error in (
            ({"instance": "another"}, [row], b"another_instance"),
            ({"message_keys": []}, [row], b"ValueError"),
            ({"message_keys": [1]}, [row], b"TypeError"),
            ({"times": ["now"]}, [Message("jobs", "", b"")], b"TypeError"),
            ({"released": [["a"]]}, [row], b"nobody subscribes"),
            ({"more": 1}, [row], b"TypeError"),
            ({"message_keys": ["a", "b"], "times": [None] * 2}, [row, Message("other", "", b"")], b"ValueError"),
            ({"message_keys": [], "times": []}, [], b"remembers"),
        ):
            hostile.ask(json.dumps({"released": [], **terms, **change}).encode(), *messages)
            assert error in hostile.answer(), change


@ONE_KIND
def test_one_whose_frames_are_always_cut_but_go_on_is_not_late(nodes: Nodes, path: Path) -> None:
    with nodes.open("left", **at(path, limits=Limits(handshake_timeout=0.3))), speaking(path) as busy:
        rest = b""
        for turn in range(15):  # for longer than the timeout, and the look that the desk takes each second
            data = rest + busy.ask_bytes(b'{"verb": "send"}', Message("news", "", b"x"))
            busy.sock.sendall(data[:-5])
            rest = data[-5:]
            time.sleep(0.1)
            if turn:
                assert b"receipt" in busy.answer()


@ONE_KIND
def test_half_frames_of_others_end_and_not_those_that_come_now(nodes: Nodes, path: Path) -> None:
    half = bytes(15 * 2**20)
    with nodes.open("left", **at(path)) as left, ExitStack() as stack:
        hostile = [stack.enter_context(speaking(path)) for _ in range(6)]
        me = stack.enter_context(local.connect(path, timeout=20))
        for one in hostile:
            with suppress(OSError):  # it was ended
                one.sock.sendall(one.ask_bytes(b'{"verb": "send"}', Message("news", "", half))[:-1])
        for _ in range(5):
            assert me.send_many([("news", "", bytes(2**19))] * 20).counts == [0] * 20
        assert left.stats()["peers"] == 0


@ONE_KIND
def test_above_the_most_programs_the_quietest_makes_room_and_comes_back(nodes: Nodes, path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # the desk takes half of it
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        stack.enter_context(nodes.open("left", **at(path)))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        me = stack.enter_context(local.connect(path, timeout=20))
        busy = stack.enter_context(speaking(path))
        busy.ask(b'{"verb": "request", "timeout": 20}', Message("nobody", "", b""))
        for _ in range(300):
            stack.enter_context(speaking(path))
            assert me.send("news", "", b"").recipients == 0
        idle = stack.enter_context(local.connect(path, timeout=20))
        for _ in range(300):
            stack.enter_context(speaking(path))
        assert idle.send("news", "", b"").recipients == 0
        busy.ask(b'{"verb": "send"}', Message("news", "", b""))
        assert b"receipt" in busy.answer()


@ONE_KIND
def test_requests_that_nobody_answers_leave_room_for_sends(nodes: Nodes, path: Path) -> None:
    head, asked = b'{"verb": "request", "timeout": 1e6}', 15
    with nodes.open("left", **at(path)) as left, local.connect(path, timeout=20) as me:
        for _ in range(6):
            with speaking(path) as hostile:
                for _ in range(asked):
                    hostile.ask(head, Message("nobody", "", bytes(2**20)))
                hostile.ask(b'{"verb": "send"}', Message("news", "", b""))
                while b"receipt" not in hostile.answer():
                    pass
            assert me.send("news", "", b"").recipients == 0
        assert left.stats()["requests_outstanding"] < 32
        with pytest.raises(Blocked, match="requests"):
            me.request("nobody", "", bytes(2**20), timeout=0.1)


def spoken(path: Path, identity: UUID, *messages: Message, subscriptions: Any = ()) -> bytes:
    """The words of an instance to a program that says this in the wire protocol, until the end."""
    connection = Connection(Role.CLIENT, instance_id=identity, subscriptions=subscriptions)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(2)
        sock.connect(os.fspath(path))
        sock.sendall(b"".join(connection.data_to_send()))
        heard = b""
        while not connection.live:
            data = sock.recv(65536)
            heard += data
            if not data:
                return heard
            connection.receive_data(data)
            for _ in connection.events():
                pass
        for message in messages:
            connection.send(message)
        sock.sendall(b"".join(connection.data_to_send()))
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(65536):
            heard += data
    return heard


@ONE_KIND
def test_an_identity_of_another_user_or_one_that_reads_is_turned_away(nodes: Nodes, path: Path) -> None:
    with nodes.open("left", **at(path)) as left, local.connect(path) as me:
        mine = derived_identity(local_prefix(ME), "x")
        assert spoken(path, derived_identity(local_prefix(ME + 1), "x")) == b""
        assert spoken(path, left.instance_id) == b""
        assert spoken(path, mine, subscriptions=[("news", "")]) == b""
        assert spoken(path, mine) != b""
        assert me.send("news", "", b"").recipients == 0


@ONE_KIND
def test_what_is_no_ask_is_answered_or_ends_the_connection(nodes: Nodes, path: Path) -> None:
    mine = derived_identity(local_prefix(ME), "x")
    bad = [
        b"",
        b"\0\0\0\2{}",
        b"\xff" * 9,
        b"\0\0\0\2[]",
        b'\0\0\0\x10{"verb": "stop"}',
        b'\0\0\0\x10{"verb": "send"}x',
    ]
    deep = b"[" * 100_000
    bad.append(len(deep).to_bytes(4, "big") + deep)
    with nodes.open("left", **at(path)) as left, local.connect(path) as me:
        for body in bad:
            heard = spoken(path, mine, Message("tolliver.local", "", body, 1), Message("tolliver.local", "", body))
            assert b"no_ask" in heard
        assert b"ReservedChannel" in spoken(path, mine, Message("news", "", b"", 1))
        terms = b'{"verb": "send", "evil": 1}'
        assert b"no_ask" in spoken(path, mine, Message("tolliver.local", "", b"\0\0\0\x1b" + terms, 1))
        for noise in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(20)
                sock.connect(os.fspath(path))
                sock.sendall(noise)
        assert me.send("news", "", b"").recipients == 0
        assert left.stats()["peers"] == 0


@ONE_KIND
def test_half_a_handshake_and_half_a_frame_end_with_their_time(nodes: Nodes, path: Path) -> None:
    with (
        nodes.open("left", **at(path, limits=Limits(handshake_timeout=0.2))),
        local.connect(path) as me,
        socket.socket(socket.AF_UNIX) as silent,
        socket.socket(socket.AF_UNIX) as slow,
    ):
        for one in (silent, slow):
            one.settimeout(20)
            one.connect(os.fspath(path))
        connection = Connection(Role.CLIENT, instance_id=derived_identity(local_prefix(ME), "x"))
        slow.sendall(b"".join(connection.data_to_send()))
        while not connection.live:
            connection.receive_data(slow.recv(65536))
            for _ in connection.events():
                pass
        connection.send(Message("tolliver.local", "", bytes(1000), 1))
        slow.sendall(b"".join(connection.data_to_send())[:-1])
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""
        assert me.send("news", "", b"").recipients == 0  # idle for longer, and still there


@ONE_KIND
def test_a_flood_that_nobody_reads_is_read_no_further(nodes: Nodes, path: Path) -> None:
    mine = derived_identity(local_prefix(ME), "x")
    connection = Connection(Role.CLIENT, instance_id=mine)
    with nodes.open("left", **at(path)), local.connect(path) as me, socket.socket(socket.AF_UNIX) as flood:
        flood.connect(os.fspath(path))
        flood.sendall(b"".join(connection.data_to_send()))
        while not connection.live:
            connection.receive_data(flood.recv(65536))
            for _ in connection.events():
                pass
        flood.settimeout(1)
        asks = b'\0\0\0\x10{"verb": "none"}'
        written = 0
        with suppress(TimeoutError):
            for number in range(1, 1_000_000):
                connection.send(Message("tolliver.local", "", asks, number))
                written += flood.send(b"".join(connection.data_to_send()))
        assert written < 64 * 2**20
        assert me.send("news", "", b"").recipients == 0

"""An instance as a service, alone and under twistd."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tolliver.twisted import StreamsOptions, StreamsService, TolliverService
from twisted.application.service import MultiService

from tests.certificates import Certificates
from tolliver_proto import ConnectionClosing, ConnectionLost, NoticeKind, StoreError

from .nodes import Nodes
from .reactors import TIMEOUT, Loop

PAGE = Path(__file__).parents[2] / "docs" / "twisted.md"


def test_a_service_opens_and_closes_an_instance_again_and_again(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        parent = MultiService()
        service = TolliverService(nodes.options("left"), loop.reactor)
        service.setServiceParent(parent)
        for _ in range(2):
            early = service.when_open()
            parent.startService()
            instance = await early
            assert [service.instance, await service.when_open()] == [instance, instance]
            assert repr(service) == f"<TolliverService: {instance!r}>"
            await instance.subscribe("news")
            await parent.stopService()
            assert service.instance is None
            assert instance._core.node.idle
            assert repr(service) == "<TolliverService: not open>"

    loop.wait(scenario)


def test_a_service_that_stops_while_it_opens(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        service = TolliverService(nodes.options("left"), loop.reactor)
        service.startService()
        stopped = service.stopService()
        instance = await service.when_open()
        await stopped
        assert service.instance is None
        assert instance._core.node.idle
        async with await nodes.open("left"):
            pass

    loop.wait(scenario)


def test_a_service_that_was_never_started_stops_at_once(loop: Loop, nodes: Nodes) -> None:
    loop.wait(TolliverService(nodes.options("left"), loop.reactor).stopService)


def test_a_service_that_cannot_open_says_so(loop: Loop, nodes: Nodes) -> None:
    """In the log, once, and to whoever waits."""

    async def scenario() -> None:
        async with await nodes.open("left"):
            service = TolliverService(nodes.options("left"), loop.reactor)
            waiting = [service.when_open(), service.when_open()]
            service.startService()
            for one in waiting:
                with pytest.raises(StoreError, match="in use by another instance"):
                    await one
            assert service.instance is None
            await service.stopService()

    loop.wait(scenario)
    [logged] = loop.errors
    assert "in use by another instance" in logged
    loop.errors.clear()


def test_streams_are_a_service_too(loop: Loop) -> None:
    async def scenario() -> None:
        options = StreamsOptions(listen="127.0.0.1:0", plaintext=True)
        service = StreamsService(options, loop.reactor)
        assert [service.streams] == [None]
        service.startService()
        streams = await service.when_open()
        assert service.streams is streams
        again = StreamsService(StreamsOptions(listen=("127.0.0.1", streams.port or 0), plaintext=True), loop.reactor)
        again.startService()
        with pytest.raises(ConnectionLost, match="cannot listen"):
            await again.when_open()
        await again.stopService()
        await service.stopService()
        assert [service.streams] == [None]
        with pytest.raises(ConnectionClosing):
            streams.publish("numbers", [])

    loop.wait(scenario)
    [logged] = loop.errors
    assert "cannot listen" in logged
    loop.errors.clear()


def test_twistd_runs_the_file_of_the_page(loop: Loop, nodes: Nodes, tmp_path: Path, certs: Certificates) -> None:
    """It serves others, closes in order when it is told to end, and Twisted's log holds no error."""
    certs.tls("bob")
    (tmp_path / "certs").symlink_to(certs.directory)
    [tac] = [code for code in re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "Application(" in code]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "readings.tac").write_text(tac.replace("7011", str(port)))
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "-y", "readings.tac"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as twistd:
        try:

            async def scenario() -> None:
                async with await nodes.open("alice") as alice:
                    await alice.new_connection(f"127.0.0.1:{port}", timeout=TIMEOUT / 2)
                    await nodes.until(lambda: alice.peers()[0].subscriptions)
                    await alice.wait_acked(await alice.send("readings", "cpu0", b"17 %"))
                    twistd.send_signal(signal.SIGTERM)
                    await nodes.until(lambda: not alice.stats()["peers_up"])
                    assert {one.kind for one in alice.notices()} <= {NoticeKind.DIAL_FAILED}

            loop.wait(scenario)
            output, _ = twistd.communicate(timeout=TIMEOUT)
        finally:
            twistd.kill()
    assert "cpu0 b'17 %'" in output
    assert "Server Shut Down" in output
    assert "Error" not in output
    assert "Traceback" not in output

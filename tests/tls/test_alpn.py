"""ALPN (R-35): each protocol offers its own name, and asks none."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from tolliver import anyio, twisted
from tolliver._tls.policy import client_context, server_context

from tests.certificates import Certificates
from tests.twisted.reactors import TIMEOUT, running
from tolliver_proto import TolliverError

BOTH = ["tolliver/1", "tolliver-rs/0"]
OURS = {"instance": "tolliver/1", "streams": "tolliver-rs/0"}
Dial = Callable[[str], object]
"""Begins to dial."""


def options(adapter: Any, protocol: str, certs: Certificates, directory: Path) -> Any:
    listening = {"listen": "127.0.0.1:0", "tls": certs.tls("bob")}
    if protocol == "streams":
        return adapter.StreamsOptions(**listening)
    return adapter.InstanceOptions(database=directory / "bob.db", **listening)


def maker(adapter: Any, protocol: str) -> Any:
    return adapter.create_streams if protocol == "streams" else adapter.create_instance


def dialling(endpoint: Any) -> Any:
    return endpoint.new_connection if hasattr(endpoint, "new_connection") else endpoint.connect


@contextmanager
def on_anyio(protocol: str, certs: Certificates, directory: Path) -> Iterator[tuple[int, Dial]]:
    async def dial(endpoint: Any, remote: str) -> None:
        with suppress(TolliverError, TimeoutError):
            await dialling(endpoint)(remote, timeout=TIMEOUT)

    with start_blocking_portal() as portal:
        made = portal.call(maker(anyio, protocol), options(anyio, protocol, certs, directory))
        with portal.wrap_async_context_manager(made) as endpoint:
            yield endpoint.port, lambda remote: portal.start_task_soon(dial, endpoint, remote)


@contextmanager
def on_twisted(protocol: str, certs: Certificates, directory: Path) -> Iterator[tuple[int, Dial]]:
    def dial(endpoint: Any, remote: str) -> None:
        dialling(endpoint)(remote).addErrback(lambda failure: failure.trap(TolliverError))

    with running("epoll") as loop:
        endpoint = loop.wait(maker(twisted, protocol), options(twisted, protocol, certs, directory), loop.reactor)
        yield endpoint.port, lambda remote: loop.call(dial, endpoint, remote)
        loop.wait(endpoint.close)


ADAPTERS: dict[str, Callable[[str, Certificates, Path], AbstractContextManager[tuple[int, Dial]]]] = {
    "anyio": on_anyio,
    "twisted": on_twisted,
}
each = pytest.mark.parametrize(("adapter", "protocol"), [(one, other) for one in ADAPTERS for other in OURS])


@each
def test_who_listens_takes_its_own_name_and_no_other(
    certs: Certificates, tmp_path: Path, adapter: str, protocol: str
) -> None:
    context = client_context(certs.tls("alice"))
    with ADAPTERS[adapter](protocol, certs, tmp_path) as (port, _):
        for offer, taken in ((BOTH, OURS[protocol]), (["h2"], None), ([], None)):
            context.set_alpn_protocols(offer)
            with (
                socket.create_connection(("127.0.0.1", port), TIMEOUT) as sock,
                context.wrap_socket(sock, server_hostname="localhost") as tls,
            ):
                assert tls.selected_alpn_protocol() == taken


@each
def test_who_dials_offers_its_own_name_and_no_other(
    certs: Certificates, tmp_path: Path, adapter: str, protocol: str
) -> None:
    context = server_context(certs.tls("alice"))
    other = next(name for name in BOTH if name != OURS[protocol])
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ADAPTERS[adapter](protocol, certs, tmp_path) as (_, dial),
    ):
        listener.settimeout(TIMEOUT)
        for accepted, taken in ((BOTH, OURS[protocol]), ([other], None)):
            context.set_alpn_protocols(accepted)
            dial(f"localhost:{listener.getsockname()[1]}")
            assert seen(context, listener) == taken


def seen(context: ssl.SSLContext, listener: socket.socket) -> str | None:
    sock, _ = listener.accept()
    sock.settimeout(TIMEOUT)
    with sock, context.wrap_socket(sock, server_side=True) as tls:
        return tls.selected_alpn_protocol()

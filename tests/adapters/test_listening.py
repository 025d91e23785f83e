"""Listening at each address of a host (T-68): all on one port, or nowhere."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import pytest

from tolliver_proto.errors import CannotListen

from .kinds import EACH_ADAPTER
from .nodes import Nodes

ADDRESSES = ("127.0.0.2", "127.0.0.1")


class Neighbour:
    """Another program that has the port of the first address, as soon as the system gave it, at the second address.

    `bound` are the sockets of the first one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.taken: list[int] = []
        self.bound: list[socket.socket] = []
        self._times = times
        self._bind = socket.socket.bind
        self._held = ExitStack()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ADDRESSES]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
        monkeypatch.setattr(socket.socket, "bind", lambda sock, where: self._bound(sock, where))

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(self, *_: object) -> None:
        self._times = 0
        self._held.close()

    def _bound(self, sock: socket.socket, where: Any) -> None:
        self._bind(sock, where)
        if where[0] != ADDRESSES[0]:
            return
        self.bound.append(sock)
        if len(self.taken) < self._times:
            port = sock.getsockname()[1]
            self.taken.append(port)
            self._held.enter_context(socket.create_server((ADDRESSES[1], port)))


@EACH_ADAPTER
def test_a_free_port_is_free_at_each_address(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    with Neighbour(monkeypatch, times=2) as neighbour, nodes.open("left", listen="two.example:0") as left:
        assert left.addresses == [(address, left.port) for address in ADDRESSES]
        assert len(neighbour.taken) == 2
        assert left.port not in neighbour.taken


@EACH_ADAPTER
def test_where_none_is_free_at_each_it_listens_nowhere(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = pytest.raises(CannotListen, match=r"two\.example:0.*Choose another")
    with Neighbour(monkeypatch, times=1000) as neighbour, refused, nodes.open("left", listen="two.example:0"):
        pass
    assert 1 < len(neighbour.taken) < 100
    assert all(sock.fileno() < 0 for sock in neighbour.bound), "they were let go"


@EACH_ADAPTER
def test_a_port_that_is_in_use_at_one_address_is_refused(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((ADDRESSES[1], 0)) as used, Neighbour(monkeypatch, times=0) as neighbour:
        where = f"two.example:{used.getsockname()[1]}"
        with pytest.raises(CannotListen, match=f"{where}.*Choose another"), nodes.open("left", listen=where):
            pass
    assert all(sock.fileno() < 0 for sock in neighbour.bound), "they were let go"

"""Version table (T-60), in both roles and revisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tolliver_proto import (
    Closed,
    Connection,
    Established,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Revision,
    Role,
    Subscription,
    encode,
)
from tolliver_proto.layouts import State

from .drive import ME, OURS, PEER, REVISIONS, connection, feed, request, response, sent, shutting, talk, where

revisions = pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
LOW, HIGH = 3, 8
CLIENTS, SERVERS = (Subscription("a", "b"),), (Subscription("c", ""),)
FINAL = {
    (Revision.DRAFT_1, True): b"\x02\x00",
    (Revision.DRAFT_1, False): b"\x02\x01",
    (Revision.DRAFT_2, True): b"\x02\x01",
    (Revision.DRAFT_2, False): b"\x02\x02",
}


class Row(NamedTuple):
    """A row of the table: who has which version, who can speak the other's, what follows."""

    client: int
    server: int
    server_speaks: bool
    client_speaks: bool
    status: HandshakeStatus
    final: bool | None
    established: int | None


ROWS = [
    *(
        Row(LOW, LOW, server, client, HandshakeStatus.SAME_VERSION, None, LOW)
        for server in (True, False)
        for client in (True, False)
    ),
    *(Row(LOW, HIGH, True, client, HandshakeStatus.NEWER_COMPATIBLE, None, LOW) for client in (True, False)),
    *(Row(LOW, HIGH, False, client, HandshakeStatus.NEWER_INCOMPATIBLE, None, None) for client in (True, False)),
    *(Row(HIGH, LOW, server, True, HandshakeStatus.OLDER, True, LOW) for server in (True, False)),
    *(Row(HIGH, LOW, server, False, HandshakeStatus.OLDER, False, None) for server in (True, False)),
    # The whole range of u64 is legal, 0 too (T-02).
    Row(0, 2**64 - 1, True, False, HandshakeStatus.NEWER_COMPATIBLE, None, 0),
    Row(2**64 - 1, 0, False, True, HandshakeStatus.OLDER, True, 0),
]


def pair(row: Row, revision: Revision, asked: list[tuple[str, int]]) -> tuple[Connection, Connection]:
    def client_speaks(version: int) -> bool:
        asked.append(("client", version))
        return row.client_speaks

    def server_speaks(version: int) -> bool:
        asked.append(("server", version))
        return row.server_speaks

    client = Connection(
        Role.CLIENT,
        instance_id=ME,
        version=row.client,
        subscriptions=CLIENTS,
        revision=revision,
        speaks=client_speaks,
    )
    server = Connection(
        Role.SERVER,
        instance_id=PEER,
        version=row.server,
        subscriptions=SERVERS,
        revision=revision,
        speaks=server_speaks,
    )
    return client, server


@pytest.mark.parametrize("row", ROWS, ids=str)
@revisions
def test_the_table(row: Row, revision: Revision) -> None:
    asked: list[tuple[str, int]] = []
    one, two = talk(*pair(row, revision, asked))
    asking = HandshakeRequest(row.client, ME, CLIENTS)
    listed = () if row.status is HandshakeStatus.NEWER_INCOMPATIBLE else SERVERS
    answer = HandshakeResponse(row.server, PEER, row.status, listed)
    finals = [] if row.final is None else [HandshakeFinal(row.final)]

    # The bytes, each handshake frame a unit of its own (T-69).
    assert one.units == [encode(asking, revision), *([] if row.final is None else [FINAL[revision, row.final]])]
    assert two.units == [encode(answer, revision)]

    # The events.
    if row.established is None:
        one_end, two_end = one.events.pop(), two.events.pop()
        for end, peer_version in ((one_end, row.server), (two_end, row.client)):
            assert isinstance(end, Closed)
            assert isinstance(end.error, HandshakeRejected)
            assert (end.error.status, end.error.peer_version) == (row.status, peer_version)
        assert shutting(one.conn)
        assert shutting(two.conn)
        assert one.events == [answer]
        assert two.events == [asking, *finals]
    else:
        assert one.events == [answer, Established(row.established, PEER, SERVERS, row.status)]
        assert two.events == [asking, *finals, Established(row.established, ME, CLIENTS, row.status)]
        assert one.conn.state is two.conn.state is State.ESTABLISHED

    # `speaks` is asked by the one who decides, once, and never about its own version.
    deciding = []
    if row.client < row.server:
        deciding = [("server", row.client)]
    elif row.client > row.server:
        deciding = [("client", row.server)]
    assert asked == deciding


def test_by_default_no_other_version_is_spoken() -> None:
    for mine, theirs in ((LOW, HIGH), (HIGH, LOW)):
        client = Connection(Role.CLIENT, instance_id=ME, version=mine)
        server = Connection(Role.SERVER, instance_id=PEER, version=theirs)
        for side in talk(client, server):
            assert isinstance(side.closed.error, HandshakeRejected)


@revisions
def test_a_refusing_server_closes_first_and_only_after_its_answer_is_written(revision: Revision) -> None:
    server = connection(Role.SERVER, revision, speaks=lambda _version: False)
    feed(server, request(OURS - 1))
    server.accept()
    assert where(server) is State.CLOSED
    assert not shutting(server)  # the answer is not out yet
    units = server.data_to_send()
    assert shutting(server)
    client = connection(Role.CLIENT, revision, version=OURS - 1)
    assert where(client) is State.AWAITING_RESPONSE
    [answer, closed] = feed(client, *units)
    assert isinstance(answer, HandshakeResponse)
    assert answer.subscriptions == ()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, HandshakeRejected)
    assert client.close_deadline is not None


@revisions
@pytest.mark.parametrize("say_no", [Connection.accept, Connection.reject], ids=["does not speak it", "reject"])
def test_a_refusing_client_closes_first_and_only_after_its_final_is_written(
    revision: Revision, say_no: Callable[[Connection], None]
) -> None:
    client = connection(Role.CLIENT, revision, speaks=lambda _version: False)
    client.data_to_send()
    feed(client, response(HandshakeStatus.OLDER, OURS - 1))
    assert where(client) is State.CONFIRMING
    assert client.next_event() is None
    say_no(client)
    assert where(client) is State.CLOSED
    assert not shutting(client)
    assert client.data_to_send() == [FINAL[revision, False]]
    assert shutting(client)


@revisions
def test_reject_closes_without_a_frame(revision: Revision) -> None:
    """T-67: for other failures there is no code."""
    server = connection(Role.SERVER, revision)
    feed(server, request())
    server.reject()
    assert list(server.events()) == [Closed()]
    assert server.data_to_send() == []
    assert shutting(server)

    client = connection(Role.CLIENT, revision)
    client.data_to_send()
    client.receive_data(encode(response(HandshakeStatus.SAME_VERSION, OURS), revision))
    assert isinstance(client.next_event(), HandshakeResponse)
    client.reject()
    assert list(client.events()) == [Closed()]
    assert client.data_to_send() == []


@revisions
def test_every_final_but_one_is_a_failure(revision: Revision) -> None:
    for code in range(256):
        final = bytes([2, code])
        server = connection(Role.SERVER, revision)
        feed(server, request(OURS + 1))
        server.accept()
        server.data_to_send()
        first, last = feed(server, final)
        compatible = final == FINAL[revision, True]
        assert first == HandshakeFinal(compatible)
        if compatible:
            assert isinstance(last, Established)
        else:
            assert isinstance(last, Closed)
            assert isinstance(last.error, HandshakeRejected)
            assert shutting(server)
        assert sent(server) == b""


def test_mixed_revisions_fail_safe() -> None:
    """C1: `02 01` is failure in draft 1 and success in draft 2; either way nobody talks past the other for long."""
    client = connection(Role.CLIENT, Revision.DRAFT_2, version=OURS + 1)
    server = connection(Role.SERVER, Revision.DRAFT_1)
    one, two = talk(client, server)
    assert isinstance(two.closed.error, HandshakeRejected)
    assert one.closed == Closed()  # it was established, and then the server went away in order

    client = connection(Role.CLIENT, Revision.DRAFT_1, version=OURS + 1, speaks=lambda _version: False)
    server = connection(Role.SERVER, Revision.DRAFT_2)
    one, two = talk(client, server)
    assert isinstance(one.closed.error, HandshakeRejected)
    assert two.closed == Closed()
    assert [type(event) for event in two.events] == [HandshakeRequest, HandshakeFinal, Established, Closed]


def test_the_error_says_what_to_do() -> None:
    assert str(HandshakeRejected(HandshakeStatus.NEWER_INCOMPATIBLE, 9)) == (
        "the peer announces protocol version 9 and one side cannot speak the other's (status 2): upgrade the older "
        "side, or let the newer one's `speaks` accept it"
    )

"""Rulings R-01 to R-35, each with a test that needs it."""

from __future__ import annotations

from importlib import import_module

import pytest

from tolliver_proto import LimitExceeded
from tolliver_proto.reactive import (
    ClientHello,
    Connection,
    Limits,
    OnNext,
    OnNextPacked,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    decode,
    encode,
)
from tolliver_proto.reactive.testing import ConnectionPair

from .drive import Engine

RULINGS = {
    "R-01": "test_decoding.test_a_replaced_table",
    "R-02": "test_vectors.test_both_directions",
    "R-03": "test_roundtrip.test_long_forms_are_read_and_never_written",
    "R-04": "test_roundtrip.test_longs_are_those_of_protobuf",
    "R-05": "test_rulings.test_defaults_are_on_the_wire",
    "R-06": "test_rulings.test_the_version_is_a_varint",
    "R-07": "test_decoding.test_unknown_type",
    "R-08": "test_subscriber.test_signals_after_our_cancel",
    "R-09": "test_subscriber.test_nothing_is_kept_of_streams_that_are_over",
    "R-10": "test_subscriber.test_an_id_that_is_used_again",
    "R-11": "test_rulings.test_both_sides_publish_on_the_same_id",
    "R-12": "test_subscriber.test_cancelled_ids_come_last",
    "R-13": "test_publisher.test_an_id_that_is_active",
    "R-14": "test_publisher.test_a_refusal",
    "R-15": "test_publisher.test_what_comes_for_ids_that_are_over_or_unknown",
    "R-16": "test_publisher.test_a_request_of_nothing",
    "R-17": "test_publisher.test_without_bound",
    "R-18": "test_subscriber.test_more_elements_than_demand",
    "R-19": "test_subscriber.test_what_ends_the_connection",
    "R-20": "test_decoding.test_a_limit_is_exact",
    "R-21": "test_decoding.test_packed_without_an_element_size",
    "R-22": "test_subscriber.test_an_empty_pack",
    "R-23": "test_rulings.test_packed_elements_are_bounded_and_counted",
    "R-24": "test_publisher.test_an_element_of_the_wrong_size",
    "R-25": "test_connection.test_a_first_frame_that_is_no_hello",
    "R-26": "test_connection.test_another_version",
    "R-27": "test_connection.test_an_extension_that_both_sides_have",
    "R-28": "test_connection.test_a_goodbye_that_is_not_answered",
    "R-29": "test_connection.test_our_goodbye",
    "R-30": "test_connection.test_the_end_without_a_goodbye",
    "R-31": "test_connection.test_nothing_is_resumed",
    "R-32": "test_connection.test_water_marks",
    "R-33": "test_rulings.test_an_element_of_the_limit_is_one_frame",
    "R-34": "test_publisher.test_error_texts_are_cut_on_a_character",
    "R-35": "test_connection.test_transport_mapping",
}


def test_every_ruling_has_a_test() -> None:
    assert [*RULINGS] == [f"R-{number:02}" for number in range(1, 36)]
    for place in RULINGS.values():
        module, name = place.split(".")
        assert callable(getattr(import_module(f"tests.reactive.{module}"), name))


def test_defaults_are_on_the_wire() -> None:
    """R-05."""
    assert encode(Subscribe("p", 1)).hex() == "0301700100"
    assert encode(Subscribed(1)).hex() == "060100"


@pytest.mark.parametrize("version", [0, 1, 2**64 - 1])
def test_the_version_is_a_varint(version: int) -> None:
    """R-06."""
    assert decode(encode(ClientHello(version)) + encode(ServerHello(version)))[1] == ServerHello(version)


def test_both_sides_publish_on_the_same_id() -> None:
    """R-11: two sets of ids; the type of a frame tells whose it is. They end apart, and have sizes of their own."""
    pair = ConnectionPair().run()
    client, server = pair.client.connection, pair.server.connection
    assert client.subscribe("from the server", 3) == server.subscribe("from the client", 3) == 1
    pair.run()
    client.subscribed(1, 4)
    server.subscribed(1)
    client.next(1, b"four")
    server.next(1, b"any")
    pair.run()
    assert pair.client.events[-1] == OnNext(1, b"any")
    assert pair.server.events[-1] == OnNext(1, b"four")
    client.cancel(1)
    pair.run()
    assert not server.next(1, b"late")
    assert client.next_many(1, [b"five", b"six_"]) == 2
    pair.run()
    assert pair.server.events[-1] == OnNextPacked(1, (b"five", b"six_"))


def test_packed_elements_are_bounded_and_counted() -> None:
    """R-23."""
    engine = Engine(Role.CLIENT, limits=Limits(max_packed=8))
    stream = engine.joined(demand=3, size=4)
    pack = OnNextPacked(stream, (b"1234", b"5678"))
    assert engine.feed(pack) == [pack]
    engine.feed(bytes([10, stream, 3]))
    assert isinstance(engine.closed.error, LimitExceeded), "more than is wanted, and longer than is read to be refused"


def test_an_element_of_the_limit_is_one_frame() -> None:
    """R-33: elements are not split."""
    limit = 1000
    conn = Connection(Role.SERVER, limits=Limits(max_element=limit))
    conn.receive_data(encode(ClientHello()) + encode(Subscribe("p", 1, 1)))
    list(conn.events())
    conn.subscribed(1)
    conn.next(1, bytes(limit))
    assert decode(b"".join(conn.data_to_send()))[-1] == OnNext(1, bytes(limit))

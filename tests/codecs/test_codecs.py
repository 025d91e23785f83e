"""Codecs: what goes in comes out, and what does not decode is an error and never a crash."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from cloudevents.core.v1.event import CloudEvent
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver.codecs import (
    CloudEvents,
    Codec,
    Json,
    Msgspec,
    Protobuf,
    ProtobufTypes,
    TypedDelivery,
    decoding,
)
from tolliver.codecs._bodies import Opener, encoded, encoded_items

from tolliver_proto import Delivery, Message
from tolliver_proto.errors import BodyNotDecoded, BodyNotEncoded
from tolliver_proto.node import GiveUp, HandleAgain, Verdict

from .kinds import HOSTILE, Place, Reading, Sample, Unit

PEER = UUID("01890000-0000-7000-8000-000000000001")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**40), 10**40)
REALS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | REALS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
READINGS = st.builds(
    Reading,
    st.integers(-(2**63), 2**63),
    REALS,
    st.none() | TEXTS,
    st.sampled_from(Unit),
    st.lists(st.binary(max_size=8), max_size=3),
)
PLACES = st.builds(lambda name, height: Place(name=name, height=height), TEXTS, REALS)
SAMPLES = st.builds(
    Sample, st.datetimes(timezones=st.just(UTC)), st.dictionaries(TEXTS, st.integers(0, 9), max_size=3), st.binary()
)
NAMES = st.text(st.sampled_from("abc/é"), min_size=1)
EVENTS = st.builds(
    lambda names, time, traceparent, data: CloudEvent(
        {**dict(zip(("id", "source", "type"), names, strict=True)), "time": time, "traceparent": traceparent}, data
    ),
    st.tuples(NAMES, NAMES, NAMES),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]),
    st.binary() | st.none() | TEXTS | st.dictionaries(TEXTS, VALUES, max_size=3),
)
EACH: dict[str, tuple[Codec[Any], st.SearchStrategy[Any]]] = {
    "json": (Json(), VALUES),
    "json of a dict": (Json(dict), st.dictionaries(TEXTS, VALUES, max_size=3)),
    "json of a class": (Json(Reading), READINGS),
    "json of a typed dict": (Json(Place), PLACES),
    "json of a list": (Json(list[Reading]), st.lists(READINGS, max_size=2)),
    "json of a union": (Json(int | str), st.integers(-(2**63), 2**63) | TEXTS),
    "msgspec": (Msgspec(Sample), SAMPLES),
    "messagepack": (Msgspec(Sample, "msgpack"), SAMPLES),
    "protobuf": (Protobuf(StringValue), st.builds(StringValue, value=TEXTS)),
    "cloudevents": (CloudEvents(), EVENTS),
}


def same(one: object, other: object) -> bool:
    if isinstance(one, CloudEvent) and isinstance(other, CloudEvent):
        return bool(one.get_attributes() == other.get_attributes() and one.get_data() == other.get_data())
    return one == other and type(one) is type(other)


@pytest.mark.parametrize("name", EACH)
@settings(max_examples=30)
@given(data=st.data())
def test_what_goes_in_comes_out(name: str, data: st.DataObject) -> None:
    codec, values = EACH[name]
    value = data.draw(values)
    body = codec.encode(value)
    assert isinstance(body, bytes)
    assert same(codec.decode(body), value)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_body_is_an_error_that_names_the_message(name: str, hostile: str) -> None:
    """Or it is a value after all, which can be encoded again."""
    codec, _ = EACH[name]
    delivery = Delivery(1, PEER, Message("readings", "cpu0", HOSTILE[hostile], 7))
    try:
        typed = Opener(codec)(delivery)
    except BodyNotDecoded as error:
        refused = error
    else:
        codec.encode(typed.value)
        return
    assert (refused.channel, refused.key, refused.peer) == ("readings", "cpu0", PEER)
    assert f"'readings' 'cpu0' from peer {PEER}" in str(refused)
    assert len(str(refused)) < 600
    assert str(refused).isascii()
    assert refused.__cause__ is not None


@pytest.mark.parametrize("name", EACH)
@settings(max_examples=30)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(name: str, body: bytes) -> None:
    codec, _ = EACH[name]
    try:
        typed = Opener(codec)(Delivery(1, PEER, Message("", "", body, 7)))
    except BodyNotDecoded:
        return
    codec.encode(typed.value)


@pytest.mark.parametrize("name", EACH)
@settings(max_examples=30)
@given(data=st.data())
def test_a_body_that_is_cut_off_is_no_crash(name: str, data: st.DataObject) -> None:
    codec, values = EACH[name]
    body = codec.encode(data.draw(values))
    cut = body[: data.draw(st.integers(0, len(body)))]
    with suppress(BodyNotDecoded):
        Opener(codec)(Delivery(1, PEER, Message("", "", cut, 7)))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Json(), object()),
        (Json(), b"bytes"),
        (Json(), float("nan")),
        (Json(), float("inf")),
        (Json(), "\ud800"),
        (Json(dict), []),
        (Json(list), {}),
        (Json(int), True),
        (Json(float), "1"),
        (Json(bool), 1),
        (Json(None), 0),
        (Json(Reading), Place(name="x", height=1.0)),
        (Json(Reading), Reading(1, float("nan"))),
        (Json(Reading), Reading(1, note="\ud800")),
        (Json(list[Reading]), [object()]),
        (Msgspec(Sample), Reading(1)),
        (Msgspec(Sample, "msgpack"), None),
        (Msgspec(int, "msgpack"), 2**64),
        (Protobuf(StringValue), Timestamp()),
        (Protobuf(StringValue), b""),
        (CloudEvents(), {"id": "1"}),
        (CloudEvents(), CloudEvent({"id": "1", "source": "s", "type": "t"}, {"a": float("nan")})),
        (CloudEvents(), CloudEvent({"id": "1", "source": "s", "type": "t", "datacontenttype": "text/plain"}, {"a": 1})),
    ],
)
def test_a_value_that_does_not_encode_names_the_message(codec: Codec[Any], value: Any) -> None:
    with pytest.raises(BodyNotEncoded, match=r"'readings' 'cpu0' has no body: \w+") as caught:
        encoded(codec, "readings", "cpu0", value)
    assert (caught.value.channel, caught.value.key) == ("readings", "cpu0")
    with pytest.raises(BodyNotEncoded):
        encoded_items(codec, [("readings", "cpu0", value)])


def test_plain_numbers_are_of_their_kind() -> None:
    assert Json(float).encode(3) == b"3"
    assert (Json(float).decode(b"3"), type(Json(float).decode(b"3"))) == (3.0, float)
    assert Json(None).decode(b"null") is None
    with pytest.raises(TypeError, match="a bool, not an int"):
        Json(int).decode(b"true")
    with pytest.raises(TypeError, match="a bool, not a float"):
        Json(float).decode(b"true")


def test_a_null_of_the_value_itself_is_no_nan() -> None:
    assert Json(Reading).decode(Json(Reading).encode(Reading(1, note=None))) == Reading(1)
    assert Json(Reading).encode(Reading(1, note="null")).count(b"null") == 1


# CloudEvents.

EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}


@pytest.mark.parametrize("missing", EVENT)
def test_nothing_is_made_up_for_an_event(missing: str) -> None:
    """The library would give it an id and a time of its own."""
    body = Json().encode({name: value for name, value in EVENT.items() if name != missing})
    with pytest.raises(ValueError, match=f"has no {missing}"):
        CloudEvents().decode(body)
    assert "time" not in CloudEvents().decode(Json().encode(EVENT)).get_attributes()


def test_an_event_carries_what_headers_would() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = CloudEvent({**EVENT, "time": time, "traceparent": traceparent, "datacontenttype": "image/png"}, b"\x89PNG")
    fields = Json(dict).decode(CloudEvents().encode(event))
    assert fields == {
        **EVENT,
        "time": "2026-01-02T03:04:05.678901Z",
        "traceparent": traceparent,
        "datacontenttype": "image/png",
        "data_base64": "iVBORw==",
    }


@pytest.mark.parametrize(
    "field",
    [
        {"specversion": "0.3"},
        {"specversion": ["1.0"]},
        {"id": ""},
        {"id": 1},
        {"time": 5},
        {"time": "noon"},
        {"Extension": "x"},
        {"data_base64": "no base64!"},
        {"data_base64": 5},
        {"data": 1, "data_base64": "iVBORw=="},
    ],
    ids=repr,
)
def test_an_event_that_breaks_the_specification_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"."):
        CloudEvents().decode(Json().encode({**EVENT, **field}))


def test_an_event_is_an_object() -> None:
    with pytest.raises(TypeError, match="an event is an object, not a list"):
        CloudEvents().decode(b"[]")


# Protobuf.


def test_a_message_class_alone_is_a_codec_as_well() -> None:
    body = encoded(StringValue, "c", "k", StringValue(value="x"))
    assert Opener(StringValue)(Delivery(1, PEER, Message("c", "k", body, 1))).value == StringValue(value="x")


def test_required_fields_that_are_missing_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "old.proto").write_text('syntax = "proto2"; message Old { required string name = 1; }')
    codec = ProtobufTypes.of_files([tmp_path / "old.proto"]).codec("Old")
    assert codec.decode(codec.encode(codec.kind(name="x"))).name == "x"
    with pytest.raises(ValueError, match="required fields are missing: name"):
        codec.decode(b"")
    with pytest.raises(BodyNotEncoded, match="name"):
        encoded(codec, "c", "k", codec.kind())


def test_types_come_from_files_and_what_they_import(tmp_path: Path) -> None:
    (tmp_path / "units.proto").write_text('syntax = "proto3"; package acme; enum Unit { PERCENT = 0; }')
    (tmp_path / "readings.proto").write_text(
        'syntax = "proto3"; package acme; import "units.proto"; import "google/protobuf/timestamp.proto";\n'
        "message Reading { Unit unit = 1; google.protobuf.Timestamp at = 2; map<string, Part> parts = 3;\n"
        "  message Part { bytes raw = 1; } }"
    )
    types = ProtobufTypes.of_files([tmp_path / "readings.proto"])
    assert types.names == ["google.protobuf.Timestamp", "acme.Reading", "acme.Reading.Part"]
    codec = types.codec("acme.Reading")
    assert repr(codec) == "Protobuf(acme.Reading)"
    reading = codec.kind(unit=0)
    reading.parts["a"].raw = b"x"
    assert codec.decode(codec.encode(reading)) == reading
    with pytest.raises(ValueError, match=r"no message type 'Reading'.*there are .*acme\.Reading"):
        types.codec("Reading")


def test_files_and_sets_that_are_none_say_why(tmp_path: Path) -> None:
    (tmp_path / "bad.proto").write_text("message {")
    with pytest.raises(ValueError, match=r"bad\.proto:1:9"):
        ProtobufTypes.of_files([tmp_path / "bad.proto"])
    with pytest.raises(ValueError, match="missing"):
        ProtobufTypes.of_files([tmp_path / "missing.proto"])
    with pytest.raises(ValueError, match="no descriptor set"):
        ProtobufTypes(b"\xff")
    imports = FileDescriptorSet(file=[FileDescriptorProto(name="a.proto", dependency=["b.proto"])])
    with pytest.raises(ValueError, match="--include_imports"):
        ProtobufTypes(imports.SerializeToString())


# Codecs that are none, and libraries that are missing.


class Odd:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def encode(self, value: Any) -> Any:
        if self._error:
            raise self._error
        return value

    def decode(self, body: bytes) -> Any:
        return self.encode(body)

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_codec_that_breaks_its_word_is_told_of() -> None:
    with pytest.raises(BodyNotEncoded, match="made str of it, not bytes"):
        encoded(Odd(), "c", "k", "text")
    with pytest.raises(BodyNotEncoded, match="a Odd whose words raise RuntimeError raised a Wordless whose words"):
        encoded(Odd(Wordless()), "c", "k", b"")
    with pytest.raises(BodyNotDecoded, match=r"raised StopIteration$"):
        Opener(Odd(StopIteration()))(Delivery(1, PEER, Message("c", "k", b"", 1)))


def test_an_error_with_a_peers_bytes_is_escaped() -> None:
    with pytest.raises(BodyNotDecoded) as caught:
        Opener(Odd(ValueError("\x1b[31m\n" + "é" * 1000)))(Delivery(1, PEER, Message("c", "k", b"", 1)))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_what_is_no_codec_is_refused() -> None:
    for wrong in (5, "json", Json, int, object()):
        with pytest.raises(TypeError, match="codec is"):
            encoded(wrong, "c", "k", b"")  # type: ignore[arg-type]  # that is the test
        with pytest.raises(TypeError, match="codec is"):
            Opener(wrong)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(TypeError, match="codec is None"):
        Opener(None)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(TypeError, match="no protobuf message class"):
        Protobuf(Reading)
    with pytest.raises(ValueError, match="'json' or 'msgpack'"):
        Msgspec(Reading, "yaml")  # type: ignore[call-overload]  # that is the test
    with pytest.raises(TypeError, match="cannot be called"):
        decoding(Json(), 5)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: Json(Reading), "msgspec", "msgspec"),
        (lambda: Msgspec(Reading), "msgspec", "msgspec"),
        (CloudEvents, "cloudevents", "cloudevents"),
        (lambda: Protobuf(StringValue), "google.protobuf", "protobuf"),
        (lambda: ProtobufTypes(b""), "google.protobuf", "protobuf"),
        (lambda: ProtobufTypes.of_files([]), "grpc_tools", "protoc"),
    ],
)
def test_a_missing_library_names_its_extra(make: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'tolliver-proto\[{extra}\]'"):
        make()
    assert Json(dict).decode(b"{}") == {}, "plain JSON needs none"


# Handlers.


def test_a_decoding_handler_is_named_as_the_programs_own() -> None:
    seen: list[object] = []

    def on_reading(delivery: Any) -> bool:
        seen.append(delivery.value)
        return False

    handler = decoding(Json(Reading), on_reading)
    assert handler.__qualname__ == on_reading.__qualname__
    assert handler(Delivery(1, PEER, Message("c", "k", b'{"percent": 17}', 1))) is False
    assert seen == [Reading(17)]

    class Handler:
        async def __call__(self, delivery: Any) -> None:
            seen.append(delivery.value)

    assert decoding(Json(), Handler()).__name__ == "Handler"


def test_an_async_handler_stays_one() -> None:
    seen: list[object] = []

    async def on_reading(delivery: TypedDelivery[Reading]) -> bool:
        await asyncio.sleep(0)
        seen.append(delivery.value)
        return False

    handler = decoding(Json(Reading), on_reading)
    assert iscoroutinefunction(handler), "an adapter for threads refuses it at once"
    assert asyncio.run(handler(Delivery(1, PEER, Message("c", "k", b'{"percent": 17}', 1)))) is False
    with pytest.raises(BodyNotDecoded):
        asyncio.run(handler(Delivery(1, PEER, Message("c", "k", b"", 1))))
    assert seen == [Reading(17)]


def test_a_typed_delivery_is_the_delivery() -> None:
    delivery = Delivery(1, PEER, Message("c", "k", b"[1]", 7), 3)
    settled: list[tuple[Delivery, Verdict]] = []

    class Settler:
        def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None:
            settled.extend((one, verdict) for one in deliveries)

    delivery.settler = Settler()
    typed = Opener(Json())(delivery)
    assert isinstance(typed, Delivery)
    assert (typed.channel, typed.key, typed.body, typed.peer_id, typed.message_id, typed.attempt) == (
        *("c", "k", b"[1]", PEER, 7),
        3,
    )
    assert repr(typed) == "TypedDelivery('c', 'k', 3 bytes, id=7)"
    typed.ack()
    typed.fail()
    typed.fail(retry_in=2)
    typed.give_up("no use")
    assert settled == [
        (delivery, True),
        (delivery, False),
        (delivery, HandleAgain(2)),
        (delivery, GiveUp("no use")),
    ]


def test_times_keep_their_microseconds() -> None:
    sample = Sample(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1), {})
    assert msgspec.json.decode(Msgspec(Sample).encode(sample))["at"] == "2026-01-01T00:00:00.000001Z"

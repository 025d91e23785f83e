"""Types of values, as a user's type checker sees them: known with a codec, and nothing is new without one.

Nothing runs this file: `make check` reads it, and each `assert_type` is an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from tolliver_transports import anyio, blocking, twisted
from tolliver_transports.codecs import Codec, Json, Msgspec, decoding

from tolliver_proto import Delivery, Receipt


@dataclass
class Reading:
    percent: int


@dataclass
class Total:
    value: int


class Text:
    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, body: bytes) -> str:
        return body.decode()


READINGS = Json(Reading)
assert_type(READINGS, Json[Reading])
assert_type(Json(list[Reading]).decode(b""), list[Reading])
assert_type(Msgspec(Reading, "msgpack").decode(b""), Reading)
NAMED: Codec[str] = Text()
TOTALS = Json(Total)


def on_reading(delivery: anyio.TypedDelivery[Reading]) -> None:
    assert_type(delivery.value.percent, int)


def plain(delivery: Delivery) -> None:
    assert_type(delivery.body, bytes)


def total(request: anyio.TypedRequest[Reading]) -> Total:
    return Total(request.value.percent)


async def total_async(request: anyio.TypedRequest[Reading]) -> Total:
    return Total(request.value.percent)


async def on_loops(instance: anyio.Instance | twisted.Instance) -> None:
    assert_type(await instance.send("c", "k", Reading(1), codec=READINGS), Receipt)
    assert_type(await instance.send("c", "k", b""), Receipt)
    await instance.send_many([("c", "k", Reading(1))], codec=READINGS)
    await instance.send_many([("c", "k", b"")], require_recipients=1)
    instance.unreliable_send("c", "k", "text", codec=NAMED)
    await instance.subscribe("c", "k", plain)
    await instance.subscribe("c", handler=on_reading, codec=READINGS)
    await instance.subscribe("c", handler=lambda delivery: str(delivery.value.percent), codec=READINGS)
    instance.register_callback("c", "", on_reading, codec=READINGS)
    instance.register_callback("c", "", decoding(READINGS, on_reading))
    async for delivery in instance.messages("c", codec=READINGS):
        assert_type(delivery.value, Reading)
        plain(delivery)
    async for text in instance.messages("c", codec=Text()):
        assert_type(text.value, str)
    async for bare in instance.messages("c"):
        assert_type(bare, Delivery)
    async for run in instance.message_runs("c", codec=READINGS):
        assert_type(run[0].value, Reading)
    await instance.subscribe("c", handler=on_reading, codec=READINGS, concurrency=8, ordered_by="key")
    assert_type((await instance.request("c", b"", timeout=1)).body, bytes)
    assert_type((await instance.request("c", Reading(1), codec=READINGS)).value, Reading)
    reply = await instance.request("c", Reading(1), "k", codec=READINGS, reply_codec=TOTALS, durable=True)
    assert_type(reply.value, Total)
    assert_type([one.value for one in await instance.gather("c", "x", codec=NAMED, timeout=1)], list[str])
    instance.respond("c", lambda request: request.body)
    instance.respond("c", lambda request: request.value, codec=READINGS, concurrency=2)
    instance.respond("c", total, codec=READINGS, reply_codec=TOTALS)
    instance.respond("c", total_async, "k", codec=READINGS, reply_codec=TOTALS)
    assert_type(await instance.work_queue("c").put(b"", "k"), Receipt)
    queue = instance.work_queue("c", codec=READINGS, lease=5)
    assert_type(await queue.put(Reading(1), "k"), Receipt)
    await queue.put_many([("k", Reading(1))])
    async for job in instance.work("c", codec=READINGS, concurrency=8):
        assert_type(job.value, Reading)
    async for bare_job in instance.work("c"):
        assert_type(bare_job, Delivery)
    await instance.retain("c", "k", Reading(1), codec=READINGS)
    await instance.retain("c", "k", None, codec=READINGS)
    assert_type([one.value for one in await instance.retained(codec=READINGS)], list[Reading])
    assert_type((await instance.retained())[0].body, bytes)


def on_threads(instance: blocking.Instance) -> None:
    assert_type(instance.send("c", "k", Reading(1), codec=READINGS, timeout=1), Receipt)
    instance.send_many([("c", "k", Reading(1))], codec=READINGS)
    instance.subscribe("c", handler=on_reading, codec=READINGS)
    instance.register_callback("c", "", on_reading, codec=READINGS)
    for delivery in instance.messages("c", codec=READINGS, timeout=1):
        assert_type(delivery.value, Reading)
    for bare in instance.messages("c", timeout=1):
        assert_type(bare, Delivery)
    assert_type(instance.messages("c", codec=READINGS).next(1).value, Reading)
    for run in instance.message_runs("c", codec=READINGS):
        assert_type([one.value for one in run], list[Reading])
    assert_type(instance.request("c", Reading(1), codec=READINGS, reply_codec=TOTALS).value, Total)
    assert_type(instance.gather("c", Reading(1), codec=READINGS)[0].value, Reading)
    instance.respond("c", total, codec=READINGS, reply_codec=TOTALS)
    instance.work_queue("c", codec=READINGS).put(Reading(1), timeout=1)
    for job in instance.work("c", codec=READINGS, timeout=1):
        assert_type(job.value, Reading)
    instance.retain("c", "k", Reading(1), codec=READINGS, timeout=1)
    assert_type([one.value for one in instance.retained(codec=READINGS, timeout=1)], list[Reading])


async def elements(streams: anyio.Streams) -> None:
    streams.publish("readings", [Reading(1)], codec=READINGS)
    async for reading in streams.subscribe("readings", codec=READINGS):
        assert_type(reading, Reading)

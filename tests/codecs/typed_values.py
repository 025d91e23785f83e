"""Types of values, as a user's type checker sees them: known with a codec, and nothing is new without one.

Nothing runs this file: `make check` reads it, and each `assert_type` is an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from tolliver import anyio, blocking, twisted
from tolliver.codecs import Codec, Json, Msgspec, answering, decoding

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
    readings = instance.channel("c", codec=READINGS)
    named = instance.channel("c", codec=NAMED)
    assert_type(await readings.send("k", Reading(1)), Receipt)
    assert_type(await instance.send("c", "k", b""), Receipt)
    assert_type(await instance.channel("c").send("k", b""), Receipt)
    await readings.send_many([("k", Reading(1))])
    await instance.send_many([("c", "k", b"")], require_recipients=1)
    named.unreliable_send("k", "text")
    await instance.subscribe("c", "k", plain)
    await readings.subscribe(handler=on_reading)
    await readings.subscribe(handler=lambda delivery: str(delivery.value.percent))
    readings.register_callback("", on_reading)
    instance.register_callback("c", "", decoding(READINGS, on_reading))
    async for delivery in readings.messages():
        assert_type(delivery.value, Reading)
        plain(delivery)
    async for text in instance.channel("c", codec=Text()).messages():
        assert_type(text.value, str)
    async for raw in instance.channel("c").messages():
        assert_type(raw.value, bytes)
    async for bare in instance.messages("c"):
        assert_type(bare, Delivery)
    async for run in readings.runs():
        assert_type(run[0].value, Reading)
    await readings.subscribe(handler=on_reading, concurrency=8, ordered_by="key")
    assert_type((await instance.request("c", b"", timeout=1)).body, bytes)
    assert_type((await readings.request(Reading(1))).value, Reading)
    sums = instance.channel("c", codec=READINGS, reply_codec=TOTALS)
    reply = await sums.request(Reading(1), "k", durable=True)
    assert_type(reply.value, Total)
    assert_type([one.value for one in await named.gather("x", timeout=1)], list[str])
    instance.respond("c", lambda request: request.body)
    readings.respond(lambda request: request.value, concurrency=2)
    sums.respond(total)
    sums.respond(total_async, "k")
    instance.respond("c", answering(READINGS, total, TOTALS))
    assert_type(await instance.work_queue("c").put(b"", "k"), Receipt)
    queue = readings.queue(lease=5)
    assert_type(await queue.put(Reading(1), "k"), Receipt)
    await queue.put_many([("k", Reading(1))])
    async for job in readings.work(concurrency=8):
        assert_type(job.value, Reading)
    async for bare_job in instance.work("c"):
        assert_type(bare_job, Delivery)
    await readings.retain("k", Reading(1))
    await readings.retain("k", None)
    assert_type([one.value for one in await readings.retained()], list[Reading])
    assert_type((await instance.retained())[0].body, bytes)


def on_threads(instance: blocking.Instance) -> None:
    readings = instance.channel("c", codec=READINGS)
    assert_type(readings.send("k", Reading(1), timeout=1), Receipt)
    readings.send_many([("k", Reading(1))])
    readings.subscribe(handler=on_reading)
    readings.register_callback("", on_reading)
    for delivery in readings.messages(timeout=1):
        assert_type(delivery.value, Reading)
    for bare in instance.messages("c", timeout=1):
        assert_type(bare, Delivery)
    assert_type(readings.messages().next(1).value, Reading)
    for run in readings.runs():
        assert_type([one.value for one in run], list[Reading])
    sums = instance.channel("c", codec=READINGS, reply_codec=TOTALS)
    assert_type(sums.request(Reading(1)).value, Total)
    assert_type(readings.gather(Reading(1))[0].value, Reading)
    sums.respond(total)
    readings.queue().put(Reading(1), timeout=1)
    for job in readings.work(timeout=1):
        assert_type(job.value, Reading)
    readings.retain("k", Reading(1), timeout=1)
    assert_type([one.value for one in readings.retained(timeout=1)], list[Reading])


async def elements(streams: anyio.Streams) -> None:
    readings = streams.channel("readings", codec=READINGS)
    readings.publish([Reading(1)])
    async for reading in readings.subscribe():
        assert_type(reading, Reading)
    async for element in streams.subscribe("readings"):
        assert_type(element, bytes)

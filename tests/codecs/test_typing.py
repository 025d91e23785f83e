"""Types of values, as a user's type checker sees them: known with a codec, and nothing is new without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
from dataclasses import dataclass
from typing import assert_type

from tolliver_proto import Delivery, Receipt
from tolliver_transports import anyio, blocking, twisted
from tolliver_transports.codecs import Codec, Json, Msgspec, decoding


@dataclass
class Reading:
    percent: int


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


def on_reading(delivery: anyio.TypedDelivery[Reading]) -> None:
    assert_type(delivery.value.percent, int)


def plain(delivery: Delivery) -> None:
    assert_type(delivery.body, bytes)


async def on_loops(instance: anyio.Instance | twisted.Instance) -> None:
    assert_type(await instance.send("c", "k", Reading(1), codec=READINGS), Receipt)
    assert_type(await instance.send("c", "k", b""), Receipt)
    await instance.send_many([("c", "k", Reading(1))], codec=READINGS)
    await instance.send_many([("c", "k", b"")], require_recipients=1)
    instance.unreliable_send("c", "k", "text", codec=NAMED)
    await instance.subscribe("c", "k", plain)
    await instance.subscribe("c", handler=on_reading, codec=READINGS)
    await instance.subscribe("c", handler=lambda delivery: print(delivery.value.percent), codec=READINGS)
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


async def elements(streams: anyio.Streams) -> None:
    streams.publish("readings", [Reading(1)], codec=READINGS)
    async for reading in streams.subscribe("readings", codec=READINGS):
        assert_type(reading, Reading)
"""
MISTAKES = """
from tolliver_transports.anyio import Delivery, Instance, TypedDelivery
from tolliver_transports.codecs import Json


def on_text(delivery: TypedDelivery[str]) -> None: ...


async def main(instance: Instance) -> None:
    await instance.send("c", "k", "no bytes")
    await instance.send("c", "k", 5, codec=Json(str))
    await instance.subscribe("c", handler=on_text, codec=Json(dict))
    instance.register_callback("c", "", on_text)
    async for delivery in instance.messages("c"):
        delivery.value
    async for typed in instance.messages("c", codec=Json(str)):
        typed.value.percent
"""


def checked(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "none.ini").write_text("[mypy]\nmypy_path = transports\n")
    (directory / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"--config-file={directory / 'none.ini'}"]
    return subprocess.run(
        [*command, str(directory / "program.py")], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_values_have_their_types(tmp_path: Path) -> None:
    done = checked(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mistakes_are_found(tmp_path: Path) -> None:
    done = checked(MISTAKES, tmp_path)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    calls = [number for number, line in enumerate(MISTAKES.splitlines(), 1) if number > 9 and "async for" not in line]
    assert lines == set(calls), done.stdout

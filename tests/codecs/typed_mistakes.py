"""Mistakes with values that a user's type checker finds.

Nothing runs this file: `make check` reads it, and an error that is expected and does not come is an error.
"""

from __future__ import annotations

from tolliver_transports.anyio import Instance, TypedDelivery, TypedRequest
from tolliver_transports.codecs import Json


def on_text(delivery: TypedDelivery[str]) -> None: ...


def answer(request: TypedRequest[str]) -> int:
    return 0


async def main(instance: Instance) -> None:
    await instance.send("c", "k", "no bytes")  # type: ignore[call-overload]
    await instance.send("c", "k", 5, codec=Json(str))  # type: ignore[misc]
    await instance.subscribe("c", handler=on_text, codec=Json(dict))  # type: ignore[arg-type]
    instance.register_callback("c", "", on_text)  # type: ignore[arg-type]
    async for delivery in instance.messages("c"):
        str(delivery.value)  # type: ignore[attr-defined]
    async for typed in instance.messages("c", codec=Json(str)):
        str(typed.value.percent)  # type: ignore[attr-defined]
    await instance.request("c", "no bytes")  # type: ignore[call-overload]
    await instance.request("c", 5, codec=Json(str))  # type: ignore[misc]
    str((await instance.request("c", "text", codec=Json(str))).value.percent)  # type: ignore[attr-defined]
    instance.respond("c", answer, codec=Json(dict), reply_codec=Json(int))  # type: ignore[arg-type]
    instance.respond("c", answer, codec=Json(str), reply_codec=Json(str))  # type: ignore[arg-type]
    await instance.work_queue("c", codec=Json(str)).put(5)  # type: ignore[arg-type]
    await instance.work_queue("c", codec=Json(str)).put_many(["no pair"])  # type: ignore[list-item]
    await instance.retain("c", "k", 5, codec=Json(str))  # type: ignore[misc]

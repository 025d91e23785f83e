"""Mistakes with values that a user's type checker finds.

Nothing runs this file: `make check` reads it, by mypy and by pyright, and an error that is expected and does not come
is an error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from tolliver.anyio import Instance, TypedDelivery, TypedRequest
from tolliver.codecs import Json


def on_text(delivery: TypedDelivery[str]) -> None: ...


def answer(request: TypedRequest[str]) -> int:
    return 0


async def main(instance: Instance) -> None:
    texts = instance.channel("c", codec=Json(str))
    await instance.send("c", "k", "no bytes")  # type: ignore[arg-type]
    await texts.send("k", 5)  # type: ignore[arg-type]
    await instance.channel("c", codec=Json(dict)).subscribe(handler=on_text)  # type: ignore[arg-type]
    instance.register_callback("c", "", on_text)  # type: ignore[arg-type]
    async for delivery in instance.messages("c"):
        str(delivery.value)  # type: ignore[attr-defined]
    async for typed in texts.messages():
        str(typed.value.percent)  # type: ignore[attr-defined]
    await instance.request("c", "no bytes")  # type: ignore[arg-type]
    await texts.request(5)  # type: ignore[arg-type]
    str((await texts.request("text")).value.percent)  # type: ignore[attr-defined]
    instance.channel("c", codec=Json(dict), reply_codec=Json(int)).respond(answer)  # type: ignore[arg-type]
    instance.channel("c", codec=Json(str), reply_codec=Json(str)).respond(answer)  # type: ignore[arg-type]
    await texts.queue().put(5)  # type: ignore[arg-type]
    await texts.retain("k", 5)  # type: ignore[arg-type]

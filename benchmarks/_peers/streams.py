"""Streams of ours and of rsocket-py: the programs of benchmarks/reactive.py."""

from __future__ import annotations

import asyncio

from benchmarks import reactive
from benchmarks._peers.measuring import Setting


def give(setting: Setting) -> None:
    asyncio.run(reactive.anyio_gives(setting.size, not setting.plaintext, setting.certificates))


def take(setting: Setting) -> None:
    asyncio.run(
        reactive.anyio_takes(
            setting.port, setting.size, setting.window, setting.seconds, not setting.plaintext, setting.certificates
        )
    )


def give_blocking(setting: Setting) -> None:
    reactive.blocking_gives(setting.size)


def take_blocking(setting: Setting) -> None:
    reactive.blocking_takes(setting.port, setting.size, setting.window, setting.seconds)


def give_rsocket(setting: Setting) -> None:
    asyncio.run(reactive.rsocket_gives(setting.size))


def take_rsocket(setting: Setting) -> None:
    asyncio.run(reactive.rsocket_takes(setting.port, setting.size, setting.window, setting.seconds))

"""Two connected instances on one loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .._extras import needed

needed("anyio", "attrs", "anyio")

from attrs import evolve

from ..anyio import Instance, InstanceOptions, create_instance


@asynccontextmanager
async def pair(
    alice: InstanceOptions | None = None, bob: InstanceOptions | None = None
) -> AsyncIterator[tuple[Instance, Instance]]:
    """`async with pair() as (alice, bob):` opens two instances that are connected, and closes both. On asyncio or trio.

    An end without options has its database in memory and speaks plaintext, so neither a file nor a certificate is
    needed. The connection is a socket of this machine: bob listens on a free port of 127.0.0.1, whatever his options
    say. Options of one end with `tls` need such options of the other one, too.

    Raises what entering `create_instance` and `Instance.new_connection` raise.
    """
    in_memory = InstanceOptions(database=":memory:", plaintext=True)
    async with (
        create_instance(evolve(bob or in_memory, listen="127.0.0.1:0")) as right,
        create_instance(alice or in_memory) as left,
    ):
        await left.new_connection(f"127.0.0.1:{right.port}")
        yield left, right

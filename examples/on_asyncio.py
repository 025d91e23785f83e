"""Two instances on asyncio: typed readings, each acknowledged when handled.

It needs "tolliver-proto[anyio,cli,msgspec]", and `tolliver certs certs alice bob` once.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from tolliver.anyio import TLS, InstanceOptions, create_instance
from tolliver.codecs import Json, TypedDelivery


@dataclass
class Reading:
    celsius: float


def options(name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen)


async def show(delivery: TypedDelivery[Reading]) -> None:
    print("bob handled", delivery.key, delivery.value)


async def main() -> None:
    async with create_instance(options("bob", "127.0.0.1:0")) as bob, create_instance(options("alice")) as alice:
        await bob.channel("readings", codec=Json(Reading)).subscribe(handler=show)
        await alice.new_connection(f"127.0.0.1:{bob.port}")
        readings = alice.channel("readings", codec=Json(Reading))
        receipts = [await readings.send("kitchen", Reading(celsius)) for celsius in (20.5, 21.0, 21.5)]
        for receipt in receipts:  # each is on disk already: alice may crash now, and sends them when it is back
            await alice.wait_acked(receipt)
        print("bob has acknowledged all of them")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

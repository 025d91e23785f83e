"""Bob prints each greeting that arrives, until Ctrl-C."""

import asyncio
from contextlib import suppress

from tolliver.anyio import TLS, Delivery, InstanceOptions, create_instance


def greet(delivery: Delivery) -> None:
    print(delivery.key, delivery.body.decode(), flush=True)  # when this returns, the message is acknowledged


async def main() -> None:
    tls = TLS("certs/bob.pem", "certs/bob.key", "certs/ca.pem")
    options = InstanceOptions(database="bob.db", tls=tls, listen="127.0.0.1:7011")
    async with create_instance(options, subscriptions=["greetings"], handlers=[("greetings", "", greet)]):
        await asyncio.Event().wait()  # until Ctrl-C


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

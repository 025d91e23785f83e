"""Alice sends a greeting, and waits until bob has handled it."""

import asyncio
import sys
from contextlib import suppress

from tolliver.anyio import TLS, InstanceOptions, create_instance


async def main(text: str) -> None:
    tls = TLS("certs/alice.pem", "certs/alice.key", "certs/ca.pem")
    options = InstanceOptions(database="alice.db", tls=tls, remotes=["127.0.0.1:7011"])
    async with create_instance(options) as alice:
        try:
            await alice.wait_subscribed("greetings", timeout=10)
        except TimeoutError as error:
            sys.exit(f"Start bob.py first, then try again: {error}")
        receipt = await alice.send("greetings", "first", text.encode())  # it is on disk when this returns
        print("stored for", receipt.recipients, "peer", flush=True)
        await alice.wait_acked(receipt)
        print("acknowledged", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "hello"))

"""Two instances on trio: one task sends, another one takes and acknowledges.

It needs "tolliver-proto[anyio,cli]" and trio, and `tolliver certs certs alice bob` once.
"""

import trio
from tolliver.anyio import TLS, Instance, InstanceOptions, create_instance

COUNT = 3


def options(name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen)


async def take(bob: Instance) -> None:
    async with bob.messages("letters") as letters:  # subscribes, too
        left = COUNT
        async for letter in letters:
            print("bob has", letter.key, letter.body.decode())
            letter.ack()  # or letter.fail(): then it comes again
            left -= 1
            if not left:
                break


async def main() -> None:
    async with create_instance(options("bob", "127.0.0.1:0")) as bob, create_instance(options("alice")) as alice:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, bob)
            await alice.new_connection(f"127.0.0.1:{bob.port}")
            await alice.wait_subscribed("letters")
            for number in range(COUNT):
                await alice.send("letters", f"number {number}", b"dear bob")
        await alice.flush()
        print("alice has nothing left to send")


if __name__ == "__main__":
    try:
        trio.run(main)
    except* KeyboardInterrupt:
        pass

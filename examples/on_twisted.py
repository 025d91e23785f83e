"""Two instances on Twisted: one asks, the other one answers.

It needs "tolliver-proto[twisted,cli]", and `tolliver certs certs alice bob` once.
"""

from contextlib import suppress
from typing import Any

from tolliver import ConnectionClosing
from tolliver.codecs import Json, TypedRequest
from tolliver.twisted import TLS, InstanceOptions, create_instance
from twisted.internet.task import deferLater, react


def options(name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen)


async def main(reactor: Any) -> None:
    async def divide(request: TypedRequest[Any]) -> float:
        await deferLater(reactor, 0.01)  # a handler may wait for any Deferred
        dividend, divisor = request.value
        return float(dividend / divisor)

    async with await create_instance(options("bob", "127.0.0.1:0"), reactor) as bob:
        bob.channel("quotients", codec=Json()).respond(divide)
        async with await create_instance(options("alice"), reactor) as alice:
            await alice.new_connection(f"127.0.0.1:{bob.port}")
            quotients = alice.channel("quotients", codec=Json())
            with suppress(ConnectionClosing):  # the reactor closes its instances at Ctrl-C
                for question in ([10, 4], [1, 3]):
                    reply = await quotients.request(question)
                    print("alice asks for", question, "and bob answers", reply.value)


if __name__ == "__main__":
    react(main)

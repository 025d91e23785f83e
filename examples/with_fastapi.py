"""A web service that sends what is posted to it: one instance for the whole app.

It needs "tolliver-proto[anyio,cli]", fastapi, uvicorn, and `tolliver certs certs alice bob` once. Your own service is
`app` alone, run by `uvicorn`; here the program starts it, posts to it, and ends.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from socket import create_server
from urllib.request import Request, urlopen

import uvicorn
from fastapi import FastAPI
from tolliver.anyio import TLS, InstanceOptions, create_instance
from tolliver.codecs import Json, TypedDelivery


def options(name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, listen=listen)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with create_instance(options("alice")) as alice:
        app.state.readings = alice.channel("readings", codec=Json())
        await alice.new_connection(app.state.remote)
        await alice.wait_subscribed("readings")
        yield
        await alice.flush()


app = FastAPI(lifespan=lifespan)


@app.post("/readings/{key}", status_code=202)
async def post(key: str, celsius: float) -> dict[str, int]:
    return {"stored for": (await app.state.readings.send(key, celsius)).recipients}  # on disk: 202 is a promise


def show(delivery: TypedDelivery[float]) -> None:
    print("bob handled", delivery.key, delivery.value)


async def main() -> None:
    async with create_instance(options("bob", "127.0.0.1:0")) as bob:
        await bob.channel("readings", codec=Json()).subscribe(handler=show)
        app.state.remote = f"127.0.0.1:{bob.port}"
        server, listening = uvicorn.Server(uvicorn.Config(app, log_level="warning")), create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/readings/kitchen?celsius=20.5"
        answer = await asyncio.to_thread(urlopen, Request(url, method="POST"))
        print("the service says", answer.read().decode())
        server.should_exit = True
        await serving


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

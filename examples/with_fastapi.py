"""A web service that sends what is posted to it: one instance for the whole app.

It needs "tolliver-proto[anyio,cli]", fastapi, uvicorn, and `tolliver certs certs alice bob` once. Your own service is
`app` alone, run by `uvicorn`; here the program starts it, posts to it, and ends.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from socket import create_server
from typing import Any
from urllib.request import Request, urlopen

import uvicorn
from fastapi import FastAPI, HTTPException
from tolliver import TooFewRecipients
from tolliver.anyio import TLS, InstanceOptions, create_instance
from tolliver.codecs import Json


def options(name: str, **more: Any) -> InstanceOptions:
    tls = TLS(f"certs/{name}.pem", f"certs/{name}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{name}.db", tls=tls, **more)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with create_instance(options("alice", remotes=[app.state.remote])) as alice:  # dials while the app runs
        app.state.readings = alice.channel("readings", codec=Json())
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/readings/{key}", status_code=202)
async def post(key: str, celsius: float) -> dict[str, int]:
    try:  # when this returns, the message is on disk: 202 is a promise
        return {"stored for": (await app.state.readings.send(key, celsius, require_recipients=1)).recipients}
    except TooFewRecipients as error:  # only before a receiver was ever seen
        raise HTTPException(503, "no receiver is known yet: try again") from error


async def main() -> None:
    async with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        await bob.channel("readings", codec=Json()).subscribe(handler=lambda one: print("bob has", one.value))
        arrivals = bob.events()
        app.state.remote = f"127.0.0.1:{bob.port}"
        server, listening = uvicorn.Server(uvicorn.Config(app, log_level="warning")), create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/readings/kitchen?celsius=20.5"
        await anext(arrivals)  # before alice has met a receiver, the service answers 503
        answer = await asyncio.to_thread(urlopen, Request(url, method="POST"))
        print("the service says", answer.read().decode())
        server.should_exit = True
        await serving


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

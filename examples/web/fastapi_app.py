"""A web service with several workers, each of which hands over to one `tolliver run` beside them.

tolliver run tolliver.toml
uvicorn --workers 2 fastapi_app:app
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from os import getpid
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from tolliver import local


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[dict[str, local.AsyncClient]]:
    async with local.connect("tolliver.sock") as me:  # one client for each worker; its tasks share it
        yield {"tolliver": me}


def client(request: Request) -> local.AsyncClient:
    me: local.AsyncClient = request.state.tolliver
    return me


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}", status_code=202)
async def post(number: str, me: Annotated[local.AsyncClient, Depends(client)]) -> dict[str, object]:
    receipt = await me.put("orders", number, b"2 boxes", message_key=f"order {number}")  # asked again, it is done once
    return {"order": number, "repeated": receipt.repeats, "worker": getpid()}

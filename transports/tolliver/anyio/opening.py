"""Opening of instances on asyncio and trio."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio

from .._options.instance import InstanceOptions, Registering, RespondingTo
from .core import InstanceCore
from .instance import Instance

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def create_instance(
    options: InstanceOptions,
    *,
    subscriptions: Iterable[str | tuple[str, str]] | None = None,
    handlers: Iterable[Registering] | None = None,
    responders: Iterable[RespondingTo] | None = None,
) -> Instance:
    """`async with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    `subscriptions`, `handlers` and `responders` take the place of those of the options: they are in force before it
    listens or dials (T-46).

    Entering raises CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError.
    """
    return Instance(InstanceCore(options.given(subscriptions, handlers, responders)))


def run(main: Callable[[Unpack[Arguments]], Awaitable[T]], *args: *Arguments, backend: str = "asyncio") -> T:
    """As `anyio.run(main, *args)`; asyncio runs on uvloop where that is installed."""
    fast = backend == "asyncio" and importlib.util.find_spec("uvloop") is not None
    return anyio.run(main, *args, backend=backend, backend_options={"use_uvloop": True} if fast else {})

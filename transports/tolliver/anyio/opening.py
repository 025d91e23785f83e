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
    """Create an instance: `async with create_instance(options) as instance:` opens it, and closes it in order.

    Entering opens the database, listens and dials. `subscriptions`, `handlers` and `responders` replace those of the
    options, and are in force before it listens or dials (T-46).

    Entering raises CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError.
    """
    return Instance(InstanceCore(options.given(subscriptions, handlers, responders)))


def run(main: Callable[[Unpack[Arguments]], Awaitable[T]], *args: *Arguments, backend: str = "asyncio") -> T:
    """Like `anyio.run(main, *args)`, with uvloop on asyncio if it is installed."""
    fast = backend == "asyncio" and importlib.util.find_spec("uvloop") is not None
    return anyio.run(main, *args, backend=backend, backend_options={"use_uvloop": True} if fast else {})

"""Opening of instances on Twisted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.internet.defer import Deferred, fail

from .._options.instance import InstanceOptions, Registering, RespondingTo
from .core import InstanceCore
from .instance import Instance


def create_instance(
    options: InstanceOptions,
    reactor: Any = None,
    *,
    subscriptions: Iterable[str | tuple[str, str]] | None = None,
    handlers: Iterable[Registering] | None = None,
    responders: Iterable[RespondingTo] | None = None,
) -> Deferred[Instance]:
    """Create an instance: `async with await create_instance(options) as instance:` closes it in order.

    Opens the database, listens and dials. `subscriptions`, `handlers` and `responders` replace those of the options,
    and are in force before it listens or dials (T-46). `reactor`: by default the global one.

    Fails with CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError. If the Deferred is
    cancelled, what was opened is closed again.
    """
    try:
        instance = Instance(InstanceCore(options.given(subscriptions, handlers, responders), reactor))
    except Exception:
        return fail()
    return instance._core.open().addCallback(lambda _: instance)

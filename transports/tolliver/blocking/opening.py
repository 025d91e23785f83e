"""Opening of instances on threads."""

from __future__ import annotations

from collections.abc import Iterable

from .._options.instance import InstanceOptions, Registering, RespondingTo
from .core import InstanceCore
from .instance import Instance


def create_instance(
    options: InstanceOptions,
    *,
    subscriptions: Iterable[str | tuple[str, str]] | None = None,
    handlers: Iterable[Registering] | None = None,
    responders: Iterable[RespondingTo] | None = None,
) -> Instance:
    """`with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    `subscriptions`, `handlers` and `responders` take the place of those of the options: they are in force before it
    listens or dials (T-46).

    Entering raises CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError.
    """
    return Instance(InstanceCore(options.given(subscriptions, handlers, responders)))

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
    """Create an instance: `with create_instance(options) as instance:` opens it, and closes it in order.

    Entering opens the database, listens and dials. `subscriptions`, `handlers` and `responders` replace those of the
    options, and are in force before it listens or dials (T-46).

    Entering raises CertificateError, StoreError, IdentityConflict, and CannotListen, an OSError.
    """
    return Instance(InstanceCore(options.given(subscriptions, handlers, responders)))

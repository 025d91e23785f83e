"""An instance's parts, opened and put together.

The idea: who we are is said in up to three places, the certificate, the database and the options. They must agree: an
instance under a wrong UUID would be refused by some peers and would take over another's queue at the rest (T-72).
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol, TypeVar
from uuid import UUID

from tolliver_proto import IdentityConflict, Node, PeerIdentity

from ._options import TLS, InstanceOptions
from ._sqlite import SQLiteStore
from ._uuid7 import uuid7

LAST_ID = 2**31 - 2  # T-40


class Certified(Protocol):
    """What makes the connections of one instance: Pumps, or what an adapter has in their place."""

    identity: PeerIdentity


AnyPumps = TypeVar("AnyPumps", bound=Certified)


def open_instance(
    options: InstanceOptions, make_pumps: Callable[[TLS | None], AnyPumps]
) -> tuple[Node, SQLiteStore, AnyPumps]:
    """Reads certificates and database: call it off the loop.

    Raises CertificateError, StoreError, and IdentityConflict where certificate, database and options disagree.
    """
    pumps = make_pumps(options.tls)
    certified = pumps.identity.uuids
    wanted = options.identity
    if wanted is not None and certified and wanted not in certified:
        raise IdentityConflict(f"the option identity is {wanted}, the certificate says {_words(certified)}: drop one")
    if wanted is None and len(certified) == 1:
        (wanted,) = certified
    store = SQLiteStore(options.database, instance_id=wanted or uuid7(), first_id=1 + secrets.randbelow(LAST_ID))
    try:
        known = store.instance_id
        if (wanted is not None and known != wanted) or (certified and known not in certified):
            raise IdentityConflict(
                f"the database {options.database} belongs to instance {known}, but "
                f"{'the certificate says ' + _words(certified) if certified else f'the option identity is {wanted}'}: "
                "use the database or the certificate that belongs to this instance"
            )
        node = Node(
            instance_id=known,
            rng=random.SystemRandom(),
            limits=options.limits,
            loaded=store.load(),
            version=options.version,
            revision=options.revision,
            speaks=options.speaks,
            retry_interval=options.retry_interval,
            policy=options.policy,
            now=time.monotonic(),
        )
    except BaseException:
        store.close()
        raise
    return node, store, pumps


def _words(uuids: frozenset[UUID]) -> str:
    return " or ".join(map(str, sorted(uuids)))

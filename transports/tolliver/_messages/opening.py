"""Opening of an instance: creates its parts and connects them.

Our UUID may stand in three places: the certificate, the database and the options. All must agree: an instance under a
wrong UUID would be refused by some peers, and would get another instance's messages from the others (T-72).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

from tolliver_proto import Commit, IdentityConflict, Node
from tolliver_proto.node import PATTERNS, is_derived

from .._driver import logs
from .._driver.ends import is_interrupt
from .._options.instance import InstanceOptions
from .._options.uuid7 import uuid7
from .._store.begun import Begun
from .._store.sqlite import SQLiteStore
from .._tls.policy import Pumps


def open_instance(options: InstanceOptions, opened: ExitStack) -> tuple[Node, SQLiteStore, Pumps, Begun | None]:
    """Read certificates and open the database; returns the node, its store, what makes TLS, and the notes of what
    handlers begin. Blocks: run off the
    loop. The caller closes `opened`, even after an error.

    A derived identity is accepted only from the options (T-72a). Raises CertificateError, StoreError, and
    IdentityConflict if certificate, database and options disagree.
    """
    pumps = Pumps(options.tls)
    mine = pumps.identity
    wanted = options.identity
    if wanted is not None and not mine.may_be(wanted):
        raise IdentityConflict(
            f"the option identity is {wanted}, the certificate says {mine.names}: "
            + ("make it with derived_identity(prefix, label)" if is_derived(wanted) else "drop one")
        )
    if wanted is None and mine.prefixes and not mine.uuids:
        raise IdentityConflict(
            f"the certificate says {mine.names} and no UUID: give identity=derived_identity(prefix, label) (T-72a)"
        )
    if wanted is None and len(mine.uuids) == 1:
        (wanted,) = mine.uuids
    store = SQLiteStore(options.database, instance_id=wanted or uuid7(), min_free=options.min_free)
    opened.enter_context(closing(store))
    known = store.instance_id
    if (wanted is not None and known != wanted) or not mine.may_be(known):
        raise IdentityConflict(
            f"the database {options.database} belongs to instance {known}, but "
            f"{f'the option identity is {wanted}' if options.identity else f'the certificate says {mine.names}'}: "
            "use the database or the certificate that belongs to this instance, or make a certificate for it: "
            f"`tolliver certs DIR NAME --uuid {known}`"
        )
    begun = None if options.policy.max_deaths is None else store.begun()
    node = Node(
        instance_id=known,
        rng=secrets.SystemRandom(),
        limits=options.limits,
        loaded=store.load(),
        version=options.version,
        revision=options.revision,
        speaks=partial(_is_spoken, options.speaks),
        retry_interval=options.retry_interval,
        policy=options.policy,
        dialect=options.dialect,
        dialects=options.dialects,
        acl=options.acl,
        subscriptions=options.subscriptions,
        tell_events=True,
        patterns=PATTERNS,
        now=time.monotonic(),
    )
    _store_subscriptions(node, store)
    for kind, detail in store.news():
        node.notice(kind, detail)
    return node, store, pumps, begun


def _is_spoken(speaks: Callable[[int], object], version: int) -> bool:
    """True if the application's function `speaks` says so of this protocol version. A version for which it raises is
    not spoken: the peer chose that version, and must not end the instance.
    """
    try:
        return bool(speaks(version))
    except BaseException as error:
        if is_interrupt(error):
            raise
        logs.dial.exception("the option speaks raised for version %d, which is refused: correct the function", version)
        return False


def _store_subscriptions(node: Node, store: SQLiteStore) -> None:
    """Store the options' subscriptions, before the instance listens or dials. Raises StoreError."""
    while (action := node.next_action()) is not None:
        if isinstance(action, Commit):
            store.commit(action.operations)
            node.committed(action.batch_id)

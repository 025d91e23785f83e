"""Calls of an instance that never wait: the same on every loop.

An adapter's `Instance` inherits them and adds the calls that wait, as coroutines, Deferreds or blocking calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar
from uuid import UUID

from tolliver_proto import Acl, Notice, NoticeKind, Subscription
from tolliver_proto.node import NodeStats, PeerInfo, RemoteInfo, listed
from tolliver_proto.store import DeadLetter

from .._driver.facade import BaseFacade
from .._options.instance import Remote
from .._status.snapshot import InstanceStatus
from ..outbox import Outbox
from .instance import BaseInstanceCore
from .relaying import Relay

C = TypeVar("C", bound=BaseInstanceCore)


class BaseInstance(BaseFacade[C]):
    """Base of the public object of a running instance: its calls that never wait."""

    @property
    def instance_id(self) -> UUID:
        """UUID of this instance: the certificate's, else the database's."""
        return self._core.node.instance_id

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> None:
        """Close the connection to this remote and stop dialling it. Subscriptions and waiting messages stay (T-77).

        With `block`, its peer cannot connect to us either, until `new_connection(remote)` or a restart. Raises
        ConnectionClosing if the instance is not open.
        """
        with self._core.lock:
            self._core.remove_connection(remote, block)

    def notice(self, kind: NoticeKind, detail: str) -> None:
        """Raise a notice of the program's own: counted, logged as a warning, and listed in `notices` and in the status.

        `detail` is one line of text, without message bodies (D-14). Raises ConnectionClosing if the instance is not
        open.
        """
        with self._core.lock:
            self._core.notice(kind, detail)

    def relay(self, outbox: Outbox) -> Relay:
        """Send the rows of an outbox, on a thread of its own, until the relay or the instance is closed.

        A row is deleted once its message is stored here for somebody (T-53). A channel that does not keep, and whose
        first row nobody would get, is held back until somebody subscribes, with a notice. Relays of several instances
        may share one table.

        Raises TypeError, OutOfThreads, and ConnectionClosing if the instance is not open. Errors of the table's
        database are in the relay's `status` and in notices, and it goes on when they are over.
        """
        with self._core.lock:
            return self._core.relay(outbox)

    def _keep(self, channel: str) -> None:
        with self._core.lock:
            self._core.keep(channel)

    def subscriptions(self) -> list[Subscription]:
        """Our own subscriptions, as (channel, key) pairs, in the order in which the next handshake lists them."""
        with self._core.lock:
            return self._core.subscriptions()

    def peers(self) -> list[PeerInfo]:
        """Every known peer, connected or not: UUID, address, subscriptions, number and bytes of waiting messages."""
        with self._core.lock:
            return self._core.peers()

    def remotes(self) -> list[RemoteInfo]:
        """Every remote that is dialled: state, reason if it is not connected, number of tries, seconds until the next.

        If `cause.is_refusal` is True, one of the two sides refuses the other; it is dialled every 1 to 5 minutes
        (T-73).
        """
        with self._core.lock:
            return self._core.remotes()

    def notices(self) -> list[Notice]:
        """The last 1000 notices for operators, oldest first."""
        with self._core.lock:
            return self._core.notices()

    def stats(self) -> NodeStats:
        """Counters since the start, and current sizes, as a frozen snapshot. All names are there from the start."""
        with self._core.lock:
            return self._core.stats()

    def status(self) -> InstanceStatus:
        """The state of the instance now: readiness, numbers, peers, remotes, handlers, queues, notices.

        A frozen snapshot, whose `as_dict()` is JSON; docs/watching.md explains each name. Raises NotOpenYet if the
        instance was never opened.
        """
        with self._core.lock:
            return self._core.status()

    @property
    def status_address(self) -> tuple[str, int] | None:
        """(host, port) of the status endpoint; None without the option `status`."""
        return self._core.status_address


class BaseAdmin(Generic[C]):
    """Operator calls that never wait."""

    def __init__(self, core: C) -> None:
        self._core = core

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        """Deliver dead letters to the matching handlers again; returns their number. A letter handled well is
        removed."""
        letters = listed("letters", letters)  # outside the lock: a generator may be slow
        with self._core.lock:
            return self._core.replay(letters)

    def set_acl(self, acl: Acl) -> None:
        """Replace the access rules. Connections of peers whose rights change are closed and made again (D-4, D-5,
        D-8)."""
        with self._core.lock:
            self._core.set_acl(acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._core}>"

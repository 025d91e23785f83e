"""Calls of an instance that never wait: the same on every loop.

An adapter's `Instance` holds a core and adds the calls that wait, in the form that its users know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar
from uuid import UUID

from tolliver_proto import Acl, Notice, NoticeKind, Subscription
from tolliver_proto.node import NodeStats, PeerInfo, RemoteInfo
from tolliver_proto.store import DeadLetter

from .._driver.facade import BaseFacade
from .._options.instance import Remote
from .._status.snapshot import InstanceStatus
from .instance import BaseInstanceCore

C = TypeVar("C", bound=BaseInstanceCore)


class BaseInstance(BaseFacade[C]):
    """A running instance, as far as nothing waits."""

    @property
    def instance_id(self) -> UUID:
        """Our UUID: the certificate's, else the database's."""
        return self._core.node.instance_id

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> None:
        """Close it and dial no more. Subscriptions and waiting messages stay (T-77).

        With `block` its peer may not connect to us either, until `new_connection(remote)` or a restart.
        Raises ConnectionClosing where the instance is not open.
        """
        with self._core.lock:
            self._core.remove_connection(remote, block)

    def notice(self, kind: NoticeKind, detail: str) -> None:
        """Tell an operator something of the program, as the instance tells of itself: counted, logged as a warning, in
        `notices` and in the status. The text is one line without bodies (D-14).

        Raises ConnectionClosing where the instance is not open.
        """
        with self._core.lock:
            self._core.notice(kind, detail)

    def subscriptions(self) -> list[Subscription]:
        """Our own subscriptions, (channel, key) pairs, as the next handshake will list them."""
        with self._core.lock:
            return self._core.subscriptions()

    def peers(self) -> list[PeerInfo]:
        """Every peer that is known, connected or not: UUID, address, subscriptions, messages and bytes that wait."""
        with self._core.lock:
            return self._core.peers()

    def remotes(self) -> list[RemoteInfo]:
        """Every remote that is dialled: its state, why it is not connected, tries, seconds until the next one.

        Where `cause.is_refusal`, one of the two sides refuses the other: it is dialled every 1 to 5 minutes (T-73).
        """
        with self._core.lock:
            return self._core.remotes()

    def notices(self) -> list[Notice]:
        """The last thousand things that an operator may want to know, oldest first."""
        with self._core.lock:
            return self._core.notices()

    def stats(self) -> NodeStats:
        """Counters since the start, and sizes now: a frozen snapshot with every name from the start."""
        with self._core.lock:
            return self._core.stats()

    def status(self) -> InstanceStatus:
        """All that an operator may ask for, now: readiness, numbers, peers, remotes, handlers, queues, notices.

        A frozen snapshot, whose `as_dict()` is JSON; docs/watching.md explains each name. Raises NotOpenYet where it
        was never open.
        """
        with self._core.lock:
            return self._core.status()

    @property
    def status_address(self) -> tuple[str, int] | None:
        """Host and port of its status endpoint, None where the option `status` asks for none."""
        return self._core.status_address


class BaseAdmin(Generic[C]):
    """Calls of an operator, as far as nothing waits."""

    def __init__(self, core: C) -> None:
        self._core = core

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        """Give dead letters to the matching handlers again; returns how many. One that is handled well is removed."""
        letters = tuple(letters)  # a generator may take its time
        with self._core.lock:
            return self._core.replay(letters)

    def set_acl(self, acl: Acl) -> None:
        """Other access rules from now on; connections of peers whose rights change are made anew (D-4, D-5, D-8)."""
        with self._core.lock:
            self._core.set_acl(acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._core}>"

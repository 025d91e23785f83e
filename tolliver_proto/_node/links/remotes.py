"""Calls of the application about remotes, access rules and expiring certificates."""

from __future__ import annotations

from uuid import UUID

from ..._common.arguments import check_type
from ..._common.certificate_watch import CertificateWatch, new_one
from ..._common.derived_ids import is_derived
from ..._common.errors import ConnectionClosing
from ..._common.transport import Remote
from ..._wire.dialect import AS_EVERYBODY, Dialect
from ..._wire.events import Message, Revision
from ..access import Acl
from ..actions import DialEnded, NoticeKind
from ..context import Context
from ..inboxes.delivering import Delivering
from ..link import Link
from ..lists.own import OwnList
from ..outboxes.connect_wait import ConnectWait
from ..outboxes.routing import Routing
from .dialing import RemoteInfo
from .links import Links


class Remotes:
    """The application's calls about remotes: to connect, to disconnect, and to set who may."""

    def __init__(
        self,
        context: Context,
        routing: Routing,
        connect_wait: ConnectWait,
        own: OwnList,
        delivering: Delivering,
        links: Links,
    ) -> None:
        self._context = context
        self._timers = context.timers
        self._actions = context.actions
        self._peers = context.peers
        self._routing = routing
        self._connect_wait = connect_wait
        self._own = own
        self._delivering = delivering
        self._links = links
        self._certificates = CertificateWatch(context.timers)
        context.due["certificate"] = self._on_certificate_timeout

    def revision_to(self, remote: Remote) -> Revision:
        """The wire layout of dials to this remote (C6)."""
        said = self._links.dialer.dialect_of(remote).revision
        return self._context.revision if said is None else said

    def connect(
        self,
        remote: Remote,
        now: float | None = None,
        *,
        dialect: Dialect = AS_EVERYBODY,
        keep_trying: bool = True,
    ) -> None:
        """Keeps a connection to this remote, after each loss too (T-76), until `disconnect`. `keep_trying` is explained
        at `Node.connect`.
        """
        self._context.tick(now)
        if self._context.closing:
            raise ConnectionClosing("the instance is closing: make a new one to connect")
        self._own.check_revision(dialect)
        self._links.gate.unblock(remote)
        link = self._links.link_to(remote)
        if link is not None:
            self._links.announce_up(link, remote)
        if self._links.dialer.add(remote, dialect, keep_trying, self._context.now):
            self._connect_wait.begin_for(remote)

    def peer_at(self, remote: Remote) -> UUID | None:
        """The connected peer that this remote led to last, even if the connection is another one; None if not
        connected."""
        return None if self._links.link_to(remote) is None else self._links.dialer.peer_of(remote)

    def disconnect(self, remote: Remote, now: float | None = None, block: bool = False) -> None:
        """Stops dialling and closes the connection to its peer. `block` is explained at `Node.disconnect`."""
        self._context.tick(now)
        dialled = self._links.dialer.remove(remote)
        if dialled is None:
            return
        self._timers.cancel(("redial", remote))
        self._connect_wait.stop_keeping(remote)
        links = [self._context.links.get(dialled.cid or 0)]
        if dialled.peer is not None and self._links.is_live(dialled.peer):
            links.append(self._peers[dialled.peer].link)
        if block and dialled.peer is not None:
            self._links.gate.block(remote, dialled.peer)
            links += [one for one in self._context.links.values() if self._is_shut_out(one)]
        for link in dict.fromkeys(links):
            if link is not None:
                self._links.end(link)
        self._actions.append(DialEnded(remote, None))

    def _is_shut_out(self, link: Link) -> bool:
        return link.peer is not None and self._links.gate.denial(link.role, link.peer.uuid) is not None

    def set_acl(self, acl: Acl, now: float | None = None) -> None:
        """Applies other access rules from now on (D-4, D-5, D-8)."""
        self._context.tick(now)
        check_type("acl", acl, Acl, "an Acl")
        self._links.dialer.dial_refused(self._context.now)
        before = self._context.acl
        self._context.rule(acl)
        self._links.on_event[Message] = (
            self._delivering.on_message if acl.is_open else self._delivering.on_guarded_message
        )
        for uuid, peer in self._peers.items():
            if acl.rights(uuid) != before.rights(uuid):
                self._routing.reroute(peer)
        for link in list(self._context.links.values()):
            if link.peer is None or acl.rights(link.peer.uuid) == before.rights(link.peer.uuid):
                continue
            denial = self._links.gate.denial(link.role, link.peer.uuid)
            if denial is not None:
                self._links.deny(link, link.peer.uuid, denial)
            else:
                self._links.end(link)

    def dial_refused(self, now: float | None = None) -> None:
        """Dials refused remotes at once, such as after a change of our certificate (T-73)."""
        self._context.tick(now)
        self._links.dialer.dial_refused(self._context.now)

    def watch_certificate(
        self,
        seconds_left: float,
        what: str,
        now: float | None = None,
        peer: UUID | None = None,
        has_uuid: bool = True,
    ) -> None:
        """Watches a certificate that is valid for `seconds_left`; `what` is its file, or the name of `peer`."""
        self._context.tick(now)
        if peer is not None and is_derived(peer):
            return
        new = new_one(has_uuid)
        if peer is None:
            name, remedy = f"our certificate {what}", f"make {new}, and call reload_tls()"
        else:
            name, remedy = f"the certificate of {what}", f"it needs {new}"
        self._certificates.watch(peer, self._context.now + seconds_left, name, remedy, self._context.now)

    def _on_certificate_timeout(self, peer: UUID | None) -> None:
        if peer is not None and not self._links.is_live(peer):
            self._certificates.forget(peer)
            return
        told = self._certificates.check(peer, self._context.now)
        if told is None:
            return
        self._context.notice(NoticeKind.CERTIFICATE_ENDS, peer, told.text)
        if self._context.tells_events:
            self._actions.append(told)

    def remotes(self, now: float | None = None) -> list[RemoteInfo]:
        """Every remote that is dialled, or was given up (T-73), and why it is not connected."""
        self._context.tick(now)
        return self._links.dialer.states(self._context.now)

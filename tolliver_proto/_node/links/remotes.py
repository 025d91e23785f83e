"""Remotes to be connected to, access rules, and certificates that end."""

from __future__ import annotations

from uuid import UUID

from ..._common.certificates import CertificateWatch
from ..._common.derived import is_derived
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

_THEIRS = "it needs a new one with the same UUID"
_OURS = "make a new one with the same UUID, and call reload_tls()"


class Remotes:
    """Calls of the application about connections."""

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
        """The wire layout that a dial to this remote speaks (C6)."""
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
        """Keep a connection to this remote, now and after every loss (T-76), until `disconnect`.

        `dialect` is how its peer speaks, over `Policy.dialects` and `Policy.dialect` (C6). Without `keep_trying` the
        dialling of a remote that was never up ends with a refusal, by either side, of a certificate, a version, an
        identity or by access rules, and with an answer that is no handshake of this protocol, or contradicts itself.
        Else it is dialled on, after a refusal every 1 to 5 minutes, and DialFailed tells (T-73). A remote that was
        refused and is asked for again is dialled at once. Raises ValueError and OwnLimitExceeded for a revision that
        cannot carry what there is. PeerUp with this remote tells when it stands, DialEnded when it never will (T-73).
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
        """Peer that this remote led to last, if it is connected, over whichever connection."""
        return None if self._links.link_to(remote) is None else self._links.dialer.peer_of(remote)

    def disconnect(self, remote: Remote, now: float | None = None, block: bool = False) -> None:
        """Stop dialling and close the connection to its peer; what waits for that peer stays (T-77).

        With `block` the peer that this remote last led to may not connect to us either, until `connect(remote)` or a
        restart: it is remembered in memory. If the remote is not dialled now, or never led to anybody, nobody is
        blocked; to keep a peer out by its UUID there is `set_acl`.
        """
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
        """Other access rules, from now on (D-4, D-5, D-8).

        Messages that a peer may no longer have are not routed to it any more; what waits for it already stays, until
        `forget_peer`. Its stored subscriptions stay too, and count again if later rules allow them. Connections of
        peers whose rights are other ones are closed: their next handshake brings their whole lists. Remotes that were
        refused are dialled at once (T-73).
        """
        self._context.tick(now)
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
        """Dial the remotes that were refused at once: our certificate, say, is another one now (T-73)."""
        self._context.tick(now)
        self._links.dialer.dial_refused(self._context.now)

    def watch_certificate(
        self, seconds_left: float, what: str, now: float | None = None, peer: UUID | None = None
    ) -> None:
        """A certificate is valid for so many seconds: it is told when that are 30 days, and each day from then on.

        It is our own, and `what` its file; or `what` is the name in that of a connected `peer`, told for as long as
        that is connected. A derived identity's is that of many, and not told.
        """
        self._context.tick(now)
        if peer is not None and is_derived(peer):
            return
        name, remedy = (f"our certificate {what}", _OURS) if peer is None else (f"the certificate of {what}", _THEIRS)
        self._certificates.watch(peer, self._context.now + seconds_left, name, remedy, self._context.now)

    def _on_certificate_timeout(self, peer: UUID | None) -> None:
        if peer is not None and not self._links.is_live(peer):
            self._certificates.forget(peer)
            return
        told = self._certificates.look(peer, self._context.now)
        if told is None:
            return
        self._context.notice(NoticeKind.CERTIFICATE_ENDS, peer, told.text)
        if self._context.tells_events:
            self._actions.append(told)

    def remotes(self, now: float | None = None) -> list[RemoteInfo]:
        """Every remote that is dialled, or was until trying again was no use (T-73), and why it is not connected."""
        self._context.tick(now)
        return self._links.dialer.states(self._context.now)

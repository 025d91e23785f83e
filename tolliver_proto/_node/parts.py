"""Composition of a node from its parts.

Each part is given the parts below it: commits, outboxes, lists, inboxes, links. Only `Node` and the services for
patterns know all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from .commits.commits import Commits
from .context import Context
from .inboxes.credit import Credit
from .inboxes.dead_letters import DeadLetters
from .inboxes.delivering import Delivering
from .inboxes.settling import Settling
from .links.handshakes import Handshakes
from .links.links import Links
from .links.remotes import Remotes
from .lists.own import OwnList
from .lists.peers import PeerLists
from .outboxes.connect_wait import ConnectWait
from .outboxes.expiry import Expiry
from .outboxes.flushes import Flushes
from .outboxes.ledger import Ledger
from .outboxes.quota import QuotaRoom
from .outboxes.routing import Routing
from .outboxes.sender import Sender
from .outboxes.transmission import Transmission
from .sizes import Sizes
from .store import Loaded


class Parts:
    """All parts of one node, from the lowest to the highest."""

    context: Context
    sizes: Sizes
    commits: Commits
    routing: Routing
    ledger: Ledger
    room: QuotaRoom
    expiry: Expiry
    sender: Sender
    connect_wait: ConnectWait
    transmission: Transmission
    flushes: Flushes
    own: OwnList
    peer_lists: PeerLists
    credit: Credit
    delivering: Delivering
    letters: DeadLetters
    settling: Settling
    links: Links
    handshakes: Handshakes
    remotes: Remotes

    def __init__(self, context: Context, loaded: Loaded, given: bool, speaks: Callable[[int], bool]) -> None:
        self.context = context
        self.suspects: Mapping[tuple[UUID, int], int | None] = loaded.suspects
        sizes = self.sizes = Sizes(context)
        commits = self.commits = Commits(context)
        # Outboxes.
        routing = self.routing = Routing(context)
        ledger = self.ledger = Ledger(context, commits, loaded)
        room = self.room = QuotaRoom(context, commits, ledger)
        expiry = self.expiry = Expiry(context, commits, ledger)
        sender = self.sender = Sender(context, sizes, commits, routing, ledger, room, expiry)
        wait = self.connect_wait = ConnectWait(context, commits, routing, ledger, sender)
        transmission = self.transmission = Transmission(context, commits, ledger)
        self.flushes = Flushes(context, commits, ledger, sender)
        # Lists.
        own = self.own = OwnList(context, sizes, commits, expiry, loaded)
        lists = self.peer_lists = PeerLists(
            context,
            sizes,
            commits,
            routing,
            ledger,
            expiry,
            lambda peer: self.links.is_mute(peer),
            lambda: self.links.dialer.strangers(),
        )
        # Inboxes.
        credit = self.credit = Credit(context)
        delivering = self.delivering = Delivering(context, sizes, commits, own, credit, loaded, given)
        letters = self.letters = DeadLetters(context, commits, credit, delivering, loaded)
        settling = self.settling = Settling(context, commits, credit, delivering, letters)
        # Links.
        links = self.links = Links(
            context, commits, routing, ledger, wait, transmission, own, lists, credit, settling, speaks
        )
        self.handshakes = Handshakes(
            context, commits, routing, ledger, wait, transmission, own, lists, credit, delivering, links
        )
        self.remotes = Remotes(context, routing, wait, own, delivering, links)

"""Context that all parts of a node share.

Each part owns its state and knows the parts below it. Shared are the time, the timers, the actions to hand out, the
known peers, the application's choices, and sets of connections by their pending work. A part that gives a connection
work puts it into such a set; `Node.next_action` empties the sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from .._common.connection_table import TableState
from .._common.dial_causes import DialCause
from .._common.transport import Remote
from .._wire.dialect import Dialect
from .._wire.events import Revision
from .._wire.frames import Encoder, encoder
from .._wire.limits import Limits
from .access import Acl
from .actions import Action, Deliver, Notice, NoticeKind
from .link import Hold, Link, Peer
from .notices import THROTTLED, Drops, NoticeTally, Place, Subject
from .outboxes.ids import Randomness
from .pattern import Hooks, Judgement, Pattern
from .policy import Policy


class Context(TableState[Link, Action]):
    """State that all parts of a node share: time, timers, actions, connections, peers, options."""

    def __init__(
        self,
        instance_id: UUID,
        rng: Randomness,
        limits: Limits,
        version: int,
        revision: Revision,
        retry_interval: float,
        policy: Policy,
        dialect: Dialect,
        dialects: Mapping[UUID, Dialect],
        acl: Acl,
        tells_events: bool,
        now: float | None,
    ) -> None:
        super().__init__(now)
        self.instance_id = instance_id
        self.version = version
        self.revision = revision
        self.limits = limits
        self.policy = policy
        self.dialect: Dialect = dialect.of_everybody()
        self.dialects: dict[UUID, Dialect] = dict(dialects)  # of single peers, over `dialect`
        self.acl: Acl = acl  # current access rules
        self.rng = rng
        self.retry_interval = retry_interval
        self.encoder: Encoder = encoder(revision)
        self.tells_events = tells_events
        self.hooks: Hooks = Hooks()
        self.turns: dict[Pattern, None] = {}  # patterns that asked for a turn
        # Live connections; those with something to send; those of other wire layouts or without acks.
        self.up: dict[int, Link] = {}
        self.sendable: dict[Link, None] = {}
        self.foreign: dict[Link, None] = {}
        self.flooding: dict[Link, None] = {}  # they cause too many answers; ended before a write
        self.peers: dict[UUID, Peer] = {}
        self.moved: dict[Peer, None] = {}  # came, went or changed subscriptions; not reported yet
        self.judgements: dict[tuple[str, str], Judgement] = {}  # by name; cleared when what they depend on changes
        self.run: Deliver | None = None  # gathers deliveries until the next action is taken
        self.drops: Drops = Drops(self.timers, self.notice)
        self.tally: NoticeTally = NoticeTally(self.timers, self.tell_sum)
        # Called when the timer `(name, subject)`, or `name` alone, is due, with the subject or None.
        self.due: dict[str, Callable[[Any], None]] = {
            "tally": self._on_tally_timeout,
            "drops": self._on_drops_timeout,
        }

    def revision_of(self, peer: UUID) -> Revision:
        """The wire layout of this peer, from its dialect or else our own."""
        dialect = self.dialects.get(peer)
        return self.revision if dialect is None or dialect.revision is None else dialect.revision

    def notice(
        self,
        kind: NoticeKind,
        peer: UUID | None,
        detail: str,
        remote: Remote | None = None,
        cause: DialCause | None = None,
    ) -> None:
        """Reports an event to the operator; of a frequent kind the first at once, then a sum each minute. `peer`,
        `remote` and `cause` say what it is about, as far as they are known.
        """
        self.counts[f"notices_{kind}"] += 1
        if kind not in THROTTLED or self.tally.is_first(kind, peer, detail, self.now):
            self.actions.append(Notice(kind, peer, detail, remote, cause))

    def tell_sum(self, kind: NoticeKind, peer: UUID | None, detail: str) -> None:
        self.counts[f"notices_{kind}"] += kind not in THROTTLED  # else each was counted as it came
        self.actions.append(Notice(kind, peer, detail))

    def _on_tally_timeout(self, subject: tuple[NoticeKind, Place]) -> None:
        self.tally.fall_due(subject, self.now)

    def _on_drops_timeout(self, subject: Subject) -> None:
        self.drops.fall_due(subject, self.now)

    def begin_to_close(self) -> None:
        """Notes that the node closes: it makes and takes no connections from now on."""
        self.closing = True

    def rule(self, acl: Acl) -> None:
        """Applies these access rules from now on; the caller closes connections that they do not allow."""
        self.acl = acl

    def cause(self, link: Link, size: int) -> None:
        """Counts `size` bytes of answers that the peer caused (D-12); schedules the end of a link above the limit."""
        link.answers += size
        if link.answers > self.limits.max_answers:
            self.flooding[link] = None

    def gather(self, run: Deliver) -> None:
        """Makes `run`, deliveries for the same handlers, the next action; until it is handed out, more can be added."""
        self.run = run
        self.actions.append(run)

    def end_run(self) -> None:
        """Ends the action Deliver that is being collected: deliveries from now on go into another one."""
        self.run = None

    def go_on_reading(self, link: Link, reason: Hold) -> None:
        """Ends one reason for which the link waits. Without another one messages are read again: buffered ones first,
        then those of the socket.
        """
        link.release(reason)
        self.readable[link] = None

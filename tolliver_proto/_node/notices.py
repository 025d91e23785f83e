"""Notices of frequent events: the first, then a sum each minute.

An ack destroys the sender's copy. So an operator must be able to see, by peer and channel, which acknowledged messages
were dropped without a handler (T-46, T-10, D-5).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from uuid import UUID

from .._common.timers import Timers
from .actions import NoticeKind

EVERY = 60.0
"""Seconds between two notices of one kind about one peer."""

THROTTLED = frozenset(
    {
        NoticeKind.ACCESS_DENIED,
        NoticeKind.CERTIFICATE_REFUSED,
        NoticeKind.DUPLICATE_CLOSED,
        NoticeKind.HANDLER_FAILED,
        NoticeKind.IDENTITY_MISMATCH,
        NoticeKind.PROTOCOL_ERROR,
        NoticeKind.RESPONDER_FAILED,
        NoticeKind.SELF_CONNECTION,
        NoticeKind.STORE_ERROR,
    }
)
"""Kinds that a peer, a program or a disk may cause at any rate, each with a text of its own."""

PEERS_KNOWN = 100
"""Peers that are told apart in one kind within a minute. Those beyond are one, without a name: a peer may claim UUIDs
without end, and `notices()` keeps 1,000."""

TEXTS = {NoticeKind.STORE_ERROR: 5}
"""Kinds whose texts are told apart, and how many of one peer within a minute: a damaged index says nothing of a disk
that is full. Those beyond are one. Texts of other kinds name addresses and attempts, so no two are the same."""

Subject = tuple[NoticeKind, UUID | None]
Place = tuple[UUID | None, str]
"""Subject of a count: a peer, and the text where texts are told apart."""


class NoticeTally:
    """Rate limit of notices: counts events by kind and place since the last notice of them. `tell` hands the notice of
    a sum to the application."""

    def __init__(self, timers: Timers, tell: Callable[[NoticeKind, UUID | None, str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._untold: defaultdict[NoticeKind, dict[Place, tuple[int, str]]] = defaultdict(dict)

    def add(self, kind: NoticeKind, peer: UUID | None, count: int, text: str, now: float) -> None:
        """Counts `count` events of this kind at a peer; reports the first ones at once. `text` is the notice's text
        after the count.
        """
        place = self._of_peer(kind, peer)
        if self._is_first(kind, place, count, text):
            self._say(kind, place, count, text, now)

    def is_first(self, kind: NoticeKind, peer: UUID | None, detail: str, now: float) -> bool:
        """True if this event is to be reported now, in these words; counts it within the minute after."""
        place = self._of_text(kind, peer, detail) if kind in TEXTS else self._of_peer(kind, peer)
        like_it = "like it" if kind not in TEXTS or place[1] else "in other words"
        is_first = self._is_first(kind, place, 1, f"more {like_it} within a minute; the last one: {detail}")
        if is_first:
            self._begin(kind, place, "", now)
        return is_first

    def fall_due(self, subject: tuple[NoticeKind, Place], now: float) -> None:
        """Called by the timer of `subject`, the kind and place whose minute has ended: reports the events counted in
        it."""
        kind, place = subject
        count, text = self._untold[kind].pop(place)
        if count:
            self._say(kind, place, count, text, now)

    def _of_peer(self, kind: NoticeKind, peer: UUID | None) -> Place:
        """The place of a peer's events, that of nobody if too many peers are counted already."""
        known, place = self._untold[kind], (peer, "")
        return place if place in known or len(known) < PEERS_KNOWN else (None, "")

    def _of_text(self, kind: NoticeKind, peer: UUID | None, text: str) -> Place:
        """The place of a peer's events with this text, that of the peer if too many texts are counted already."""
        known, place = self._untold[kind], (peer, text)
        if place in known:
            return place
        is_one_more = sum(one == peer for one, _ in known) < TEXTS[kind] and len(known) < PEERS_KNOWN
        return place if is_one_more else self._of_peer(kind, peer)

    def _is_first(self, kind: NoticeKind, place: Place, count: int, text: str) -> bool:
        known = self._untold[kind]
        if place in known:
            known[place] = known[place][0] + count, text
            return False
        return True

    def _say(self, kind: NoticeKind, place: Place, count: int, text: str, now: float) -> None:
        self._tell(kind, place[0], f"{count} {text}")
        self._begin(kind, place, text, now)

    def _begin(self, kind: NoticeKind, place: Place, text: str, now: float) -> None:
        self._untold[kind][place] = 0, text
        self._timers.set(("tally", (kind, place)), now + EVERY)


_NAMED = 20  # channels that are counted by name
_OTHERS = "others"

_WHY = {
    NoticeKind.UNWANTED: "nothing here is subscribed to them: give an instance its subscriptions before it "
    "connects (T-46). By channel:",
    NoticeKind.REFUSED: "the access rules do not let this peer publish there (D-5). By channel:",
    NoticeKind.IGNORED: "they cannot be understood (T-10, T-20, T-27). By reason:",
}


class Drops:
    """Rate limit of notices of dropped messages: counts by kind, peer and name since the last notice. `tell` hands a
    notice to the application."""

    def __init__(self, timers: Timers, tell: Callable[[NoticeKind, UUID | None, str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._untold: dict[Subject, Counter[str]] = {}

    def add(self, kind: NoticeKind, peer: UUID | None, name: str, now: float) -> None:
        """Counts a message that was dropped, with the kind of its notice. `name` is a channel or a reason."""
        subject = kind, peer
        counts = self._untold.get(subject)
        if counts is None:
            self._say(subject, Counter((f"{name!r:.100}",)), now)
        else:
            shown = f"{name!r:.100}"
            counts[shown if shown in counts or len(counts) < _NAMED else _OTHERS] += 1

    def fall_due(self, subject: Subject, now: float) -> None:
        """Called by the timer of `subject`, the (kind, peer) whose minute has ended: reports the messages dropped in
        it."""
        counts = self._untold.pop(subject)
        if counts:
            self._say(subject, counts, now)

    def _say(self, subject: Subject, counts: Counter[str], now: float) -> None:
        names = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        text = f"{counts.total()} messages were acknowledged and dropped, as {_WHY[subject[0]]} {names}"
        self._tell(*subject, text)
        self._untold[subject] = Counter()
        self._timers.set(("drops", subject), now + EVERY)

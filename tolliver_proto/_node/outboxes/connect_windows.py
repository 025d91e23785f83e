"""Messages kept for connecting peers (T-62).

An open window keeps all messages that are sent: the window of a remote that was never up opens with the call that asked
for the remote, the window of any other connection when its transport stands. All windows are ranges of one pool, which
has each message once: a thousand absent remotes cost no more than one. A full window that blocks no send closes: the
window has the first messages, without a gap. Sends wait for a connection at most as long as a handshake may take, and
not again for a remote, or a dialing peer, whose last connection failed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from uuid import UUID

from ..._common.intervals import RefCounts
from ..._common.transport import Role
from ..commits.batch import Kept
from ..link import Link, Peer, Recipients
from ..store import StoredMessage

_SHARES = 4  # all remotes that were never up keep this many times `Limits.keep_bytes`
_ABOVE_ALL = 2**63
_REMEMBERED = 10_000  # failed remotes and peers; bounded, as any number of peers may dial us

Owner = Hashable
"""A connection, or a remote that was never up: the owner of a window."""


class ConnectWindow:
    """The first and the last seq of the messages that are kept for one connection, or for one remote."""

    __slots__ = ("holds_up", "since", "size", "until")

    def __init__(self, since: int) -> None:
        self.since = since
        self.until: int | None = None  # the last seq, once the window is closed
        self.holds_up = False  # sends may wait for this connection
        self.size = 0  # bytes that a connection's window keeps

    def has(self, seq: int) -> bool:
        return seq >= self.since and (self.until is None or seq <= self.until)


class Keeping:
    """Messages kept for connecting peers (T-62): the window of each connection or remote, the messages in any of them,
    and the remotes and peers that have failed.
    """

    def __init__(self, share: int) -> None:
        self._share = share
        self._windows: dict[Owner, ConnectWindow] = {}
        self._of_links: dict[Link, ConnectWindow] = {}
        self._kept: dict[int, Kept] = {}  # by seq, ascending
        self._counts = RefCounts()  # how many windows keep each message
        self._last = 0
        self._failed: dict[Hashable, None] = {}
        self.open: int = 0
        """Number of windows that keep the next message."""
        self.size: int = 0
        """Bytes of all kept messages, each counted once."""

    def __bool__(self) -> bool:
        return bool(self._windows)

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._windows

    def __getitem__(self, seq: int) -> Kept:
        return self._kept[seq]

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    def first(self) -> int:
        """Returns the first kept seq, or 2^63 if there is none."""
        return next(iter(self._kept), _ABOVE_ALL)

    def begin(self, owner: Owner, next_seq: int) -> None:
        """Keeps messages from `next_seq` on for this connection or remote, unless that is so already: a peer may repeat
        its request (T-63).

        Sends may wait for a connection whose remote, or peer, did not fail before.
        """
        if owner in self._windows:
            return
        window = self._windows[owner] = ConnectWindow(next_seq)
        if isinstance(owner, Link):
            self._of_links[owner] = window
            window.holds_up = _whom(owner) not in self._failed
        self.open += 1

    def end(self, owner: Owner) -> list[Kept]:
        """Ends the window; returns the messages that no window keeps now."""
        window = self._windows.pop(owner)
        if isinstance(owner, Link):
            del self._of_links[owner]
        self.open -= window.until is None
        until = self._last if window.until is None else window.until
        spans = [*self._counts.within(window.since, until)] if window.since <= until else []
        ended = [span for first, last in spans for span in self._counts.take(first, last)]
        left = [self._kept.pop(seq) for first, last in ended for seq in range(first, last + 1)]
        self.size -= sum(kept.message.size for kept in left)
        return left

    def keeps_enough(self, strict: bool) -> bool:
        """Returns True if a send must wait for a connection: one for which sends may wait, and whose window is full or,
        with `strict`, any such one."""
        return any(window.holds_up and (strict or self._is_full(window)) for window in self._of_links.values())

    def wait_no_more(self, link: Link) -> bool:
        """Lets sends go on although the connection is not up; returns False if the connection has no window."""
        window = self._of_links.get(link)
        if window is not None:
            window.holds_up = False
        return window is not None

    def close_full(self, next_seq: int) -> list[Owner]:
        """Closes the full windows that block no send; `next_seq` is the seq after their last message.

        Returns the owners of all closed windows, one for each remote or peer that has no open window.
        """
        full = [one for one in self._of_links.values() if self._is_full(one) and not one.holds_up]
        if self.size >= _SHARES * self._share:
            full += [window for owner, window in self._windows.items() if not isinstance(owner, Link)]
        for window in full:
            self.open -= window.until is None
            window.until = next_seq - 1 if window.until is None else window.until
        if self.open == len(self._windows):
            return []
        keep = {_whom(owner) for owner, window in self._windows.items() if window.until is None}
        closed = {_whom(owner): owner for owner, window in self._windows.items() if window.until is not None}
        return [owner for whom, owner in closed.items() if whom not in keep]

    def _is_full(self, window: ConnectWindow) -> bool:
        return window.size >= self._share

    def add(self, messages: Sequence[StoredMessage], recipients: Recipients, to: frozenset[UUID] | None) -> None:
        """Adds messages, sent to these recipients, to all open windows. `to` names the only peers that may get them,
        None: any.
        """
        self._counts.add(messages[0].seq, self.open, len(messages))
        self._kept.update((message.seq, Kept(message, recipients, to)) for message in messages)
        self._last = messages[-1].seq
        self._grow(
            sum(message.size for message in messages), [one for one in self._of_links.values() if one.until is None]
        )

    def _grow(self, size: int, windows: Iterable[ConnectWindow]) -> None:
        self.size += size
        for window in windows:
            window.size += size

    def take_back(self, messages: Iterable[StoredMessage]) -> None:
        """Removes messages whose commit failed."""
        for message in messages:
            if self._kept.pop(message.seq, None) is not None:
                self._counts.drop(message.seq, message.seq)
                self._grow(-message.size, [one for one in self._of_links.values() if one.has(message.seq)])

    def forget(self, peer: Peer) -> None:
        """Keeps nothing that was sent to this peer, which is forgotten, for one that comes under its UUID (T-77)."""
        for kept in self._kept.values():
            if peer in kept.recipients.peers:
                kept.exclude(peer)

    def for_peer(self, peer: Peer, owners: Iterable[Owner]) -> list[Kept]:
        """Returns the messages kept for these connections and remotes that may be for the peer."""
        windows = [self._windows[owner] for owner in owners if owner in self._windows]
        return [
            kept
            for seq, kept in (self._kept.items() if windows else ())
            if any(window.has(seq) for window in windows) and kept.is_for(peer)
        ]

    def released(self, first: int, last: int) -> Iterator[int]:
        """Takes one owner off the kept messages from seq `first` to `last`; yields the seqs that no peer is owed
        now.
        """
        for seq in range(max(first, self.first()), min(last, self._last) + 1):
            kept = self._kept.get(seq)
            if kept is not None:
                kept.owed -= 1
                if not kept.owed:
                    yield seq

    def lose(self, link: Link) -> int:
        """Remembers the failed connection, so that sends do not wait for its remote or peer again.

        Returns the number of messages that its window keeps and that came after its remote's window closed: the next
        connection to the remote will not get them.
        """
        self._failed[_whom(link)] = None
        if len(self._failed) > _REMEMBERED:
            del self._failed[next(iter(self._failed))]
        window, of_remote = self._windows.get(link), self._windows.get(link.remote)
        if window is None or of_remote is None or of_remote.until is None:
            return 0
        first = max(window.since, of_remote.until + 1)
        until = self._last if window.until is None else window.until
        return sum(high - low + 1 for low, high in self._counts.within(first, until)) if first <= until else 0

    def regain(self, link: Link) -> None:
        """Forgets earlier failures, as the connection is up."""
        self._failed.pop(_whom(link), None)


def _whom(owner: Owner) -> Hashable:
    if not isinstance(owner, Link):
        return owner
    return owner.remote if owner.role is Role.CLIENT else owner.peer and owner.peer.uuid

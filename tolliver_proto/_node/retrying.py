"""Second tries of parked messages, as they are made (T-09).

A try begins when the peer has been up for a minute or has acknowledged another message. A parked message is looked for,
made an ordinary one again with the next commit, and sent alone, when nothing else is exposed: if the peer closes, it is
known for what.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from .._common.errors import TolliverError
from .._common.link import LinkState
from .expiring import Expiring
from .link import Link, Peer
from .parked import ALONE_FOR, SecondTries
from .store import Found


class Retrying(Expiring):
    """Parked messages, sent again by themselves."""

    def _on_parked_timeout(self, uuid: UUID) -> None:
        peer = self._peers.get(uuid)
        if peer is None or peer.link is None or peer.outbox.tries is None or not peer.outbox.parked:
            return
        tries = peer.outbox.tries
        if not (tries.searching or peer.outbox.poison.alone or peer.link.state is not LinkState.OPEN):
            self._look_for_parked(peer, tries)

    def _look_for_parked(self, peer: Peer, tries: SecondTries) -> None:
        tries.begin(self._now)
        self._timers.set(("parked", peer.uuid), tries.not_before)
        candidates: list[Found] = []

        def take(found: Sequence[Found]) -> bool:
            parked = (one for one in found if one.parked and one.seq not in peer.outbox.leaving)
            for one in filter(tries.may_be, parked):
                if tries.is_turn_of(one):
                    candidates[:] = [one]
                    return True
                candidates.append(one)
            return False

        def done(error: TolliverError | None) -> None:
            tries.searching = False
            if error is None and candidates:
                self._try_again(peer, tries, candidates[0])

        self._searches.begin(peer.uuid, take, done)

    def _try_again(self, peer: Peer, tries: SecondTries, one: Found) -> None:
        def unparked(error: TolliverError | None) -> None:
            link = peer.link
            if error is None and link is not None and link.window is not None:
                tries.trying(one.seq, one.size)
                link.window.try_alone(one.seq, one.wire_id, one.size)
                self._timers.set(("try", link.cid), self._now + ALONE_FOR)
                self._be_silent(link)

        self._unpark(peer, [one])
        self._batch.then.append(unparked)

    def _be_silent(self, link: Link) -> None:
        """Until nothing is exposed."""
        assert link.window is not None
        until = link.exposure.over_at(self._now)
        link.window.silent = until > self._now
        if link.window.silent:
            self._timers.set(("silence", link.cid), until)
        self._sendable[link] = None

    def _on_silence_timeout(self, cid: int) -> None:
        self._be_silent(self._links[cid])

    def _on_try_timeout(self, cid: int) -> None:
        """It was alone for long enough."""
        self._end_try(self._links[cid])

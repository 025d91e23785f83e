"""Dead letters: messages that handlers gave up or failed with too often (T-47)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from ..._common.arguments import Unchecked, check_type, listed
from ..._common.errors import TolliverError
from ..._wire.events import Message
from ..actions import Deliver, Delivery, NoticeKind, Receipt, Stored
from ..commits.commits import Commits
from ..context import Context
from ..link import Peer
from ..store import AddDeadLetter, DeadLetter, Loaded, RemoveDeadLetters
from .credit import Credit
from .delivering import Delivering
from .inbox import Inbox, MessageKey


class Letters:
    """Number and size in bytes of each stored dead letter."""

    __slots__ = ("_bytes", "_next_number", "_sizes")

    def __init__(self, sizes: Sequence[tuple[int, int]], next_number: int) -> None:
        self._sizes = dict(sizes)
        self._bytes = sum(self._sizes.values())
        self._next_number = next_number

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, size: int) -> int:
        """Adds a dead letter of this size in bytes; returns its number."""
        number = self._next_number
        self._next_number += 1
        self._sizes[number] = size
        self._bytes += size
        return number

    def beyond(self, count: int, size: int) -> list[int]:
        """Returns the numbers of the oldest dead letters that must go so that at most `count` letters of `size` bytes
        in all are left; never the newest one.
        """
        letters, total = len(self._sizes), self._bytes
        gone: list[int] = []
        for number, its_size in sorted(self._sizes.items()):
            if letters <= 1 or (letters <= count and total <= size):
                break
            gone.append(number)
            letters -= 1
            total -= its_size
        return gone

    def take_out(self, numbers: Iterable[int]) -> dict[int, int]:
        """Removes the dead letters with these numbers that exist; returns their sizes in bytes by number."""
        gone = {number: self._sizes.pop(number) for number in dict.fromkeys(numbers) if number in self._sizes}
        self._bytes -= sum(gone.values())
        return gone

    def restore(self, number: int, size: int | None) -> None:
        """Restores what the store has under this number: a dead letter of this size in bytes, or none (None)."""
        self.take_out((number,))
        if size is not None:
            self._sizes[number] = size
            self._bytes += size


_CAUSE = 1000  # characters
_LETTERS = "dead letters, as `dead_letters` returns them"


class DeadLetters:
    """Owner of the dead letters: those in the store, and those that are being delivered again."""

    def __init__(
        self, context: Context, commits: Commits, credit: Credit, delivering: Delivering, loaded: Loaded
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._commits = commits
        self._credit = credit
        self._delivering = delivering
        self.numbers: Letters = Letters(loaded.dead_letters, loaded.next_letter)
        self.replayed: dict[Delivery, int] = {}  # by delivery to a handler

    def count_attempt(self, peer: Peer, key: MessageKey, attempts: int) -> None:
        if len(peer.inbox.attempts) >= self._limits.attempts_remembered and key not in peer.inbox.attempts:
            peer.inbox.attempts.pop(next(iter(peer.inbox.attempts)))
        peer.inbox.attempts[key] = attempts

    def keep_as_letter(
        self, delivery: Delivery, inbox: Inbox, message_id: int, key: MessageKey, cause: str, said: str
    ) -> None:
        """Stores the message as a dead letter, and acknowledges it once that is committed (T-47).

        `key` is the message in the dedupe cache. The letter keeps `cause`, the reason in the handler's words; `said` is
        the clause for the operator's notice, such as "failed 3 times".
        """
        message = delivery.message
        letter = DeadLetter(
            delivery.peer_id,
            message.channel,
            message.key,
            message.body,
            message_id,
            delivery.attempt,
            cause=cause[:_CAUSE].encode("utf-8", "backslashreplace").decode(),  # no lone surrogate goes to the store
        )
        inbox.letters += 1
        self._keep_letter(letter)
        if delivery.cid in self._context.up:
            self._commits.batch.acks[self._context.up[delivery.cid]].append(message_id)
        for link, count in self._credit.take_copies(delivery, inbox):
            self._commits.batch.acks[link].extend([message_id] * count)
        self._commits.batch.then.append(partial(self._on_given_up, delivery.peer_id, key))
        for pattern in self._context.hooks.lettered:
            pattern.lettered(delivery, letter.cause)
        self._context.notice(
            NoticeKind.DEAD_LETTER,
            delivery.peer_id,
            f"message {message_id} of {message.channel!r:.100} {delivery.key!r:.100}, from peer {delivery.peer_id}, "
            f"{said}: kept as a dead letter, see dead_letters() and replay(), or `tolliver letters` (T-47)",
        )

    def _keep_letter(self, letter: DeadLetter) -> None:
        """Stores the dead letter, and in the same commit removes the oldest ones beyond the limits (T-47)."""
        number = self.numbers.add(letter.size)
        self._commits.batch.operations.append(AddDeadLetter(replace(letter, number=number)))
        self._undo(number, None)
        gone = self.numbers.beyond(self._limits.max_dead_letters, self._limits.max_dead_letter_bytes)
        if self.remove_letters(gone):
            self._commits.batch.then.append(partial(self._on_letters_dropped, len(gone)))

    def _on_letters_dropped(self, count: int, error: TolliverError | None) -> None:
        if error is not None:
            return
        self._counts["dropped_letters"] += count
        self._context.tally.add(
            NoticeKind.LETTERS_DROPPED,
            None,
            count,
            f"dead letters, the oldest, were dropped: {self._limits.max_dead_letters} or "
            f"{self._limits.max_dead_letter_bytes} bytes are kept (T-47). Mend the handler and replay() them, drop "
            "them with drop_dead_letters(), or raise Limits.max_dead_letters or max_dead_letter_bytes",
            self._context.now,
        )

    def remove_letters(self, numbers: Iterable[int]) -> int:
        """Removes the letters with these numbers with the next commit; returns how many existed."""
        gone = self.numbers.take_out(numbers)
        if gone:
            self._commits.batch.operations.append(RemoveDeadLetters([*gone]))
            for number, size in gone.items():
                self._undo(number, size)
        return len(gone)

    def _undo(self, number: int, size: int | None) -> None:
        self._commits.batch.undo.setdefault(("letter", number), partial(self.numbers.restore, number, size))

    def drop_dead_letters(self, letters: Iterable[Unchecked], now: float | None = None) -> Receipt:
        """Removes these dead letters, given as letters or by number."""
        self._context.tick(now)
        letters = listed("letters", letters)
        for letter in letters:
            check_type("letters", letter, DeadLetter | int, f"{_LETTERS}, or their numbers")
        count = self.remove_letters(one if isinstance(one, int) else one.number for one in letters)
        receipt = Receipt(0, -1, [count])
        if count:
            self._commits.batch.tokens.append(receipt)
        else:
            self._actions.append(Stored([receipt]))
        return receipt

    def _on_given_up(self, peer: UUID, key: MessageKey, error: TolliverError | None) -> None:
        if error is None and peer in self._peers:  # a derived identity goes with its last connection
            self.count_attempt(self._peers[peer], key, self._limits.max_attempts)

    def replay(self, letters: Iterable[Unchecked]) -> int:
        """Delivers dead letters to the handlers that match now; returns how many were delivered."""
        letters = listed("letters", letters)
        for letter in letters:
            check_type("letters", letter, DeadLetter, _LETTERS)
        count = 0
        under_way = set(self.replayed.values())
        for letter in letters:
            handlers = self._delivering.handlers.match(letter.channel, letter.key)
            if not handlers or letter.number in under_way:
                continue
            message = Message(letter.channel, letter.key, letter.body, letter.message_id)
            delivery = Delivery(0, letter.peer, message, letter.attempts + 1)
            self.replayed[delivery] = letter.number
            self._actions.append(Deliver([delivery], handlers))
            count += 1
        return count

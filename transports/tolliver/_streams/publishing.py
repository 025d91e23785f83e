"""Publications, and outbound streams from a source to a subscriber.

A `Publication` is a name and a source; each subscription to it is an `OutboundStream`, which knows how much may be
pulled from the source now and passes on what was pulled. Nothing here waits: an adapter's own has the loop that pulls,
in a task or in a thread. Elements that were pulled lie in `pending` until they are flushed, at the latest in the next
turn: so elements that are there at once go out together.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from fnmatch import translate
from typing import Any, Protocol

from tolliver_proto import LocalProtocolError
from tolliver_proto.reactive import UNBOUNDED, Hub

from .._driver.ends import is_interrupt, told
from ..codecs._codec import Coding
from .sources import converted

log = logging.getLogger("tolliver.streams")
BYTES = 65536  # about so much is pulled before others have their turn
MOST = 4096  # elements, however small
_WILD = frozenset("*?[")


class Publication:
    """A name or a pattern, and where the elements come from. `close()` withdraws it; streams that run go on."""

    def __init__(
        self, name: str, source: Any, coding: Coding, element_size: int, withdraw: Callable[[Publication], None]
    ) -> None:
        check_name(name)
        if not (callable(source) or _is_elements(source)):
            raise TypeError(
                f"the source of {name!r:.100} is {source!r:.100}: give an iterable or an async iterable of elements, "
                "or a function that gets the requested name and returns one"
            )
        if not isinstance(element_size, int) or element_size < 0:
            raise ValueError(f"element_size is {element_size!r:.100}: give bytes, or 0 where elements differ")
        self.name = name
        self.element_size = element_size
        self.encode: Callable[[Any], bytes] | None = coding.encode
        self._source = source
        self._withdraw = withdraw
        self._given = False
        self._opening = threading.Lock()  # two subscribers may come at once, on threads

    @property
    def is_pattern(self) -> bool:
        """True if it stands for every name that matches."""
        return not _WILD.isdisjoint(self.name)

    def open(self, name: str) -> Any:
        """A fresh run through the source; what a function returns may be awaitable. Raises what that raises."""
        if not _is_elements(self._source):
            return self._source(name)
        with self._opening:
            given, self._given = self._given, _is_iterator(self._source)
        if given:
            raise LookupError(f"{name!r:.100} was given to a subscriber already, and its source can be read but once")
        return self._source

    def close(self) -> None:
        """Withdraw it: nobody can subscribe any more. Streams that run go on; the second time does nothing."""
        self._withdraw(self)

    def __repr__(self) -> str:
        return f"<Publication of {self.name!r:.100}>"


class Catalogue:
    """Publications by name. An exact name comes before patterns, and these in the order in which they were added."""

    def __init__(self) -> None:
        self._exact: dict[str, Publication] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], Publication]] = {}

    def add(self, publication: Publication) -> None:
        """Raises ValueError where the name is taken."""
        name = publication.name
        if name in self._exact or name in self._patterns:
            raise ValueError(
                f"{name!r:.100} is published already: close() that publication first, or take another name"
            )
        if publication.is_pattern:
            self._patterns[name] = (re.compile(translate(name)), publication)
        else:
            self._exact[name] = publication

    def remove(self, publication: Publication) -> None:
        """The second time does nothing."""
        name = publication.name
        if self._exact.get(name) is publication:
            del self._exact[name]
        elif name in self._patterns and self._patterns[name][1] is publication:
            del self._patterns[name]

    def find(self, name: str) -> Publication | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        return next((found for pattern, found in self._patterns.values() if pattern.match(name)), None)


class OutboundCore(Protocol):
    """The core of a program's streams, as far as outbound ones know it."""

    hub: Hub

    def run_actions(self) -> None: ...

    def flush_soon(self, stream: OutboundStream) -> None: ...

    def outbound_over(self, stream: OutboundStream) -> None: ...


class OutboundStream(ABC):
    """One stream that is given. A subclass has the loop that pulls."""

    def __init__(
        self,
        owner: OutboundCore,
        key: tuple[int, int],
        name: str,
        publication: Publication,
        grant: int,
    ) -> None:
        self.key = key
        self.name = name
        self.over: bool = False
        self.pending: list[Any] = []
        self.credit: int = 0
        """Number of elements that may be pulled before `look` is asked again."""
        self._owner = owner
        self._publication = publication
        self._step = 16  # elements that are pulled at once; adapts to their size
        self._sent = 0
        self._window = grant
        self._granted = grant
        self._told = 0
        # Set by a source of our own in `_attach_outbound`: whether it has no more, and what it wants to be told.
        self.at_end: Callable[[], bool] = _unknown
        self.on_taken: Callable[[int], object] | None = None  # the peer is through with so many elements more
        self.on_over: Callable[[], object] | None = None  # the stream is over: who waits for an element need not

    @abstractmethod
    def set(self) -> None:
        """There may be something to do for the loop that pulls: demand, room, the end."""

    # Inputs from the peer.

    def requested(self, count: int) -> None:
        """The peer wants more: so it is through with as many of those that it had wanted before.

        But not where it never had as many in flight as now: then its window is larger than its first grant.
        """
        self._granted = min(self._granted + count, UNBOUNDED)
        self._window = max(self._window, self._granted - self._sent)
        self._tell_taken()
        self.set()

    def cancelled(self) -> None:
        """The stream is over, whoever ended it. Nothing more is pulled, and the source is closed."""
        self.over = True
        self.pending.clear()
        self.at_end = _unknown
        self.set()
        self._let_go()

    def _let_go(self) -> None:
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            on_over()

    # Inputs from the loop that pulls.

    def begin(self, source: Any) -> None:
        """The source is open. One that has `_attach_outbound(stream)` may set there what this stream tells it."""
        if hasattr(source, "_attach_outbound"):
            source._attach_outbound(self)
        elif isinstance(source, Sequence):
            self.at_end = lambda: self._sent >= len(source)
        if self.over:  # the source was opening meanwhile, and the id may be another stream's by now
            self.at_end = _unknown
            self._let_go()
        else:
            self._owner.hub.subscribed(*self.key, self._publication.element_size)

    def flush_soon(self) -> None:
        """In the next turn: there is something to pass on, or the source is at its end."""
        self._owner.flush_soon(self)

    def look(self) -> int:
        """Passes on what was pulled; then how many elements may be pulled now (R-32), 0 also where it is over."""
        self.flush()
        if self.over:
            self.credit = 0
        elif self.at_end():
            self.credit = 1  # the next pull is the end or an error, which need no demand (rules 1.5, 4.2)
        else:
            self.credit = min(self._owner.hub.wanted(*self.key), self._step)
        return self.credit

    def add(self, element: Any) -> None:
        """One element was pulled. Raises what its codec raises."""
        encode = self._publication.encode
        self.pending.append(element if encode is None else encode(element))
        self.credit -= 1
        if len(self.pending) == 1:
            self.flush_soon()

    def add_many(self, elements: Iterable[Any]) -> bool:
        """All of them; what was pulled before one raises is kept. False: there were fewer than the credit."""
        encode, before = self._publication.encode, len(self.pending)
        self.pending.extend(elements if encode is None else converted(encode, elements))
        pulled = len(self.pending) - before
        self.credit -= pulled
        return self.credit == 0

    def flush(self) -> None:
        """Pass on what is pending."""
        self.listen()
        elements, self.pending = self.pending, []
        if not elements or self.over:
            return
        try:
            self._pass_on(elements)
        except LocalProtocolError:
            self._one_by_one(elements)

    def listen(self) -> None:
        """Have the source pulled once more, if it has come to its end without being asked."""
        if self.at_end():
            self.set()

    def complete(self) -> None:
        """The source has no more."""
        self.flush()
        if not self.over:
            self._owner.hub.complete(*self.key)
            self._end()

    def fail(self, error: BaseException) -> None:
        """The source, or its codec, failed. The peer gets one line of text and no traceback (R-34)."""
        self.flush()
        if self.over:
            extra = {"stream": f"{self.name:.100}"}
            log.warning(
                "the source of %.100r failed after the end of its stream: %s", self.name, told(error), extra=extra
            )
            return
        self._owner.hub.error(*self.key, text_of(error))
        self._end()

    def _end(self) -> None:
        self._owner.outbound_over(self)
        self.cancelled()
        self._owner.run_actions()

    # Output.

    def _pass_on(self, elements: list[bytes]) -> None:
        sent = self._owner.hub.next_many(*self.key, elements)
        self._sent += sent
        if sent < len(elements):
            self._end()  # it was cancelled, or an element of the wrong size has ended it
        self._step = max(1, min(MOST, BYTES * sent // max(1, sum(map(len, elements)))))
        if self._granted == UNBOUNDED:
            self._tell_taken()

    def _one_by_one(self, elements: list[Any]) -> None:
        """One of them cannot be sent: those before it go out, and then the error."""
        for element in elements:
            try:
                self._pass_on([element])
            except LocalProtocolError as error:
                self.fail(error)
                return

    def _tell_taken(self) -> None:
        """A subscriber that wants all at once does not say when it is through: what went out counts then."""
        if self.on_taken is None:
            return
        through = self._sent if self._granted == UNBOUNDED else min(self._sent, self._granted - self._window)
        if through > self._told:
            self._told, fresh = through, through - self._told
            self.on_taken(fresh)


def check_name(name: object) -> None:
    """Raises TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a publisher is {name!r:.100}: give a str")


def text_of(error: BaseException) -> str:
    """The text about it that a peer is told."""
    try:
        text = str(error)
    except BaseException as wordless:  # it is the application's
        if is_interrupt(wordless):
            raise
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _unknown() -> bool:
    return False


def _is_elements(source: Any) -> bool:
    return isinstance(source, Iterable | AsyncIterable) and not isinstance(source, str | bytes | bytearray | memoryview)


def _is_iterator(source: Any) -> bool:
    return hasattr(source, "__next__") or hasattr(source, "__anext__")

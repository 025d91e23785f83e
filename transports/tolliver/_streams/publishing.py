"""Publications, and outbound streams from a source to a subscriber.

A `Publication` is a name and a source. Each subscription to it is an `OutboundStream`, which computes the number of
elements that may be pulled from the source now, and sends those that were pulled. No code here waits: the adapter's
subclass pulls, in a task or in a thread. Pulled elements are collected in `pending` until the next turn at latest, so
that those available together are sent together.
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
from tolliver_proto.node import check_count, check_type
from tolliver_proto.reactive import UNBOUNDED, Hub

from .._driver.ends import is_interrupt, told
from ..codecs._codec import Coding
from .sources import converted

log = logging.getLogger("tolliver.streams")
BYTES = 65536  # about the size of one batch, after which other streams get their turn
MOST = 4096  # most elements of a batch
_WILD = frozenset("*?[")


class Publication:
    """Publication of a program under a name or pattern: the source of its elements. `close()` withdraws it; running
    streams go on.
    """

    def __init__(
        self, name: str, source: Any, coding: Coding, element_size: int, withdraw: Callable[[Publication], None]
    ) -> None:
        check_name(name)
        if not (callable(source) or _is_elements(source)):
            raise TypeError(
                f"the source of {name!r:.100} is {source!r:.100}: give an iterable or an async iterable of elements, "
                "or a function that gets the requested name and returns one"
            )
        check_count("element_size", element_size)
        self.name = name
        self._pattern = None if _WILD.isdisjoint(name) else re.compile(translate(name))
        self.element_size = element_size
        self.encode: Callable[[Any], bytes] | None = coding.encode
        self._source = source
        self._withdraw = withdraw
        self._given = False
        self._opening = threading.Lock()  # on threads, two subscriptions may start at once

    def stands_for(self, name: str) -> bool:
        """True if our name is a pattern that matches this one."""
        return self._pattern is not None and self._pattern.match(name) is not None

    def open(self, name: str) -> Any:
        """Start an iteration of the source, or call it with the name; its result may be awaitable. Raises what that
        raises, and LookupError if the source is an iterator that an earlier subscriber got."""
        if not _is_elements(self._source):
            return self._source(name)
        with self._opening:
            given, self._given = self._given, _is_iterator(self._source)
        if given:
            raise LookupError(f"{name!r:.100} was given to a subscriber already, and its source can be read but once")
        return self._source

    def close(self) -> None:
        """Withdraw the publication: new subscriptions are refused, running streams go on. A second call does
        nothing."""
        self._withdraw(self)

    def __repr__(self) -> str:
        return f"<Publication of {self.name!r:.100}>"


class Catalogue:
    """Publications by name. A name always means itself, also where it is a pattern (`sensor[1]`); patterns are tried in
    the order in which they were added.
    """

    def __init__(self) -> None:
        self._known: dict[str, Publication] = {}

    def add(self, publication: Publication) -> None:
        """Add a publication. Raises ValueError if its name is taken."""
        name = publication.name
        if name in self._known:
            raise ValueError(
                f"{name!r:.100} is published already: close() that publication first, or take another name"
            )
        self._known[name] = publication

    def remove(self, publication: Publication) -> None:
        """Remove a publication. A second call does nothing."""
        if self._known.get(publication.name) is publication:
            del self._known[publication.name]

    def find(self, name: str) -> Publication | None:
        exact = self._known.get(name)
        return exact or next((found for found in self._known.values() if found.stands_for(name)), None)


class OutboundCore(Protocol):
    """The part of the streams' core that outbound streams use."""

    hub: Hub

    def run_actions(self) -> None: ...

    def flush_soon(self, stream: OutboundStream) -> None: ...

    def outbound_over(self, stream: OutboundStream) -> None: ...


class OutboundStream(ABC):
    """One stream from a publication of ours to a subscriber. A subclass has the loop that pulls from the source."""

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
        """Number of elements that may be pulled before `look` must be called again."""
        self._owner = owner
        self._publication = publication
        self._step = 16  # elements of one batch; adapts to their size
        self._left = BYTES  # of the elements that may be pulled before `look`
        self._sent = 0
        self._window = grant
        self._granted = grant
        self._told = 0
        # Callbacks that a source of our own sets in `_attach_outbound`: is it at its end, and notifications.
        self.at_end: Callable[[], bool] = _unknown
        self.on_taken: Callable[[int], object] | None = None  # called with the number of elements processed
        self.on_over: Callable[[], object] | None = None  # called when the stream is over

    @abstractmethod
    def set(self) -> None:
        """Called when the pulling loop may have something to do: demand, space to send, or the end of the stream."""

    # Input from the peer.

    def requested(self, count: int) -> None:
        """Add `count` elements to the subscriber's demand. That also means that the subscriber has processed as many
        earlier elements.

        The exception is demand that raises the number in flight above its highest value so far: the window is then
        larger than the first grant was.
        """
        self._granted = min(self._granted + count, UNBOUNDED)
        self._window = max(self._window, self._granted - self._sent)
        self._tell_taken()
        self.set()

    def cancelled(self) -> None:
        """End the stream, for any reason. Nothing more is pulled, and the source is closed."""
        self.over = True
        self.pending.clear()
        self.at_end = _unknown
        self.set()
        self._let_go()

    def _let_go(self) -> None:
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            on_over()

    # Input from the loop that pulls.

    def begin(self, source: Any) -> None:
        """Start with the open source. A source with `_attach_outbound(stream)` can set this stream's callbacks
        there."""
        if hasattr(source, "_attach_outbound"):
            source._attach_outbound(self)
        elif isinstance(source, Sequence):
            self.at_end = lambda: self._sent >= len(source)
        if self.over:  # ended while the source was being opened: the id may be reused by now
            self.at_end = _unknown
            self._let_go()
        else:
            self._owner.hub.subscribed(*self.key, self._publication.element_size)

    def flush_soon(self) -> None:
        """Have the pending elements, or the end of the source, processed in the next turn."""
        self._owner.flush_soon(self)

    def look(self) -> int:
        """Send the pulled elements that are pending; returns the number of elements that may be pulled from the source
        now (R-32), 0 if the stream has ended.
        """
        self.flush()
        self._left = BYTES
        if self.over:
            self.credit = 0
        elif self.at_end():
            self.credit = 1  # the next pull gets the end or an error, which need no demand (rules 1.5, 4.2)
        else:
            self.credit = min(self._owner.hub.wanted(*self.key), self._step)
        return self.credit

    def add(self, element: Any) -> None:
        """Add one pulled element. Raises what the codec raises."""
        encode = self._publication.encode
        self.pending.append(element if encode is None else encode(element))
        self.credit = 0 if self.is_enough(self.pending[-1]) else self.credit - 1
        if len(self.pending) == 1:
            self.flush_soon()

    def add_many(self, elements: Iterable[Any]) -> bool:
        """Pull and add elements; those before an error are kept. False if the source has come to its end."""
        encode = self._publication.encode
        for element in elements if encode is None else converted(encode, elements):
            self.pending.append(element)
            self.credit -= 1
            if self.is_enough(element):
                return True
        return self.credit == 0

    def is_enough(self, element: Any) -> bool:
        """Count a pulled element's bytes; returns True if `look` comes before the next: sizes are known by no other
        way."""
        self._left -= len(element) if type(element) is bytes else 0
        return self._left <= 0

    def flush(self) -> None:
        """Send the elements that were pulled and are pending."""
        self.listen()
        elements, self.pending = self.pending, []
        if not elements or self.over:
            return
        try:
            self._pass_on(elements)
        except LocalProtocolError:
            self._one_by_one(elements)

    def listen(self) -> None:
        """Have the source pulled once more, without demand, if it is at its end: its end or error needs none."""
        if self.at_end():
            self.set()

    def complete(self) -> None:
        """End the stream, because its source has no more elements."""
        self.flush()
        if not self.over:
            self._owner.hub.complete(*self.key)
            self._end()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error of the source or codec. The peer gets one line of text, without traceback
        (R-34)."""
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
            self._end()  # cancelled, or ended by an element of the wrong size
        self._step = max(1, min(MOST, BYTES * sent // max(1, sum(map(len, elements)))))
        if self._granted == UNBOUNDED:
            self._tell_taken()

    def _one_by_one(self, elements: list[Any]) -> None:
        """Send elements one at a time up to the one that cannot be sent, then fail the stream with its error."""
        for element in elements:
            try:
                self._pass_on([element])
            except LocalProtocolError as error:
                self.fail(error)
                return

    def _tell_taken(self) -> None:
        """Report processed elements to the source. With unbounded demand a subscriber reports nothing, so sent elements
        count."""
        if self.on_taken is None:
            return
        through = self._sent if self._granted == UNBOUNDED else min(self._sent, self._granted - self._window)
        if through > self._told:
            self._told, fresh = through, through - self._told
            self.on_taken(fresh)


def check_name(name: object) -> None:
    """Raises TypeError if the name is not a str."""
    check_type("name", name, str, "the name of a publisher")


def text_of(error: BaseException) -> str:
    """Text of an error, for the peer."""
    try:
        text = str(error)
    except BaseException as wordless:  # `str` of the application's error may raise anything
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

"""Number and sizes of the retained values (P-30).

The values are in the store. Memory has their number and bytes, the sizes for the last few thousand names in use, and
the changes made while values are looked up for a new subscriber.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from .._common.errors import OwnLimitExceeded
from .._node.services import Services
from .._node.subscriptions import matching
from .._wire.events import Subscription

Name = tuple[str, str]
"""(channel, key)"""

_NAMES_KNOWN = 4096


class Look:
    """A search for the values that match some subscriptions: those `found`, and those `changed` meanwhile.

    `spoilt` if a seen change was undone by a failed commit: the search starts over.
    """

    __slots__ = ("changed", "found", "spoilt", "wanted")

    def __init__(self, wanted: frozenset[Subscription]) -> None:
        self.wanted = wanted
        self.begin({})

    def begin(self, changed: dict[Name, bytes | None]) -> None:
        self.found: dict[Name, bytes] = {}
        self.changed = {name: body for name, body in changed.items() if self.matches(name)}
        self.spoilt = False

    def matches(self, name: Name) -> bool:
        return not self.wanted.isdisjoint(matching(*name))

    def values(self) -> list[tuple[str, str, bytes]]:
        """The newest value of each name."""
        newest = {**self.found, **self.changed}
        return [(*name, body) for name, body in newest.items() if body is not None]


class RetainedSizes:
    """Number and bytes of the values, the sizes of names in use, and the searches in progress."""

    def __init__(self, services: Services) -> None:
        self.count, self.bytes = services.stored_values
        self.looks: list[Look] = []
        self._kernel = services
        self._sizes: dict[Name, int | None] = {}

    def __contains__(self, name: Name) -> bool:
        """True if the size of this name's value is known, or that it has none."""
        return name in self._sizes

    def learn(self, names: Collection[Name], sizes: Iterable[int | None], needed: Collection[Name]) -> None:
        """Remembers sizes as the store has them. Makes room by forgetting names that are not `needed`."""
        if len(self._sizes) + len(names) > _NAMES_KNOWN:
            self._sizes = {name: self._sizes[name] for name in needed if name in self._sizes}
        self._sizes.update(zip(names, sizes, strict=True))

    def check(self, name: Name, new: int | None) -> None:
        """Raises OwnLimitExceeded if there is no room for a value of this size."""
        if new is None:
            return
        before, limits = self._sizes[name], self._kernel.limits
        count, size = self.count + (before is None), self.bytes + new - (before or 0)
        grows = new > (before or 0)
        if (count > limits.max_retained and before is None) or (size > limits.max_retained_bytes and grows):
            channel, key = name
            raise OwnLimitExceeded(
                "too_many",
                f"retaining {channel!r:.100} {key!r:.100} would make {count} values of {size} bytes: at most "
                f"{limits.max_retained} of {limits.max_retained_bytes} bytes are kept (P-35). Clear some with "
                "retain(channel, key, None), or raise Limits.max_retained or max_retained_bytes",
            )

    def take(self, name: Name, body: bytes | None, size: int | None) -> None:
        """Sets the name's value with the next commit."""
        self._kernel.undo(("retained", name), partial(self._restore, name, self._sizes[name]))
        self._kernel.values[name] = body
        self._set(name, size)
        for look in self.looks:
            if look.matches(name):
                look.changed[name] = body

    def _set(self, name: Name, size: int | None) -> None:
        before = self._sizes[name]
        self.count += (size is not None) - (before is not None)
        self.bytes += (size or 0) - (before or 0)
        self._sizes[name] = size

    def _restore(self, name: Name, size: int | None) -> None:
        """Undoes a change whose commit failed."""
        self._set(name, size)
        for look in self.looks:
            look.spoilt = look.spoilt or name in look.changed

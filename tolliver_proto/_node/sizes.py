"""Sizes of the names and bodies that may be sent."""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import LocalProtocolError, OwnLimitExceeded, ReservedChannel
from .._wire.events import PRIVATE_CHANNELS, Subscription
from .context import Context

_NAMES_KNOWN = 4096
_PAIRS_KNOWN = 4096
Item = tuple[str, str, bytes]
"""(channel, key, body)"""


class Sizes:
    """Sizes in bytes in our own wire layout, remembered by name. Each method raises an error for names or bodies not
    allowed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limits = context.limits
        self._hooks = context.hooks
        self._name_sizes: dict[str, int] = {}
        self.pair_sizes: dict[tuple[str, str], int] = {}

    def checked(self, channel: str, key: str) -> Subscription:
        """The subscription, if it is allowed. Raises ReservedChannel, LocalProtocolError, OwnLimitExceeded."""
        self.name_size(channel)
        self.name_size(key)
        if channel in PRIVATE_CHANNELS:
            raise ReservedChannel("reserved_channel", f"{channel!r} is the protocol's own: choose another (T-27, T-80)")
        return Subscription(channel, key)

    def entry_size(self, subscription: Subscription) -> int:
        return self._context.encoder.entry_overhead + sum(len(name.encode()) for name in subscription)

    def name_size(self, name: str) -> int:
        size = self._name_sizes.get(name) if isinstance(name, str) else None
        if size is None:
            try:
                size = len(name.encode())
            except AttributeError:
                raise TypeError(
                    f"the name {name!r:.100} is no text: give a str as channel and key, and a handler as handler="
                ) from None
            except UnicodeEncodeError:
                raise LocalProtocolError(
                    "bad_text", f"the name {name!r:.100} is not text that UTF-8 can carry: give a str (T-11)"
                ) from None
            if size > self._limits.max_name:
                raise OwnLimitExceeded(
                    "too_long", f"a name of {size} bytes: the limit is {self._limits.max_name} (T-07)"
                )
            if len(self._name_sizes) >= _NAMES_KNOWN:
                self._name_sizes.clear()
            self._name_sizes[name] = size
        return size

    def size(self, channel: str, key: str, body: bytes) -> int:
        """The encoded size of a message in bytes. Raises an error for one that may not be sent."""
        try:
            around = self.pair_sizes.get((channel, key))
        except TypeError:  # of a name that has no hash
            around = None
        if around is None:
            around = self._size_around(channel, key)
        self.check_body(channel, body)
        return around + len(body)

    def check_body(self, channel: str, body: bytes) -> None:
        if not isinstance(body, bytes):
            raise LocalProtocolError("not_bytes", f"a body must be bytes, not {type(body).__name__}: encode it first")
        if len(body) > self._limits.max_body:
            raise OwnLimitExceeded(
                "too_long",
                f"a body of {len(body)} bytes for {channel!r:.100}: the limit is {self._limits.max_body} (T-06). "
                "Split it, or raise Limits.max_body here and at the peers",
            )

    def sizes(self, items: Sequence[Item]) -> Sequence[int]:
        """The encoded size of each message, like `size`."""
        known, most = self.pair_sizes, self._limits.max_body
        try:
            return [
                known[channel, key] + len(body)
                if type(body) is bytes and len(body) <= most and (channel, key) in known
                else self.size(channel, key, body)
                for channel, key, body in items
            ]
        except (TypeError, ValueError):  # of an item that is no triple, or a name that has no hash
            wrong = next(one for one in items if not _is_item(one))
            raise TypeError(f"items has {wrong!r:.100}: give (channel, key, body)") from None

    def _size_around(self, channel: str, key: str) -> int:
        """The encoded size of a message without its body, remembered by name."""
        self.name_size(channel)
        if channel in PRIVATE_CHANNELS:
            raise ReservedChannel(
                "reserved_channel", f"{channel!r} is the protocol's own: send on another (T-27, T-80)"
            )
        for pattern in self._hooks.refuses:
            refusal = pattern.refuses(channel)
            if refusal is not None:
                raise refusal
        if len(self.pair_sizes) >= _PAIRS_KNOWN:
            self.pair_sizes.clear()
        size = self.pair_sizes[channel, key] = self.around(channel, key)
        return size

    def around(self, channel: str, key: str) -> int:
        return self._context.encoder.overhead + self.name_size(channel) + self.name_size(key)


def _is_item(item: object) -> bool:
    return isinstance(item, Sequence) and len(item) == 3 and isinstance(item[0], str) and isinstance(item[1], str)

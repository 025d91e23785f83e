"""Access rules: the rights to connect, subscribe, publish (D-4, D-5).

Rights are data, a list of patterns for each direction, looked up by the peer's proved UUID. There are no deny rules: a
name that no pattern covers is refused, so that an added line can only grant. The default lets every member of the CA do
everything; `Rights.none()` as the default lets in only the peers that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from uuid import UUID

from .._common.derived_ids import is_derive_prefix, is_derived, prefix_of
from .._common.records import frozen
from .._wire.events import Subscription

Pattern = tuple[str, str]
"""(channel, key): each an exact name, or a prefix with `*` at its end; "*" is every name."""

_ANYTHING: tuple[Pattern, ...] = (("*", "*"),)


def _is_covered(patterns: Iterable[Pattern], channel: str, key: str) -> bool:
    """True if one of the patterns covers all that a subscription to these names matches. Only "*" covers the empty
    name, which is the wildcard of a subscription.
    """
    return any(_has(pattern[0], channel) and _has(pattern[1], key) for pattern in patterns)


def _has(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _patterns(name: str, value: object) -> tuple[Pattern, ...]:
    if isinstance(value, tuple | list):
        patterns = [pattern for pattern in value if isinstance(pattern, tuple | list) and len(pattern) == 2]
        if len(patterns) == len(value) and all(isinstance(part, str) for pattern in patterns for part in pattern):
            return tuple((channel, key) for channel, key in patterns)
    raise ValueError(
        f'Rights.{name} is {value!r:.100}: give (channel, key) pairs, such as [["readings", "*"], ["alarms", "x"]]'
    )


@frozen
class Rights:
    """Rights of one peer. The default is everything.

    - `subscribe`: the messages that may be sent to the peer. A subscription must lie wholly within one pattern: only
      "*" covers a wildcard (T-24), a list of single names never does.
    - `publish`: the messages that are taken from the peer.
    - `connect`: False refuses the peer altogether. Nothing is routed to it either, as it could never fetch anything.

    A star that is not the last character is an ordinary one. Raises ValueError for anything but a list of patterns.
    """

    subscribe: tuple[Pattern, ...] = _ANYTHING
    publish: tuple[Pattern, ...] = _ANYTHING
    connect: bool = True

    def __post_init__(self) -> None:
        for name in ("subscribe", "publish"):
            object.__setattr__(self, name, _patterns(name, getattr(self, name)))
        if any("" in pattern for pattern in self.subscribe):
            raise ValueError('Rights.subscribe has the empty name, a wildcard in a subscription: write "*" instead')
        if not isinstance(self.connect, bool):
            raise ValueError(f"Rights.connect is {self.connect!r:.100}: give True or False")

    @classmethod
    def none(cls) -> Rights:
        """No right at all. Denies by default as `Acl(default=Rights.none(), peers={...})`."""
        return cls((), (), False)

    def may_subscribe(self, subscription: Subscription) -> bool:
        """True if all that the subscription matches may be sent to this peer."""
        return self.connect and _is_covered(self.subscribe, *subscription)

    def may_publish(self, channel: str, key: str) -> bool:
        """True if messages with these names are taken from this peer."""
        return _is_covered(self.publish, channel, key)

    def granted(self, subscriptions: frozenset[Subscription]) -> frozenset[Subscription]:
        """Returns those of the subscriptions that the peer may have."""
        if self == _EVERYTHING:
            return subscriptions
        return frozenset(filter(self.may_subscribe, subscriptions))


_EVERYTHING = Rights()


@frozen
class Acl:
    """The access rules of an instance: the rights of single peers by UUID, and of all others.

    `derived` has the rights of the identities derived from one certificate, by its prefix of 12 hex digits (T-72a).
    Raises ValueError for values of other types.
    """

    default: Rights = _EVERYTHING
    peers: Mapping[UUID, Rights] = field(default_factory=dict, hash=False)
    derived: Mapping[str, Rights] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.default, Rights):
            raise ValueError(f"Acl.default is {self.default!r:.100}: give Rights(...), or Rights.none() to deny")
        if not isinstance(self.peers, Mapping):
            raise ValueError(f"Acl.peers is {self.peers!r:.100}: give a dict from UUID to Rights")
        for uuid, rights in self.peers.items():
            if not isinstance(uuid, UUID) or not isinstance(rights, Rights):
                raise ValueError(f"Acl.peers has {uuid!r:.100}: {rights!r:.100}. Give a uuid.UUID, and Rights(...)")
        if not isinstance(self.derived, Mapping):
            raise ValueError(f"Acl.derived is {self.derived!r:.100}: give a dict from prefix to Rights")
        for prefix, rights in self.derived.items():
            if not is_derive_prefix(prefix) or not isinstance(rights, Rights):
                raise ValueError(
                    f"Acl.derived has {prefix!r:.100}: {rights!r:.100}. Give the prefix as `tolliver certs --derive` "
                    "shows it, such as 'f00dbabe0001', and Rights(...)"
                )
        object.__setattr__(self, "peers", dict(self.peers))  # a copy, which no caller can change
        object.__setattr__(self, "derived", dict(self.derived))

    @property
    def is_open(self) -> bool:
        """True if every peer may do everything."""
        return all(rights == _EVERYTHING for rights in (self.default, *self.peers.values(), *self.derived.values()))

    def rights(self, peer: UUID) -> Rights:
        rights = self.peers.get(peer)
        if rights is None and self.derived and is_derived(peer):
            rights = self.derived.get(prefix_of(peer))
        return rights or self.default

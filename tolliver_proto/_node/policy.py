"""Choices of an instance, where a ruling leaves them.

The defaults are those of the rulings; a policy is data that the node reads where the choice is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal, get_args
from uuid import UUID

from .._common.records import options
from .._wire.dialect import AS_EVERYBODY, Dialect

Probe = Literal["off", "ack", "message"]
"""Frame that is sent on a connection that has been silent (T-80)."""


class QuotaPolicy(StrEnum):
    """Fate of a message for a peer whose outbox is at its quota (D-10). Other peers get the message in any case but the
    first."""

    RAISE = "raise"
    """`send` raises OutboxFull and stores nothing for any peer."""

    DROP_OLDEST = "drop_oldest"
    """The peer's oldest deliveries are given up to make room, in the commit that stores the new ones."""

    SKIP = "skip"
    """The peer does not get the message, and does not count as a recipient."""


@options
class Policy:
    """Choices of a node. Raises ValueError for values out of range.

    - `dedupe`: number of handled messages to remember, whose copies are acknowledged and not delivered again; 0 is the
      draft's own rule, every copy is delivered (T-48).
    - `dedupe_durable`: remember them on disk, before the ack goes out.
    - `expire_after`: seconds after which a stored message that is still unacknowledged is given up, or None (D-10).
    - `forget_after`: seconds of absence after which a peer is forgotten, as by `forget_peer`, or None (T-77).
    - `quota_policy`: fate of messages for a peer at its quota; `quota_policies` has exceptions by UUID (D-10).
    - `strict_block`: sends wait while any connection is being made, as the first draft says literally (T-62).
    - `probe`: the frame sent on a connection on which nothing was sent for `probe_interval` seconds (T-80): "off",
      none; "ack", an ack that every peer ignores, so that TCP notices a dead end; "message", a message that the peer
      acknowledges at once, or within `probe_timeout` seconds, else the connection is taken for lost. A message goes
      also where nothing was received for that time: our own frames prove nothing about the peer. A peer whose
      subscriptions match `PROBE_CHANNEL` gets an ack, and so does every peer of a derived identity.
    - `max_connection_age`: seconds after which, or up to a tenth before, a connection is ended in order and dialled
      again, so that an expired certificate does not stay in use, or None (D-8).
    - `stuck_after`: seconds after which a handler whose call has not ended counts as stuck: new messages for it are
      withheld until the call ends, and messages for other handlers are read; None is never (D-9).
    - `handling_timeout`: seconds after which a copy of a message whose handler has not ended is delivered; None is
      never, and 0 at once: each copy is delivered, but for jobs, requests, stages and bridges (T-48).
    - `unsubscribed_hold`: seconds for which messages wait for a peer whose newer list lacks their subscription, 0 for
      none (T-61).
    - `unacknowledged_after`: seconds without any ack of sent messages after which a notice reports the peer, or None.
    - `dialect`: how all peers speak, without the revision and the version, which are arguments of the node (C6).
    - `dialects`: dialects of single peers, by UUID, over `dialect`. The dialect of `Node.connect` stands over both, and
      it alone says which version is announced to a peer that we dial.
    """

    dedupe: int = 0
    dedupe_durable: bool = False
    expire_after: float | None = None
    forget_after: float | None = None
    quota_policy: QuotaPolicy = QuotaPolicy.RAISE
    quota_policies: Mapping[UUID, QuotaPolicy] = field(default_factory=dict, hash=False)
    strict_block: bool = False
    probe: Probe = "off"
    probe_interval: float = 30.0
    probe_timeout: float = 30.0
    max_connection_age: float | None = None
    stuck_after: float | None = 10.0
    handling_timeout: float | None = 600.0
    unsubscribed_hold: float = 3600.0
    unacknowledged_after: float | None = 60.0
    dialect: Dialect = AS_EVERYBODY
    dialects: Mapping[UUID, Dialect] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.dedupe < 0:
            raise ValueError(f"Policy.dedupe is {self.dedupe}: give the number of messages to remember, or 0")
        if self.dedupe_durable and not self.dedupe:
            raise ValueError("Policy.dedupe_durable without dedupe: say how many messages to remember")
        if self.probe not in get_args(Probe):
            raise ValueError(f"Policy.probe is {self.probe!r}: give one of {', '.join(map(repr, get_args(Probe)))}")
        if not isinstance(self.quota_policy, QuotaPolicy):
            raise ValueError(f"Policy.quota_policy is {self.quota_policy!r:.100}: give one of {_QUOTA_POLICIES}")
        if not isinstance(self.quota_policies, Mapping):
            raise ValueError(f"Policy.quota_policies is {self.quota_policies!r:.100}: give a dict by UUID")
        for uuid, policy in self.quota_policies.items():
            if not isinstance(uuid, UUID) or not isinstance(policy, QuotaPolicy):
                raise ValueError(
                    f"Policy.quota_policies has {uuid!r:.100}: {policy!r:.100}. Give a uuid.UUID, and one of "
                    f"{_QUOTA_POLICIES}"
                )
        object.__setattr__(self, "quota_policies", dict(self.quota_policies))  # a copy, which no caller can change
        if not isinstance(self.dialect, Dialect):
            raise ValueError(f"Policy.dialect is {self.dialect!r:.100}: give Dialect(...)")
        for name in ("revision", "version"):
            if getattr(self.dialect, name) is not None:
                raise ValueError(
                    f"Policy.dialect has a {name}, {getattr(self.dialect, name)}: that of everybody is the option "
                    f"`{name}`, give that one"
                )
        if not isinstance(self.dialects, Mapping):
            raise ValueError(f"Policy.dialects is {self.dialects!r:.100}: give a dict from UUID to Dialect")
        for uuid, dialect in self.dialects.items():
            if not isinstance(uuid, UUID) or not isinstance(dialect, Dialect):
                raise ValueError(
                    f"Policy.dialects has {uuid!r:.100}: {dialect!r:.100}. Give a uuid.UUID, and Dialect(...)"
                )
        object.__setattr__(self, "dialects", dict(self.dialects))
        for name in ("probe_interval", "probe_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Policy.{name} is {getattr(self, name)}: give seconds above zero")
        if not self.unsubscribed_hold >= 0:
            raise ValueError(f"Policy.unsubscribed_hold is {self.unsubscribed_hold}: give seconds, or 0")
        if self.handling_timeout is not None and not self.handling_timeout >= 0:
            raise ValueError(f"Policy.handling_timeout is {self.handling_timeout}: give seconds, 0, or None")
        for name in (
            "expire_after",
            "forget_after",
            "max_connection_age",
            "unacknowledged_after",
            "stuck_after",
        ):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"Policy.{name} is {seconds}: give seconds above zero, or None")

    def quota_of(self, peer: UUID) -> QuotaPolicy:
        return self.quota_policies.get(peer, self.quota_policy)


_QUOTA_POLICIES = ", ".join(f"QuotaPolicy.{policy.name}" for policy in QuotaPolicy)

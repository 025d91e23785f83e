"""Policy: options of an instance's behaviour that the protocol leaves open.

The defaults are those of the rulings (docs/protocol.md). A policy is data, read at the place of each choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Literal, get_args
from uuid import UUID

from .._common.arguments import check_count, check_seconds
from .._common.records import frozen, option, options

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


@frozen
class Retry:
    """Tries and pauses of a message that a handler fails with, which then is a dead letter (P-22).

    `attempts`: tries in all. `first`: seconds before the second try; each later pause is twice the one before, up to
    `most`. `jitter` shortens each by up to a half, at random, so that messages that failed together do not come
    together again. Raises TypeError, ValueError.
    """

    attempts: int = 5
    first: float = 1.0
    most: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts, 1)
        check_seconds("first", self.first)
        check_seconds("most", self.most)
        if not isinstance(self.jitter, bool):
            raise TypeError(f"jitter={self.jitter!r:.100}: give True or False")
        if self.most < self.first:
            raise ValueError(f"Retry.most={self.most:g} is below first={self.first:g}: give the longest pause")

    def pause(self, attempt: int, chance: float) -> float | None:
        """Seconds after the failure of this attempt, counted from 1, until the next; None after the last one. `chance`
        is a random number from 0 to 1.
        """
        if attempt >= self.attempts:
            return None
        seconds = min(self.first * 2.0 ** min(attempt - 1, _DOUBLINGS), self.most)
        return seconds * (1.0 - chance / 2) if self.jitter else seconds


@options
class Policy:
    """Choices of a node, each with its default and meaning below. Raises ValueError for values out of range."""

    dedupe: int = option(
        "N",
        "handled messages that are remembered, so that a copy is acknowledged and not delivered again; 0: "
        "every copy is delivered",
        "A message must not be handled twice because its ack was lost.",
        default=0,
    )
    dedupe_durable: bool = option(
        "",
        "remember them on disk, before the ack goes out",
        "A message must not be handled twice because my program was restarted.",
        default=False,
    )
    expire_after: float | None = option(
        "SECONDS|none",
        "after which a stored message that is unacknowledged is given up",
        "My messages are worth nothing after an hour.",
        default=None,
    )
    forget_after: float | None = option(
        "SECONDS|none",
        "after which a peer that is away is forgotten, with its queue, counted anew from each opening",
        "Peers come and go under new UUIDs.",
        default=None,
    )
    quota_policy: QuotaPolicy = option(
        "raise|drop_oldest|skip",
        "what becomes of messages for a peer at its quota",
        "One peer that is away must not stop what I send to the others.",
        default=QuotaPolicy.RAISE,
    )
    quota_policies: Mapping[UUID, QuotaPolicy] = option(
        "UUID=POLICY",
        "the same for one peer",
        "A display wants the newest messages alone, all others want each.",
        factory=dict,
    )
    strict_block: bool = option(
        "",
        "sends wait while any connection is being made",
        "No message goes out while a peer is just connecting, as draft 1 says literally.",
        default=False,
    )
    probe: Probe = option(
        "off|ack|message",
        "what is said on a connection that is silent: ack, so that TCP notices a dead end; message, which "
        "the peer must answer",
        "A peer hangs, or a network forgets idle connections, and I want to know.",
        default="off",
    )
    probe_interval: float = option(
        "SECONDS",
        'for which nothing was sent on a connection, or for "message" also heard, before a probe',
        "A dead connection must be noticed sooner.",
        default=30.0,
    )
    probe_timeout: float = option(
        "SECONDS",
        "for an answer to a probe that is a message, else the connection is lost",
        "A peer on a slow line may take longer than 30 seconds to answer a probe.",
        default=30.0,
    )
    max_connection_age: float | None = option(
        "SECONDS|none",
        "after which, or up to a tenth before, a connection is ended in order and dialled again",
        "My certificates are short-lived, and no connection may outlive its own.",
        default=None,
    )
    stuck_after: float | None = option(
        "SECONDS|none",
        "after which a handler's call counts as stuck: new messages for it are withheld until it ends, others go on",
        "My handlers take longer than 10 seconds.",
        default=10.0,
    )
    handling_timeout: float | None = option(
        "SECONDS|none",
        "after which a message that a handler is still at is handed out again; 0: each copy is",
        "My handlers take longer than 10 minutes, and must not get their message again.",
        default=600.0,
    )
    max_deaths: int | None = option(
        "N|none",
        "deaths of the process while handlers had one message and no other, after which it is a dead letter; none: "
        "it is handed out after each start",
        "My handlers take hours, and the machine is often taken away under them.",
        default=3,
    )
    unsubscribed_hold: float = option(
        "SECONDS",
        "for which messages wait for a peer whose newer list lacks their subscription; 0 for none",
        "A subscriber restarts and subscribes again later, or never.",
        default=3600.0,
    )
    key_window: float = option(
        "SECONDS",
        "for which a message key stands for its first message; longer while that waits",
        "A program may send a message again, with its key, later than a day after.",
        default=86400.0,
    )
    result_ttl: float = option(
        "SECONDS",
        "for which the answer to a call with a message key is kept",
        default=86400.0,
    )
    unacknowledged_after: float | None = option(
        "SECONDS|none",
        "after which a notice says that a peer acknowledges nothing of what was sent to it",
        default=60.0,
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            remedy = _remedy(value, one.metadata.get("takes", "anything"), one.name in _FROM_ZERO)
            if remedy:
                raise ValueError(f"Policy.{one.name} is {value!r:.100}: give {remedy}")
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

    def quota_of(self, peer: UUID) -> QuotaPolicy:
        return self.quota_policies.get(peer, self.quota_policy)


_DOUBLINGS = 64  # of a pause: beyond, it is above any `most`
_QUOTA_POLICIES = ", ".join(f"QuotaPolicy.{policy.name}" for policy in QuotaPolicy)
_FROM_ZERO = ("handling_timeout", "unsubscribed_hold")  # times that may be 0


def _remedy(value: object, takes: str, from_zero: bool) -> str:
    """Returns the value to give instead of this one, "" if it may be meant. `takes` says which values the option takes,
    `from_zero` whether 0 is one.
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if takes == "" and not isinstance(value, bool):
        return "True or False"
    if takes == "N" and not (isinstance(number, int) and number >= 0):
        return "the number of messages to remember, or 0"
    if takes == "N|none" and value is not None and not (isinstance(number, int) and number >= 1):
        return "the number of deaths, at least 1, or None"
    none = takes.endswith("|none")
    if takes.startswith("SECONDS") and not (number > 0 or (from_zero and number == 0) or (none and value is None)):
        return f"seconds{', or 0' if from_zero else ' above zero'}{', or None' if none else ''}"
    return ""

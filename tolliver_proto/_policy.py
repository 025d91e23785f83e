"""What an instance may decide differently, where a ruling leaves it the choice.

The idea: the defaults are the rulings' own; a policy is data that the node reads where the choice is made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Choices of a node. Raises ValueError for one that cannot be meant.

    - `dedupe`: how many handled messages are remembered, so that a copy is acknowledged and not delivered again; 0 is
      the draft's own rule, every copy is delivered (T-48).
    - `dedupe_durable`: they are remembered on disk, before the ack goes out.
    - `expire_after`: seconds after which a stored message that is still unacknowledged is given up, or None (D-10).
    - `strict_block`: sends wait while any connection is being made, as the first draft says literally (T-62).
    - `announce_after_handshake`: subscriptions are also sent as messages, where peers ignore a handshake's (T-33).
    """

    dedupe: int = 0
    dedupe_durable: bool = False
    expire_after: float | None = None
    strict_block: bool = False
    announce_after_handshake: bool = False

    def __post_init__(self) -> None:
        if self.dedupe < 0:
            raise ValueError(f"Policy.dedupe is {self.dedupe}: give the number of messages to remember, or 0")
        if self.dedupe_durable and not self.dedupe:
            raise ValueError("Policy.dedupe_durable without dedupe: say how many messages to remember")
        if self.expire_after is not None and self.expire_after <= 0:
            raise ValueError(f"Policy.expire_after is {self.expire_after}: give seconds above zero, or None")

"""Limits: every bound on what a peer may make us hold.

A bound on size or time is data, checked where the length or count is read and before memory is taken. Times are in
seconds, sizes in bytes. Source of each default: the ruling beside it.
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import options

_U32 = 2**32 - 1
_KIB, _MIB = 2**10, 2**20


@options
class Limits:
    """Bounds of a connection and of a node. A value below one (below zero for a time) raises ValueError."""

    # One frame.
    max_body: int = 16 * _MIB  # T-06
    max_name: int = 4096  # T-07: channel or key, encoded
    max_subscriptions: int = 10_000  # T-08, T-19
    max_handshake: int = _MIB  # T-08: a whole handshake frame

    # One connection.
    handshake_timeout: float = 10.0  # T-68
    close_timeout: float = 5.0  # from our last byte to the peer's end of stream
    unexpected_per_minute: int = 16  # T-65
    handshake_burst: int = 3  # T-66: then one a second
    high_water: int = _MIB  # D-9: unsent bytes above which nothing more is pulled
    low_water: int = 256 * _KIB  # D-9: and below which pulling goes on
    max_answers: int = _MIB  # D-12: what the peer can make us say on our own, acks above all, while it does not read
    inbox_messages: int = 1024  # D-9: handed out and not settled, before reading pauses
    inbox_bytes: int = 16 * _MIB

    # Strangers.
    max_handshakes: int = 256  # D-7: connections that came in and are not established yet
    max_handshakes_per_address: int = 16

    # One peer.
    peers_per_key: int = 1000  # D-3: UUIDs that certificates of one key, and without a UUID, may be known by
    window_messages: int = 256  # T-52: unacknowledged
    window_bytes: int = 8 * _MIB
    backoff_messages: int = 10_000  # T-52: left the window, waiting for their resend
    outbox_messages: int = 100_000  # D-10
    outbox_bytes: int = 1024 * _MIB
    max_attempts: int = 20  # T-47: failed deliveries of a message before it becomes a dead letter
    attempts_remembered: int = 10_000  # T-47: messages whose failed deliveries are counted in memory
    max_dead_letters: int = 10_000  # T-47: of all peers together; at it the oldest goes
    max_dead_letter_bytes: int = 256 * _MIB
    max_retained: int = 10_000  # P-35: names whose newest value is kept for whoever subscribes
    max_retained_bytes: int = 64 * _MIB
    control_per_second: int = 100  # D-12: control messages; what is above waits

    # Sending again.
    resend_first: float = 10.0  # T-50
    resend_max: float = 300.0
    redial_first: float = 0.1  # T-73
    redial_max: float = 30.0

    # The node.
    handler_grace: float = 5.0  # T-46: after the opening, in which what is wanted is kept for its handler
    subscription_grace: float = 30.0  # T-46: in which what nobody wants is not yet dropped
    keep_bytes: int = 4 * _MIB  # T-62: messages kept for a connecting peer
    removal_delay: float = 0.05  # acknowledged rows wait this long for a commit to ride with
    crossing_dial_window: float = 10.0  # T-70

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (isinstance(value, int) and value < 1):
                raise ValueError(f"Limits.{field.name} is {value!r}: give a positive number")
        if self.low_water > self.high_water:
            raise ValueError("Limits.low_water is above high_water: lower it, or reading the outbox would never resume")

    @classmethod
    def format(cls) -> Limits:
        """Only the maxima of the format itself: for recordings and for bytes that are already in memory."""
        return cls(max_body=2**31 - 1, max_name=_U32, max_subscriptions=_U32, max_handshake=2**63)

"""Limits: all bounds on memory and time that peers may take.

A bound is checked where the length or count is read, before memory is taken. Times are in seconds, sizes in bytes. The
comment of each default names its ruling.
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import options

_U32 = 2**32 - 1
_KIB, _MIB = 2**10, 2**20


@options
class Limits:
    """Bounds of a connection and of a node. Raises ValueError for a count below one or a time below zero."""

    # One frame.
    max_body: int = 16 * _MIB  # T-06
    max_name: int = 4096  # T-07: channel or key, encoded
    max_subscriptions: int = 10_000  # T-08, T-19: entries of one handshake or control message
    max_handshake: int = _MIB  # T-08: a whole handshake frame

    # One connection.
    handshake_timeout: float = 10.0  # T-68
    close_timeout: float = 5.0  # from our last byte to the peer's end of stream
    unexpected_per_minute: int = 16  # T-65
    handshake_burst: int = 3  # T-66: then one a second
    high_water: int = _MIB  # D-9: unsent bytes above which the outbox is read no further
    low_water: int = 256 * _KIB  # D-9: unsent bytes below which reading the outbox resumes
    max_answers: int = _MIB  # D-12: bytes of answers (acks above all) to a peer that does not read them
    inbox_messages: int = 1024  # D-9: messages handed out and not settled, before reading pauses
    inbox_bytes: int = 16 * _MIB

    # Strangers.
    max_handshakes: int = 256  # D-7: accepted connections that are not established yet
    max_handshakes_per_address: int = 16

    # One peer.
    peers_per_key: int = 1000  # D-3: UUIDs of one public key whose certificates name no UUID
    window_messages: int = 256  # T-52: messages sent and not acknowledged
    window_bytes: int = 8 * _MIB
    backoff_messages: int = 10_000  # T-52: messages that left the window and wait for their resend
    outbox_messages: int = 100_000  # D-10
    outbox_bytes: int = 1024 * _MIB
    max_attempts: int = 20  # T-47: failed deliveries of a message before it becomes a dead letter
    attempts_remembered: int = 10_000  # T-47: messages whose failed deliveries are counted in memory
    max_dead_letters: int = 10_000  # T-47: dead letters of all peers; above it the oldest is deleted
    max_dead_letter_bytes: int = 256 * _MIB
    max_retained: int = 10_000  # P-35: names whose last value is kept for new subscribers
    max_retained_bytes: int = 64 * _MIB
    control_per_second: int = 100  # D-12: control messages; further ones wait

    # Sending again.
    resend_first: float = 10.0  # T-50
    resend_max: float = 300.0
    redial_first: float = 0.1  # T-73
    redial_max: float = 30.0

    # The node.
    handler_grace: float = 5.0  # T-46: after the opening, for which subscribed messages wait for their handler
    subscription_grace: float = 30.0  # T-46: for which messages without a subscription are not dropped yet
    keep_bytes: int = 4 * _MIB  # T-62: messages kept for a connecting peer
    removal_delay: float = 0.05  # acknowledged rows wait this long for a commit that deletes them too
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
        """Returns the maxima of the format itself, for recordings and for bytes that are in memory already."""
        return cls(max_body=2**31 - 1, max_name=_U32, max_subscriptions=_U32, max_handshake=2**63)

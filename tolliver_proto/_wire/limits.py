"""Limits: all bounds on memory and time that peers may take.

A bound is checked where the length or count is read, before memory is taken. Times are in seconds, sizes in bytes. Each
bound is declared here alone, with what its help names: its ruling too.
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import option, options

_U32 = 2**32 - 1
_KIB, _MIB = 2**10, 2**20


@options
class Limits:
    """Bounds of a connection and of a node. Raises ValueError for a count below one or a time below zero."""

    # One frame.
    max_body: int = option("BYTES", "a message's body", "My messages are larger than 16 MiB.", default=16 * _MIB)
    max_name: int = option("BYTES", "a channel or a key, encoded", default=4096)
    max_subscriptions: int = option(
        "N", "subscriptions of a peer", "A peer subscribes to more than 10,000 names.", default=10_000
    )
    max_handshake: int = option(
        "BYTES", "a whole handshake", "The names that a peer subscribes to take more than 1 MiB.", default=_MIB
    )

    # One connection.
    handshake_timeout: float = option(
        "SECONDS",
        "to connect, and for a handshake",
        "My lines are slow: connecting takes longer than 10 seconds.",
        default=10.0,
    )
    close_timeout: float = option(
        "SECONDS",
        "from our last byte to the end of the peer's",
        "My programs must end sooner than 5 seconds after they are told to.",
        default=5.0,
    )
    unexpected_per_minute: int = option("N", "handshake frames out of place, in a minute; more wait", default=16)
    handshake_burst: int = option("N", "handshakes of a peer at once, then one a second", default=3)
    high_water: int = option("BYTES", "unsent, above which nothing more is pulled for a connection", default=_MIB)
    low_water: int = option("BYTES", "unsent, below which pulling goes on", default=256 * _KIB)
    max_answers: int = option(
        "BYTES",
        "acks and answers that a peer causes and does not read, before its connection ends",
        default=_MIB,
    )
    inbox_messages: int = option(
        "N",
        "messages of a peer at handlers, over all its connections, before reading pauses",
        "Fewer messages should wait in memory for my handlers.",
        default=1024,
    )
    inbox_bytes: int = option("BYTES", "the same in bytes", default=16 * _MIB)

    # Strangers.
    max_handshakes: int = option("N", "connections that came in and are not established yet", default=256)
    max_handshakes_per_address: int = option(
        "N", "the same from one address", "All my peers come from one address.", default=16
    )

    # One peer.
    peers_per_key: int = option("N", "UUIDs of one key, where its certificates have none", default=1000)
    window_messages: int = option(
        "N",
        "messages on their way to a peer, unacknowledged",
        "A peer should have only a few messages in hand at a time.",
        default=256,
    )
    window_bytes: int = option("BYTES", "the same in bytes", default=8 * _MIB)
    backoff_messages: int = option(
        "N", "messages for a peer that left the window and wait for their resend", default=10_000
    )
    outbox_messages: int = option(
        "N",
        "messages that wait for a peer: its quota",
        "A peer is away for long, and more than 100,000 messages wait for it.",
        default=100_000,
    )
    outbox_bytes: int = option(
        "BYTES",
        "the same in bytes",
        "The queue for a peer may take more disk, or less, than 1 GiB.",
        default=1024 * _MIB,
    )
    max_attempts: int = option(
        "N",
        "failures of a message before it is a dead letter",
        "A message that fails should become a dead letter sooner, or later.",
        default=20,
    )
    attempts_remembered: int = option("N", "messages whose failures are counted in memory", default=10_000)
    max_dead_letters: int = option(
        "N",
        "dead letters of all peers; at it the oldest goes",
        "More dead letters than 10,000 should be kept.",
        default=10_000,
    )
    max_dead_letter_bytes: int = option(
        "BYTES",
        "the same in bytes",
        "Dead letters may take more disk, or less, than 256 MiB.",
        default=256 * _MIB,
    )
    max_retained: int = option(
        "N",
        "names whose last value is kept for new subscribers",
        "I keep the last value of more than 10,000 names.",
        default=10_000,
    )
    max_retained_bytes: int = option(
        "BYTES",
        "the same in bytes of channels, keys and bodies",
        "My last values take more than 64 MiB.",
        default=64 * _MIB,
    )
    max_message_keys: int = option(
        "N",
        "message keys of sends that are remembered",
        "I send more than 100,000 messages with keys in a day.",
        default=100_000,
    )
    max_message_key_bytes: int = option(
        "BYTES",
        "the same in bytes of channels and message keys",
        default=16 * _MIB,
    )
    max_answer_bytes: int = option(
        "BYTES",
        "of answers to calls with message keys that are kept, with their names",
        default=64 * _MIB,
    )
    max_later: int = option("N", "messages and jobs whose time has not come", default=1_000_000)
    control_per_second: int = option("N", "control messages of a peer; what is above waits", default=100)

    # Sending again.
    resend_max: float = option(
        "SECONDS",
        "between two resends of a message at most",
        "A message should be sent again at least every minute.",
        default=300.0,
    )
    redial_first: float = option("SECONDS", "before the second dial of a remote, doubling from there", default=0.1)
    redial_max: float = option(
        "SECONDS",
        "between two dials of a remote at most",
        "A peer that is back should be found within a second.",
        default=30.0,
    )

    # The node.
    handler_grace: float = option(
        "SECONDS", "after the opening, in which what is wanted is kept for its handler", default=5.0
    )
    subscription_grace: float = option(
        "SECONDS", "after the opening, in which what nobody wants is not dropped yet", default=30.0
    )
    keep_bytes: int = option(
        "BYTES",
        "kept for a peer that is connecting; then sends wait, or, if it failed before, it is not kept for "
        "that peer; four times as much for all remotes that were never up",
        default=4 * _MIB,
    )
    removal_delay: float = option("SECONDS", "for which acknowledged rows wait for a commit to ride with", default=0.05)
    crossing_dial_window: float = option(
        "SECONDS", "in which two connections of one peer are two dials that crossed", default=10.0
    )

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

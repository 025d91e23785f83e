"""Limits of a Reactive Streams connection.

A bound is checked where the length or count is read, before memory is taken. Sizes are in bytes, times in seconds. The
comment of each default names its ruling.
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import options

_KIB, _MIB = 2**10, 2**20


@options
class Limits:
    """Bounds of a connection and of a hub. Raises ValueError for a count below one or a time below zero."""

    # One frame.
    max_element: int = 16 * _MIB  # an element, and a declared element size
    max_packed: int = _MIB  # the elements of one packed frame together
    max_name: int = 4096  # as T-07: a publisher's name, encoded
    max_text: int = 64 * _KIB  # an error's text, a goodbye's reason, encoded
    max_extensions: int = 1024  # ids in a hello

    # One connection.
    max_streams: int = 1000  # open streams in each direction: each that we publish may be a task of 8 KiB
    max_answers: int = 4 * _MIB  # bytes of answers to the subscriptions of a peer that does not read them
    handshake_timeout: float = 10.0  # as T-68
    close_timeout: float = 5.0  # from our goodbye to the peer's
    high_water: int = _MIB  # unsent bytes at which sources are not pulled
    low_water: int = 256 * _KIB  # unsent bytes at which pulling resumes
    sign_of_life: float | None = 30.0  # without a byte, until a side that waits asks; None: never
    max_turn: int = 128  # as D-12: events that a hub hands out before all other connections have had their turn

    # A hub.
    max_handshakes: int = 256  # as D-7: accepted connections whose peer has not said hello yet
    max_handshakes_per_address: int = 16
    max_unread: int = 64 * _MIB  # as D-9: elements handed out on a connection and not taken, 128 bytes more for each

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (value is not None and value < 0) or (isinstance(value, int) and value < 1):
                raise ValueError(f"Limits.{field.name} is {value!r}: give a positive number")
        if self.low_water > self.high_water:
            raise ValueError("Limits.low_water is above high_water: lower it, or pulling would never resume")

    @classmethod
    def format(cls) -> Limits:
        """Returns the maxima of the format itself, for bytes that are in memory already."""
        most = 2**64 - 1
        return cls(max_element=most, max_packed=most, max_name=most, max_text=most, max_extensions=most)

"""Layout of the frames, as data.

A frame is its type number and its fields, one after the other, without tags (R-02). `DRAFT` is the table of R-01.
Another table, and the frames of an extension, are further entries and no new branch anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import auto
from typing import Any

from .._common.errors import LocalProtocolError
from .._common.records import frozen
from . import _varint
from ._events import (
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from ._runs import Heads
from ._state import Member


class Kind(Member):
    """Encoding of a field."""

    NUMBER = auto()  # varint, 0 to 2^64-1
    LONG = auto()  # int64 as a varint of its two's complement
    NUMBERS = auto()  # a count and that many numbers, at most `max_extensions`
    NAME = auto()  # a length and UTF-8, at most `max_name`
    TEXT = auto()  # a length and UTF-8, at most `max_text`
    STREAM = auto()  # a number: an id of the receiver, which decides how the elements behind it are read
    SIZE = auto()  # a number, at most `max_element`
    ELEMENT = auto()  # bytes: of the stream's element size, or with a length if that size is 0
    ELEMENTS = auto()  # a count and that many elements, only in a stream with an element size


@frozen
class Form:
    """Encoding of one frame type: its number, its class, and its fields in wire order, which are the class's first
    parameters.
    """

    code: int
    frame: type
    fields: Mapping[str, Kind] = field(hash=False)


class Layout:
    """Table of the frame types that a connection has, which its codec reads. Raises LocalProtocolError for a duplicate
    number or class.
    """

    def __init__(self, forms: Iterable[Form]) -> None:
        self.forms: tuple[Form, ...] = tuple(forms)
        self.by_code: dict[int, Form] = {form.code: form for form in self.forms}
        self.by_frame: dict[type, Form] = {form.frame: form for form in self.forms}
        if len(self.by_code) < len(self.forms) or len(self.by_frame) < len(self.forms):
            raise LocalProtocolError(
                "type_taken",
                "two frame types share a number or a class: give each its own (1 to 11, 64 and 65 are taken)",
            )
        if not all(0 <= code <= _varint.MAX_NUMBER for code in self.by_code):
            raise LocalProtocolError("bad_number", "a frame's type number must be from 0 to 2^64-1")
        self.heads: Heads | None = self._element_heads()
        """First bytes of frames with elements; None if the form of these frames is not the draft's."""

    def extended(self, forms: Iterable[Form]) -> Layout:
        """Returns the table with further frame types."""
        return Layout((*self.forms, *forms))

    def changed(self, forms: Iterable[Form]) -> Layout:
        """Returns a copy of the table in which these forms replace those of the same frames. Raises LocalProtocolError
        for a frame that is not in the table."""
        other = {form.frame: form for form in forms}
        if not other.keys() <= self.by_frame.keys():
            raise LocalProtocolError(
                "not_a_frame", "only frames that there are can be changed: others are `forms` (R-27)"
            )
        return Layout(other.get(form.frame, form) for form in self.forms)

    def _element_heads(self) -> Heads | None:
        codes = []
        for frame, kinds in _ELEMENTS.items():
            form = self.by_frame.get(frame)
            if form is None or tuple(form.fields.values()) != kinds:
                return None
            codes.append(_varint.write(form.code))
        return Heads(*codes)


_ELEMENTS = {OnNext: (Kind.STREAM, Kind.ELEMENT), OnNextPacked: (Kind.STREAM, Kind.ELEMENTS)}
_HELLO = {"version": Kind.NUMBER, "extensions": Kind.NUMBERS}

DRAFT = Layout(
    [
        Form(1, ClientHello, _HELLO),
        Form(2, ServerHello, _HELLO),
        Form(3, Subscribe, {"name": Kind.NAME, "subscriber_id": Kind.NUMBER, "initial_demand": Kind.LONG}),
        Form(4, Request, {"subscriber_id": Kind.NUMBER, "count": Kind.LONG}),
        Form(5, Cancel, {"subscriber_id": Kind.NUMBER}),
        Form(6, Subscribed, {"subscriber_id": Kind.STREAM, "element_size": Kind.SIZE}),
        Form(7, OnNext, {"subscriber_id": Kind.STREAM, "element": Kind.ELEMENT}),
        Form(8, OnComplete, {"subscriber_id": Kind.STREAM}),
        Form(9, OnError, {"subscriber_id": Kind.STREAM, "message": Kind.TEXT}),
        Form(10, OnNextPacked, {"subscriber_id": Kind.STREAM, "elements": Kind.ELEMENTS}),
        Form(11, Goodbye, {"reason": Kind.TEXT}),
    ]
)


@frozen
class Extension:
    """An optional behaviour that both hellos may announce, with the frames that it brings (R-27).

    The extension is active if both sides announce `extension_id`; only then its frames may be sent or received. An
    extension that changes frames of the draft agrees on the change by its own frames: one side declares, the other
    acknowledges. `take(connection, frame)` does that: it is called as each frame of the extension is read, before the
    bytes behind that frame; it may call `send` and `change`, and must not wait. The frame is handed out as well.
    """

    extension_id: int
    forms: tuple[Form, ...] = ()
    take: Callable[[Any, Any], object] | None = None

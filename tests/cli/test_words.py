"""Harmless printing of text that comes from others (D-14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tolliver._cli import words


@given(st.text(st.characters(exclude_categories=[])))
def test_a_name_is_short_and_printable(text: str) -> None:
    shown = words.name(text)
    assert shown.isprintable()
    assert len(shown) <= 100


@given(st.text(st.characters(exclude_categories=[]), max_size=3000))
def test_a_line_is_one_and_printable(text: str) -> None:
    shown = words.line(text)
    assert shown.isprintable()
    assert len(shown) <= 1003
    if text.isprintable() and len(text) <= 1000:
        assert shown == text


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")), st.integers(1, 50))
def test_a_body_is_short_and_printable(data: bytes, most: int) -> None:
    shown = words.body(data, most)
    assert shown.isprintable()
    if len(shown) > most:
        assert shown == f"{shown[: shown.rindex('...')]}... ({len(data):,} bytes)"
        assert shown.rindex("...") <= most


@given(st.text(st.characters(categories=["L", "N"]), max_size=50))
def test_text_is_shown_as_it_is(text: str) -> None:
    assert words.body(text.encode()) == text


def test_addresses_can_be_dialled_as_they_are_shown() -> None:
    listening = words.listening([("::", 7011), ("127.0.0.1", 7012)])
    assert listening == ", listening on [::]:7011, listening on 127.0.0.1:7012"


def test_a_long_body_that_is_no_text_keeps_its_bytes() -> None:
    assert words.body(b"\xff" * 9000, 8) == "b'\\xff\\x... (9,000 bytes)"

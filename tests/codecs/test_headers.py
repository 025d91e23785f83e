"""Headers before the body of any codec: they come back as they were, and nothing else is taken for them."""

from __future__ import annotations

from string import ascii_lowercase, digits
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver.codecs import Headed, Headers, Json

NAMES = st.text(ascii_lowercase + digits + "-_", min_size=1, max_size=20)
TEXTS = st.text(max_size=40).filter(str.isprintable)


def printable(text: str) -> bool:
    return text.isprintable() and not any("\ud800" <= one <= "\udfff" for one in text)


@given(st.dictionaries(NAMES, TEXTS.filter(printable), max_size=5), st.binary(max_size=50))
def test_headers_and_body_come_back(headers: dict[str, str], body: bytes) -> None:
    codec: Headers[bytes] = Headers()
    assert codec.decode(codec.encode(Headed(body, headers))) == Headed(body, headers)


def test_the_layout_is_the_documented_one() -> None:
    headed = Headed({"a": 1}, {"traceparent": "00-1-2-01", "tracestate": "x=y"})
    body = Headers(Json()).encode(headed)
    block = b"traceparent: 00-1-2-01\ntracestate: x=y\n"
    assert body == len(block).to_bytes(2) + block + b'{"a":1}'
    assert Headers(Json()).decode(body) == headed
    assert Headers(Json()).decode(b"\0\0[]") == Headed([], {})
    assert (repr(Headers()), repr(Headers(Json()))) == ("Headers()", f"Headers({Json()!r})")


@given(st.binary(max_size=60))
def test_any_bytes_decode_to_what_encodes_to_them_or_are_refused(body: bytes) -> None:
    codec: Headers[bytes] = Headers()
    try:
        found = codec.decode(body)
    except ValueError:
        return
    assert codec.encode(found) == body


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\0\1", b"\0\4abc\n", b"\0\4a: b", b"\0\6A: b\n.", b"\0\x0aa: b\na: b\n", b"\0\5a: \xff\n"]
)
def test_what_is_no_block_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each says what it is
        Headers().decode(body)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"bare", TypeError),
        (Headed(b"", {"": "x"}), ValueError),
        (Headed(b"", {"Name": "x"}), ValueError),
        (Headed(b"", {"name": "two\nlines"}), ValueError),
        (Headed(b"", {"name": "x" * 65_536}), ValueError),
    ],
)
def test_what_cannot_be_said_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Headers().encode(value)


def test_a_wrong_codec_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="codec is 5"):
        Headers(wrong)

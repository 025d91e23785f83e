"""Texts that a peer chose are cut and escaped wherever they are shown (D-14)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._cli import words
from tolliver.blocking import InstanceOptions, create_instance

from tests.ports import free_address
from tests.test_logs import until
from tolliver_proto import Delivery, Message, Subscribe, Unsubscribe
from tolliver_proto.errors import BodyNotDecoded, RequestFailed
from tolliver_proto.node import Reply, Request, RetainedValue
from tolliver_proto.reactive import ConnectionClosed, Goodbye, OnError, OnNext, StreamError
from tolliver_proto.reactive import Subscribe as StreamSubscribe
from tolliver_proto.store import DeadLetter

PEER = UUID(int=7)
LONGEST = 6000
PLACES: dict[str, Callable[[str], object]] = {
    "why a request failed": lambda text: RequestFailed(PEER, text),
    "why a stream ended": lambda text: StreamError(text, text),
    "why a connection was closed": ConnectionClosed,
    "names of a body": lambda text: BodyNotDecoded(text, text, PEER, "ours"),
    "a message": lambda text: repr(Message(text, text, text.encode(), 1)),
    "a delivery": lambda text: repr(Delivery(1, PEER, Message(text, text, text.encode(), 1), 1)),
    "a request": lambda text: repr(Request(Delivery(1, PEER, Message(text, text, text.encode(), 1), 1))),
    "a reply": lambda text: repr(Reply(PEER, text.encode())),
    "a reply that failed": lambda text: repr(Reply(PEER, b"", RequestFailed(PEER, text))),
    "a dead letter": lambda text: repr(DeadLetter(PEER, text, text, text.encode(), 1, 2)),
    "a value that is kept": lambda text: repr(RetainedValue(text, text, text.encode(), 0.0)),
    "a subscription": lambda text: repr(Subscribe(text, text, 1)),
    "an unsubscription": lambda text: repr(Unsubscribe(text, text, 1)),
    "a goodbye": lambda text: repr(Goodbye(text)),
    "an error of a stream": lambda text: repr(OnError(1, text)),
    "an element": lambda text: repr(OnNext(1, text.encode())),
    "a stream's name": lambda text: repr(StreamSubscribe(text, 1)),
}
"""Texts that a program or a log shows, by what of them a peer chose."""
EVIL = "\x1b[2J\x07\r\n2026-11-27 ERROR forged\u202e\x00" + "z" * 2_300_000


def is_harmless(shown: str) -> bool:
    return shown.isprintable() and len(shown) <= LONGEST


@pytest.mark.parametrize("place", PLACES)
def test_a_text_of_a_peer_is_shown_cut_and_escaped(place: str) -> None:
    assert is_harmless(str(PLACES[place](EVIL)))


@given(st.sampled_from([*PLACES]), st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 5000))
def test_any_text_is(place: str, text: str, times: int) -> None:
    assert is_harmless(str(PLACES[place](text * times)))


def test_a_text_that_is_harmless_is_shown_as_it_is() -> None:
    assert str(RequestFailed(PEER, "it's too \u00fcber \\ hot")) == "it's too \u00fcber \\ hot"


def raise_it(body: str) -> None:
    raise ValueError(body)


def chained(body: str) -> None:
    try:
        raise_it(body)
    except ValueError as error:
        raise KeyError(body) from error


def within(body: str) -> None:
    try:
        raise_it(body)
    finally:
        raise RuntimeError(body)


def grouped(body: str) -> None:
    raise ExceptionGroup(body, [ValueError(body), ExceptionGroup(body, [KeyError(body)])])


def noted(body: str) -> None:
    error = ValueError(body)
    error.add_note(body)
    raise error


@pytest.mark.parametrize("fails", [raise_it, chained, within, grouped, noted])
def test_a_traceback_in_the_log_has_no_words_of_a_peer_as_they_came(
    fails: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """`exc_info` stays as it is, for programs."""
    address = free_address()
    options = {"database": ":memory:", "plaintext": True}

    def handle(delivery: Delivery) -> None:
        fails(delivery.body.decode())

    with (
        create_instance(InstanceOptions(listen=address, handlers=[("c", "", handle)], **options)) as bob,  # type: ignore[arg-type]  # of the options
        create_instance(InstanceOptions(**options)) as alice,  # type: ignore[arg-type]  # as above
    ):
        bob.subscribe("c")
        alice.new_connection(address, timeout=30.0)
        alice.wait_subscribed("c", "k", timeout=30.0)
        alice.unreliable_send("c", "k", EVIL.encode())
        until(lambda: any(record.exc_info for record in caplog.records))
    record = next(record for record in caplog.records if record.exc_info)
    assert record.exc_info is not None
    assert record.exc_info[1] is not None
    lines = logging.Formatter("%(message)s").format(record).splitlines()
    assert all(is_harmless(line) for line in lines)
    assert sum(map(len, lines)) <= 10 * LONGEST
    assert not [line for line in lines if line.lstrip("| ").startswith("2026-11-27")]
    assert f"in {fails.__name__}" in "\n".join(lines)
    assert json.loads(words.as_json(record))["traceback"].splitlines() == lines[-len(record.exc_text.splitlines()) :]  # type: ignore[union-attr]  # the filter has set it

"""Frames to draw from, by revision, and byte streams cut at random."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from tolliver_proto import (
    Ack,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tolliver_proto._wire.frames import encoder
from tolliver_proto._wire.layouts import LAYOUTS
from tolliver_proto.layouts import Refusal, SubscribeMany, UnsubscribeMany
from tolliver_proto.node import RESERVED_CHANNEL

UNRELIABLE = 2**31 - 1
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
few_names = st.sampled_from(["", "a", "weather", "é", "tolliver2", RESERVED_CHANNEL])
name = few_names | text
channel = name.filter(lambda drawn: drawn != RESERVED_CHANNEL)
version = st.sampled_from([0, 1, 2, 2**64 - 1]) | st.integers(0, 2**64 - 1)
instance_id = st.integers(1, 2**128 - 2).map(lambda drawn: UUID(int=drawn))
subscriptions = st.lists(st.builds(Subscription, name, name), max_size=4).map(tuple)


def _ids(most: int) -> st.SearchStrategy[int]:
    edges = (0, 1, UNRELIABLE - 1, UNRELIABLE, UNRELIABLE + 1, 2**32 - 1, most)
    return st.sampled_from([one for one in edges if one <= most]) | st.integers(0, most)


def ids(revision: Revision) -> st.SearchStrategy[int | None]:
    """Ids of messages, reliable ones and None."""
    layout = LAYOUTS[revision]
    return st.none() | _ids(layout.greatest_id).filter(lambda drawn: drawn != layout.unreliable_id)


def traffic(revision: Revision) -> st.SearchStrategy[Message | Ack | Refusal | Subscribe | Unsubscribe]:
    """Frames that may be sent on a live connection."""
    layout = LAYOUTS[revision]
    kinds = encoder(revision).carries
    message_id = ids(revision) if layout.has_acks else st.none()
    drawn: st.SearchStrategy[object] = st.builds(Message, channel, name, st.binary(max_size=100), message_id)
    kind: Any
    for kind in (Ack, Refusal):
        if kind in kinds:
            drawn |= st.builds(kind, _ids(layout.message.maximum("message_id")))
    for kind in (Subscribe, Unsubscribe):
        if kind in kinds:
            drawn |= st.builds(kind, name, name, message_id)
    for kind in (SubscribeMany, UnsubscribeMany):
        if kind in kinds:
            drawn |= st.builds(kind, subscriptions.filter(lambda listed: len(listed) != 1), message_id)
    return drawn  # type: ignore[return-value]  # the classes are data here


def frames(revision: Revision) -> st.SearchStrategy[Frame]:
    """All that the revision can express."""
    layout = LAYOUTS[revision]
    listed = subscriptions if layout.has_lists else st.just(())
    return (
        traffic(revision)
        | st.builds(Message, channel, name, st.binary(max_size=100), ids(revision))
        | st.builds(HandshakeRequest, version, instance_id, listed)
        | st.builds(HandshakeResponse, version, instance_id, st.sampled_from([*layout.statuses]), listed)
        | st.builds(HandshakeFinal, st.booleans())
    )


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, over and over."""
    pieces = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
        turn += 1
    return pieces


sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)

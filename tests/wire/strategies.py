"""Frames to draw from, by revision, and byte streams cut at random."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from tolliver_proto import (
    RESERVED_CHANNEL,
    Ack,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
)

UNRELIABLE = 2**31 - 1
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
few_names = st.sampled_from(["", "a", "weather", "é", "tolliver2", RESERVED_CHANNEL])
name = few_names | text
channel = name.filter(lambda drawn: drawn != RESERVED_CHANNEL)
u32 = st.sampled_from([0, 1, UNRELIABLE - 1, UNRELIABLE + 1, 2**32 - 1]) | st.integers(0, 2**32 - 1)
message_id = st.none() | u32.filter(lambda drawn: drawn != UNRELIABLE)
version = st.sampled_from([0, 1, 2, 2**64 - 1]) | st.integers(0, 2**64 - 1)
instance_id = st.integers(1, 2**128 - 2).map(lambda drawn: UUID(int=drawn))
subscriptions = st.lists(st.builds(Subscription, name, name), max_size=4).map(tuple)

message = st.builds(Message, channel, name, st.binary(max_size=100), message_id)
ack = st.builds(Ack, u32)
subscribe = st.builds(Subscribe, name, name, message_id)
unsubscribe = st.builds(Unsubscribe, name, name, message_id)
handshakes = (
    st.builds(HandshakeRequest, version, instance_id, subscriptions)
    | st.builds(HandshakeResponse, version, instance_id, st.sampled_from(HandshakeStatus), subscriptions)
    | st.builds(HandshakeFinal, st.booleans())
)


def traffic(revision: Revision) -> st.SearchStrategy[Message | Ack | Subscribe | Unsubscribe]:
    """Frames that may be sent on a live connection."""
    common = message | ack | subscribe
    return common if revision is Revision.DRAFT_1 else common | unsubscribe


def frames(revision: Revision) -> st.SearchStrategy[Frame]:
    """All that the revision can express."""
    return traffic(revision) | handshakes


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

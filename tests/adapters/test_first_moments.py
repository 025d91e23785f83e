"""First moments of an instance: subscriptions and handlers that it is given, or that come late (T-46)."""

from __future__ import annotations

import pytest
from tolliver.anyio import InstanceOptions

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import Ack, Limits, Message, ReservedChannel

from .facade import until
from .kinds import ONE_KIND
from .nodes import Inbox, Nodes, address, subscribed


def test_what_it_is_given_is_in_force_before_it_listens_or_dials(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left") as left:
        nodes.visit(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(100)])
        with nodes.open(
            "right", subscriptions=["news", ("orders", "42")], handlers=[("news", "", inbox)], remotes=[address(left)]
        ) as right:
            assert right._call("subscriptions") == [("news", ""), ("orders", "42")]
            left.wait_acked(receipt)
            assert inbox.bodies == [b"%d" % number for number in range(100)]


def test_a_handler_that_is_late_misses_nothing_and_nothing_is_overtaken(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left") as left:
        with nodes.open("right") as right:
            right.subscribe("news")
            right.new_connection(address(left))
            subscribed(left)
        left.send_many([("news", "", b"%d" % number) for number in range(100)])
        with nodes.open("right", remotes=[address(left)]) as right:
            until(lambda: right.stats()["received_bytes"] > 2000)  # of some 2300
            right.register_callback("news", "", inbox)
            left.wait_acked(left.send("news", "", b"100"))
            until(lambda: not left.stats()["pending"])
            assert inbox.bodies == [b"%d" % number for number in range(101)]


@ONE_KIND
def test_what_is_not_wanted_yet_is_not_acknowledged(nodes: Nodes, certs: Certificates) -> None:
    inbox = Inbox()
    with (
        nodes.open("right", limits=Limits(subscription_grace=1.0)) as right,
        RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw,
    ):
        raw.establish()
        raw.connection.send(Message("news", "", b"x", 7))
        raw.connection.send(Message("unwanted", "", b"x", 8))
        raw.flush()
        right.subscribe("news", handler=inbox)
        while not any(isinstance(event, Ack) for event in raw.events):
            assert raw.receive(), "the connection ended"
        assert [event.message_id for event in raw.events if isinstance(event, Ack)] == [8]
        assert inbox.bodies == []


@ONE_KIND
def test_what_cannot_be_subscribed_to_ends_the_opening(nodes: Nodes) -> None:
    with pytest.raises(ReservedChannel), nodes.open("left", subscriptions=["tolliver"]):
        pass
    with nodes.open("left", subscriptions=["news"]) as left:
        assert left._call("subscriptions") == [("news", "")], "and nothing stays open of the one that failed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"subscriptions": "news"},
        {"subscriptions": 1},
        {"subscriptions": [("a", "b", "c")]},
        {"subscriptions": [("a", 1)]},
        {"subscriptions": [1]},
        {"handlers": 1},
        {"handlers": [("a", "b")]},
        {"handlers": [("a", "b", 1)]},
        {"responders": 1},
        {"responders": [("a", "b")]},
        {"responders": [("a", "b", print, {"ordered_by": "key"})]},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="give"):
        InstanceOptions(plaintext=True, **wrong)  # type: ignore[arg-type]

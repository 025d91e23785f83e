"""Status of instances, and its endpoint, on every adapter."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from tolliver.blocking import create_instance

from tests.disks import eat, small_disk
from tolliver_proto.errors import CannotListen, DiskFull, NotOpenYet, UndeliveredReason

from .facade import Facade, until
from .kinds import EACH_ADAPTER, EVERY_LOOP, ONE_KIND
from .nodes import SOMEBODY, Inbox, Nodes, address, asked, subscribed

STATUS = {"status": "127.0.0.1:0"}


def told(node: Facade) -> dict[str, Any]:
    code, text = asked(node, "/status.json")
    assert code == 200, text
    return json.loads(text)  # type: ignore[no-any-return]  # an object of JSON


@EVERY_LOOP
def test_two_connected_instances_tell_of_themselves_and_of_each_other(nodes: Nodes) -> None:
    with nodes.pair(left=STATUS, right=STATUS) as (left, right, inbox):
        left.wait_acked(left.send("news", "", b"hello"))
        inbox.holds(1)
        for node, other in ((left, right), (right, left)):
            status = node.status()
            assert status.ready, status.not_ready
            assert status.uuid == node.instance_id
            assert [(peer.uuid, peer.connected) for peer in status.peers] == [(other.instance_id, True)]
        assert left.status().counters["acked"] == 1
        assert left.status().counters["commits"] >= 1
        assert asked(left, "/healthz")[0] == asked(left, "/readyz")[0] == 200
        until(lambda: told(left)["counters"]["acked"] == 1)
        assert told(left)["uuid"] == str(left.instance_id)
        assert "tolliver_acked_total 1" in asked(left, "/metrics")[1]
        assert "<!doctype html>" in asked(left, "/")[1]


@EVERY_LOOP
def test_the_endpoint_ends_with_its_instance(nodes: Nodes) -> None:
    with nodes.open("left", **STATUS) as node:
        address = node.status_address
        assert asked(node, "/healthz")[0] == 200
    assert address is not None
    with pytest.raises(ConnectionRefusedError), closing(http.client.HTTPConnection(*address)) as connection:
        connection.connect()
    with nodes.open("left", status=address) as node:  # and the port is free again
        assert node.status_address == address


def test_there_is_none_that_is_not_asked_for(nodes: Nodes) -> None:
    with nodes.open("left") as node:
        assert node.status_address is None
        assert node.status().ready


def test_a_port_that_is_taken_is_told_at_the_opening(nodes: Nodes) -> None:
    with nodes.open("left", **STATUS) as node:
        other = nodes.open("right", status=node.status_address)
        with pytest.raises(CannotListen), other:
            pass


# Numbers.


def test_names_of_peers_are_known_again_before_they_connect(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        nodes.visit(left)
    with nodes.open("left") as left:
        (peer,) = left.status().peers
        assert (peer.name, peer.connected) == ("right", False)


@EACH_ADAPTER
def test_numbers_of_both_ends(nodes: Nodes) -> None:
    with nodes.pair(left=STATUS) as (left, right, inbox):
        for number in range(5):
            left.wait_acked(left.send("news", "", b"%d" % number))
        inbox.holds(5)
        (peer,) = left.status().peers
        assert peer.name == "right"
        assert peer.certificate_not_after is not None
        assert {name: peer.counters[name] for name in ("sent", "acknowledged", "connects")} == {
            "sent": 5,
            "acknowledged": 5,
            "connects": 1,
        }
        assert peer.round_trip is not None
        assert peer.oldest_unacknowledged is None
        until(lambda: right.status().counters["handled"] == 5)
        status = right.status()
        assert status.counters["delivered"] == 5
        assert status.peers[0].counters["delivered"] == 5
        (channel,) = status.channels
        assert (channel.channel, channel.handlers, channel.queued) == ("news", 1, 0)
        assert (channel.handled, channel.failed, channel.handler_seconds.count) == (5, 0, 5)
        for name in ("commit_seconds", "fsync_seconds", "rows_per_commit", "round_trip_seconds"):
            assert left.status().histograms[name].count >= 5, name
        assert left.status().histograms["rows_per_commit"].sum == 5
        for name in ("database_bytes", "log_bytes", "disk_free_bytes", "reserve_bytes"):
            assert left.status().gauges[name] > 0, name


@EACH_ADAPTER
def test_handlers_that_fail_take_their_time_or_run_side_by_side_are_counted(nodes: Nodes) -> None:
    calls, gate = count(), nodes.gate()

    def fails_first(_delivery: object) -> object:
        return next(calls) > 0

    with nodes.pair([], left={"retry_interval": 0.05}) as (left, right, _):
        right.subscribe("fails", handler=fails_first)
        right.subscribe("waits", handler=lambda _: gate)
        right.subscribe("many")
        right.register_callback("many", "", Inbox(), concurrency=4)
        right.respond("asked", lambda _request: b"")
        subscribed(left, 4)
        left.request("asked", b"x")
        for channel in ("fails", "waits", "many"):
            left.send(channel, "", b"x")

        def told_of(channel: str) -> tuple[int, int, int, int]:
            (one,) = (one for one in right.status().channels if one.channel == channel)
            return one.handled, one.failed, one.queued, one.handler_seconds.count

        until(lambda: told_of("fails") == (1, 1, 0, 2), "the handler that fails once")
        until(lambda: told_of("many") == (1, 0, 0, 1), "the one with lanes")
        until(lambda: told_of("asked") == (1, 0, 0, 1), "the responder")
        assert told_of("waits") == (0, 0, 1, 0)
        gate.open()
        # A copy that was on its way when it was acknowledged is handled once more.
        until(lambda: told_of("waits") in [(times, 0, 0, times) for times in (1, 2, 3)], "the one that waits")


@ONE_KIND
def test_a_channel_without_handlers_keeps_its_numbers(nodes: Nodes) -> None:
    with nodes.open("left") as node:
        node.register_callback("news", "", Inbox()).close()
        (channel,) = node.status().channels
        assert (channel.channel, channel.handlers) == ("news", 0)


@ONE_KIND
def test_messages_that_are_given_up_are_counted(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        nodes.visit(left)
        left.send("news", "", b"x")
        (peer,) = left.status().peers
        left.forget_peer(peer.uuid)
        assert left.stats().given_up[UndeliveredReason.FORGOTTEN] == 1
        assert left.status().counters["given_up_forgotten"] == 1


@ONE_KIND
def test_a_remote_and_a_queue_are_there(nodes: Nodes) -> None:
    with nodes.open("left", remotes=["127.0.0.1:1"], status="127.0.0.1:0") as left:
        left.work_queue("jobs")
        until(lambda: told(left)["remotes"][0]["cause"] == "refused")
        (queue,) = told(left)["queues"]
        numbers = {"waiting": 0, "running": 0, "workers": 0, "quota_used": 0.0}
        assert queue == {"queue": "jobs", **numbers, "full": False}
        assert told(left)["notices"][-1]["kind"] == "dial_failed"


# Readiness.


@ONE_KIND
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"min_free": 2**60}, "less than min_free"),
        ({"listen": None}, None),
        ({"database": ":memory:"}, None),
    ],
)
def test_readiness_by_options(nodes: Nodes, options: dict[str, Any], why: str | None) -> None:
    with nodes.open("left", **STATUS, **options) as node:
        code, text = asked(node, "/readyz")
        assert (code, why is None or why in text) == (200 if why is None else 503, True), text


@ONE_KIND
def test_a_database_that_was_removed_is_a_reason(nodes: Nodes) -> None:
    with nodes.open("left", **STATUS) as node:
        moved = node.database.rename(node.database.with_suffix(".elsewhere"))
        assert "was removed or replaced" in " ".join(node.status().not_ready)
        moved.rename(node.database)
        assert node.status().ready


@EACH_ADAPTER
def test_a_peer_that_is_behind_is_a_reason_and_its_age_is_told(nodes: Nodes) -> None:
    with nodes.open("left", ready_behind=0.05, **STATUS) as left:
        nodes.visit(left)
        assert left.status().ready
        left.send("news", "", b"waits")
        until(lambda: asked(left, "/readyz")[0] == 503)
        (reason,) = left.status().not_ready
        assert "ready_behind=0.05" in reason
        assert "away, 1 wait" in reason
        with nodes.open("right", subscriptions=["news"], handlers=[("news", "", Inbox())]) as right:
            right.new_connection(address(left))
            until(lambda: asked(left, "/readyz")[0] == 200)


@EACH_ADAPTER
def test_a_disk_that_has_room_again_is_found_though_nobody_sends(nodes: Nodes) -> None:
    """One that is not ready is sent nothing, so the next send is not what tells."""
    with (
        small_disk(nodes.directory / "disk") as disk,
        nodes.open("left", database=disk / "left.db") as left,
    ):
        nodes.visit(left)
        ballast = eat(disk)
        failed = next(error for _ in range(100) if (error := left.start("send", "news", "", bytes(50_000)).outcome()))
        assert isinstance(failed, DiskFull)
        assert "the last commit failed: " in " ".join(left.status().not_ready)
        left.drop_parked(SOMEBODY)  # a commit that stores nothing
        assert "the last commit failed: " in " ".join(left.status().not_ready)
        ballast.unlink()
        until(lambda: left.status().ready)
        left.send("news", "", b"x")


@ONE_KIND
def test_one_that_is_closed_is_not_ready(nodes: Nodes) -> None:
    node = nodes.open("left")
    with node:
        pass
    assert "it is closed" in " ".join(node.status().not_ready)


@ONE_KIND
def test_one_that_was_never_open_says_so(nodes: Nodes) -> None:
    with pytest.raises(NotOpenYet):
        create_instance(nodes.options("left")).status()

"""Numbers of a snapshot against what happened: each is driven, at both ends, on every adapter."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from typing import Any

from cryptography import x509

from tolliver_proto import Acl, Limits, Policy, Rights
from tolliver_proto.errors import NoResponders, UndeliveredReason

from .facade import Facade, until
from .kinds import EACH_ADAPTER
from .nodes import Nodes, address, subscribed
from .relay import Relay

QUICK = Limits(redial_first=0.02, redial_max=0.1)
FATES = ("delivered", "duplicates", "waited", "withheld", "refused_messages", "unwanted")


def counted(node: Facade, **expected: float) -> None:
    """These counters and gauges of an instance come to be so."""

    def now() -> dict[str, float]:
        status = node.status()
        return {name: {**status.counters, **status.gauges}[name] for name in expected}

    until(lambda: now() == expected, f"{expected}: they are {now()}, and it")


def all_read(node: Facade, other: Facade) -> None:
    until(lambda: node.status().counters["sent_bytes"] == other.status().counters["received_bytes"], "all bytes")


def of_peer(node: Facade, other: Facade) -> Any:
    (found,) = (one for one in node.status().peers if one.uuid == other.instance_id)
    return found


def peer_counted(node: Facade, other: Facade, **expected: int) -> None:
    def now() -> dict[str, int]:
        counters = of_peer(node, other).counters
        return {name: counters.get(name, 0) for name in expected}

    until(lambda: now() == expected, f"{expected}: they are {now()}, and it")


@EACH_ADAPTER
def test_messages_at_both_ends(nodes: Nodes) -> None:
    rules = Acl(default=Rights(publish=(("news", "*"), ("bad", "*"))))
    with nodes.pair(["news", "secret"], right={"acl": rules}) as (left, right, inbox):
        right.subscribe("bad")
        with right.messages("bad") as bad:
            subscribed(left, 3)
            for number in range(5):
                left.send("news", "", b"%d" % number)
            left.send("secret", "", b"secret")
            left.send("bad", "", b"bad")
            next(bad).give_up("never")
        inbox.holds(5)
        counted(left, sent=7, resent=0, acked=7, pending=0, pending_bytes=0, in_flight=0, backoff=0)
        counted(right, delivered=6, handled=5, refused_messages=1, dead_letters=1, notices_dead_letter=1)
        peer_counted(left, right, sent=7, acknowledged=7, connects=1)
        peer_counted(right, left, delivered=6, refused=1, dead_letters=1, connects=1)
        assert of_peer(left, right).oldest_unacknowledged is None
        assert 0 < of_peer(left, right).round_trip < 60
        all_read(left, right)
        all_read(right, left)
        status = left.status()
        assert status.histograms["rows_per_commit"].sum == 7
        for name in ("rows_per_commit", "commit_seconds", "fsync_seconds"):
            assert status.histograms[name].count == status.counters["commits"], name
        assert status.histograms["fsync_seconds"].sum <= status.histograms["commit_seconds"].sum
        channels = {one.channel: one for one in right.status().channels}
        assert (channels["bad"].failed, channels["news"].handled, channels["news"].handler_seconds.count) == (1, 5, 5)


@EACH_ADAPTER
def test_every_copy_has_a_fate(nodes: Nodes) -> None:
    again = {"retry_interval": 0.05}
    with nodes.pair(["news"], left=again, right={"policy": Policy(dedupe=1000)}) as (left, right, inbox):
        gate = nodes.gate()
        right.subscribe("held", handler=lambda _delivery: gate)
        subscribed(left, 2)
        left.send("news", "", b"news")
        left.send("held", "", b"held")
        until(lambda: left.status().counters["resent"] >= 2, "copies of what is being handled")
        gate.open()
        inbox.holds(1)
        counted(left, sent=2, acked=2, pending=0)
        counted(right, delivered=2, handled=2)
        until(
            lambda: (
                sum(left.status().counters[name] for name in ("sent", "resent"))
                == sum(right.status().counters[name] for name in FATES)
            ),
            "a fate for every copy",
        )
        peer_counted(left, right, sent=2, resent=left.status().counters["resent"])


@EACH_ADAPTER
def test_what_waits_and_what_is_given_up(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        nodes.visit(left)
        left.send("news", "", b"goes", expire_after=0.01)
        counted(left, given_up_expired=1, expired_messages=1, pending=0)
        for _ in range(3):
            left.send("news", "key", b"stays")
        (peer,) = left.status().peers
        assert (peer.pending, peer.in_flight, peer.connected) == (3, 0, False)
        assert peer.pending_bytes == left.status().gauges["pending_bytes"] >= 3 * len(b"newskeystays")
        assert 0 < peer.quota_used < 1
        assert not peer.full
        assert peer.oldest_unacknowledged is not None
        assert 0 <= peer.oldest_unacknowledged < 60
        assert peer.counters["given_up_expired"] == 1
        left.forget_peer(peer.uuid)
        counted(left, given_up_forgotten=3, given_up_expired=1, pending=0, pending_bytes=0, peers=0)
        assert left.stats().given_up[UndeliveredReason.FORGOTTEN] == 3


@EACH_ADAPTER
def test_connections_and_their_ends(nodes: Nodes) -> None:
    with nodes.open("right", limits=QUICK) as right, Relay(right.port or 0) as line, ExitStack() as stack:
        left = stack.enter_context(nodes.open("left", limits=QUICK, remotes=[line.address]))
        counted(left, connects=1, dials=1, peers_up=1, connections=1)
        line.cut()
        counted(left, connects=2, disconnects_lost=1, dials=2, peers_up=1)
        counted(right, connects=2, disconnects_lost=1)
        peer_counted(left, right, connects=2, disconnects_lost=1)
        line.refuses = True
        line.cut()
        until(lambda: left.status().counters["dials_failed_closed"] >= 2, "dials that are cut off")
        (remote,) = left.status().remotes
        assert (remote.cause, remote.peer) == ("closed", right.instance_id)
        assert remote.attempt >= 2
        counters = left.status().counters
        failed = sum(one for name, one in counters.items() if name.startswith("dials_failed"))
        assert failed == counters["dials_failed_closed"]
        line.refuses = False
        counted(left, connects=3, disconnects_lost=2)
        until(lambda: left.status().remotes[0].attempt == 0)
        stack.close()
        counted(right, connects=3, disconnects_lost=2, disconnects_in_order=1, peers_up=0, connections=0)
        peer_counted(right, left, disconnects_lost=2, disconnects_in_order=1)


@EACH_ADAPTER
def test_requests_and_work_queues(nodes: Nodes) -> None:
    with nodes.pair(["ask"]) as (left, right, _):
        right.respond("answers", lambda request: request.body)
        right.respond("fails", lambda _request: 1 // 0)
        right.respond("waits", lambda _request: nodes.gate())
        for channel in ("answers", "fails", "waits"):
            left.wait_subscribed(f"tolliver.request/{channel}", timeout=30)
        left.request("answers", b"x", timeout=60)
        assert left.start("request", "fails", b"x", timeout=60).outcome().args
        assert isinstance(left.start("request", "waits", b"x", timeout=0.1).outcome(), TimeoutError)
        assert isinstance(left.start("request", "nobody", b"x", wait=False).outcome(), NoResponders)
        counted(left, requests_answered=1, requests_timed_out=1, requests_outstanding=0)
        counted(right, replies=2, notices_responder_failed=1)
        queue = left.work_queue("jobs")
        queue.put_many([b"1", b"2", b"3"])
        (jobs,) = left.status().queues
        assert (jobs.waiting, jobs.running, jobs.workers) == (3, 0, 0)
        counted(left, pending=3)
        assert left.status().gauges["pending_bytes"] > 0
        with right.work("jobs", concurrency=2) as work:
            first = next(work)
            until(lambda: left.status().queues[0].workers == 1)
            (jobs,) = left.status().queues
            assert jobs.waiting + jobs.running == 3
            assert jobs.running >= 1
            first.ack()
            next(work).ack()
            next(work).ack()
            until(lambda: left.status().queues[0].waiting == left.status().queues[0].running == 0, "all jobs done")
            counted(left, pending=0, pending_bytes=0)


@EACH_ADAPTER
def test_files_and_certificates(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, _):
        left.wait_acked(left.send("news", "", b"x"))
        log = os.path.getsize(f"{left.database}-wal")
        gauges = left.status().gauges
        assert gauges["database_bytes"] == os.path.getsize(left.database)
        assert log <= gauges["log_bytes"] <= os.path.getsize(f"{left.database}-wal"), "what is acknowledged is removed"
        assert gauges["reserve_bytes"] == os.path.getsize(f"{left.database}.reserve")
        assert abs(gauges["disk_free_bytes"] - shutil.disk_usage(left.database.parent).free) < 2**30
        begins, ends = {}, {}
        for name in ("left", "right"):
            shown = x509.load_pem_x509_certificate(nodes.certs.tls(name).cert.read_bytes())
            begins[name] = shown.not_valid_before_utc.timestamp()
            ends[name] = shown.not_valid_after_utc.timestamp()
        assert (gauges["certificate_not_before"], gauges["certificate_not_after"]) == (begins["left"], ends["left"])
        right_of_left = of_peer(left, right)
        assert right_of_left.certificate_not_before == begins["right"]
        assert right_of_left.certificate_not_after == ends["right"]
        assert of_peer(left, right).name == "right"
        assert of_peer(left, right).address == address(right)
        assert left.status().listening == (address(left),)

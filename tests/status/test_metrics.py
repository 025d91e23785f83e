"""Table of metrics: each number has one row, and Prometheus' own parser reads the text that is made of it."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tolliver.status import METRICS, InstanceStatus, Metric, samples, text_of

from scripts.pages import CITED
from tolliver_proto.node import NodeStats

from .samples import HOSTILE, PEER, US, hostile, snapshot

READABLE = HOSTILE.encode("utf-8", "replace").decode()
Read = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(status: InstanceStatus) -> Read:
    """Samples by name and labels, as the parser of Prometheus' own library has them."""
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text_of(status))
        for one in family.samples
    }


def of(found: Read, name: str, /, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_the_text_is_read_by_the_library_of_prometheus() -> None:
    found = read(snapshot())
    assert of(found, "tolliver_acked_total") == 2
    assert of(found, "tolliver_ignored_total", reason="bad_text") == 4
    assert of(found, "tolliver_ready") == 1
    assert of(found, "tolliver_peer_pending", peer=str(PEER)) == 3
    assert of(found, "tolliver_peer_info", peer=str(PEER), name="bob") == 1
    assert of(found, "tolliver_peer_certificate_not_after_timestamp_seconds", peer=str(PEER)) == 1_800_000_000.0
    assert of(found, "tolliver_peer_oldest_unacknowledged_seconds", peer=str(PEER)) == 1.5
    assert of(found, "tolliver_peer_quota_used_ratio", peer=str(PEER)) == 0.5
    assert of(found, "tolliver_peer_given_up_total", peer=str(PEER), reason="forgotten") == 1
    assert of(found, "tolliver_peer_disconnects_total", peer=str(PEER), cause="lost") == 2
    assert of(found, "tolliver_remote_connected", remote="b:7011") == 0
    assert of(found, "tolliver_channel_handled_total", channel="news") == 5
    assert of(found, "tolliver_queue_waiting", queue="jobs") == 3
    assert of(found, "tolliver_queue_quota_used_ratio", queue="jobs") == 0.25
    assert of(found, "tolliver_commit_seconds_bucket", le="1.0") == 5
    assert of(found, "tolliver_commit_seconds_bucket", le="+Inf") == 6
    assert of(found, "tolliver_commit_seconds_sum") == 6.5
    assert of(found, "tolliver_instance_info", uuid=str(US), name="alice", version="0.1.0", database="alice.db") == 1


def test_each_metric_has_its_type_and_help_once() -> None:
    families = list(text_string_to_metric_families(text_of(snapshot())))
    types = {family.name: family.type for family in families}
    assert len(types) == len(families)
    for family in families:
        assert family.documentation
    for metric in {sample.metric for sample in samples(snapshot())}:
        assert types[metric.exported.removesuffix("_total")] == metric.kind


def test_names_that_others_choose_stay_labels() -> None:
    found = read(hostile())
    assert of(found, "tolliver_channel_failed_total", channel=READABLE) == 0
    assert of(found, "tolliver_queue_workers", queue=READABLE) == 0
    assert of(found, "tolliver_remote_attempt", remote=READABLE) == 1


def test_a_number_that_is_not_known_is_left_out() -> None:
    assert not any("certificate_not_after" in name for name, _ in read(snapshot(peers=())))


def test_names_are_given_once() -> None:
    assert len({metric.exported for metric in METRICS}) == len(METRICS)
    assert all(metric.help.endswith(".") and "\n" not in metric.help for metric in METRICS)


def test_names_are_in_the_conventions_of_prometheus() -> None:
    """A counter ends in `_total`, the base unit stands before that, and no other name has either."""
    endings = {"bytes": "_bytes", "seconds": "_seconds", "ratio": "_ratio", "timestamp": "_timestamp_seconds"}
    for metric in METRICS:
        bare = metric.exported.removesuffix("_total")
        assert (bare != metric.exported) == (metric.kind == "counter"), metric.exported
        unit = next((unit for unit in ("timestamp", *endings) if bare.endswith(endings[unit])), "")
        assert unit == metric.unit, metric.exported
        assert not re.search(r"_(bytes|seconds|ratio|total)(_|$)", bare.removesuffix(endings.get(unit, ""))), bare


def test_help_texts_are_for_people_without_our_pages() -> None:
    assert [metric.help for metric in METRICS if CITED.search(metric.help)] == []


def known(metric: Metric, name: str) -> bool:
    return name.startswith(f"{metric.name}_") if metric.by else name == metric.name


@pytest.mark.parametrize("kind", ["counter", "gauge"])
def test_every_number_of_a_node_is_in_the_table(kind: str) -> None:
    stats = NodeStats.of({})
    names = stats.counters() if kind == "counter" else stats.gauges()
    rows = [metric for metric in METRICS if metric.kind == kind and metric.subject == "instance"]
    assert [name for name in names if not any(known(metric, name) for metric in rows)] == []


def test_the_snapshot_is_json_with_every_field() -> None:
    told = json.loads(json.dumps(hostile().as_dict(), allow_nan=False))
    assert told["ready"] is False
    assert told["not_ready"] == [READABLE]
    assert told["peers"][0]["subscriptions"] == [[READABLE, READABLE]]
    assert told["peers"][0]["uuid"] == str(PEER)
    assert told["remotes"][0]["state"] == "gave_up"
    assert told["histograms"]["commit_seconds"] == {"bounds": [0.1, 1.0], "counts": [3, 2, 1], "count": 6, "sum": 6.5}

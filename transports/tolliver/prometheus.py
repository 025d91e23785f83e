"""Collector for Prometheus' client library.

For programs with a registry of their own. The instance's status endpoint has the same numbers under the same names,
without this module. Needs `prometheus_client` (the [prometheus] extra).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from ._extras import needed

needed("prometheus", "attrs", "prometheus_client")

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.registry import Collector as BaseCollector

from ._messages.facade import BaseInstance
from ._messages.snapshots import Snapshots
from ._status.metrics import METRICS, Metric, samples
from ._status.snapshot import HistogramStatus, InstanceStatus

__all__ = ["Collector"]


class Collector(BaseCollector):
    """Numbers of one or more instances: `REGISTRY.register(Collector(instance))`, on the instance's thread.

    Each sample has the label `instance_id` in addition to the table's. An instance that is closed, or does not answer
    within two seconds, is left out.
    """

    def __init__(self, *instances: BaseInstance[Any]) -> None:
        self._snapshots = [Snapshots(instance) for instance in instances]

    def describe(self) -> Iterator[Family]:
        """Metrics without samples, for registering: a snapshot is not taken."""
        yield from (_family(metric) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """Every metric of the table, with the current numbers."""
        families = {metric: _family(metric) for metric in METRICS}
        info = InfoMetricFamily("tolliver_instance", "Identity of the instance.", labels=("instance_id",))
        for snapshots in self._snapshots:
            if (status := snapshots.take()) is not None:
                who = {"name": status.name, "version": status.version, "database": status.database}
                info.add_metric([str(status.uuid)], {name: _readable(text) for name, text in who.items()})
                _add(families, status)
        yield info
        yield from families.values()


def _add(families: dict[Metric, Any], status: InstanceStatus) -> None:
    for metric, labels, value in samples(status):
        values = [str(status.uuid), *(_readable(labels[label]) for label in metric.labels)]
        if isinstance(value, HistogramStatus):
            bounds = [*map(repr, value.bounds), "+Inf"]
            buckets = [*zip(bounds, accumulate(value.counts), strict=True)]
            families[metric].add_metric(values, buckets=buckets, sum_value=value.sum)
        else:
            families[metric].add_metric(values, value)


def _readable(text: str) -> str:
    """Text in which a lone surrogate, which UTF-8 cannot encode, is a question mark."""
    return text.encode("utf-8", "replace").decode()


def _family(metric: Metric) -> Family:
    kind = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}[metric.kind]
    family: Family = kind(metric.exported, metric.help, labels=("instance_id", *metric.labels))
    return family

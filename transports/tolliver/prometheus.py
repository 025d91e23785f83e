"""Collector for Prometheus' own client library.

It is for programs that have a registry of their own. An instance's endpoint has the same numbers under the same names,
and needs nothing of this. Needs `prometheus_client` (the [prometheus] extra).
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
    """Numbers of one or several instances: `REGISTRY.register(Collector(instance))`, on the instance's thread.

    Each sample has the label `instance_id` beside those of the table. An instance that is closed, or does not answer
    within two seconds, is left out.
    """

    def __init__(self, *instances: BaseInstance[Any]) -> None:
        self._snapshots = [Snapshots(instance) for instance in instances]

    def describe(self) -> Iterator[Family]:
        """Names alone: a registry asks for them when this is registered, and takes no snapshot for it."""
        yield from (_family(metric) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """Every metric of the table, with the numbers of now."""
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
    """A lone surrogate, which UTF-8 cannot carry, is shown as a question mark."""
    return text.encode("utf-8", "replace").decode()


def _family(metric: Metric) -> Family:
    kind = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}[metric.kind]
    family: Family = kind(metric.exported, metric.help, labels=("instance_id", *metric.labels))
    return family

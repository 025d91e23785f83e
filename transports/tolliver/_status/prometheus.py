"""Prometheus' text format (version 0.0.4), generated from the table of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from .metrics import Metric, Sample, samples
from .snapshot import HistogramStatus, InstanceStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def text_of(status: InstanceStatus) -> str:
    """All numbers of the snapshot, each metric with help and type, and information about the instance."""
    who = {"uuid": str(status.uuid), "name": status.name, "version": status.version, "database": status.database}
    return "".join([*_head("tolliver_instance_info", "gauge", "Identity of the instance."), *_info(who), *_all(status)])


def _info(who: Mapping[str, str]) -> Iterator[str]:
    yield _line("tolliver_instance_info", who, 1)


def _all(status: InstanceStatus) -> Iterator[str]:
    last: Metric | None = None
    for sample in samples(status):
        if sample.metric is not last:
            last = sample.metric
            yield from _head(last.exported, last.kind, last.help)
        yield from _lines(sample)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}\n"
    yield f"# TYPE {name} {kind}\n"


def _lines(sample: Sample) -> Iterator[str]:
    name, value = sample.metric.exported, sample.value
    if not isinstance(value, HistogramStatus):
        yield _line(name, sample.labels, value)
        return
    bounds = [*map(repr, value.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        yield _line(f"{name}_bucket", {**sample.labels, "le": bound}, count)
    yield _line(f"{name}_sum", sample.labels, value.sum)
    yield _line(f"{name}_count", sample.labels, value.count)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{_escaped(one)}"' for label, one in labels.items())
    return f"{name}{{{said}}} {value!r}\n" if said else f"{name} {value!r}\n"


def _escaped(text: str) -> str:
    """An escaped label value. A lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode()

"""Reference of the numbers, from their table."""

from __future__ import annotations

from collections.abc import Iterator

from tolliver.status import METRICS

TEXT = """\
# Numbers

Each number of `status()`, and its name in Prometheus; [Watch it](../watching.md#numbers) says what they count from.
"""
SUBJECTS = {"instance": "Of the instance", "peer": "Of each peer", "remote": "Of each remote"}
SUBJECTS |= {"channel": "Of each channel", "queue": "Of each work queue"}
UNITS = {"": "1", "timestamp": "seconds since 1970"}


def rows(subject: str) -> Iterator[str]:
    """The table of all numbers of one subject."""
    yield "| name | kind | unit | in Prometheus | meaning |"
    yield "|---|---|---|---|---|"
    for metric in METRICS:
        if metric.subject == subject:
            by = f", by `{metric.by}`" if metric.by else ""
            unit = UNITS.get(metric.unit, metric.unit)
            yield f"| `{metric.name}`{by} | {metric.kind} | {unit} | `{metric.exported}` | {metric.help} |"


def page() -> str:
    """The page of the reference. KeyError where a subject has no heading here."""
    lines = [TEXT]
    for subject in dict.fromkeys(metric.subject for metric in METRICS):
        lines += [f"## {SUBJECTS[subject]}\n", *rows(subject), ""]
    return "\n".join(lines)

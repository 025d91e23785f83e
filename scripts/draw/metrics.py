"""Drawing of the metrics for docs/watching.md, from their table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tolliver.status import METRICS

from scripts.pages import ROOT, bracketed, with_parts

PAGE = ROOT / "docs" / "watching.md"


def rows(subject: str) -> Iterator[str]:
    yield "| name | kind | unit | in Prometheus | meaning |"
    yield "|---|---|---|---|---|"
    for metric in METRICS:
        if metric.subject == subject:
            by = f", by `{metric.by}`" if metric.by else ""
            exported = f"`{metric.exported}`"
            unit, meaning = metric.unit or "1", bracketed(metric.help)
            yield f"| `{metric.name}`{by} | {metric.kind} | {unit} | {exported} | {meaning} |"


def files() -> Iterator[tuple[Path, str]]:
    subjects = dict.fromkeys(metric.subject for metric in METRICS)
    yield PAGE, with_parts(PAGE, {f"metrics_{subject}": rows(subject) for subject in subjects})

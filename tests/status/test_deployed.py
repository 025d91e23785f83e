"""Alerts and dashboard in deploy/: they ask for metrics that there are, as they are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tolliver.status import METRICS

from tolliver_proto import NoticeKind

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "tolliver.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "tolliver.json"
SUFFIXES = ("_bucket", "_sum", "_count")
EXPORTED = {metric.exported: metric for metric in METRICS}
OF_SCRAPE = {"instance", "job", "le"}
_NAME = re.compile(r"\btolliver_\w+")
_COUNTED = re.compile(r"\b(rate|increase)\((\w+)")
_CHANGED = re.compile(r"\bdelta\((\w+)")


def rules() -> list[dict[str, str]]:
    """Fields by name. The file has one on each line, so no reader of YAML is needed; promtool reads it as YAML."""
    found: list[dict[str, str]] = []
    for line in RULES.read_text("utf-8").splitlines():
        field = re.fullmatch(r" +(- )?(alert|expr|for|severity|summary|description): (.+)", line)
        if field is not None:
            if field[2] == "alert":
                found.append({})
            found[-1][field[2]] = field[3].strip("'").replace("''", "'")
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Each with the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], f"{rule['summary']} {rule['description']}"
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


QUERIES = list(queries())


def metric_of(name: str) -> Any:
    """The metric with this name in Prometheus, or, of a histogram, one of its three."""
    if name in EXPORTED:
        assert EXPORTED[name].kind != "histogram", f"{name} has {', '.join(SUFFIXES)}"
        return EXPORTED[name]
    base = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    assert base in EXPORTED, f"there is no {name}"
    assert EXPORTED[base].kind == "histogram", name
    return EXPORTED[base]


@pytest.mark.parametrize(("query", "shown"), QUERIES)
def test_a_query_asks_for_what_there_is(query: str, shown: str) -> None:
    names = _NAME.findall(re.sub(r'"[^"]*"', "", query))
    labels = OF_SCRAPE.union(*(metric_of(name).labels for name in names))
    for function, name in _COUNTED.findall(query):
        assert metric_of(name).kind != "gauge", f"{function} of a gauge"
    assert [name for name in _CHANGED.findall(query) if metric_of(name).kind != "gauge"] == []
    grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
    matched = set(re.findall(r"[{,] ?(\w+)=", query))
    told = set(re.findall(r"{{ ?\$labels\.(\w+)", shown)) | set(re.findall(r"{{(\w+)}}", shown))
    assert grouped | matched | told <= labels
    assert names or "up{" in query
    for kinds in re.findall(r'kind=~?"([^"]*)"', query):
        assert {*kinds.split("|")} <= {str(kind) for kind in NoticeKind}


def test_the_page_has_every_alert() -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text("utf-8")
    assert [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in page] == []
    assert all(rule["severity"] in ("warning", "critical") for rule in rules())


def test_panels_do_not_lie_on_each_other() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in panels()})


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("words", [("check", "config", "prometheus.yml"), ("test", "rules", "tolliver.test.yml")])
def test_promtool_takes_them(words: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

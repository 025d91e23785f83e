"""Drawing of the metrics for docs/watching.md, from their table.

python scripts/draw_metrics.py            writes the drawn parts of the page
python scripts/draw_metrics.py --check    fails if the page is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "transports")]

from tolliver.status import METRICS  # noqa: E402  # the line above comes first

from scripts.pages import bracketed  # noqa: E402

PAGE = ROOT / "docs" / "watching.md"
_DRAWN = re.compile(r"(<!-- drawn: metrics_(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rows(subject: str) -> Iterator[str]:
    yield "| name | kind | unit | in Prometheus | meaning |"
    yield "|---|---|---|---|---|"
    for metric in METRICS:
        if metric.subject == subject:
            by = f", by `{metric.by}`" if metric.by else ""
            exported = f"`{metric.exported}`"
            unit, meaning = metric.unit or "1", bracketed(metric.help)
            yield f"| `{metric.name}`{by} | {metric.kind} | {unit} | {exported} | {meaning} |"


def page(text: str) -> str:
    """The page with its drawn parts as they are to be."""

    def drawn(found: re.Match[str]) -> str:
        return "\n".join([found[1], *rows(found[2]), "", found[3]])

    return _DRAWN.sub(drawn, text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    before = options.page.read_text("utf-8")
    after = page(before)
    if not options.check:
        options.page.write_text(after, "utf-8")
        return 0
    if before == after:
        return 0
    print(f"{options.page.name} is out of date: run python scripts/draw_metrics.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

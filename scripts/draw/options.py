"""Drawing of the table of keys in docs/run.md, from the table that `tolliver` checks against."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.pages import ROOT, bracketed, with_parts

PAGE = ROOT / "docs" / "run.md"


def table(keys: str) -> Iterator[str]:
    """Lines of the table, of what `tolliver config keys --json` prints."""
    yield "| key | takes | default | |"
    yield "|---|---|---|---|"
    for one in map(json.loads, keys.splitlines()):
        kind = one["takes"].replace("|", "\\|") or "true, false"
        whole = "a table, " if "=" in kind or "HABIT" in kind else "a list, " if one["repeatable"] else ""
        default = f"`{one['default']}`" if one["default"] else ""
        yield f"| `{one['key']}` | {whole}{kind} | {default} | {bracketed(one['help'])} |"


def files() -> Iterator[tuple[Path, str]]:
    command = [sys.executable, "-m", "tolliver.cli", "config", "keys", "--json"]
    keys = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    yield PAGE, with_parts(PAGE, {"keys": table(keys)})

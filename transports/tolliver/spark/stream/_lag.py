"""Lag of a query: messages that are staged and not read yet.

Both places are in each progress that Spark reports, and each says how many messages stand before it; so the lag is a
difference, and nobody has to be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._offsets import Place, StreamLost, read_place


def lag(progress: Mapping[str, Any] | str | None) -> list[int]:
    """For each live tolliver source of a query, in order: how many messages are staged and not yet read.

    `progress` is a StreamingQueryProgress, as `query.lastProgress` or a listener gives it, or its JSON; None, which is
    before the first batch, has no sources. Streams of recordings (mode=files) do not count messages and are left out,
    as are other sources.
    """
    if progress is None:
        return []
    said = json.loads(progress) if isinstance(progress, str) else progress
    return [count for source in said["sources"] if (count := _behind(source)) is not None]


def _behind(source: Mapping[str, Any]) -> int | None:
    latest, end = _place(source.get("latestOffset")), _place(source.get("endOffset"))
    if latest is None:
        return None
    return latest.frames - (end.frames if end is not None and end.stage == latest.stage else 0)


def _place(offset: object) -> Place | None:
    """None if it is none of ours. A progress has offsets as JSON, or parsed in its own JSON."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return read_place(found) if isinstance(found, Mapping) else None
    except (ValueError, StreamLost):
        return None

"""Lag of a streaming query: messages staged and not read yet.

Each progress report of Spark has both positions, and each of these has the number of messages before it. So the lag is
their difference, and nothing else has to be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._offsets import Place, StreamLost, read_place


def lag(progress: Mapping[str, Any] | str | None) -> list[int]:
    """For each live tolliver source of a query, in order: the number of messages that are staged but not read yet.

    `progress` is a StreamingQueryProgress, from `query.lastProgress` or a listener, or its JSON; or None, as before the
    first batch, which has no sources. Streams of recordings (mode=files) do not count messages; they and other sources
    are left out.
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
    """The place that a live stream's offset names; None if the offset is of another source. A progress has offsets as
    JSON text or parsed.
    """
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return read_place(found) if isinstance(found, Mapping) else None
    except (ValueError, StreamLost):
        return None

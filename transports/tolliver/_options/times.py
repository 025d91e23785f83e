"""Times of messages that are sent later, as a program gives them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tolliver_proto.node import check_type


class Times(NamedTuple):
    """Time of a send: seconds from now or, by the wall clock, since 1970. Without both, at once."""

    after: float | None = None
    not_before: float | None = None

    @classmethod
    def of(cls, after: float | None, not_before: datetime | None) -> Times:
        """Returns the time. Raises TypeError, and ValueError for a date without a time zone."""
        if not_before is None:
            return cls(after)
        check_type("not_before", not_before, datetime, "a datetime with a time zone")
        if not_before.utcoffset() is None:
            raise ValueError(
                f"not_before={not_before!r:.100} has no time zone, so it is another moment on another machine: give "
                "one, as datetime(2030, 1, 31, 8, 0, tzinfo=timezone.utc) has, or call its astimezone()"
            )
        return cls(after, not_before.timestamp())

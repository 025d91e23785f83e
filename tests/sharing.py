"""Groups of tests for the processes of one pytest (pytest-xdist).

A Spark takes a process ten seconds to start, and then waits more than it works. So the files that need one are two
groups, which as the largest begin at once, in two processes; all other tests are taken one by one.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

_ON_SPARK = ({"test_audit", "test_streams"}, {"test_demand_source", "test_page", "test_source", "test_write"})
"""The files of `tests/spark` that use the session, in two groups that take equally long."""


class OneByOne(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives each process the next test, and a group of Spark's as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        folder, _, file = nodeid.partition("::")[0].removesuffix(".py").rpartition("/")
        for group in _ON_SPARK:
            if folder == "tests/spark" and file in group:
                return min(group)
        return nodeid

"""Groups of tests for the processes of one pytest (pytest-xdist).

A Spark takes a process ten seconds to start, and then waits more than it works. So the files that need one are one
group, which as the largest begins at once. A file whose tests share what takes long to make is a group, too; all other
tests are taken one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_GROUPS = (
    # One session of Spark. A second costs more to start than it saves in waiting.
    {
        f"tests/spark/{name}.py"
        for name in (
            "test_audit",
            "test_demand_source",
            "test_page",
            "test_source",
            "test_streams",
            "test_tables",
            "test_write",
        )
    },
    {"tests/boxes/test_inbox.py", "tests/boxes/test_outbox.py"},  # one PostgreSQL: to make its files takes a second
    {"tests/test_rooms.py"},  # all imports of all files
    {"tests/test_site.py"},  # the pages of the site
)


class OneByOne(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives each process the next test, and a group as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((min(group) for group in _GROUPS if file in group), nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """And let go of what is over, which it would count again at each of thousands of tests."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]

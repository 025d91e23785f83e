"""Files that are renewed without a signal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
from tolliver._cli.changes import when_changed


def test_a_file_that_changes_is_told_of_and_so_is_a_link_that_leads_elsewhere(tmp_path: Path) -> None:
    plain, link = tmp_path / "plain", tmp_path / "link"
    for name in ("one", "two"):
        (tmp_path / name).write_text("the same size")
    plain.write_text("1")
    link.symlink_to("one")
    changes: list[Callable[[], object]] = [lambda: plain.write_text("22"), plain.unlink, lambda: _turn(link)]

    async def main() -> None:
        async def then() -> None:
            if changes:
                changes.pop(0)()
            else:
                tasks.cancel_scope.cancel()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(when_changed, lambda: [plain, link], 0.01, then)
                await anyio.lowlevel.checkpoint()  # it has looked
                plain.write_text("333")

    anyio.run(main)


def _turn(link: Path) -> None:
    new = link.with_name("new")
    new.symlink_to("two")
    new.rename(link)

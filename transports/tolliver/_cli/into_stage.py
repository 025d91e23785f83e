"""Stage that is filled with messages from an instance on a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread

from tolliver_proto import Revision

from ..anyio import Instance, Run
from ..anyio.threads import loop_caller
from ..staging import FolderOptions, StageWriter
from ..staging._loop import StageLoop
from ..staging._stager import add, source
from . import words
from .destinations import Destination

_LOOK = 0.5  # seconds between two checks for a failure


class FedStage(StageLoop[Run]):
    """A stage filled by `feed`. Each run is settled with `settle`, on the stage's thread, once it is on disk."""

    def __init__(
        self, options: FolderOptions, local: UUID, revision: Revision, settle: Callable[[Sequence[Run]], None]
    ) -> None:
        super().__init__(options)
        self._local = local
        self._revision = revision
        self._settle = settle
        self._came: SimpleQueue[Run] = SimpleQueue()
        self.feed = self._came.put

    def _open(self, writer: StageWriter) -> None:
        writer.local = self._local

    def _let_go(self) -> None: ...

    def _take(self, writer: StageWriter, timeout: float) -> Run | None:
        try:
            run = self._came.get(timeout=timeout) if timeout else self._came.get_nowait()
        except Empty:
            return None
        for (peer, cid), deliveries in groupby(run, source):
            add(writer, peer, cid, self._revision, [one.message for one in deliveries])
        return run

    def _on_synced(self, items: Sequence[Run]) -> None:
        self._settle(items)


async def open_stage(directory: Path, max_staged: int, local: UUID, revision: Revision) -> FedStage:
    """A started stage in the directory, of at most `max_staged` bytes, for the instance `local`. Raises the errors of
    starting it.
    """
    in_loop = loop_caller()
    options = FolderOptions(directory=directory, max_staged_bytes=max_staged)
    fed = FedStage(options, local, revision, lambda runs: in_loop(partial(_acknowledge, runs)))
    await anyio.to_thread.run_sync(fed.start)
    return fed


async def stage(instance: Instance, destination: Destination, fed: FedStage) -> None:
    """Stage messages until cancelled. Raises errors of the stage, such as StageFull."""
    try:
        async with instance.message_runs(destination.channel, destination.key, subscribe=False) as runs:
            runs.be_patient()
            async with anyio.create_task_group() as group:
                group.start_soon(_watch, fed)
                try:
                    async for run in runs:
                        fed.feed(run)
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(fed.close)
                        await anyio.lowlevel.checkpoint()  # lets the last acknowledgements happen
    finally:
        fed.close()


def _acknowledge(runs: Sequence[Run]) -> None:
    for run in runs:
        run.ack()


async def _watch(fed: FedStage) -> None:
    told: str | None = None
    while True:
        await anyio.sleep(_LOOK)
        fed.check()
        if fed.held != told and fed.held is not None:
            words.say(words.line(f"nothing more is staged: {fed.held}"))
        told = fed.held

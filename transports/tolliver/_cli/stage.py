"""`tolliver stage`: receives messages or elements into a stage.

It prints its addresses at the start. Progress is shown on standard error if that is a terminal; reasons why it cannot
take messages are always shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import anyio
from attrs import evolve

from tolliver_proto.node import RESERVED_CHANNEL
from tolliver_proto.reactive import Limits

from ..spark.demand._stager import DemandStageOptions, DemandStager
from ..staging import FolderOptions, StageOptions, Stager
from . import words
from .connecting import Meeting, alongside, reread_rules
from .figures import Pace
from .tables import progress
from .watching import options_of, remotes_of

WINDOW = 4096  # most elements of a stream in flight
ELEMENT_BYTES = 2**20

_TICK = 0.5  # seconds between two updates


def shown(stats: dict[str, int], held: str | None, pace: Pace) -> str:
    """Returns a progress line: the number staged so far, the rate since the last line, and `held`, the reason why
    nothing is taken."""
    (rate,) = pace.look(stats["staged"])
    said = f"{rate:,.0f}/s, {_total(stats)}, {words.count(stats['staged_bytes'], 'byte')} in the stage"
    return f"{said}; waiting: {held}" if held else said


def summary(stats: dict[str, int], pace: Pace) -> str:
    """Returns the line printed at the end: the numbers of all that was staged."""
    return f"{_total(stats)}, in {pace.seconds:.2f} s"


def _total(stats: dict[str, int]) -> str:
    if "subscriptions" in stats:
        ended = f"; {words.count(stats['completed'], 'stream')} completed" if stats["completed"] else ""
        return f"staged {words.count(stats['staged'], 'element')}{ended}"
    copies = f", and {stats['duplicates']:,} sent again that it had" if stats["duplicates"] else ""
    dropped = f"; {stats['dropped']:,} unreliable dropped" if stats["dropped"] else ""
    return f"staged {words.count(stats['staged'], 'message')}{copies}{dropped}"


def stage_options(meeting: Meeting, channels: list[str], keys: list[str], **more: Any) -> StageOptions:
    """Options for each channel with each key. Raises ValueError if something is missing or given twice, and OSError."""
    if meeting.listen is None and not meeting.connect:
        raise ValueError("nobody to talk to: give --listen HOST:PORT, or --connect HOST:PORT, or both")
    return StageOptions(
        remotes=meeting.remotes(), subscriptions=tuple(product(channels, keys)), **meeting.common(), **more
    )


def demand_options(meeting: Meeting, streams: list[str], window: int, folder: FolderOptions) -> DemandStageOptions:
    """Options for these publishers at the dialled peer, with at most `window` elements in flight of each. Raises
    ValueError if something is missing, and OSError.
    """
    remotes = remotes_of(meeting)
    if meeting.listen is not None or len(remotes) != 1:
        raise ValueError("--stream subscribes at one peer: give one --connect HOST:PORT, and no --listen")
    if RESERVED_CHANNEL in streams:
        raise ValueError(f"{RESERVED_CHANNEL!r} cannot be staged, as the name is the protocol's own: publish another")
    if len(set(streams)) < len(streams):
        raise ValueError("a --stream comes twice: a publisher is asked once, give each name once")
    made = DemandStageOptions(
        remote=remotes[0],
        streams=evolve(options_of(meeting), limits=Limits(max_element=ELEMENT_BYTES)),
        publishers=tuple(streams),
        window=window,
        folder=folder,
    )
    made.credit()
    return made


def stage_and_report(
    options: StageOptions | DemandStageOptions,
    run: Callable[[Callable[[], Awaitable[None]]], None],
    acl: Path | None = None,
    as_json: bool = False,
) -> None:
    """Stage until a signal or a failure, whose error is raised, and print the summary in any case, with `as_json` as
    JSON. `run` runs a coroutine function on a loop.

    The access rules in the file `acl` are loaded again at SIGHUP.
    """
    bar = progress()
    task = bar.add_task("waiting for messages", total=None)
    with bar:
        run(partial(_stage, options, lambda said: bar.update(task, description=said), acl, as_json))


async def _stage(
    options: StageOptions | DemandStageOptions, show: Callable[[str], None], acl: Path | None, as_json: bool
) -> None:
    stager = Stager(options) if isinstance(options, StageOptions) else DemandStager(options)
    pace = Pace()
    await anyio.to_thread.run_sync(stager.start)
    try:
        rules: list[Callable[[], Awaitable[None]]] = []
        if isinstance(stager, Stager):
            words.say(f"this is {stager.instance_id}{words.listening(stager.addresses)}")
            listed = words.listed(stager.options.subscriptions)
            words.say(f"staging {listed} ('' is anything) into {stager.options.directory}; Ctrl-C ends")
            rules = [] if acl is None else [partial(reread_rules, acl, stager.set_acl)]
        elif isinstance(options, DemandStageOptions):
            named = ", ".join(map(words.name, options.publishers))
            words.say(f"staging {named} of {options.remote} into {options.folder.directory}; Ctrl-C ends")
        await alongside(partial(_watch, stager, pace, show), rules)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(stager.close)
        stats = dict(stager.stats())
        words.tell(as_json, summary(stats, pace), **stats)


async def _watch(stager: Stager | DemandStager, pace: Pace, show: Callable[[str], None]) -> None:
    while True:
        await anyio.sleep(_TICK)
        stager.check()
        show(shown(dict(stager.stats()), stager.held, pace))

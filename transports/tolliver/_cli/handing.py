"""`tolliver send --via`: handing over to the instance at a Unix socket."""

from __future__ import annotations

import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import typer

from .. import local
from . import words
from .send import BATCH, Job, Tally


@dataclass(frozen=True)
class Via:
    """The socket, and the message key, which only a single message has."""

    path: Path
    message_key: str | None


async def hand_over(job: Job, via: Via, tally: Tally) -> None:
    """Hand everything over, counting in `tally`. Raises the errors of `local.connect` and its calls."""
    async with local.connect(via.path, timeout=job.timeout) as me, aclosing(job.batches()) as batches:
        async for batch in batches:
            tally.begin(batch)
            for at in range(0, len(batch.items), BATCH):
                items = batch.items[at : at + BATCH]
                if via.message_key is None:
                    receipt = await me.send_many(items, to=job.to)
                else:
                    [(channel, key, body)] = items
                    receipt = await me.send(channel, key, body, message_key=via.message_key, to=job.to)
                tally.add([*receipt.counts], True)
    tally.ended = time.monotonic()


def report(job: Job, tally: Tally, *, as_json: bool) -> bool:
    """Print the summary. Returns True if everything has recipients."""
    typer.echo(json.dumps(tally.facts(job)) if as_json else tally.summary(job))
    if tally.unwanted:
        words.say(f"{tally.unwanted:,} of {words.count(tally.read, 'message')} not {job.verb}: {job.unwanted}")
    return tally.stored == tally.reliable

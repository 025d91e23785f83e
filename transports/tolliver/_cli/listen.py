"""`tolliver listen`: print messages, and acknowledge each once it is printed.

Subscriptions are durable, so an instance may also get messages that an earlier run subscribed to. These are printed,
too, as none may be lost. `--only` removes the earlier subscriptions.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from tolliver_proto import Delivery, Subscription

from .._options.instance import InstanceOptions, Remote
from ..anyio import Instance, Runs, TypedRuns, create_instance
from ..codecs import Codec
from . import words
from .connecting import alongside, reread_rules
from .standard import Output

Values = Callable[[Delivery], str]
Show = Callable[[Iterable[Delivery]], str]
_AT_ONCE = 100  # most messages printed before they are acknowledged


def as_text(run: Iterable[Delivery], value: Values | None = None) -> str:
    """One line for each message of the run: time, peer, channel, key, and body or decoded value."""
    now = datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]
    heads = _Heads(lambda peer, channel, key: f"{now} {words.peer(peer)} {words.name(channel)} {words.name(key)} ")
    return "".join(
        [
            f"{heads[one.peer_id, one.channel, one.key]}"
            f"{words.body(one.body if value is None else value(one).encode())}\n"
            for one in run
        ]
    )


def as_json(run: Iterable[Delivery], value: Values | None = None) -> str:
    """One JSON object for each message of the run, with nothing cut."""
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    heads = _Heads(
        lambda peer, channel, key: (
            f'{{"time": "{now}", "peer": "{peer}", "channel": {json.dumps(channel)}, "key": {json.dumps(key)}, '
        )
    )
    # Concatenated, as `json.dumps` of each message took three quarters of the time.
    return "".join(
        [
            f"{heads[one.peer_id, one.channel, one.key]}"
            f'"message_id": {"null" if one.message_id is None else one.message_id}, "attempt": {one.attempt}, '
            f'"body": "{b2a_base64(one.body, newline=False).decode()}"'
            f"{'' if value is None else _as_value(value(one))}}}\n"
            for one in run
        ]
    )


def _as_value(said: str) -> str:
    return f', "value": {json.dumps(json.loads(said))}'  # in one line


class _Heads(dict[tuple[UUID, str, str], str]):
    """Beginnings of lines, cached for each peer, channel and key."""

    def __init__(self, make: Callable[[UUID, str, str], str]) -> None:
        self._make = make

    def __missing__(self, name: tuple[UUID, str, str]) -> str:
        made = self[name] = self._make(*name)
        return made


async def listen(
    options: InstanceOptions,
    remotes: list[Remote],
    wanted: list[Subscription],
    only: bool,
    count: int | None,
    show: Show,
    acl: Path | None = None,
    codec: Codec[Any] | None = None,
) -> None:
    """Print messages until `count` of them, or for ever (None). `only` ends all stored subscriptions but the wanted
    ones. The access rules in the file `acl` are loaded again at SIGHUP.

    With a codec, a message that does not decode is failed, with a line on standard error.
    """
    output = Output()
    words.say_plain(wanted)
    async with create_instance(options, subscriptions=wanted) as instance:
        runs: Runs | TypedRuns[Any] = (
            instance.message_runs("", "", subscribe=False)
            if codec is None
            else instance.channel("", codec=codec).runs(subscribe=False)
        )
        for earlier in instance.subscriptions() if only else ():
            if earlier not in wanted:
                await instance.unsubscribe(*earlier)
        words.say(f"this is {instance.instance_id}{words.listening(instance.addresses)}")
        words.say(f"subscribed to {words.listed(instance.subscriptions())} ('' is anything); Ctrl-C ends")
        others = [partial(_dial, instance, remote) for remote in remotes]
        if acl is not None:
            others.append(partial(reread_rules, acl, instance.admin.set_acl))
        await alongside(partial(_print, runs, count, show, output), others)


async def _dial(instance: Instance, remote: Remote) -> None:
    peer = await instance.new_connection(remote)
    words.say(f"connected to {remote}, which is {peer}")


async def _print(runs: Runs | TypedRuns[Any], count: int | None, show: Show, output: Output) -> None:
    left = count
    runs.be_patient()  # a pager may block for any time
    async for run in runs:
        wanted: list[Any] = list(run)[:left]
        for at in range(0, len(wanted), _AT_ONCE):
            taken = wanted[at : at + _AT_ONCE]
            await output.write(output.encoded(show(taken)))
            run.settle(taken, True)
        if left is not None:
            left -= len(wanted)
            if not left:
                return

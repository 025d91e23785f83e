"""`tolliver listen`: print what arrives, and acknowledge it once it is printed.

Subscriptions are durable, so an instance may still be subscribed to what an earlier run asked for. All of it is
printed: nothing is thrown away because this run asked for something else. `--only` drops the earlier ones.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tolliver_proto import Delivery, Subscription

from .._options.instance import InstanceOptions, Remote
from ..anyio import Instance, Runs, TypedRuns, create_instance
from ..codecs import Codec
from . import words
from .connecting import alongside, reread_rules

Show = Callable[[Delivery], str]


def as_text(delivery: Delivery, value: Show | None = None) -> str:
    """One line: time, peer, channel, key, body, or the value in its place."""
    body = delivery.body if value is None else value(delivery).encode()
    now = datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]
    names = f"{words.name(delivery.channel)} {words.name(delivery.key)}"
    return f"{now} {words.peer(delivery.peer_id)} {names} {words.body(body)}\n"


def as_json(delivery: Delivery, value: Show | None = None) -> str:
    """One object: nothing is cut."""
    shown: dict[str, object] = {
        "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "peer": str(delivery.peer_id),
        "channel": delivery.channel,
        "key": delivery.key,
        "message_id": delivery.message_id,
        "attempt": delivery.attempt,
        "body": base64.b64encode(delivery.body).decode(),
    }
    if value is not None:
        shown["value"] = json.loads(value(delivery))
    return json.dumps(shown) + "\n"


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
    """Until `count` messages were printed, or for ever. The rules in the file `acl` are read again on SIGHUP.

    With a codec, a message that it does not decode fails, which is told on standard error.
    """
    async with create_instance(options, subscriptions=wanted) as instance:
        runs: Runs | TypedRuns[Any] = (
            instance.message_runs("", "", subscribe=False)
            if codec is None
            else instance.message_runs("", "", subscribe=False, codec=codec)
        )
        if only:
            await _drop_earlier(instance, wanted)
        _say_where(instance)
        others = [partial(_dial, instance, remote) for remote in remotes]
        if acl is not None:
            others.append(partial(reread_rules, acl, instance.set_acl))
        await alongside(partial(_print, runs, count, show), others)


async def _dial(instance: Instance, remote: Remote) -> None:
    peer = await instance.new_connection(remote)
    words.say(f"connected to {remote}, which is {peer}")


async def _drop_earlier(instance: Instance, wanted: Collection[Subscription]) -> None:
    for earlier in instance.subscriptions():
        if earlier not in wanted:
            await instance.unsubscribe(*earlier)


def _say_where(instance: Instance) -> None:
    where = "".join(f", listening on {host}:{port}" for host, port in instance.addresses)
    words.say(f"this is {instance.instance_id}{where}")
    listed = ", ".join(" ".join(map(words.name, one)) for one in instance.subscriptions())
    words.say(f"subscribed to {listed} ('' is anything); Ctrl-C ends")


async def _print(runs: Runs | TypedRuns[Any], count: int | None, show: Show) -> None:
    left = count
    async for run in runs:
        taken: list[Any] = list(run)[:left]
        sys.stdout.write("".join(map(show, taken)))
        sys.stdout.flush()
        run.settle(taken, True)
        if left is not None:
            left -= len(taken)
            if not left:
                return

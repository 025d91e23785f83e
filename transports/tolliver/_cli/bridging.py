"""Bridge of `tolliver run`, which publishes messages of an instance as streams."""

from __future__ import annotations

import anyio
import anyio.abc
from anyio.abc import TaskStatus
from attrs import define

from tolliver_proto import TolliverError

from .._options.streams import StreamsOptions
from ..anyio import Instance, bridge, create_streams
from . import words


@define(frozen=True)
class Bridge:
    """Configuration of a bridge: names and options of the streams. `files` has the content of the files that the
    options name, to detect changes."""

    options: StreamsOptions
    names: tuple[str, ...]
    subscribe: bool
    files: tuple[bytes, ...]


class Bridging:
    """A bridge from messages to streams that runs in a task group. It can be replaced: subscribers then connect
    again.
    """

    def __init__(self, instance: Instance, group: anyio.abc.TaskGroup) -> None:
        self._instance = instance
        self._group = group
        self._now: Bridge | None = None
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()

    async def change(self, wanted: Bridge | None) -> None:
        """Replace the bridge. If this raises CertificateError or CannotListen, the old one is running again."""
        before = self._now
        if wanted == before:
            return
        in_the_way = _port(wanted) == _port(before) != 0
        if in_the_way:
            await self._end()
        scope, ended = self._scope, self._ended
        try:
            await self._begin(wanted)
        except (OSError, TolliverError):
            if in_the_way:
                await self._begin(before)
            raise
        if before is not None and not in_the_way:
            scope.cancel()
            await ended.wait()

    async def _end(self) -> None:
        self._now = None
        self._scope.cancel()
        await self._ended.wait()

    async def _begin(self, wanted: Bridge | None) -> None:
        if wanted is not None:
            self._scope, self._ended = await self._group.start(self._serve, wanted)
        self._now = wanted

    async def _serve(self, wanted: Bridge, *, task_status: TaskStatus[tuple[anyio.CancelScope, anyio.Event]]) -> None:
        ended = anyio.Event()
        try:
            with anyio.CancelScope() as scope:
                async with create_streams(wanted.options) as streams:
                    for name in wanted.names:
                        streams.publish(name, bridge(self._instance, subscribe=wanted.subscribe))
                    where = ", ".join(words.dialled(streams.addresses))
                    words.say(f"streams {', '.join(map(words.name, wanted.names))} of messages are on {where}")
                    task_status.started((scope, ended))
                    await anyio.sleep_forever()
        finally:
            ended.set()


def _port(one: Bridge | None) -> int:
    return 0 if one is None or one.options.listen is None else one.options.listen[1]

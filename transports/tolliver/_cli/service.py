"""`tolliver run`: an instance configured by one file.

The file has the destinations of messages. SIGHUP reloads what can be changed in a running instance. At SIGTERM and
SIGINT it takes no more messages, lets those in progress finish, and closes. A service manager is notified of its state.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Set
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
from attrs import evolve

from tolliver_proto import Acl, ConnectionClosing, NoticeKind, SelfConnection, TolliverError

from .._options.acl_file import load_acl
from .._options.instance import Remote
from ..anyio import Instance, create_instance
from . import words
from .bridging import Bridge, Bridging
from .changes import when_changed
from .config import Config, load
from .connecting import alongside, hangups, signals
from .delivering import Deliveries
from .letters import keep_requests
from .manager import ServiceManager

_OF_TLS = {"tls.cert", "tls.key", "tls.ca", "tls.crl"}
_RELOADED = {"acl", "remotes", "log_level", "subscriptions", "only", "deliver"}
_BRIDGE = "bridge."  # prefix of its keys


async def serve(config: Config, as_json: bool) -> None:
    """Run the configured instance until a signal; with `as_json` it says in JSON where it listens. Raises Interrupted
    then, and errors of opening.
    """
    _set_level(config)
    words.say_plain(config.subscriptions)
    options = config.options()
    bridge, manager = config.bridge(), ServiceManager()
    with hangups() as come, signals() as told:
        async with create_instance(evolve(options, remotes=())) as instance:
            _say_where(instance, config, as_json)
            running = _Running(instance, config, manager)
            keep = partial(running.keep, options.remotes, bridge, come)
            status = partial(manager.keep_told, running.status)
            manager.tell("READY=1")
            # The instance stays open until these have ended.
            letters = partial(keep_requests, instance, options.database)
            await alongside(partial(_until, told, manager), [keep, status, letters])


async def _until(told: Callable[[], Awaitable[None]], manager: ServiceManager) -> None:
    try:
        await told()
    finally:
        manager.tell("STOPPING=1")


def _say_where(instance: Instance, config: Config, as_json: bool) -> None:
    going = ", ".join(f"messages go {one}" for one in config.destinations) or "no messages"
    said = f"this is {instance.instance_id}{words.listening(instance.addresses)}; {going}; Ctrl-C ends"
    if as_json:
        words.tell(True, said, instance=str(instance.instance_id), addresses=words.dialled(instance.addresses))
    words.say(said)


def _set_level(config: Config) -> None:
    if config.value("log_level") is not None:
        logging.getLogger("tolliver").setLevel(config.value("log_level").upper())


# Reloading.


class _Running:
    """A running service of `tolliver run`: the instance, its deliveries, its bridge, and the configuration that they
    follow.
    """

    def __init__(self, instance: Instance, config: Config, manager: ServiceManager) -> None:
        self._instance = instance
        self._config = config
        self._database = config.options().database
        self._manager = manager
        self._one_at_a_time = anyio.Lock()
        self._refused = ""  # the reason if the last reload was refused
        self._dialled: set[Remote] = set()
        self._kept_out: set[Remote] = set()  # remotes refused by access rules: still dialled, but not waited for

    def status(self) -> str:
        """Returns a line about the instance's state for the service manager."""
        numbers = self._instance.stats()
        to_send = words.count(numbers.pending, "message")
        return f"{words.count(numbers.peers_up, 'peer')} connected, {to_send} to be sent{self._refused}"

    async def keep(self, remotes: Collection[Remote], bridge: Bridge | None, hangups: AsyncIterator[object]) -> None:
        """Dial, deliver, and reload at SIGHUP. Raises errors of the first destinations and bridge."""
        async with anyio.create_task_group() as tasks:
            config = self._config
            self._deliveries = Deliveries(
                self._instance, config.value("stop_timeout"), config.options().revision, tasks
            )
            self._bridging = Bridging(self._instance, tasks)
            await self._deliveries.open(config.destinations)
            await self._bridging.change(bridge)
            self._deliveries.change(config.destinations)
            await self._drop_earlier(config)
            self._change({*remotes}, tasks)
            every = config.value("reload_every")
            if every is not None:
                tasks.start_soon(when_changed, self._files, every, partial(self._read_again, tasks))
            async for _ in hangups:
                await self._read_again(tasks)

    def _files(self) -> list[Path]:
        """Files that are loaded again."""
        named = [value for key, value in self._config.values.items() if key in ("acl", "bridge.acl") or key in _OF_TLS]
        return [self._config.path, *named]

    async def _read_again(self, tasks: anyio.abc.TaskGroup) -> None:
        async with self._one_at_a_time:
            self._manager.tell_reloading()
            await self._reload(tasks)
            self._manager.tell("READY=1")

    def _change(self, remotes: Set[Remote], tasks: anyio.abc.TaskGroup) -> None:
        for gone in self._dialled.difference(remotes):
            self._instance.remove_connection(gone)
        asked_again, self._kept_out = self._kept_out.intersection(remotes), set()
        for one in asked_again.union(remotes - self._dialled):
            tasks.start_soon(self._dial, one)
        self._dialled = {*remotes}

    async def _dial(self, remote: Remote) -> None:
        try:
            peer = await self._instance.new_connection(remote, keep_trying=True)
        except TolliverError as error:
            self._kept_out.add(remote)
            is_over = isinstance(error, SelfConnection | ConnectionClosing)
            how = "not dialled any more, until" if is_over else "dialled every 1 to 5 minutes, and at once when"
            words.say(words.line(f"{remote} is {how} this is read again: {error}"))
        else:
            words.say(f"connected to {remote}, which is {peer}")

    async def _drop_earlier(self, config: Config) -> None:
        earlier = [one for one in self._instance.subscriptions() if one not in config.subscriptions]
        if earlier and not config.value("only"):
            words.say(f"still subscribed, by an earlier run, to {words.listed(earlier)}: `only = true` gives that up")
        elif earlier:
            for one in earlier:
                await self._instance.unsubscribe(*one)

    async def _reload(self, tasks: anyio.abc.TaskGroup) -> None:
        before, added = self._config, list[tuple[str, str]]()
        try:
            now = load(before.path, self._database)
            options, bridge = now.options(), now.bridge()
            acl = load_acl(now.values["acl"]) if "acl" in now.values else Acl()
            await self._deliveries.open(now.destinations)
            for one in now.subscriptions:
                if one not in self._instance.subscriptions():
                    await self._instance.subscribe(*one)
                    added.append(one)
            if options.tls is not None:
                await self._instance.admin.reload_tls()
            await self._bridging.change(bridge)
        except (OSError, TypeError, ValueError, TolliverError) as error:
            await self._deliveries.close_unused()
            with suppress(TolliverError):
                for one in added:
                    await self._instance.unsubscribe(*one)
            detail = words.line(f"{before.path} is not read again, all stays as it was: {error}")
            self._refused = f"; {detail}"
            self._instance.notice(NoticeKind.RELOAD_REFUSED, detail)
            return
        self._refused = ""
        self._instance.admin.set_acl(acl)
        self._deliveries.change(now.destinations)
        if now.subscriptions != before.subscriptions:
            await self._drop_earlier(now)
        self._change({*options.remotes}, tasks)
        _set_level(now)
        self._config = now
        words.say(f"{before.path} was read again, with certificates and access rules{_needs_restart(before, now)}")


def _needs_restart(before: Config, now: Config) -> str:
    keys = {key for key in {*before.given, *now.given} - _RELOADED if not key.startswith(_BRIDGE)}
    changed = sorted(key for key in keys if before.given.get(key) != now.given.get(key))
    return f"; these take effect with a restart: {', '.join(changed)}" if changed else ""

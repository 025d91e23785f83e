"""Users' objects: documented calls alone, with followable types."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints
from uuid import UUID

import pytest
from tolliver import anyio, blocking, twisted
from tolliver.sqlite import SQLiteStore
from tolliver.staging import FolderOptions, StageOptions, Stager, StageWriter

ADAPTERS = {"anyio": anyio, "blocking": blocking, "twisted": twisted}
INSTANCE = {
    "addresses",
    "admin",
    "ask_retained",
    "channel",
    "events",
    "flush",
    "gather",
    "instance_id",
    "message_runs",
    "messages",
    "new_connection",
    "notice",
    "notices",
    "peers",
    "port",
    "register_callback",
    "relay",
    "remotes",
    "remove_connection",
    "retain",
    "retained",
    "request",
    "respond",
    "send",
    "send_many",
    "stats",
    "status",
    "status_address",
    "subscribe",
    "subscriptions",
    "unreliable_send",
    "unsubscribe",
    "wait_acked",
    "wait_responder",
    "wait_subscribed",
    "work",
    "work_queue",
}
ADMIN = {
    "backup",
    "dead_letters",
    "drop_dead_letters",
    "drop_parked",
    "forget_peer",
    "reload_tls",
    "repin",
    "replay",
    "retry",
    "set_acl",
}
CHANNEL = {
    "ask_retained",
    "gather",
    "messages",
    "name",
    "queue",
    "register_callback",
    "request",
    "respond",
    "retain",
    "retained",
    "runs",
    "send",
    "send_many",
    "subscribe",
    "unreliable_send",
    "unsubscribe",
    "work",
}
STREAMS = {
    "addresses",
    "channel",
    "connect",
    "events",
    "goodbye",
    "peers",
    "port",
    "publish",
    "reload_tls",
    "stats",
    "subscribe",
}
OWN = {
    ("blocking", "Instance"): {"close"},
    ("blocking", "Streams"): {"close"},
    ("twisted", "Instance"): {"close"},
    ("twisted", "Streams"): {"close"},
}
"""Calls that one adapter has beside."""
KINDS = (
    *("Instance", "Streams", "Peer", "Subscription", "Messages", "Runs", "Run", "Registration", "Delivery"),
    *("TypedMessages", "TypedRuns", "TypedRun", "TypedDelivery", "WorkQueue", "Work", "TypedWork"),
)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_instance_shows_the_documented_calls_alone(adapter: str) -> None:
    assert public(ADAPTERS[adapter].Instance) == INSTANCE | OWN.get((adapter, "Instance"), set())
    assert public(ADAPTERS[adapter].Admin) == ADMIN
    assert public(ADAPTERS[adapter].Channel) == CHANNEL
    assert public(ADAPTERS[adapter].StreamChannel) == {"name", "publish", "subscribe"}
    assert public(ADAPTERS[adapter].Streams) == STREAMS | OWN.get((adapter, "Streams"), set())


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_is_so_where_it_is_open_too(adapter: str, tmp_path: Path) -> None:
    """Nothing is set on the object itself."""
    module = ADAPTERS[adapter]

    async def shown() -> set[str]:
        core, streams_core = (import_module(f"{module.__name__}.{name}") for name in ("core", "streams_core"))
        options = module.InstanceOptions(database=tmp_path / "node.db", plaintext=True)
        instance = module.Instance(core.InstanceCore(options))
        streams = module.Streams(streams_core.StreamsCore(module.StreamsOptions(plaintext=True)))
        return {name for name in (*vars(instance), *vars(streams)) if not name.startswith("_")}

    assert asyncio.run(shown()) == set()


@pytest.mark.parametrize("door", [*ADAPTERS, "otel", "sqlite", "staging"])
def test_everything_shows_what_it_is(door: str) -> None:
    """A `repr` that is an address in memory alone tells nobody anything."""
    module = import_module(f"tolliver.{door}")
    kinds = [one for name in module.__all__ if isinstance(one := getattr(module, name), type)]
    assert kinds
    shown = [any("__repr__" in vars(base) for base in one.__mro__[:-1]) for one in kinds]
    protocols = [getattr(one, "_is_protocol", False) for one in kinds]
    assert [one for one, *says in zip(kinds, shown, protocols, strict=True) if not any(says)] == []


def test_stores_and_stages_show_where_they_are(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "node.db", instance_id=UUID(int=1))
    assert repr(store) == f"<SQLiteStore {tmp_path.resolve() / 'node.db'} of {UUID(int=1)}>"
    store.close()
    stager = Stager(StageOptions(directory=tmp_path / "stage", listen="127.0.0.1:0", plaintext=True))
    assert repr(stager) == f"<Stager into {tmp_path / 'stage'}, not started>"
    writer = StageWriter(FolderOptions(directory=tmp_path / "stage"))
    assert repr(writer) == f"<StageWriter of {tmp_path / 'stage'}, 0 bytes not synced>"
    assert repr(writer.folder) == f"<StageFolder {tmp_path / 'stage'}, stage {writer.folder.stage}>"
    writer.close()


def parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from parts(part) if not isinstance(part, list) else (one for each in part for one in parts(each))


def calls(kind: type) -> Iterator[tuple[str, Any]]:
    for name in public(kind):
        found = inspect.getattr_static(kind, name)
        call = found.fget if isinstance(found, property) else found
        if inspect.isfunction(call):
            yield name, call


ANY = {
    ("create_instance", "handlers"): "options of a registration by name, checked when it is opened",
    ("create_instance", "responders"): "as above",
    ("given", "handlers"): "as above",
    ("given", "responders"): "as above",
    ("create_instance", "reactor"): "Twisted's reactor has interfaces of zope, which a type checker does not know",
    ("create_streams", "reactor"): "as above",
    ("open", "return"): "a run through the source of a publication, which is the program's",
}
"""Calls and what of them is `Any`, with the reason."""


def functions(adapter: str) -> Iterator[tuple[str, str, Any]]:
    """All that a user calls: kind, name, function."""
    module = ADAPTERS[adapter]
    for kind in module.__all__:
        one = getattr(module, kind)
        if inspect.isclass(one):
            for name, call in calls(one):
                yield kind, name, call
        elif inspect.isfunction(one):
            yield kind, kind, one


def test_no_call_takes_or_answers_any() -> None:
    seen, found = set(), set()
    for kind, name, call in (one for adapter in ADAPTERS for one in functions(adapter)):
        for form in get_overloads(call) or [call]:
            seen.add(kind)
            hints = get_type_hints(form).items()
            found |= {(name, what) for what, annotation in hints if Any in list(parts(annotation))}
    assert seen >= {*KINDS, "create_instance", "create_streams", "bridge", "open_connection"}
    assert found == ANY.keys()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_call_is_explained(adapter: str) -> None:
    ours = [one for one in functions(adapter) if one[2].__module__.startswith("tolliver")]
    assert [f"{kind}.{name}" for kind, name, call in ours if not call.__doc__] == []

"""Users' objects: documented calls alone, with followable types."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest
from tolliver_transports import anyio, blocking, twisted

ROOT = Path(__file__).parent.parent
ADAPTERS = {"anyio": anyio, "blocking": blocking, "twisted": twisted}
INSTANCE = {
    "addresses",
    "backup",
    "dead_letters",
    "drop_dead_letters",
    "drop_parked",
    "events",
    "flush",
    "forget_peer",
    "gather",
    "instance_id",
    "message_runs",
    "messages",
    "new_connection",
    "notices",
    "peers",
    "port",
    "register_callback",
    "reload_tls",
    "remotes",
    "remove_connection",
    "replay",
    "repin",
    "retain",
    "retained",
    "request",
    "respond",
    "retry",
    "send",
    "send_many",
    "set_acl",
    "stats",
    "subscribe",
    "subscriptions",
    "unreliable_send",
    "unsubscribe",
    "wait_acked",
    "wait_subscribed",
    "work",
    "work_queue",
}
STREAMS = {"addresses", "connect", "events", "goodbye", "peers", "port", "publish", "stats", "subscribe"}
OWN = {
    ("blocking", "Instance"): {"close"},
    ("blocking", "Streams"): {"close", "max_feeds"},
    ("twisted", "Instance"): {"close"},
    ("twisted", "Streams"): {"close"},
}
"""Calls that one adapter has beside."""
KINDS = (
    *("Instance", "Streams", "Peer", "Subscription", "Messages", "Runs", "Run", "Registration", "Delivery"),
    *("TypedMessages", "TypedRuns", "TypedRun", "TypedDelivery", "WorkQueue", "Work"),
)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_instance_shows_the_documented_calls_alone(adapter: str) -> None:
    assert public(ADAPTERS[adapter].Instance) == INSTANCE | OWN.get((adapter, "Instance"), set())
    assert public(ADAPTERS[adapter].Streams) == STREAMS | OWN.get((adapter, "Streams"), set())


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_is_so_where_it_is_open_too(adapter: str, tmp_path: Path) -> None:
    """Nothing is set on the object itself."""
    module = ADAPTERS[adapter]

    async def shown() -> set[str]:
        instance = module.Instance(module.InstanceOptions(database=tmp_path / "node.db", plaintext=True))
        streams = module.Streams(module.StreamsOptions(plaintext=True))
        return {name for name in (*vars(instance), *vars(streams)) if not name.startswith("_")}

    assert asyncio.run(shown()) == set()


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_no_call_answers_with_any(adapter: str, kind: str) -> None:
    seen = 0
    for name, call in calls(getattr(ADAPTERS[adapter], kind)):
        for form in get_overloads(call) or [call]:
            for what, annotation in get_type_hints(form).items():
                seen += 1
                assert Any not in list(parts(annotation)), f"{kind}.{name}: {what} is {annotation}"
    assert seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_call_is_explained(adapter: str, kind: str) -> None:
    for name, call in calls(getattr(ADAPTERS[adapter], kind)):
        assert call.__doc__, f"{kind}.{name}"


@pytest.mark.parametrize("page", ["README.md"])
def test_examples_are_typed(page: str, tmp_path: Path) -> None:
    """With mypy --strict: a newcomer's editor finds no fault in them."""
    programs = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert len(programs) >= 2
    for number, program in enumerate(programs):
        (tmp_path / f"example{number}.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"--config-file={tmp_path / 'none.ini'}"]
    (tmp_path / "none.ini").write_text("[mypy]\n")
    files = [str(path) for path in sorted(tmp_path.glob("example*.py"))]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

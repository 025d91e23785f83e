"""Instance in a fork of its process, as a program.

    python -m tests.adapters.fork KIND DIRECTORY

prints what each call says in the child, and then that the parent goes on. The instance's loop runs on another thread,
which a fork does not have: so a child's calls are made directly, and must be refused before they wait for anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from inspect import iscoroutine
from pathlib import Path
from typing import Any

from tolliver._options.instance import InstanceOptions

from tolliver_proto import TolliverError

from .facade import Facade
from .kinds import make_world
from .nodes import SOMEBODY


def _say(what: object) -> None:
    os.write(1, f"{what}\n".encode())


def _use(call: Callable[[], Any]) -> None:
    """A coroutine goes its first step; a Deferred that failed already says how."""
    result = call()
    if iscoroutine(result):
        result.send(None)
    if hasattr(result, "addErrback"):
        result.addErrback(lambda failure: _say(failure.value))


def in_the_child(instance: Any) -> None:
    for call in (
        lambda: instance.send("news", "", b"x"),
        lambda: instance.subscribe("news"),
        lambda: instance.unreliable_send("news", "", b"x"),
        lambda: instance.admin.forget_peer(SOMEBODY),
        lambda: instance.register_callback("news", "", print),
        lambda: instance.messages("news"),
    ):
        try:
            _use(call)
        except TolliverError as error:
            _say(error)


def main(kind: str, directory: Path) -> None:
    world = make_world(kind)
    with Facade(world, InstanceOptions(database=directory / "fork.db", plaintext=True)) as node:
        node.subscribe("news")
        child = os.fork()
        if not child:
            in_the_child(node._instance)
            os._exit(0)
        os.waitpid(child, 0)
        node.send("news", "", b"x")
        _say("the parent goes on")
    world.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

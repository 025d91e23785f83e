"""What callers wait for, by name.

The idea: a caller and the action that answers it agree on a name, such as the receipt of a send. The promise itself is
made by the adapter, in the form that its users know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tolliver_proto import ConnectionClosing, TolliverError

from .adapter import Promise

Answer = Callable[[Any], Any]


class Promises:
    """Those that are still to be kept. `make` makes one."""

    def __init__(self, make: Callable[[], Promise]) -> None:
        self._make = make
        self._open: dict[Hashable, tuple[Any, Answer | None]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._open

    def of(self, name: Hashable, answer: Answer | None = None) -> Any:
        """The promise of that name, made now if there is none. `answer` makes what its callers get of its value."""
        if name not in self._open:
            self._open[name] = (self._make(), answer)
        return self._open[name][0]

    def keep(self, name: Hashable, value: Any, error: TolliverError | None = None) -> None:
        """Settle the promise of that name, if anybody has it."""
        promise, answer = self._open.pop(name, (None, None))
        if promise is None:
            return
        if error is not None:
            promise.fail(error)
        else:
            promise.resolve(value if answer is None else answer(value))

    def give_up(self) -> None:
        """The instance is closed: nobody is left waiting."""
        error = ConnectionClosing("the instance was closed before this was done")
        for name in list(self._open):
            self.keep(name, None, error)

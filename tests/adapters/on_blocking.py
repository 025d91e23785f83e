"""Instances on threads: each call gets a thread, and a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .facade import PATIENCE, Adapter, Cancelled, Gate, Handle, Options, create, each, on_thread

TURN = 0.00005  # seconds; a time limit instead of turns of a loop


class BlockingWorld:
    can_cancel = False

    def __init__(self, kind: str, adapter: Adapter) -> None:
        self.kind = kind
        self._adapter = adapter

    def close(self) -> None:
        pass

    def start(self, name: str, call: Callable[[], Any]) -> Handle:
        return on_thread(Handle(name), call)

    def open(self, options: Options) -> tuple[Any, Callable[[], Handle]]:
        instance = create(self._adapter, options)
        entered = self.start(f"{self.kind}: opening", instance.__enter__).wait()
        return entered, lambda: self.start(f"{self.kind}: close", lambda: instance.__exit__(None, None, None))

    def later(self, gate: Gate) -> Any:
        return gate.future.result(PATIENCE)

    def interrupt(self, turns: int, instance: Any, name: str, *args: Any) -> Handle:
        def call() -> Any:
            try:
                return getattr(instance, name)(*args, timeout=turns * TURN)
            except TimeoutError as error:
                raise Cancelled(name) from error

        return self.start(f"{self.kind}: {name} for {turns} turns", call)

    def next(self, iterator: Any) -> Any:
        try:
            return next(iterator)
        except StopIteration:
            raise StopAsyncIteration from None

    def waiting(self, elements: Iterable[Any], last: Iterable[Gate] = ()) -> Iterator[Any]:
        try:
            with each(elements):
                for element in elements:
                    if isinstance(element, Gate):
                        self.later(element)
                    else:
                        yield element
        finally:
            for gate in last:
                self.later(gate)

    def mapped(self, subscription: Any, function: Callable[[Any], Any]) -> Iterator[Any]:
        with subscription:
            yield from map(function, subscription)

    def left(self, source: Any) -> Any:
        return source.close()

    def within(self, iterator: Any, end: BaseException) -> Any:
        try:
            with iterator:
                item = next(iterator)
                raise end
        except BaseException as error:
            if error is not end:
                raise
        return item

    def outcome(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BaseException as error:
            return error

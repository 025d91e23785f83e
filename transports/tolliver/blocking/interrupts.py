"""Ctrl-C on the main thread: after a machine's step, never inside.

Python raises KeyboardInterrupt between any two lines of the main thread, also between two that belong together. A
program may catch it and go on with its instance. So while an instance is open, Python's own handler of SIGINT is
wrapped: in a step, and in a section that is `undisturbed`, the interrupt waits for the end of that, and a wait inside
ends at once.

A handler of the application's, for this or another signal, may raise as well. Inside a step nothing can make good what
that has left half done: the instance ends, and says so.
"""

from __future__ import annotations

import signal
import sys
from _thread import LockType, RLock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident, main_thread
from time import sleep
from types import FrameType, TracebackType
from typing import TypeVar

from .._driver.threads import interrupt_program
from .waits import Work, adopt, limited


class StepLock(RLock):  # type: ignore[misc]  # final for the checker alone
    """The machine's lock. A thread that holds it is in a step, whose end raises the Ctrl-C that came meanwhile."""

    def __init__(self, broken: Callable[[BaseException], object]) -> None:
        """`broken` is called, without the lock, with what a signal handler has raised inside a step."""
        self._broken = broken
        self.harmless: BaseException | None = None
        """Raised in a wait, which is no step."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if error is None:
            self.release()
        else:
            self._leave(error, trace)
        if _work.over:
            _raise_what_is_due()

    def _leave(self, error: BaseException, trace: TracebackType | None) -> None:
        if error is self.harmless or not _is_from_outside(error, trace):
            self.harmless = None
            self.release()
            return
        with suppress(RuntimeError):  # it may have been raised where a wait had let go of it
            self.release()
        if not self.is_mine():
            self._broken(error)

    def is_mine(self) -> bool:
        """True if this thread holds it."""
        return bool(self._is_owned())  # type: ignore[attr-defined]  # as conditions ask


class _Undisturbed:
    """A section of the main thread that no interrupt cuts: its end raises the Ctrl-C that came meanwhile."""

    def __enter__(self) -> None:
        global _sections
        if get_ident() == _main:
            _sections += 1

    def __exit__(self, *_exc: object) -> None:
        global _sections
        if get_ident() == _main:
            _sections -= 1
            if _work.over:
                _raise_what_is_due()


T = TypeVar("T")
_REMOVERS = {"_weakrefset": "_remove", "weakref": "remove"}  # functions that Python calls back, by modules
_LOOK = 0.001  # seconds
undisturbed: _Undisturbed = _Undisturbed()
_locks: set[StepLock] = set()  # of instances that are open
_main: int | None = None  # the main thread, where the handler is wrapped
_sections = 0  # that the main thread is in
_work = Work()  # of the main thread: over when an interrupt is due


def wrap(lock: StepLock) -> None:
    """An instance opens: Python's own handler, and no other, waits for the end of its steps."""
    global _main
    _locks.add(lock)
    if get_ident() == main_thread().ident and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _main = get_ident()
        adopt(_work)
        signal.signal(signal.SIGINT, _on_interrupt)


def unwrap(lock: StepLock) -> None:
    """An instance is closed. The last one gives the handler back, as other libraries look for Python's own."""
    _locks.discard(lock)
    if not _locks and get_ident() == main_thread().ident and signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def forget() -> None:
    """In a forked child, where no step goes on."""
    global _sections
    _locks.clear()
    _sections = 0
    _work.over = False


def wait(lock: LockType, timeout: float | None) -> bool:
    """Until it is released, inside an undisturbed section. False: after `timeout` seconds, or as Ctrl-C has come."""
    seconds = limited(timeout)
    return _work.wait(lock, seconds) if get_ident() == _main else lock.acquire(timeout=seconds)


def made(make: Callable[[], T], undo: Callable[[T], object]) -> T:
    """The object that this makes, or nothing: where Ctrl-C has come meanwhile the object is undone."""
    one: list[T] = []
    try:
        with undisturbed:
            one.append(make())
        return one[0]
    except KeyboardInterrupt:
        for each in one:
            undo(each)
        raise


def stop_if_interrupted() -> None:
    """At a place inside an undisturbed section that can be left. Raises KeyboardInterrupt."""
    if _work.over and get_ident() == _main:
        _work.over = False
        raise KeyboardInterrupt


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _is_busy():
        _work.end()
    elif not (_is_dropped(frame) and _comes_again()):
        signal.default_int_handler(number, frame)


def _is_dropped(frame: FrameType | None) -> bool:
    """True where Python drops whatever is raised: in a finalizer, and where it removes a weak reference."""
    while frame is not None:
        name = frame.f_code.co_name
        if name in ("__del__", _REMOVERS.get(frame.f_globals.get("__name__", ""))):
            return True
        frame = frame.f_back
    return False


def _comes_again() -> bool:
    """Send the signal again when the main thread is through with that. False: there is no thread to do it."""
    with suppress(RuntimeError):
        start_new_thread(_interrupt_when_through, ())  # unlike a Thread it takes no lock here
        return True
    return False


def _interrupt_when_through() -> None:
    while _is_dropped(sys._current_frames().get(main_thread().ident or 0)):
        sleep(_LOOK)
    interrupt_program()


def _is_busy() -> bool:
    return bool(_sections) or any(lock.is_mine() for lock in tuple(_locks))


def _raise_what_is_due() -> None:
    if get_ident() == _main and not _is_busy():
        _work.over = False
        raise KeyboardInterrupt from None


def _is_from_outside(error: BaseException, trace: TracebackType | None) -> bool:
    """True for what a signal handler has raised: what our own code refuses with leaves everything as it was."""
    if not isinstance(error, Exception):
        return True
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    if frames[-1].f_globals.get("__name__", "").startswith(("tolliver_", "tolliver.")):
        return False
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame in frames)


def _code_of(handler: object) -> object:
    handler = getattr(handler, "func", handler)  # of a partial
    handler = getattr(handler, "__func__", handler)  # of a method
    return getattr(handler, "__code__", None)

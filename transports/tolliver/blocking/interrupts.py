"""Ctrl-C on the main thread, delayed to the end of a step.

Python raises KeyboardInterrupt between any two bytecodes of the main thread, so possibly in the middle of a change of
the machine's state. A program may catch it and continue to use its instance. So while an instance is open, Python's own
handler of SIGINT is replaced by one that delays: inside a step (while the machine's lock is held) and inside an
`undisturbed` section, KeyboardInterrupt is raised at the end of that, and a wait inside the section ends at once.

The application's handlers of this or another signal may raise as well. An exception of theirs inside a step cannot be
delayed and leaves the state half changed, so the instance is closed, with an error.
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
    """The machine's lock of one endpoint. To hold it is a step, which Ctrl-C does not interrupt; KeyboardInterrupt is
    raised at its end.
    """

    def __init__(self, broken: Callable[[BaseException], object]) -> None:
        """`broken` is called, without the lock, with an exception that a signal handler raised inside a step."""
        self._broken = broken
        self.harmless: BaseException | None = None
        """An exception raised while waiting, when no state is half changed."""

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
        with suppress(RuntimeError):  # raised where a wait had released the lock
            self.release()
        if not self.is_mine():
            self._broken(error)

    def is_mine(self) -> bool:
        """True if the current thread holds the lock."""
        return bool(self._is_owned())  # type: ignore[attr-defined]  # as conditions ask


class _Undisturbed:
    """Context manager for a section of the main thread that Ctrl-C does not interrupt. Its end raises
    KeyboardInterrupt."""

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
_REMOVERS = {"_weakrefset": "_remove", "weakref": "remove"}  # weak references' callbacks, by module
_LOOK = 0.001  # seconds between checks
undisturbed: _Undisturbed = _Undisturbed()
_locks: set[StepLock] = set()  # locks of open instances
_main: int | None = None  # id of the main thread, once SIGINT's handler is replaced
_sections = 0  # nesting depth of undisturbed sections of the main thread
_work = Work()  # the main thread's; `over` means that a KeyboardInterrupt is due


def wrap(lock: StepLock) -> None:
    """Replace SIGINT's handler because the instance with this lock is opened, unless the application has installed its
    own.
    """
    global _main
    _locks.add(lock)
    if get_ident() == main_thread().ident and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _main = get_ident()
        adopt(_work)
        signal.signal(signal.SIGINT, _on_interrupt)


def unwrap(lock: StepLock) -> None:
    """Note that the instance with this lock is closed. After the last one Python's own handler is restored, which other
    libraries test for.
    """
    _locks.discard(lock)
    if not _locks and get_ident() == main_thread().ident and signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def forget() -> None:
    """Reset all state in a forked child, where no step is in progress."""
    global _sections
    _locks.clear()
    _sections = 0
    _work.over = False


def wait(lock: LockType, timeout: float | None) -> bool:
    """Wait until the lock is released, inside an undisturbed section. False after `timeout` seconds (None: never), or
    when a KeyboardInterrupt is due.
    """
    seconds = limited(timeout)
    return _work.wait(lock, seconds) if get_ident() == _main else lock.acquire(timeout=seconds)


def made(make: Callable[[], T], undo: Callable[[T], object]) -> T:
    """Create an object. If Ctrl-C came meanwhile, the object is passed to `undo`, and KeyboardInterrupt is raised."""
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
    """Raises a due KeyboardInterrupt, at a safe place inside an undisturbed section."""
    if _work.over and get_ident() == _main:
        _work.over = False
        raise KeyboardInterrupt


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _is_busy():
        _work.end()
    elif not (_is_dropped(frame) and _comes_again()):
        signal.default_int_handler(number, frame)


def _is_dropped(frame: FrameType | None) -> bool:
    """True if Python would ignore an exception in this frame, which runs in a finalizer or a weak reference
    callback.
    """
    while frame is not None:
        name = frame.f_code.co_name
        if name in ("__del__", _REMOVERS.get(frame.f_globals.get("__name__", ""))):
            return True
        frame = frame.f_back
    return False


def _comes_again() -> bool:
    """Arrange that the signal is sent again once the main thread has left code in which Python ignores exceptions
    (`_is_dropped`). False if no thread is available."""
    with suppress(RuntimeError):
        start_new_thread(_interrupt_when_through, ())  # unlike `Thread.start` it takes no lock
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
    """True if `error` was raised by a signal handler, as the frames of `trace` show. Exceptions that our own code
    raises leave the state intact.
    """
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
    handler = getattr(handler, "func", handler)  # unwraps functools.partial
    handler = getattr(handler, "__func__", handler)  # unwraps a bound method
    return getattr(handler, "__code__", None)

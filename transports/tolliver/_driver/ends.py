"""Failures of the application's code, and ends of the program (T-45).

A handler or a source may raise anything, and what it returns or raises need not even have words. None of that may stop
what called it, but for an interrupt of the program and a cancellation of the task from outside, which are not its own.
"""

from __future__ import annotations

from textwrap import indent
from traceback import format_tb

_WORDS = 1000  # characters of each error in a traceback
_LONGEST_CHAIN, _DEEPEST, _WIDEST = 10, 3, 5  # of the errors that led to an error, and of a group of them
_CAUSE = "\n\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def is_interrupt(error: BaseException) -> bool:
    """True for Ctrl-C, alone or in a group: the program is to end."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def told(error: BaseException, most: int = 200) -> str:
    """Type and text of an error, escaped and cut off. Its repr may have the whole body that it is about (D-14)."""
    kind = type(error).__name__
    try:
        text = repr(str(error))[1:-1]
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        return f"a {kind} whose text raises {type(failure).__name__}"
    return f"{kind}: {text[:most]}" if text else kind


def traced(error: BaseException, depth: int = 0) -> str:
    """Traceback of an error as Python has it, but for the words of each error in it, which may be a peer's: escaped and
    cut off, each in one line (D-14)."""
    chain: list[str] = []
    seen: set[int] = set()
    link: str | None = ""
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(chain) < _LONGEST_CHAIN:
        seen.add(id(current))
        lines = ["Traceback (most recent call last):\n", *format_tb(current.__traceback__), told(current, _WORDS)]
        notes = getattr(current, "__notes__", None)
        if isinstance(notes, list):
            lines += [f"\n{str(note)!r:.{_WORDS}}" for note in notes[:_WIDEST]]
        if isinstance(current, BaseExceptionGroup) and depth < _DEEPEST:
            some = current.exceptions[:_WIDEST]
            lines += [f"\n{indent(traced(one, depth + 1), '  | ')}" for one in some]
        chain.append(f"{''.join(lines)}{link}")
        if current.__cause__ is not None or current.__suppress_context__:
            current, link = current.__cause__, _CAUSE
        else:
            current, link = current.__context__, _CONTEXT
    return "".join(reversed(chain))


def shown(result: object) -> str:
    """A result that is not true: itself where it is a plain and so an empty value, else its type, as it may have a body
    in it (D-14)."""
    kind = type(result)
    if kind in _PLAIN:
        return repr(result)
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

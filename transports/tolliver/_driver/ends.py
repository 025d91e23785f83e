"""Exceptions that application code raises, and safe texts for them (T-45).

A handler or a source may raise any exception, and even `str()` of that may fail. None of these may stop the code that
called it, except an interrupt of the program or a cancellation of the calling task from outside.
"""

from __future__ import annotations

from textwrap import indent
from traceback import format_tb

_WORDS = 1000  # characters of each error in a traceback
_LONGEST_CHAIN, _DEEPEST, _WIDEST = 10, 3, 5  # causes of one error, nested groups, members of one group
_CAUSE = "\n\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


def is_interrupt(error: BaseException) -> bool:
    """True if `error` is a KeyboardInterrupt, alone or in an exception group: the program is meant to end."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def told(error: BaseException, most: int = 200) -> str:
    """Type and text of an error, escaped and cut after `most` characters, as the text may quote a message body
    (D-14)."""
    kind = type(error).__name__
    try:
        text = repr(str(error))[1:-1]
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        return f"a {kind} whose text raises {type(failure).__name__}"
    return f"{kind}: {text[:most]}" if text else kind


def traced(error: BaseException, depth: int = 0) -> str:
    """Traceback of an error in Python's format, with the text of each error escaped, cut, and on one line, as a peer
    may have chosen it (D-14). `depth` counts the causes before this one.
    """
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
    """Text for a handler's result that is not true: the `repr` of an empty built-in value, else only its type, as the
    value may hold a message body (D-14)."""
    kind = type(result)
    if kind in _PLAIN:
        return repr(result)
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

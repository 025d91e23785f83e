"""Failures of the application's code, and ends of the program (T-45).

A handler or a source may raise anything, and what it returns or raises need not even have words. None of that may stop
what called it, but for an interrupt of the program and a cancellation of the task from outside, which are not its own.
"""

from __future__ import annotations


def is_interrupt(error: BaseException) -> bool:
    """True for Ctrl-C, alone or in a group: the program is to end."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def told(error: BaseException) -> str:
    """Type and text of an error, escaped and cut off. Its repr may have the whole body that it is about (D-14)."""
    kind = type(error).__name__
    try:
        text = repr(str(error))[1:-1]
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        return f"a {kind} whose text raises {type(failure).__name__}"
    return f"{kind}: {text:.200}" if text else kind


def shown(result: object) -> str:
    """A result that is not true: itself where it is a plain and so an empty value, else its type, as it may have a body
    in it (D-14)."""
    kind = type(result)
    if kind in _PLAIN:
        return repr(result)
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)

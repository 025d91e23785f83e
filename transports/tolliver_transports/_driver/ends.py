"""Ends of what the application's code does: what is a failure, and what ends the program (T-45).

A handler or a source may raise anything, and what it returns or raises need not even have words. None of that may stop
what called it, but for an interrupt of the program and a cancellation of the task from outside, which are not its own.
"""

from __future__ import annotations


def is_interrupt(error: BaseException) -> bool:
    """True for Ctrl-C, alone or in a group: the program is to end."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def shown(value: object) -> str:
    """The value's repr, cut off; its type alone where it has none."""
    try:
        return f"{value!r:.200}"
    except BaseException as error:
        if is_interrupt(error):
            raise
        return f"a {type(value).__name__} whose repr raises {type(error).__name__}"

"""Text for terminals: escaped, cut, one line for each error.

Names and bodies come from others and may hold anything, escape sequences included. They are shown escaped and cut
(D-14), and whatever else goes wrong is one line on standard error that says what to do.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import typer

from tolliver_proto import TolliverError

_UTF8 = codecs.getincrementaldecoder("utf-8")
_BODY = 1000  # characters of a body


def name(text: str) -> str:
    """A channel or key."""
    return f"{text!r:.100}"


def body(data: bytes, most: int = _BODY) -> str:
    """Text where it is text, else a bytes literal; control characters escaped."""
    part = data[: 4 * most]
    try:
        text = _UTF8().decode(part, final=len(part) == len(data))  # a cut may go through a character
    except UnicodeDecodeError:
        shown = repr(part)
    else:
        shown = _escaped(text)
    if len(shown) <= most and len(part) == len(data):
        return shown
    return f"{shown[:most]}... ({len(data):,} bytes)"


def line(text: str) -> str:
    """A line that somebody else may have had a part in, such as an error's text: printable, and not long."""
    shown = _escaped(text[: _BODY + 1])
    return shown if len(shown) <= _BODY else f"{shown[:_BODY]}..."


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def peer(uuid: UUID) -> str:
    """The end of a UUID: the beginning of a version 7 is a time, which peers may share."""
    return str(uuid)[-8:]


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def say(line: str) -> None:
    """To standard error: standard output is for what was asked for."""
    typer.echo(f"tolliver: {line}", err=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors that a correct program meets become one line and exit status 1. TOLLIVER_DEBUG=1 shows tracebacks."""
    try:
        yield
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain about that once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (TolliverError, OSError, ValueError) as error:
        if os.environ.get("TOLLIVER_DEBUG"):
            raise
        say(_in_words(error))
        raise typer.Exit(1) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return line(f"{error.filename}: {error.strerror}")
    return line(str(error)) or type(error).__name__

"""Text for terminals: escaped, cut, one line for each error.

Names and bodies come from peers and may contain anything, even escape sequences. They are shown escaped and cut (D-14).
An error is one line on standard error that says what to do.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

import typer

from tolliver_proto import TolliverError

from .._options.instance import Remote
from .standard import complain, words_of_stream

_UTF8 = codecs.getincrementaldecoder("utf-8")
_BODY = 1000  # most characters of a body
_PATTERN = re.compile(r"(^|[./])[*>#+]($|[./])")  # wildcards of other message systems


def name(text: str) -> str:
    """Text for a channel or key: escaped, in quotes, cut to 100 characters."""
    return f"{text!r:.100}"


def body(data: bytes, most: int = _BODY) -> str:
    """Text for a body: the body if that is text, else a bytes literal, with control characters escaped, and cut to
    `most` characters."""
    if len(data) <= most:  # the usual case
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if text.isprintable():
                return text
    part = data[: 4 * most]
    try:
        text = _UTF8().decode(part, final=len(part) == len(data))  # the cut may split a character
    except UnicodeDecodeError:
        shown = repr(part)
    else:
        shown = _escaped(text)
    if len(shown) <= most and len(part) == len(data):
        return shown
    return f"{shown[:most]}... ({len(data):,} bytes)"


def line(text: str) -> str:
    """Text that may come from a peer, such as an error's: made printable, and cut."""
    shown = _escaped(text[: _BODY + 1])
    return shown if len(shown) <= _BODY else f"{shown[:_BODY]}..."


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def peer(uuid: UUID) -> str:
    """Text for a peer: the end of its UUID. The beginning of a version 7 is a time, which peers may share."""
    return str(uuid)[-8:]


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listening(addresses: Iterable[tuple[str, int]]) -> str:
    """Text to append to a line, with the listening addresses; "" if there are none."""
    return "".join(f", listening on {one}" for one in dialled(addresses))


def dialled(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """Addresses, given as (host, port), in the form that others dial, IPv6 in brackets."""
    return [str(Remote(*one)) for one in addresses]


def listed(subscriptions: Iterable[tuple[str, str]]) -> str:
    """Subscriptions, given as (channel, key), as text."""
    return ", ".join(" ".join(map(name, one)) for one in subscriptions)


def say_plain(subscriptions: Iterable[tuple[str, str]]) -> None:
    """Warn about each channel or key that looks like a pattern, as names are no patterns."""
    for one in dict.fromkeys(part for both in subscriptions for part in both if _PATTERN.search(part)):
        say(f"{name(one)} is one name, and no pattern: give each name, or none for all of them", Level.WARNING)


class Level(StrEnum):
    """Lowest level of the log records that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class _StandardError:
    """Console for standard error, which each command sets."""

    as_json: bool = False
    level: Level = Level.WARNING


_stderr = _StandardError()


def write_stderr(as_json: bool, level: Level) -> None:
    """Set the output on standard error: JSON lines or text, and the lowest level that is shown."""
    _stderr.as_json, _stderr.level = as_json, level


def say(line: str, level: Level = Level.INFO) -> None:
    """Write a line to standard error, as standard output is for results; nothing if its level is not shown."""
    if _stderr.as_json:
        line = as_json(logging.makeLogRecord({"name": "tolliver.cli", "levelname": level.upper(), "msg": line}))
    else:
        line = f"tolliver: {line}"
    complain(line)


_USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


def as_json(record: logging.LogRecord) -> str:
    """A log record as a line of JSON: time, level, logger, text, and its `extra=` fields."""
    shown: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
        "level": record.levelname.lower(),
        "logger": record.name,
        "text": record.getMessage(),
    }
    shown |= {name: value for name, value in vars(record).items() if name not in _USUAL}
    if record.exc_info:
        shown["traceback"] = record.exc_text or logging.Formatter().formatException(record.exc_info)
    return json.dumps(shown, default=str)


class _OnStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(as_json(record) if _stderr.as_json else f"tolliver: {self.format(record)}")


def tell(as_json: bool, said: str, **facts: object) -> None:
    """Report a command's result: as the text `said` on standard error, or with `as_json` the `facts` as one JSON object
    on standard output.
    """
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        say(said)


@contextmanager
def logging_to_stderr(is_shown: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Context manager: shows this package's log, as the command line asks."""
    handler = _OnStandardError()
    handler.addFilter(is_shown)
    log, before = logging.getLogger("tolliver"), logging.getLogger("tolliver").level
    log.addHandler(handler)
    log.setLevel(_stderr.level.upper())
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextmanager
def clear_errors(status: int = 1) -> Iterator[None]:
    """Context manager: errors that a correct program may meet become one line and this exit status of the process.
    TOLLIVER_DEBUG=1 shows tracebacks.
    """
    try:
        yield
    except BrokenPipeError:
        # The reader of our output has closed it, as `head` does. Else Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(status) from None
    except (TolliverError, OSError, ValueError) as error:
        if os.environ.get("TOLLIVER_DEBUG") or (isinstance(error, OSError) and words_of_stream(error)):
            raise  # the entry point tells of standard output
        say(_in_words(error), Level.ERROR)
        raise typer.Exit(status) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:  # a NotAFile has it in its text
        return line(f"{error.filename}: {error.strerror}")
    return line(str(error)) or type(error).__name__

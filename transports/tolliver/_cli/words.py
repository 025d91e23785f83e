"""Text for terminals: escaped, cut, one line for each error.

Names and bodies come from others and may hold anything, escape sequences included. They are shown escaped and cut
(D-14), and whatever else goes wrong is one line on standard error that says what to do.
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
from .standard import complain

_UTF8 = codecs.getincrementaldecoder("utf-8")
_BODY = 1000  # characters of a body
_PATTERN = re.compile(r"(^|[./])[*>#+]($|[./])")  # of other message systems


def name(text: str) -> str:
    """A channel or key."""
    return f"{text!r:.100}"


def body(data: bytes, most: int = _BODY) -> str:
    """Text where it is text, else a bytes literal; control characters escaped."""
    if len(data) <= most:  # as nearly all are
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if text.isprintable():
                return text
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


def listening(addresses: Iterable[tuple[str, int]]) -> str:
    """Words to append: where an end listens, if it does."""
    return "".join(f", listening on {one}" for one in dialled(addresses))


def dialled(addresses: Iterable[tuple[str, int]]) -> list[str]:
    """Each as others dial it, an IPv6 address in brackets."""
    return [str(Remote(*one)) for one in addresses]


def listed(subscriptions: Iterable[tuple[str, str]]) -> str:
    """Subscriptions by name."""
    return ", ".join(" ".join(map(name, one)) for one in subscriptions)


def say_plain(subscriptions: Iterable[tuple[str, str]]) -> None:
    """Says of each name that looks like a pattern that it is none."""
    for one in dict.fromkeys(part for both in subscriptions for part in both if _PATTERN.search(part)):
        say(f"{name(one)} is one name, and no pattern: give each name, or none for all of them", Level.WARNING)


class Level(StrEnum):
    """Least level of the log records that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class _StandardError:
    """Console for standard error, chosen anew by each command."""

    as_json: bool = False
    level: Level = Level.WARNING


_stderr = _StandardError()


def write_stderr(as_json: bool, level: Level) -> None:
    """From now on."""
    _stderr.as_json, _stderr.level = as_json, level


def say(line: str, level: Level = Level.INFO) -> None:
    """To standard error: standard output is for what was asked for."""
    if _stderr.as_json:
        line = as_json(logging.makeLogRecord({"name": "tolliver.cli", "levelname": level.upper(), "msg": line}))
    else:
        line = f"tolliver: {line}"
    complain(line)


_USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


def as_json(record: logging.LogRecord) -> str:
    """A log record as a line of JSON: time, level, logger, text, and the fields that it was given (`extra=`)."""
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
    """The result of a command: for people on standard error, or one object on standard output."""
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        say(said)


@contextmanager
def logging_to_stderr(is_shown: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """The log of this package, for the length of the block, as the command line says."""
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
    """Errors that a correct program meets become one line and this exit status. TOLLIVER_DEBUG=1 shows tracebacks."""
    try:
        yield
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain about that once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(status) from None
    except (TolliverError, OSError, ValueError) as error:
        if os.environ.get("TOLLIVER_DEBUG"):
            raise
        say(_in_words(error), Level.ERROR)
        raise typer.Exit(status) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:  # which a NotAFile has in its text
        return line(f"{error.filename}: {error.strerror}")
    return line(str(error)) or type(error).__name__

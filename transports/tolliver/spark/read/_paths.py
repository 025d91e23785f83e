"""Files of recordings at a user's paths: files, directories, globs.

Globs are those of Hadoop, as for Spark's own sources: `*`, `?`, `[abc]` and `{a,b}`. A name that begins with `.` or `_`
is hidden, as there: such files are half written or say something of others. A path that has such a name itself is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tolliver_proto.recording import INDEX_SUFFIX, MAGIC, SUFFIX

from ._ranges import opened, why_no_recording

_HIDDEN = (".", "_")
_MOST_ALTERNATIVES = 1000


class Choice(NamedTuple):
    """Option of a reader: which files of a directory are read, by name, and whether subdirectories are."""

    names: str | None = None
    deep: bool = False

    def takes(self, name: str) -> bool:
        patterns = alternatives(self.names or f"*{SUFFIX}")
        return any(fnmatchcase(name, pattern) for pattern in patterns) and not name.endswith(INDEX_SUFFIX)


EVERY = Choice()


def is_glob(path: str) -> bool:
    """True if the path has signs of a glob; a file may be called so all the same."""
    return has_magic(path) or alternatives(path) != (path,)


@lru_cache(maxsize=16)
def alternatives(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that `{a,b}` in this one means, in order; also where braces stand in braces. Braces
    that do not pair stand for themselves.

    Raises ValueError if there are too many.
    """
    found, waiting = list[str](), [pattern]
    while waiting:
        first = waiting.pop(0)
        cut = _first_braces(first)
        if cut is None:
            found.append(first)
        else:
            before, inner, behind = cut
            waiting[:0] = [before + one + behind for one in inner]
        if len(found) + len(waiting) > _MOST_ALTERNATIVES:
            raise ValueError(
                f"{pattern!r:.200}: its braces mean more than {_MOST_ALTERNATIVES} names: give fewer, or a list"
            )
    return tuple(found)


def _first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """The text before the first pair of braces, the alternatives in it, and the text behind it."""
    depth, start, commas = 0, 0, list[int]()
    for at, sign in enumerate(pattern):
        if sign == "{":
            depth += 1
            if depth == 1:
                start, commas = at, []
        elif sign == "}" and depth:
            depth -= 1
            if depth == 0:
                cuts = [start, *commas, at]
                inner = [pattern[begin + 1 : end] for begin, end in pairwise(cuts)]
                return pattern[:start], inner, pattern[at + 1 :]
        elif sign == "," and depth == 1:
            commas.append(at)
    return None


def files_of(paths: Iterable[str], choice: Choice = EVERY) -> list[str]:
    """Recordings at these paths, each once, in order of name: files, directories with `.rec` files, globs.

    Raises ValueError for a path without recordings, and for one that is not in the file system.
    """
    found: list[str] = []
    for path in paths:
        recordings = recordings_at(path, choice)
        if not recordings:
            raise ValueError(_why_none(path, choice))
        found += recordings
    return list(dict.fromkeys(found))


def recordings_at(path: str, choice: Choice = EVERY) -> list[str]:
    """Like `files_of`, for one path; may be empty."""
    return [file for name in _names_at(path) for file in _files_at(Path(name), choice)]


def _names_at(path: str) -> list[str]:
    here = os.path.abspath(local_path(path))
    if not is_glob(here) or Path(here).exists():
        return [here]
    found = {name: None for pattern in alternatives(here) for name in sorted(glob(pattern)) if _is_meant(name, pattern)}
    return [name for name in found if not name.endswith(INDEX_SUFFIX)]


def _is_meant(name: str, pattern: str) -> bool:
    """False for a path with a hidden name in it that the pattern does not spell."""
    pairs = zip(name.split(os.sep), pattern.split(os.sep), strict=True)
    return not any(_is_hidden(part) and not _is_hidden(said) for part, said in pairs)


def _is_hidden(name: str) -> bool:
    return name.startswith(_HIDDEN)


def _why_none(path: str, choice: Choice) -> str:
    """Error text for a path without recordings. It has the absolute path, as users do not see Spark's working
    directory."""
    here = os.path.abspath(local_path(path))
    where = here if path == here else f"{here} ({path!r}, seen from {os.getcwd()} on the machine that plans the query)"
    there = [Path(name) for name in _names_at(path) if Path(name).exists()]
    if not there:
        return f"{where}: there is nothing of this name. Is it mounted here?"
    kind = f"recordings, which are called {choice.names or '*' + SUFFIX}"
    if not any(one.is_dir() for one in there):
        return f"{where}: no {kind}, as pathGlobFilter says"
    below = [] if choice.deep else [file for one in there for file in _files_at(one, choice._replace(deep=True))]
    if below:
        return f"{where}: no {kind}, but {len(below)} in directories below it: recursiveFileLookup=true reads them"
    names = sorted(name for one in there if one.is_dir() for name in os.listdir(one))
    others = [name for name in names if not _is_hidden(name)]
    if others:
        return f"{where}: no {kind}, among {len(others)} others such as {others[0]!r:.100}: pathGlobFilter names them"
    if names:
        return f"{where}: only names that begin with . or _, such as {names[0]!r:.100}: give a path with the name"
    return f"{where}: an empty directory"


def check_recording(file: str) -> None:
    """Raises ValueError if the file's first bytes are not those of a recording; and StoreError."""
    with opened(file) as recording:
        why = why_no_recording(recording.read(len(MAGIC)))
    if why is not None:
        raise ValueError(f"{file} {why}. Leave it out, or mode=dropmalformed does")


def local_path(path: str) -> str:
    """The path without `file:`. Raises ValueError for other schemes."""
    parts = urlsplit(path)
    if not parts.scheme or ("://" not in path and parts.scheme != "file"):
        return path
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    raise ValueError(
        f"{path}: only files that every machine has mounted can be read; for {parts.scheme}:, read them as binaryFile "
        "and give that to mapInArrow(partition_batches())"
    )


def _files_at(path: Path, choice: Choice) -> list[str]:
    if not path.is_dir():
        return [str(path)] if path.is_file() and (choice.names is None or choice.takes(path.name)) else []
    found = []
    for directory, below, names in os.walk(path):
        found += [os.path.join(directory, name) for name in names if choice.takes(name) and not _is_hidden(name)]
        below[:] = [name for name in below if choice.deep and not _is_hidden(name)]
    return sorted(found)

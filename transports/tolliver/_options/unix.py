"""Addresses of Unix sockets: "unix:PATH", or "unix:PATH?mode=660" where one is made."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Self

from attrs import define, evolve, field, validators

from .checks import as_path

SCHEME = "unix:"
MODE = 0o600
LONGEST = 107 if sys.platform == "linux" else 103
"""Bytes of a path that a Unix socket can have: those that the system keeps, without the zero at their end."""
_MODE = re.compile(r"(.*)\?mode=([0-7]{3})", re.DOTALL)


def check_length(path: str | os.PathLike[str]) -> str:
    """The path as a text. Raises ValueError, with advice, if it is too long for a Unix socket."""
    text = os.fspath(path)
    size = len(os.fsencode(text))
    if size > LONGEST:
        raise ValueError(
            f"the path {text!r:.200} has {size} bytes, and a Unix socket has at most {LONGEST}: give a shorter one, "
            "relative to the working directory or in a directory such as /run"
        )
    return text


def is_unix(host: str) -> bool:
    """True for the address of a Unix socket in the place of a host."""
    return host.startswith(SCHEME)


@define(frozen=True)
class UnixAddress:
    """Path of a Unix socket, and the mode of its file, which says who may connect. Raises TypeError, ValueError."""

    path: Path = field(converter=as_path)
    mode: int = field(default=MODE, validator=[validators.instance_of(int), validators.ge(0), validators.le(0o777)])

    @classmethod
    def parse(cls, address: str | os.PathLike[str] | UnixAddress) -> UnixAddress:
        """From "unix:PATH" or "unix:PATH?mode=660", a path, or itself."""
        if isinstance(address, UnixAddress):
            return address
        if not isinstance(address, str):
            return cls(as_path(address))
        if not address.startswith(SCHEME):
            raise ValueError(f"{address!r:.200}: write {SCHEME}PATH, the path of a socket")
        found = _MODE.fullmatch(address)
        path, mode = (address, MODE) if found is None else (found[1], int(found[2], 8))
        return cls(as_path(path.removeprefix(SCHEME)), mode)

    @property
    def is_usable(self) -> bool:
        """True. Raises ValueError if the path is too long."""
        return bool(check_length(self.path))

    def under(self, base: Path) -> Self:
        """The same, where a relative path is relative to `base`."""
        return evolve(self, path=base / self.path)

    def __str__(self) -> str:
        return f"{SCHEME}{self.path}" + ("" if self.mode == MODE else f"?mode={self.mode:o}")

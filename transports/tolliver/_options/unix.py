"""Addresses of Unix sockets: "unix:PATH", or "unix:PATH?mode=660" where one is made."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self

from attrs import define, evolve, field, validators

from .checks import as_path

SCHEME = "unix:"
MODE = 0o600
_MODE = re.compile(r"(.*)\?mode=([0-7]{3})", re.DOTALL)


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

    def under(self, base: Path) -> Self:
        """The same, where a relative path is relative to `base`."""
        return evolve(self, path=base / self.path)

    def __str__(self) -> str:
        return f"{SCHEME}{self.path}" + ("" if self.mode == MODE else f"?mode={self.mode:o}")

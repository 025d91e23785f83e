"""Files that only their owner may read (D-13).

This is the one place that knows their mode. Everything that is written here is made by these, but for what is meant for
others: certificates, revocation lists, the dissector. `tests/test_modes.py` holds the sources against that.
"""

from __future__ import annotations

import os

MODE = 0o600


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor, as `os.open` gives it and `open` wants it of an `opener`. Raises OSError."""
    return os.open(path, flags, MODE)


def make_private(descriptor: int) -> None:
    """A file that may have been there before, with another mode. Raises OSError."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, MODE)


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """A file with these bytes, in place of what it held. Raises OSError."""
    with open(path, "wb", opener=open_private) as file:
        make_private(file.fileno())
        file.write(data)

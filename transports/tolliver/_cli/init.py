"""`tolliver init`: two programs that exchange a message, with certificates.

The programs and the file for `tolliver run` are stored unchanged in `first/`, so that the type checker reads them.
"""

from __future__ import annotations

import os
import shlex
from functools import partial
from importlib.resources import files
from pathlib import Path

import typer

from .._private import FOR_OTHERS, open_private
from ..certs import make_ca, make_certificate
from . import words

MEMBERS = ("alice", "bob")
WRITTEN = ("alice.py", "bob.py", "bob.toml")
COMMANDS = {
    "python bob.py": "receives, until Ctrl-C",
    "python alice.py hello": "sends: type it in a second terminal",
    "tolliver run bob.toml": "bob as a service, in place of bob.py",
}
"""Commands to type next, in their order, and their purposes."""


def make(directory: Path, as_json: bool) -> None:
    """Write all files of an example. Raises ValueError before anything is written if some exist already, which it
    names; CertificateError and OSError. `as_json` prints the result as JSON.
    """
    certs = directory / "certs"
    pairs = [certs / f"{name}.{end}" for name in ("ca", *MEMBERS) for end in ("pem", "key")]
    made = [*pairs, *(directory / name for name in WRITTEN)]
    # A database belongs to the certificate with which it was created.
    there = [str(path) for path in [*made, *(directory / f"{name}.db" for name in MEMBERS)] if os.path.lexists(path)]
    if there:
        raise ValueError(f"already there: {', '.join(there)}. Nothing was written: give another directory")
    make_ca(certs)
    for name in MEMBERS:
        make_certificate(certs, name)
    for name in WRITTEN:
        with open(directory / name, "xb", opener=partial(open_private, mode=FOR_OTHERS)) as file:
            file.write(text_of(name))
    if as_json:
        words.tell(True, "", directory=str(directory), files=[str(path) for path in made], commands=[*COMMANDS])
    else:
        typer.echo(_next(directory))


def text_of(name: str) -> bytes:
    """Content of the file `name`, one of `WRITTEN`."""
    return files(__package__).joinpath("first", name).read_bytes()


def _next(directory: Path) -> str:
    there = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    widest = max(map(len, COMMANDS))
    lines = [f"  {there}{command:{widest}}  # {purpose}" for command, purpose in COMMANDS.items()]
    what = f"{directory} has {', '.join(WRITTEN)}, and certificates in {directory / 'certs'}. Type next:"
    return "\n".join([what, *lines])

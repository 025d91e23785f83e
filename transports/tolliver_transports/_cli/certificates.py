"""`tolliver certs`: a private CA and a certificate for each name, shown as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..certs import LOCAL_HOSTS, Member, make_ca, make_certificate
from . import words

_WIDE = 10_000  # columns


def make(directory: Path, names: Sequence[str], hosts: Sequence[str], days: int, uuid: UUID | None) -> None:
    """Raises ValueError and CertificateError; what was made before is shown, and stays."""
    if uuid is not None and len(names) > 1:
        raise ValueError(f"one UUID cannot name {len(names)} instances: give --uuid with a single name")
    made: dict[str, Member] = {}
    # With half of a CA there, making a certificate says what is missing.
    if not (directory / "ca.pem").exists() and not (directory / "ca.key").exists():
        ca = make_ca(directory)
        words.say(f"made a CA: {ca.cert} goes to every member, {ca.key} to nobody")
    try:
        for name in names:
            made[name] = make_certificate(directory, name, uuid, hosts or LOCAL_HOSTS, days)
    finally:
        if made:
            _show(made)


def _show(made: dict[str, Member]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)  # a path that is cut in two is no path
    table = Table("name", "uuid", "certificate", "key", box=None, pad_edge=False)
    table.columns[1].no_wrap = True
    for name, member in made.items():
        table.add_row(*(Text(str(cell), overflow="fold") for cell in (name, member.uuid, member.cert, member.key)))
    console.print(table)

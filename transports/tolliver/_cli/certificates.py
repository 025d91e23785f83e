"""`tolliver certs` and `tolliver pin`: create and show certificates."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import typer
from cryptography import x509

from .._options.instance import TLS
from ..certs import LOCAL_HOSTS, Member, make_anonymous_certificate, make_ca, make_certificate
from ..derived import new_prefix
from . import words
from .diagnosis import names_in
from .tables import print_rows


def make(
    directory: Path,
    names: Sequence[str],
    hosts: Sequence[str],
    days: int,
    uuid: UUID | None,
    derive: bool,
    as_json: bool = False,
    *,
    anonymous: bool = False,
) -> None:
    """Create the certificates, valid for `days`, and print them, with `as_json` as JSON lines. With `derive` identities
    may be derived from each; `anonymous` ones have no UUID. Raises ValueError and CertificateError; those created
    before are shown, and stay.
    """
    if anonymous and (uuid is not None or derive):
        raise ValueError("a certificate without a UUID has none to derive from: leave --uuid and --derive out")
    if uuid is not None and len(names) > 1:
        raise ValueError(f"one UUID cannot name {len(names)} instances: give --uuid with a single name")
    if len(names) > 1:
        names = [*_not_there(directory, names)]
    made: dict[str, Member | TLS] = {}
    # If only half of a CA exists, `make_certificate` says what is missing.
    if not (directory / "ca.pem").exists() and not (directory / "ca.key").exists():
        ca = make_ca(directory)
        words.say(f"made a CA: {ca.cert} goes to every member, {ca.key} to nobody")
    try:
        for name in names:
            if anonymous:
                made[name] = make_anonymous_certificate(directory, name, hosts or _hosts(), days)
                continue
            prefix = new_prefix() if derive else None
            made[name] = make_certificate(directory, name, uuid, hosts or _hosts(), days, derive=prefix)
    finally:
        if made:
            _show(made, as_json)


def _not_there(directory: Path, names: Sequence[str]) -> Iterator[str]:
    """Names, of several, that have no pair of files yet. Files that exist stay, and are told."""
    for name in names:
        files = [directory / f"{name}{suffix}" for suffix in (".pem", ".key")]
        if all(file.exists() for file in files):
            words.say(f"{words.line(name)} is there already, and stays as it is: {files[0]} and {files[1]}")
        else:
            yield name


def _hosts() -> list[str]:
    """Names of this machine: loopback names, and its own if it is in DNS."""
    own = socket.gethostname()
    usable = own.isascii() and own.replace("-", "").replace(".", "").replace("_", "").isalnum()
    return [*LOCAL_HOSTS, own] if usable and own not in LOCAL_HOSTS else [*LOCAL_HOSTS]


def show_pins(files: Sequence[Path], as_json: bool = False) -> None:
    """Print a line for each certificate, with `as_json` in JSON: its file, the SHA-256 of its key, its names. Raises
    OSError and ValueError.
    """
    for file in files:
        known = read(file)
        if as_json:
            typer.echo(json.dumps({"certificate": str(file), **known}))
        else:
            typer.echo(f"{file}  {known['spki_sha256']}  {known['identity']}")


def read(file: Path) -> dict[str, Any]:
    """Names, key and expiry of a certificate, as JSON types. Raises OSError and ValueError."""
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} holds no certificate in PEM form: {error}") from error
    identity, hosts = names_in(certificate, str(file))
    return {
        "identity": str(identity.names),
        "names": hosts,
        "spki_sha256": (identity.spki_sha256 or b"").hex(),
        "expires": certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _show(made: Mapping[str, Member | TLS], as_json: bool) -> None:
    rows = []
    for name, member in made.items():
        known = read(member.cert)
        row = {
            "name": name,
            "uuid": str(member.uuid) if isinstance(member, Member) else None,
            "names": known["names"] if as_json else ", ".join(known["names"]),
            "spki_sha256": known["spki_sha256"],
            "expires": known["expires"],
            "certificate": str(member.cert),
            "key": str(member.key),
        }
        rows.append(row | {"derive": _prefix(member)} if as_json else row)
    print_rows(rows, as_json, "")
    for name, member in made.items():
        if (prefix := _prefix(member)) is not None:
            words.say(f"{name} may be any identity of the prefix {prefix}: derived_identity(prefix, label)")


def _prefix(member: Member | TLS) -> str | None:
    return member.derive if isinstance(member, Member) else None

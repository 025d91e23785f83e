"""`tolliver certs`: a private CA and a certificate for each name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import typer
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from .._tls.x509 import identity_of
from ..certs import LOCAL_HOSTS, Member, make_ca, make_certificate
from ..derived import new_prefix
from . import words
from .tables import print_table


def make(
    directory: Path, names: Sequence[str], hosts: Sequence[str], days: int, uuid: UUID | None, derive: bool
) -> None:
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
            prefix = new_prefix() if derive else None
            made[name] = make_certificate(directory, name, uuid, hosts or LOCAL_HOSTS, days, derive=prefix)
    finally:
        if made:
            _show(made)


def show_pins(files: Sequence[Path]) -> None:
    """A line for each certificate: its file, the SHA-256 of its key, its names. Raises OSError and ValueError."""
    for file in files:
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
        except ValueError as error:
            raise ValueError(f"{file} holds no certificate in PEM form: {error}") from error
        names = [
            uri
            for extension in certificate.extensions
            if isinstance(extension.value, x509.SubjectAlternativeName)
            for uri in extension.value.get_values_for_type(x509.UniformResourceIdentifier)
        ]
        identity = identity_of(certificate.public_bytes(Encoding.DER), names, str(file))
        typer.echo(f"{file}  {(identity.spki_sha256 or b'').hex()}  {identity.names}")


def _show(made: dict[str, Member]) -> None:
    rows = [(name, member.uuid, member.cert, member.key) for name, member in made.items()]
    print_table(("name", "uuid", "certificate", "key"), rows, unbroken="uuid")
    for name, member in made.items():
        if member.derive is not None:
            words.say(f"{name} may be any identity of the prefix {member.derive}: derived_identity(prefix, label)")

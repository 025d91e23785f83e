"""PEM data: certificate, key, CA and revocation lists.

It is read from files or given in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tolliver_proto.errors import CertificateError

from .._options.tls import TLS, BytesTLS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PEM:
    """One piece of PEM data. `repr` does not show its text, which may be a private key."""

    name: str
    """Its file, or the way in which it was given, for use in error texts."""
    text: bytes = field(repr=False)
    path: Path | None = None
    """Path of its file; None if it was given in memory."""

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def as_file(self) -> Iterator[str | Path]:
        """Context manager: a path from which OpenSSL can read it. Data from memory gets a temporary file."""
        if self.path is not None:
            yield self.path
        else:
            with _in_memory(self.text) as path:
                yield path


@dataclass(frozen=True, slots=True)
class Material:
    """Content of the TLS options as read at one moment: certificate, key, CA and revocation lists, and the other TLS
    options.
    """

    cert: PEM
    key: PEM
    ca: PEM
    crl: PEM | None
    insecure_ca_only: bool
    tls12: bool
    keylog: Path | None


def read(tls: TLS | Material) -> Material:
    """Read the files, or call the function. Raises CertificateError."""
    if isinstance(tls, Material):
        return tls
    if isinstance(tls, BytesTLS):
        cert, key, ca = (
            PEM(f"the {name} given as bytes", text)
            for name, text in zip(("cert", "key", "ca"), _bytes_of(tls), strict=True)
        )
    else:
        cert, key, ca = (PEM(str(path), read_file(path), path) for path in (tls.cert, tls.key, tls.ca))
    crl = None if tls.crl is None else PEM(str(tls.crl), read_file(tls.crl), tls.crl)
    return Material(cert, key, ca, crl, tls.insecure_ca_only, tls.tls12, tls.keylog)


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        where = path if path.is_absolute() else f"{path} in {Path.cwd()}"
        raise CertificateError(
            f"{where} cannot be read ({error.strerror}): correct the path or its permissions, or make the file with "
            "`tolliver certs`"
        ) from error


def called(load: Callable[[], T], name: str) -> T:
    """Result of a user's function, called `name` in texts. Its exception becomes a CertificateError."""
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit too: on a thread it would end the instance
        raise CertificateError(f"the function of TLS.{name} failed: {type(error).__name__}: {error}") from error


def _bytes_of(tls: BytesTLS) -> tuple[bytes, bytes, bytes]:
    if tls.load is None:
        assert tls.pem is not None, "one of both is given"
        return tls.pem
    given: object = called(tls.load, "from_bytes")
    if not isinstance(given, tuple) or len(given) != 3 or not all(isinstance(one, bytes) for one in given):
        raise CertificateError("the function of TLS.from_bytes has to return (cert, key, ca), each PEM as bytes")
    return given


@contextmanager
def _in_memory(text: bytes) -> Iterator[str]:
    """Path of a file that is in no directory; if the system has no such files, a private one that is removed
    afterwards."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("tolliver"), "wb") as file:
            path = f"/proc/self/fd/{file.fileno()}"
            if os.path.exists(path):
                file.write(text)
                file.flush()
                yield path
                return
    descriptor, path = tempfile.mkstemp(prefix="tolliver-")  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)

"""TLS options: our certificate, its key and the trusted CA.

They are given as files, bytes or SSL contexts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import cast, overload

from attrs import define, field
from attrs.converters import optional

from .checks import as_path, flag, told

LoadPEM = Callable[[], tuple[bytes, bytes, bytes]]
"""Function that returns (cert, key, ca)."""
_NO_FILE = cast(Path, None)  # for the type checker: the fields are paths in the usual case


@define(frozen=True)
class TLS:
    """Our certificate and the CA that we trust: paths of three PEM files (D-1).

    - `cert`: our certificate, followed by intermediate ones if there are any.
    - `key`: its private key, without a passphrase.
    - `ca`: the private CA that signs every member; the system's CAs are never used. `tolliver certs` creates all three.
      For other sources than files see `TLS.from_bytes` and `TLS.from_contexts`.
    - `crl`: a PEM file of revocation lists, one for each CA that signs members. A listed certificate is refused,
      by both sides; `reload_tls()` reads the file again and ends the connections of listed peers. An expired list
      refuses everyone.
    - `insecure_ca_only`: True dials without checking host names: any member of the CA can then pose as any remote
      (D-2).
    - `tls12`: True also allows TLS 1.2.
    - `keylog`: a file that gets the secrets of every connection, for Wireshark. It allows decrypting all traffic
      captured while it is written (D-17). For debugging only; its mode is 0600, and a warning is logged.

    The files are read when the instance starts, not here. Raises TypeError or ValueError.
    """

    cert: Path = field(
        converter=as_path, metadata=told("FILE", "our certificate (PEM)", "Peers must be sure who I am.")
    )
    key: Path = field(converter=as_path, metadata=told("FILE", "its private key (PEM)", "My certificate has a key."))
    ca: Path = field(
        converter=as_path,
        metadata=told("FILE", "the CA that signs every member (PEM)", "I trust members of one CA alone."),
    )
    crl: Path | None = field(
        default=None,
        kw_only=True,
        converter=optional(as_path),
        metadata=told(
            "FILE",
            "its certificate revocation lists (PEM): who is listed is refused, and disconnected",
            "A certificate was stolen, and must let nobody in.",
        ),
    )
    insecure_ca_only: bool = field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata=told(
            "",
            "dial without a check of the host name: any member can pose as any remote",
            "My certificates name no hosts.",
        ),
    )
    tls12: bool = field(
        default=False,
        kw_only=True,
        validator=flag,
        metadata=told("", "take TLS 1.2 beside 1.3", "A peer knows no TLS 1.3."),
    )
    keylog: Path | None = field(
        default=None,
        kw_only=True,
        converter=optional(as_path),
        metadata=told(
            "FILE",
            "write the keys of each connection there, for Wireshark: who has them reads all",
            "I want to read in Wireshark what is on the wire.",
        ),
    )

    @property
    def name(self) -> str:
        """Text that names our certificate: its file, or the way in which it was given."""
        return str(self.cert)

    @overload
    @staticmethod
    def from_bytes(
        cert: bytes,
        key: bytes,
        ca: bytes,
        *,
        insecure_ca_only: bool = False,
        tls12: bool = False,
        keylog: str | os.PathLike[str] | None = None,
        crl: str | os.PathLike[str] | None = None,
    ) -> TLS: ...

    @overload
    @staticmethod
    def from_bytes(
        cert: LoadPEM,
        *,
        insecure_ca_only: bool = False,
        tls12: bool = False,
        keylog: str | os.PathLike[str] | None = None,
        crl: str | os.PathLike[str] | None = None,
    ) -> TLS: ...

    @staticmethod
    def from_bytes(
        cert: bytes | LoadPEM,
        key: bytes | None = None,
        ca: bytes | None = None,
        *,
        insecure_ca_only: bool = False,
        tls12: bool = False,
        keylog: str | os.PathLike[str] | None = None,
        crl: str | os.PathLike[str] | None = None,
    ) -> TLS:
        """TLS options from PEM data in memory, as from a secret store. It is not kept on disk, and `repr` hides it.

        Give three `bytes`, or one function that returns the three. The function is called when the instance starts and
        at each `reload_tls()`, on a thread, so it may ask the store again. Fixed bytes cannot be reloaded. `crl` is a
        file here too.

        OpenSSL reads a certificate and its key only from files. On Linux these are in memory (`memfd_create`) until
        they are read; on other systems, or without /proc, they are two temporary files of mode 0600, removed once they
        are read. Raises TypeError.
        """
        if callable(cert):
            if key is not None or ca is not None:
                raise TypeError("a function gives all three: give no key and no ca beside it")
            return BytesTLS(cert, None, insecure_ca_only=insecure_ca_only, tls12=tls12, keylog=keylog, crl=crl)
        pem = (cert, key, ca)
        for name, value in zip(("cert", "key", "ca"), pem, strict=True):
            if not isinstance(value, bytes):  # its value is not shown, as it may be a key
                raise TypeError(f"{name} is {type(value).__name__}: give PEM as bytes, or one function of all three")
        given = cast(tuple[bytes, bytes, bytes], pem)
        return BytesTLS(None, given, insecure_ca_only=insecure_ca_only, tls12=tls12, keylog=keylog, crl=crl)

    @staticmethod
    def from_contexts(
        *,
        client: SSLContext,
        server: SSLContext,
        cert: bytes | str | os.PathLike[str] | Callable[[], bytes],
        pinned: SSLContext | None = None,
        insecure_ca_only: bool = False,
        tls12: bool = False,
        keylog: str | os.PathLike[str] | None = None,
    ) -> TLS:
        """TLS options from your own `ssl.SSLContext` objects: for keys in hardware, or settings that `TLS` does not
        have.

        - `client`, `server`: contexts for dialling and for listening.
        - `cert`: the certificate that both present: PEM as bytes, a path, or a function that returns the bytes.
        - `pinned`: context for pinned remotes, without a check of host names; by default `client`, which checks them.

        When the instance starts they are checked against our policy (D-1, D-2): TLS 1.3, or 1.2 with `tls12=True`;
        certificates required on both sides; host names checked; no tickets, renegotiation or compression; a CA of your
        own. CertificateError lists all settings to change. The protocol's name is offered by ALPN: if the contexts do
        not agree on one, it is set in them, so an instance and streams need contexts of their own. Never load the
        system's CAs, which cannot always be detected in a context. `keylog` sets the contexts' `keylog_filename`;
        contexts that log keys without it are refused (D-17).

        `reload_tls()` checks them again: load a new certificate into the same contexts, then call it. New connections
        present that certificate from the moment of loading, even if the check fails. Raises TypeError or ValueError.
        """
        contexts = {"client": client, "server": server, **({} if pinned is None else {"pinned": pinned})}
        for name, context in contexts.items():
            if not isinstance(context, SSLContext):
                raise TypeError(f"{name} is {context!r}: give an ssl.SSLContext")
        given = cert if callable(cert) or isinstance(cert, bytes) else as_path(cert)
        return ContextsTLS(client, server, given, pinned, insecure_ca_only=insecure_ca_only, tls12=tls12, keylog=keylog)


@define(frozen=True)
class BytesTLS(TLS):
    """TLS options whose PEM data is in memory, as `TLS.from_bytes` makes them."""

    load: LoadPEM | None = field(repr=False)
    pem: tuple[bytes, bytes, bytes] | None = field(repr=False)
    cert: Path = field(init=False, default=_NO_FILE, repr=False)
    key: Path = field(init=False, default=_NO_FILE, repr=False)
    ca: Path = field(init=False, default=_NO_FILE, repr=False)

    @property
    def name(self) -> str:
        return "given as bytes"


@define(frozen=True)
class ContextsTLS(TLS):
    """TLS options that are the program's own contexts, as `TLS.from_contexts` makes them."""

    client: SSLContext
    server: SSLContext
    shown: bytes | Path | Callable[[], bytes] = field(repr=False)
    pinned: SSLContext | None
    cert: Path = field(init=False, default=_NO_FILE, repr=False)
    key: Path = field(init=False, default=_NO_FILE, repr=False)
    ca: Path = field(init=False, default=_NO_FILE, repr=False)

    @property
    def name(self) -> str:
        return "of the contexts"

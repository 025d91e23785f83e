"""TLS options: our certificate, its key and the trusted CA.

They are files, bytes or contexts of one's own.
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
"""Gives cert, key and ca."""
_NO_FILE = cast(Path, None)  # a TLS is typed by its files, which nearly all have


@define(frozen=True)
class TLS:
    """Our certificate and the CA that we trust: paths of three PEM files (D-1).

    `cert` holds our certificate (any intermediate ones after it), `key` its private key without a passphrase, `ca`
    the private CA that signs every member; the system's own store is never used. `tolliver certs` makes all three.
    Where they are no files: `TLS.from_bytes`, `TLS.from_contexts`.

    `crl` is a PEM file of certificate revocation lists, one for each CA that signs members: a certificate that is
    listed is refused, whoever dials, and `reload_tls()` reads it again and ends connections of what is listed by then.
    A list that has expired lets nobody in.

    `insecure_ca_only=True` dials without a check of the host name: any member of the CA can then pose as any remote
    (D-2). `tls12=True` admits TLS 1.2 beside 1.3. The files are read when the instance starts, not here.

    `keylog` is a file to which the secrets of every connection are added, for Wireshark: who has it can read all that
    was captured, and all that is while it is written to (D-17). For finding faults only; its mode is 0600, and the log
    warns. Raises TypeError or ValueError.
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
            "dial without a check of the host name: any member can pose as any remote (D-2)",
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
        """Our certificate, as a sentence names it: its file, or how it was given."""
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
        """TLS of PEM that is in memory, as a secret store gives it. Nothing of it stays on a disk, and `repr` hides it.

        Give three `bytes`, or one function that returns the three: it is called when the instance starts, and by each
        `reload_tls()`, on a thread, so it may ask the store again. Bytes that were given as they are cannot be
        reloaded. `crl` is a file here too.

        OpenSSL takes a certificate and its key from files alone. On Linux these are in memory (`memfd_create`) and
        gone when they are read; elsewhere, and where /proc is missing, they are two temporary files of mode 0600,
        which are removed as soon as they are read. Raises TypeError.
        """
        if callable(cert):
            if key is not None or ca is not None:
                raise TypeError("a function gives all three: give no key and no ca beside it")
            return BytesTLS(cert, None, insecure_ca_only=insecure_ca_only, tls12=tls12, keylog=keylog, crl=crl)
        pem = (cert, key, ca)
        for name, value in zip(("cert", "key", "ca"), pem, strict=True):
            if not isinstance(value, bytes):  # and it is not shown: it may be a key
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
        """TLS of `ssl.SSLContext` objects that you make: for keys in hardware, or settings that this has not.

        `client` dials, `server` listens, `cert` is the certificate that both show: PEM as bytes, a path, or a function
        that returns the bytes. `pinned` dials remotes that are pinned, and does not check host names; without it their
        host names are checked as well.

        When the instance starts they are held to the same policy as our own (D-1, D-2): TLS 1.3, or 1.2 with
        `tls12=True`; certificates required both ways; host names checked; no tickets, no renegotiation, no
        compression; a CA of your own. CertificateError lists all that is to be set. The protocol's name is offered by
        ALPN: where the contexts agree on none, it is set in them, so give an instance and streams contexts of their
        own. A system's store of CAs cannot always be seen in a context: never load it. `keylog` sets the contexts'
        `keylog_filename`; contexts that log keys unasked are refused (D-17).

        `reload_tls()` checks them again: load a new certificate into the same contexts, then call it. From the load
        on new connections show that certificate, whatever the check says. Raises TypeError or ValueError.
        """
        contexts = {"client": client, "server": server, **({} if pinned is None else {"pinned": pinned})}
        for name, context in contexts.items():
            if not isinstance(context, SSLContext):
                raise TypeError(f"{name} is {context!r}: give an ssl.SSLContext")
        given = cert if callable(cert) or isinstance(cert, bytes) else as_path(cert)
        return ContextsTLS(client, server, given, pinned, insecure_ca_only=insecure_ca_only, tls12=tls12, keylog=keylog)


@define(frozen=True)
class BytesTLS(TLS):
    """TLS that `TLS.from_bytes` made."""

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
    """TLS that `TLS.from_contexts` made."""

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

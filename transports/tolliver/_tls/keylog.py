"""Key log of TLS secrets, for Wireshark (D-17)."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from tolliver_proto.errors import CertificateError

from .._private import make_private, open_private

log = logging.getLogger("tolliver.tls")
_warned: set[Path] = set()


def log_keys(context: ssl.SSLContext, path: Path) -> None:
    """Append the secrets of the context's connections to a file that only its owner may read. Raises
    CertificateError."""
    try:
        # Created here, as OpenSSL would create it with the mode of the process's umask.
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            make_private(descriptor)
        finally:
            os.close(descriptor)
        context.keylog_filename = str(path)
    except OSError as error:
        raise CertificateError(
            f"{path} cannot be written as a key log ({error.strerror}): correct the option tls.keylog, or leave it out"
        ) from error


def warn(path: Path) -> None:
    """Log a warning, once for each file of a process."""
    if path not in _warned:
        _warned.add(path)
        log.warning("TLS secrets go into %s: who can read it can read every connection (keylog, D-17)", path)

"""Options about the peer: its address, our certificate, and directories for recordings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import evolve

from .._options.instance import TLS, EndpointOptions, Remote
from ._options import SECURITY, Option, Table, uuid
from .read._paths import local_path


def addresses(given: str) -> tuple[Remote, ...]:
    """Remotes from a comma-separated list of addresses. Raises ValueError."""
    return tuple(Remote.parse(one.strip()) for one in given.split(","))


def folder(given: str) -> Path:
    """Directory on the machine that opens it, from an option's text. It must be absolute, as tasks run in another
    directory. Raises ValueError.
    """
    if not given.strip():
        raise ValueError("give a directory")
    return Path(os.path.abspath(local_path(given)))


def dialling(endpoint: type[EndpointOptions] = EndpointOptions) -> Table:
    """Options for dialling a single peer, to be passed to `dialled`. `endpoint` has the default port."""

    def address(given: str) -> Remote:
        return Remote.parse(given.strip(), endpoint.default_port)

    return {"connect": Option("remote", address), "peer": Option("peer", uuid), **SECURITY}


def dialled(
    values: dict[str, Any], reader: str, other: str, endpoint: type[EndpointOptions] = EndpointOptions
) -> tuple[Remote, TLS | None]:
    """Remote and TLS (None: plaintext) from the options of `dialling`, which are removed from `values`. Error texts
    call the peer `other`.

    Raises ValueError, which names the option.
    """
    remote, peer = values.pop("remote", None), values.pop("peer", None)
    if remote is None:
        raise ValueError(f'{reader} needs the option connect: the address of the {other}, "host:port"')
    security = secured(values, reader, None, [remote], endpoint)
    return (remote if peer is None else evolve(remote, identity=peer)), security.tls


def secured(
    values: dict[str, Any],
    reader: str,
    listen: tuple[str, int] | None,
    remotes: Iterable[Remote],
    endpoint: type[EndpointOptions] = EndpointOptions,
) -> EndpointOptions:
    """Endpoint options with TLS, or plaintext on this machine (D-15), for the address to listen on (None: not at all)
    and the remotes. Removes the options of `SECURITY` from `values`.

    Raises ValueError, which names the options.
    """
    paths = [values.pop(name) for name in ("cert", "key", "ca") if name in values]
    plaintext = values.pop("plaintext", False)
    if len(paths) not in (0, 3):
        raise ValueError(
            "of the options tls.cert, tls.key and tls.ca some are missing: give the paths of all three files"
        )
    if bool(paths) is plaintext:
        raise ValueError(
            f"{reader} has {'both' if plaintext else 'neither'} of plaintext=true and a certificate: give tls.cert, "
            "tls.key and tls.ca, or plaintext=true for a trial on one machine (D-15)"
        )
    security = endpoint(tls=TLS(*paths) if paths else None, plaintext=plaintext)
    try:
        security.check_security(listen)
        for remote in remotes:
            security.remote(remote)
    except ValueError as error:
        raise ValueError(f"the option plaintext is true: {error}") from error
    return security

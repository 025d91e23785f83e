"""Access rules from a TOML file.

    default = "deny"                                     # rights of all other peers: "allow" (everything) or "deny"

    [peers."01890000-0000-7000-8000-000000000001"]
    subscribe = [["readings", "*"], ["alarms", "kitchen"]]    # [channel, key] pairs; a final * matches any rest
    publish = [["*", "*"]]
    connect = true

    [derived.f00dbabe0001]                               # all identities of this certificate's prefix (T-72a)
    publish = [["readings", "*"]]

A pattern is two strings, not one with a separator, as names may contain any character. A right that a peer's entry does
not mention is as in the default, except `connect`: a listed peer may connect.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tolliver_proto import Acl, Rights

from .._private import read_file

_DEFAULTS = {"allow": Rights(), "deny": Rights.none()}
_ENTRIES = ("default", "peers", "derived")
_RIGHTS = ("subscribe", "publish", "connect")


def load_acl(path: str | os.PathLike[str]) -> Acl:
    """Load the rules of this file. Raises OSError, and ValueError that names the file, the entry and what to write."""
    try:
        return _acl(tomllib.loads(read_file(path).decode()))
    except ValueError as error:  # invalid TOML or UTF-8
        raise ValueError(f"access rules in {os.fspath(path)}: {error}") from None


def _acl(rules: Mapping[str, Any]) -> Acl:
    _check_names("the file", rules, _ENTRIES)
    default = rules.get("default")
    if not isinstance(default, str) or default not in _DEFAULTS:
        raise ValueError(f'default is {_shown(default)}: write default = "deny" or default = "allow"')
    entries = _table("peers", rules.get("peers", {}))
    peers: dict[UUID, Rights] = {}
    for name, entry in entries.items():
        where = f"peers.{name!r:.100}"
        uuid = _uuid(where, name)
        if uuid in peers:
            raise ValueError(f"{where} is there twice, written differently: make one entry of the two")
        peers[uuid] = _rights(where, _table(where, entry), _DEFAULTS[default])
    derived = {
        prefix: _rights(f"derived.{prefix!r:.100}", _table(f"derived.{prefix!r:.100}", entry), _DEFAULTS[default])
        for prefix, entry in _table("derived", rules.get("derived", {})).items()
    }
    return Acl(_DEFAULTS[default], peers, derived)


def _rights(where: str, entry: Mapping[str, Any], default: Rights) -> Rights:
    _check_names(where, entry, _RIGHTS)
    given = {"subscribe": default.subscribe, "publish": default.publish, **entry}
    try:
        return Rights(**given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _uuid(where: str, name: str) -> UUID:
    try:
        return UUID(name)
    except ValueError:
        raise ValueError(f'{where} is no UUID: write [peers."01890000-0000-7000-8000-000000000001"]') from None


def _table(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(
            f'{where} is {_shown(value)}: write a table, [peers."UUID"] or [derived.PREFIX], and its entries below'
        )
    return value


def _check_names(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in table.keys() - {*known}:
        raise ValueError(f"{where} has the unknown entry {_shown(name)}: there are {', '.join(known)}")


def _shown(value: object) -> str:
    return f"{value!r:.100}" if value is not None else "missing"

"""Reading of options from command lines and TOML files.

Both use the table of options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import NOTHING, evolve

from tolliver_proto import Limits, Policy

from .acl_file import load_acl
from .kinds import kind_of
from .table import TABLE, Entry, flag_of, unknown
from .tls import TLS
from .unix import UnixAddress, is_unix


def parse(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parses the texts of command-line flags to typed values, both by the option's key ("tls.cert" for `--tls.cert`).
    Options not given are left out. Raises KeyError for an unknown key, and ValueError, which names the flag."""
    values = {}
    for key, texts in given.items():
        try:
            values[key] = kind_of(TABLE[key]).parse(texts)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{flag_of(key)}: {error}") from None
    return values


def read(document: Mapping[str, Any], table: Mapping[str, Entry], base: Path) -> dict[str, Any]:
    """Reads the options in a TOML document as typed values by the option's key. Its paths are relative to `base`.

    Raises ValueError for an invalid value, and for an unknown key, with the most similar known one.
    """
    values: dict[str, Any] = {}
    for key, given in leaves(document, table):
        try:
            value = kind_of(table[key]).read(given)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key}: {error}") from None
        values[key] = value if given == ":memory:" else _under(base, value, table[key])
    return values


def _under(base: Path, value: Any, entry: Entry) -> Any:
    """The value, in which relative paths, of Unix sockets too, are relative to `base`."""
    if isinstance(value, Path):
        return base / value
    if isinstance(value, UnixAddress):
        return value.under(base)
    if isinstance(value, list | tuple) and entry.takes.endswith("@]HOST:PORT"):
        return [evolve(one, host=str(UnixAddress.parse(one.host).under(base))) if one.is_unix else one for one in value]
    if isinstance(value, str) and entry.takes == "HOST:PORT" and is_unix(value):
        return str(UnixAddress.parse(value).under(base))
    return value


def leaves(document: Mapping[str, Any], table: Mapping[str, Entry], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Key and value of each option in a TOML document; `prefix` is that of the keys of a table in the document. Raises
    ValueError for an unknown key.
    """
    for name, value in document.items():
        key = f"{prefix}{name}"
        if key in table:
            yield key, value
        elif isinstance(value, dict) and any(one.startswith(f"{key}.") for one in table):
            yield from leaves(value, table, f"{key}.")
        else:
            raise ValueError(unknown(key, table.keys()))


def arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the option classes, from values by key. Raises TypeError, ValueError and OSError."""
    parts: dict[str, dict[str, Any]] = {"": {}, "tls": {}, "policy": {}, "limits": {}}
    for key, value in values.items():
        parts[TABLE[key].part][key.rpartition(".")[2]] = value
    made = parts[""]
    if isinstance(made.get("acl"), Path):
        made["acl"] = load_acl(made["acl"])
    if parts["policy"]:
        made["policy"] = Policy(**parts["policy"])
    if parts["limits"]:
        made["limits"] = Limits(**parts["limits"])
    if parts["tls"]:
        missing = [name for name in ("cert", "key", "ca") if name not in parts["tls"]]
        if missing:
            raise ValueError(f"tls.{missing[0]} is missing: certificates are three files, cert, key and ca")
        made["tls"] = TLS(**parts["tls"])
    return made


def show_default(entry: Entry) -> str:
    """Text of a default; "" if there is none, or it cannot be written as text."""
    return "" if entry.default is NOTHING else kind_of(entry).show(entry.default)

"""Configuration files of `tolliver run`.

Reading, checking, example and schema all use the table of options.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attrs import NOTHING, define, evolve, field

from tolliver_proto import Acl

from .._options.acl_file import load_acl
from .._options.instance import InstanceOptions
from .._options.kinds import kind_of
from .._options.reading import arguments, leaves, read, show_default
from .._options.streams import StreamsOptions
from .._options.table import PROGRAM, TABLE, Entry, flag_of
from .._private import is_one_file, read_file
from .._store.file import BESIDE, check_place
from .._store.memory import IN_MEMORY, is_in_memory
from .._tls.policy import Pumps
from ..blocking import create_instance
from .bridging import Bridge
from .destinations import KEY, Destination, check_all_go_somewhere, destinations, subscribed
from .tables import print_rows
from .words import logging_to_stderr, say_plain

KEYS: Mapping[str, Entry] = {**TABLE, **PROGRAM}
_NEEDED = {
    "listen": "127.0.0.1:7011",
    "database": "alice.db",
    "subscriptions": ["weather"],
    "tls.cert": "certs/alice.pem",
    "tls.key": "certs/alice.key",
    "tls.ca": "certs/ca.pem",
    "deliver.file": "messages.jsonl",
}
"""Values of the example."""
_EMPTY = {"object": "{}", "array": "[]"}
"""Empty value, by the type of the schema."""
_SHOWN = {
    "accept": "unix:tolliver.sock",
    "acl": "acl.toml",
    "record": "recordings",
    "status": "127.0.0.1:9464",
    "tls.crl": "certs/crl.pem",
    "tls.keylog": "secrets.log",
    "log_level": "warning",
    "identity": "01890000-0000-7000-8000-000000000001",
    "deliver.rotate_size": "256MiB",
    "deliver.rotate_age": "24h",
    "deliver.command": ["python", "handle.py"],
    "deliver.socket": "unix:handler.sock",
    "deliver.python": "handlers:on_message",
    "deliver.stage": "staged",
    "bridge.listen": "127.0.0.1:7012",
    "bridge.names": ["tolliver://*"],
    "bridge.acl": "streams.toml",
}
"""Values in the example of options that have no default which could be written."""


@define(frozen=True)
class Config:
    """A configuration file that was read: `given` is its content and `values` the parsed values, both by key; and the
    destinations.
    """

    path: Path
    given: Mapping[str, Any]
    values: Mapping[str, Any]
    destinations: Sequence[Destination] = field(default=())

    @property
    def subscriptions(self) -> tuple[tuple[str, str], ...]:
        """All subscriptions as (channel, key): those of the file, and those of its destinations."""
        return subscribed(self.value("subscriptions") or (), self.destinations)

    def value(self, key: str) -> Any:
        """Value of an option of the program `tolliver run`, by its key in the file; its default, or None, if it is not
        set.
        """
        default = KEYS[key].default
        return self.values.get(key, None if default is NOTHING else default)

    def options(self) -> InstanceOptions:
        """Options of the instance. Raises ValueError and TypeError for invalid combinations, and OSError."""
        try:
            options = InstanceOptions(**arguments({key: one for key, one in self.values.items() if key in TABLE}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: {error}") from None
        return evolve(options, subscriptions=self.subscriptions, policy=replace(options.policy, **self._patience()))

    def bridge(self) -> Bridge | None:
        """The bridge, None without one. Raises ValueError and TypeError for invalid combinations, OSError and
        CertificateError."""
        if "bridge.listen" not in self.values:
            if any(key.startswith("bridge.") for key in self.values):
                raise ValueError(f"{self.path}: bridge.listen is missing: where do subscribers of streams connect?")
            return None
        options, rules = self.options(), self.values.get("bridge.acl")
        if options.tls is not None:
            Pumps(options.tls)  # checks the certificates
        files = () if options.tls is None else (options.tls.cert, options.tls.key, options.tls.ca)
        try:
            made = StreamsOptions(
                listen=self.value("bridge.listen"),
                tls=options.tls,
                plaintext=options.plaintext,
                acl=Acl() if rules is None else load_acl(rules),
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.path}: bridge: {error}") from None
        kept = tuple(file.read_bytes() for file in files)
        return Bridge(made, tuple(self.value("bridge.names")), self.value("bridge.subscribe"), kept)

    def _patience(self) -> dict[str, Any]:
        """Policy options: a handler is not stuck before its destination's own timeout, unless the file sets them (D-9,
        T-48)."""
        times = [one.timeout for one in self.destinations]
        longest = None if None in times else max([0.0, *(one for one in times if one is not None)]) + 1
        return {
            name: longest and max(longest, TABLE[name].default)
            for name in ("stuck_after", "handling_timeout")
            if name not in self.values
        }


_RUN = {"command", "python"}  # keys of a destination that say what is run


def load(path: Path, in_use: Path | None = None) -> Config:
    """Read and check a file. Raises OSError, and ValueError that names the file and the key.

    `in_use` is the database of the running instance, which the file cannot change.
    """
    try:
        document = tomllib.loads(read_file(path).decode())
        tables = document.pop(KEY, [])
        tables = tables if isinstance(tables, list) else [tables]
        given = dict(leaves(document, KEYS)) | {KEY: tables} if tables else dict(leaves(document, KEYS))
        _check_trusted(path, tables)
        found = destinations([read({KEY: one}, KEYS, path.parent) for one in tables], path.parent)
        values = read(document, KEYS, path.parent)
        if "database" not in values:
            values["database"] = _beside(path)
        config = Config(path, given, values, found)
        if found and not config.subscriptions and not config.value("bridge.subscribe"):
            raise ValueError(
                "nothing is subscribed to, so nothing would come: give each [[deliver]] its channel, or "
                'subscriptions = ["CHANNEL"]; "" is every channel'
            )
        if "bridge.listen" not in config.values:
            check_all_go_somewhere(config.value("subscriptions") or (), found)
        _check_written(config, in_use)
    except ValueError as error:  # invalid TOML or UTF-8
        raise ValueError(f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: lists or tables are nested too deeply to be read") from None
    return config


def _beside(path: Path) -> Path:
    """The database of a file that names none. Raises ValueError where one in the current directory would be left."""
    name: Path = TABLE["database"].default
    beside, left = path.parent / name, Path.cwd() / name
    if left.exists() and not beside.exists():
        raise ValueError(
            f"database: {left} is in the current directory, and the one meant is in the file's, {beside}: give "
            "database = PATH, which is relative to the file, or move it there"
        )
    return beside


def _check_trusted(path: Path, tables: Sequence[object]) -> None:
    """Raises ValueError if the file says what is to be run, and everybody may write it."""
    runs = any(isinstance(one, dict) and not _RUN.isdisjoint(one) for one in tables)
    if runs and os.name == "posix" and path.stat().st_mode & stat.S_IWOTH:
        raise ValueError(f"everybody may write this file, and it says what is run here: chmod o-w {path}")


def _check_written(config: Config, in_use: Path | None) -> None:
    """Raises ValueError if messages would be written into a file that the instance itself uses; `in_use` is its
    database."""
    written = [("deliver.file", one.file) for one in config.destinations if one.file is not None]
    keylog = config.values.get("tls.keylog")
    written += [] if keylog is None else [("tls.keylog", keylog)]
    read_only = {key for key, entry in KEYS.items() if entry.takes in ("FILE", "RULES")} - {"database", "tls.keylog"}
    taken = {config.path: "this file itself"}
    taken |= {config.values[key]: f"{key}, too" for key in read_only if key in config.values}
    for database in {config.values["database"], in_use} - {None, Path(IN_MEMORY)}:
        real = os.path.realpath(database)
        taken |= {Path(f"{real}{more}"): f"a part of the database {database}" for more in ("", *BESIDE)}
    for key, file in written:
        for path, what in taken.items():
            if is_one_file(file, path):
                raise ValueError(f"{key}: {file} is {what}: give another file")


def check(path: Path) -> list[str]:
    """Check a file; returns the keys that are set. Raises OSError, ValueError and, for what an instance would refuse,
    TolliverError."""
    config = load(path)
    options = config.options()
    config.bridge()
    say_plain(config.subscriptions)
    if not is_in_memory(options.database):
        check_place(options.database)
    tls = None if options.tls is None else evolve(options.tls, keylog=None)
    tried = evolve(options, tls=tls, database=IN_MEMORY, listen=None, remotes=(), status=None, record=None)
    with logging_to_stderr(lambda _record: False), create_instance(tried):  # validates the rest
        pass
    return [key for key in config.given if key != KEY] + [
        key for table in config.given.get(KEY, ()) for key, _ in leaves({KEY: table}, KEYS)
    ]


def print_options(as_json: bool) -> None:
    """Print a line for each option of an instance, with `as_json` in JSON: flag, key in a file, kind, default, help."""
    rows: list[dict[str, Any]] = []
    for key, entry in TABLE.items():
        row = {"flag": flag_of(key), "key": key, "takes": entry.takes, "default": show_default(entry)}
        row |= {"help": entry.help, "sentence": entry.sentence}
        rows.append(row | {"unit": entry.unit, "repeatable": entry.many} if as_json else row)
    print_rows(rows, as_json, "")


def example() -> str:
    """Text of a file with every option; optional ones are commented out."""
    lines = ["# An instance for `tolliver run`. Paths are relative to this file."]
    for part in ("", "tls", KEY, "bridge", "limits"):
        if part == KEY:
            lines += ["", f"# Where messages go; write [[{KEY}]] where there are several such tables."]
        if part:
            lines += [f"[{part}]"] if part == KEY else ["", f"[{part}]"]
        for key, entry in KEYS.items():
            if key.rpartition(".")[0] == part:
                mark = "" if key in _NEEDED else "# "
                name = key.rpartition(".")[2]
                said = [f"# {entry.sentence}"] if entry.sentence else []
                lines += ["", *said, f"# {entry.help}{_kind(entry)}", f"{mark}{name} = {_toml(key, entry)}"]
    return "\n".join(lines) + "\n"


def _kind(entry: Entry) -> str:
    words = entry.takes.replace("HOST:PORT", "host:port")
    return f" ({words})" if words and entry.takes not in ("FILE", "DIR", "RULES", "WORD", "NAME", "CHANNEL") else ""


def _toml(key: str, entry: Entry) -> str:
    value = _NEEDED.get(key, _SHOWN.get(key))
    if value is None:
        empty = _EMPTY.get(str(kind_of(entry).schema.get("type")))
        if empty is not None:
            return empty
        shown = show_default(entry)
        plain = shown in ("true", "false") or shown.replace(".", "", 1).isdigit()
        return shown if plain else json.dumps(shown)
    return json.dumps(value)


def schema() -> str:
    """JSON schema of the file."""
    tables: dict[str, dict[str, Any]] = {}
    for key, entry in KEYS.items():
        part, _, name = key.rpartition(".")
        tables.setdefault(part, {})[name] = {
            **kind_of(entry).schema,
            "description": f"{entry.sentence} {entry.help}".lstrip(),
        }
    top = tables.pop("")
    top |= {name: {"type": "object", "additionalProperties": False, "properties": own} for name, own in tables.items()}
    top[KEY] = {"anyOf": [top[KEY], {"type": "array", "items": top[KEY]}]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tolliver run"}
    return json.dumps({**head, "type": "object", "additionalProperties": False, "properties": top}, indent=2)

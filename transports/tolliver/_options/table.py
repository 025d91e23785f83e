"""Table of the options of an instance.

An option is declared once, as a field of `InstanceOptions`, `TLS`, `Policy` or `Limits`. Its metadata has the kind of
its values, a line of help and a user's request that it fulfils. Command line flags, keys of a configuration file, its
schema and the documentation are generated from this table. A field without such a sentence is only for programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import attrs

from tolliver_proto import Limits, Policy

from .instance import InstanceOptions
from .tls import TLS

_UNITS = {"BYTES": "bytes", "SECONDS": "seconds"}
_LISTS = ("[PEER@]HOST:PORT", "CHANNEL", "WORD", "VERSION")


class Entry(NamedTuple):
    """An option: the kind of its values, as a help text names it ("" is a switch), a line of help, and a user's
    request.

    `default` is NOTHING if there is none. `part` is the argument of InstanceOptions whose field it is, or "".
    """

    takes: str
    help: str
    sentence: str = ""
    default: Any = attrs.NOTHING
    part: str = ""

    @property
    def many(self) -> bool:
        """True for a list or a dict, which has one item for each occurrence of a flag."""
        return self.takes in _LISTS or "=" in self.takes

    @property
    def unit(self) -> str:
        """Unit of a plain number, "bytes" or "seconds"; "" if it has none."""
        return _UNITS.get(self.takes.partition("|")[0], "")

    @property
    def choices(self) -> list[str]:
        """The words that the option allows, if its kind has a fixed set."""
        return [word for word in self.takes.split("|") if not word.isupper()] if "|" in self.takes else []


def _entry_of(option: Any, part: str = "") -> Entry:
    """Entry of the table for a field of an option class, from its metadata; `part` is that of Entry."""
    factory = getattr(option, "default_factory", getattr(option.default, "factory", None))
    return Entry(**option.metadata, default=factory() if callable(factory) else option.default, part=part)


_PARTS: Mapping[str, tuple[str, Any]] = {
    "tls": ("tls.", attrs.fields(TLS)),
    "policy": ("", dataclasses.fields(Policy)),
    "limits": ("limits.", dataclasses.fields(Limits)),
}
"""Objects of InstanceOptions whose fields are options: what their keys begin with, and the fields."""


def _declared() -> Iterator[tuple[str, Entry]]:
    for option in attrs.fields(InstanceOptions):
        prefix, fields = _PARTS.get(option.name, ("", (option,)))
        for one in fields:
            if one.metadata.get("sentence"):
                yield f"{prefix}{one.name}", _entry_of(one, option.name if option.name in _PARTS else "")


TABLE: Mapping[str, Entry] = dict(_declared())
"""Options by key, in the order of their declarations."""

PROGRAM: Mapping[str, Entry] = {
    "only": Entry(
        "", "give up subscriptions of earlier runs that this file does not name, and what waits for them", default=False
    ),
    "stop_timeout": Entry(
        "SECONDS",
        "after SIGTERM, in which messages that are being handled may end; then connections are closed",
        default=10.0,
    ),
    "deliver.channel": Entry(
        "NAME", "only messages of this channel, which is subscribed to; all channels without it", default=""
    ),
    "deliver.key": Entry("NAME", "only messages of this key; all keys without it", default=""),
    "deliver.file": Entry("FILE", "append each message to this file, as a line of JSON, before it is acknowledged"),
    "deliver.rotate_size": Entry("BYTES", "rename the file, and begin a new one, before it has more than this"),
    "deliver.rotate_age": Entry(
        "SECONDS", "the same where a period of this length is over: 24h is a file for each day"
    ),
    "deliver.command": Entry(
        "WORD", "run this for each message, with its body on standard input; status 0 acknowledges it"
    ),
    "deliver.socket": Entry(
        "unix:PATH or HOST:PORT", "send each message there, as a line of JSON; the line `ok` in answer acknowledges it"
    ),
    "deliver.python": Entry("MODULE:FUNCTION", "call this function of a Python module with each message"),
    "deliver.stage": Entry("DIR", "put messages into this stage, from which others read (docs/staging.md)"),
    "deliver.max_staged": Entry("BYTES", "no more is taken while so much is in that stage", default=4 * 2**30),
    "deliver.concurrency": Entry("N", "so many messages at once at a command, a socket or a function", default=1),
    "deliver.timeout": Entry(
        "SECONDS|none", "for one message; after that it counts as failed, and is redelivered", default=60.0
    ),
    "bridge.listen": Entry("HOST:PORT", "let subscribers of streams connect here, for messages as streams"),
    "bridge.names": Entry("WORD", "which streams there are (docs/streams.md)", default=("tolliver://*",)),
    "bridge.subscribe": Entry("", "a stream subscribes this instance to what it asks for, for good", default=False),
    "bridge.acl": Entry("RULES", "access rules of the streams (TOML)"),
    "reload_every": Entry(
        "SECONDS|none", "between two looks whether what SIGHUP reads again has changed", default=None
    ),
    "log_level": Entry(
        "debug|info|warning|error", "the least that is logged; without it, what --log-level says, or warning"
    ),
}
"""Options of a program that is made of a file alone, by key: `tolliver run`."""

_FLAGS = {
    "tls.cert": "--cert",
    "tls.key": "--key-file",
    "tls.ca": "--ca",
    "remotes": "--connect",
    "subscriptions": "--channel",
}


def flag_of(key: str) -> str:
    """Name of the option's command line flag."""
    return _FLAGS.get(key) or f"--{key.replace('_', '-')}"


def unknown(key: str, keys: Collection[str]) -> str:
    """Error text for an unknown key, with the most similar known one."""
    last = {one.rpartition(".")[2]: one for one in keys}
    near = get_close_matches(key, keys, 1) or [last[one] for one in get_close_matches(key.rpartition(".")[2], last, 1)]
    remedy = f"is {near[0]} meant?" if near else "`tolliver config example` shows them all"
    return f"there is no option {key!r:.100}: {remedy}"

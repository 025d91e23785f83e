"""Kinds of option values.

A kind has the form of its values on a command line and in a TOML file, and its JSON schema. An invalid value is refused
with advice. A size or a time may have a unit, such as 16MiB or 90s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

from attrs import define, evolve

from tolliver_proto import Revision, Subscription
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import Probe, QuotaPolicy

from .checks import as_path
from .instance import Remote, is_loopback, split_address
from .table import Entry
from .unix import SCHEME, UnixAddress

NONE = "none"
LAYOUTS = {revision.name.removeprefix("DRAFT_").lower().replace("_", "-"): revision for revision in Revision}
"""Revisions of the wire by name: "1", "2", "go-2026" and others."""
_BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCALED = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([A-Za-z]*)")


@define(frozen=True)
class Kind:
    """A kind of option values.

    `parse` converts text, or several texts if values may be repeated; `read` converts a value of a TOML file. Both
    raise TypeError or ValueError. `show` converts a value to text.
    """

    parse: Callable[[Any], Any]
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]
    show: Callable[[Any], str] = str


def kind_of(entry: Entry) -> Kind:
    kind = _KINDS[entry.takes]
    return _listed(kind) if entry.many and entry.takes != "VERSION" and "=" not in entry.takes else kind


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it is {value!r:.100}: write a text in quotes")
    return value


def _scaled(text: str, units: Mapping[str, float], remedy: str) -> float:
    match = _SCALED.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r:.100}: {remedy}")
    return float(match[1]) * units[match[2]]


def seconds(text: str) -> float:
    """Seconds from a number with or without a unit. Raises ValueError."""
    return _scaled(text, _SECONDS, "give seconds, such as 1.5, or 90s, 10m, 1h, 7d")


def size(text: str) -> int:
    """Bytes from a number with or without a unit. Raises ValueError."""
    if text.isascii() and text.isdigit():  # also exact beyond 2^53
        return int(text)
    return int(_scaled(text, _BYTES, "give a number of bytes, or such as 64KiB, 16MiB, 1GiB"))


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r:.100}: give a whole number") from None


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ValueError(f"{text!r:.100} is no UUID: write 01890000-0000-7000-8000-000000000001") from None


def _read_int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"it is {value!r:.100}: write a whole number")
    return value


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"it is {value!r:.100}: write true or false")
    return value


def _read_bytes(value: object) -> int:
    return size(value) if isinstance(value, str) else _read_int(value)


def _read_seconds(value: object) -> float:
    if isinstance(value, str):
        return seconds(value)
    number = value if isinstance(value, float) else _read_int(value)
    if not number >= 0:  # also refuses NaN
        raise ValueError(f"it is {number}: give seconds from 0 on")
    return number


def _show_bytes(value: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)


def _of_text(parse: Callable[[str], Any], **more: Any) -> Kind:
    return Kind(parse, lambda value: parse(_text(value)), more.pop("schema", {"type": "string"}), **more)


def _or_none(kind: Kind) -> Kind:
    def with_none(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value == NONE else make(value)

    return Kind(
        with_none(kind.parse),
        with_none(kind.read),
        {"anyOf": [kind.schema, {"const": NONE}]},
        lambda value: NONE if value is None else kind.show(value),
    )


def _layout(text: str) -> Revision:
    if text not in LAYOUTS:
        raise ValueError(f"{text!r:.100} is no layout: give one of {', '.join(LAYOUTS)}")
    return LAYOUTS[text]


def _choice(words: Mapping[str, Any]) -> Kind:
    def parse(text: str) -> Any:
        if text not in words:
            raise ValueError(f"{text!r:.100}: give one of {', '.join(words)}")
        return words[text]

    return _of_text(parse, schema={"enum": list(words)})


def _read_items(read: Callable[[Any], Any], value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"it is {value!r:.100}: write a list, in square brackets")
    return [read(one) for one in value]


def _listed(kind: Kind, made: Callable[[Iterable[Any]], Any] = tuple) -> Kind:
    """The kind of a list of such values, which `made` makes: on the command line one item for each occurrence of the
    flag.
    """
    return Kind(
        lambda texts: made(map(kind.parse, texts)),
        lambda value: made(_read_items(kind.read, value)),
        {"type": "array", "items": kind.schema},
        lambda value: ", ".join(map(kind.show, value or ())),
    )


def _by_peer(kind: Kind) -> Kind:
    """The kind of a dict of such values by peer: on the command line UUID=VALUE for each occurrence of the flag, in a
    file a table.
    """

    def parsed(text: str) -> tuple[UUID, Any]:
        peer, mark, value = text.partition("=")
        if not mark:
            raise ValueError(f"{text!r:.100}: give a UUID, an equals sign and a value")
        return _parse_uuid(peer), kind.parse(value)

    def read(value: object) -> dict[UUID, Any]:
        if not isinstance(value, dict):
            raise TypeError(f"it is {value!r:.100}: write a table with a line for each peer")
        return {_parse_uuid(peer): kind.read(own) for peer, own in value.items()}

    return Kind(
        lambda texts: dict(map(parsed, texts)),
        read,
        {"type": "object", "propertyNames": _UUID.schema, "additionalProperties": kind.schema},
        lambda value: ", ".join(f"{peer}={kind.show(own)}" for peer, own in value.items()),
    )


def _parse_dialect(text: str) -> Dialect:
    """Dialect from comma-separated items, each "name" or "name:value". In a list the flag may be repeated."""
    given: dict[str, list[str]] = {}
    for part in filter(None, text.split(",")):
        word, _, value = part.partition(":")
        given.setdefault(word.replace("-", "_"), []).append(value)
    return Dialect(**{name: _habit(name).parse(values) for name, values in given.items()})


def _read_dialect(value: object) -> Dialect:
    if not isinstance(value, dict):
        raise TypeError(f"it is {value!r:.100}: write a table")
    return Dialect(**{name: _habit(name).read(own) for name, own in value.items()})


def _show_dialect(value: Dialect) -> str:
    given = {name: getattr(value, name) for name in _HABITS}
    return ",".join(f"{name}:{_HABITS[name].show(own)}" for name, own in given.items() if own is not None)


def _habit(name: str) -> Kind:
    if name not in _HABITS:
        raise ValueError(f"{name!r:.100} is no habit of a peer: there are {', '.join(_HABITS)}")
    return _HABITS[name]


def _parse_switch(text: str) -> bool:
    if text not in ("", "0", "1"):
        raise ValueError(f"{text!r:.100}: give the word alone, or 0 or 1 behind the colon")
    return text != "0"


def _last(kind: Kind) -> Kind:
    """The kind of a single value, for a flag that may be repeated: the last one counts."""
    return evolve(kind, parse=lambda texts: kind.parse(texts[-1]))


def _read_subscription(value: object) -> Subscription:
    if isinstance(value, str):
        return Subscription(value, "")
    if isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value):
        return Subscription(*value)
    raise TypeError(f'it is {value!r:.100}: write a channel, or ["channel", "key"]')


def _show_address(value: tuple[str, int] | None) -> str:
    return "" if value is None else str(Remote(*value))


def _socket(text: str) -> Path | tuple[str, int]:
    """A socket's path, or (host, port) on this machine, as bodies are sent there in plaintext (D-15)."""
    if text.startswith(SCHEME):
        return as_path(text.removeprefix(SCHEME))
    host, port = split_address(text, 0)
    if not port:
        raise ValueError(f"{text!r:.100} has no port: write unix:PATH, or 127.0.0.1:PORT")
    if not is_loopback(host):
        raise ValueError(f"{text!r:.100} would leave this machine in plaintext: write unix:PATH, or 127.0.0.1:PORT")
    return host, port


def _function(text: str) -> str:
    module, mark, name = text.partition(":")
    if not mark or not all(one.isidentifier() for one in (*module.split("."), *name.split("."))):
        raise ValueError(f"{text!r:.100}: write a module, a colon and a function, such as handlers:on_order")
    return text


def _versions(numbers: Iterable[int]) -> Callable[[int], bool]:
    return frozenset(numbers).__contains__


def _show_nothing(_value: object) -> str:
    return ""


def _or_nothing(value: object) -> str:
    return "" if value is None else str(value)


_COUNT = Kind(_parse_int, _read_int, {"type": "integer"})
_SIZE = Kind(size, _read_bytes, {"type": ["integer", "string"]}, _show_bytes)
_TIME = Kind(seconds, _read_seconds, {"type": ["number", "string"]}, lambda value: f"{value:g}")
_PATH = _of_text(Path, show=_or_nothing)
_UUID = _of_text(_parse_uuid, schema={"type": "string", "format": "uuid"}, show=_or_nothing)
_QUOTA = _choice({one.value: one for one in QuotaPolicy})
_LAYOUT = Kind(
    _layout,
    lambda value: _layout(str(value) if type(value) is int else _text(value)),  # accepts a number, too
    {"enum": [1, 2, *LAYOUTS]},
    lambda value: next(name for name, revision in LAYOUTS.items() if revision is value),
)
_CHANNEL = Kind(
    lambda text: Subscription(text, ""),
    _read_subscription,
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        ]
    },
    lambda value: value[0],
)
_SWITCH = Kind(_parse_switch, _read_flag, {"type": "boolean"}, lambda value: str(int(value)))
_HABITS: Mapping[str, Kind] = {
    "version": _last(_COUNT),
    "unreliable_id": _last(_COUNT),
    "announce_after_handshake": _last(_SWITCH),
    "control_messages": _last(_SWITCH),
    "strict_uuid7": _last(_SWITCH),
    "accept_either": _last(_SWITCH),
    "revision": _last(_LAYOUT),
    "subscriptions": _listed(_CHANNEL),
}
"""By the fields of Dialect."""
_DIALECT = Kind(
    _parse_dialect,
    _read_dialect,
    {
        "type": "object",
        "properties": {name: kind.schema for name, kind in _HABITS.items()},
        "additionalProperties": False,
    },
    _show_dialect,
)

_KINDS: Mapping[str, Kind] = {
    "": Kind(bool, _read_flag, {"type": "boolean"}, lambda value: "true" if value else "false"),
    "N": _COUNT,
    "N|none": _or_none(_COUNT),
    "VERSION": Kind(
        lambda texts: _versions(map(_parse_int, texts)),
        lambda value: _versions(_read_items(_read_int, value)),
        {"type": "array", "items": {"type": "integer"}},
        _show_nothing,
    ),
    "SECONDS": _TIME,
    "SECONDS|none": _or_none(_TIME),
    "BYTES": _SIZE,
    "FILE": _PATH,
    "RULES": _of_text(Path, show=_show_nothing),
    "DIR": _PATH,
    "UUID": _UUID,
    "unix:PATH": _of_text(UnixAddress.parse, show=_or_nothing),
    "HOST:PORT": _of_text(_text, show=_show_address),
    "[PEER@]HOST:PORT": _of_text(Remote.parse),
    "CHANNEL": _CHANNEL,
    "LAYOUT": _LAYOUT,
    "WORD": _of_text(_text),
    "NAME": _of_text(_text),
    "unix:PATH or HOST:PORT": _of_text(_socket, show=_show_nothing),
    "MODULE:FUNCTION": _of_text(_function),
    "debug|info|warning|error": _choice({one: one for one in ("debug", "info", "warning", "error")}),
    "raise|drop_oldest|skip": _QUOTA,
    "off|ack|message": _choice({one: one for one in get_args(Probe)}),
    "none|zlib": _choice({one: one for one in ("none", "zlib")}),
    "UUID=POLICY": _by_peer(_QUOTA),
    "HABIT,...": _DIALECT,
    "UUID=HABIT,...": _by_peer(_DIALECT),
}
"""By the words of the table."""

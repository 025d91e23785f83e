"""Options of an instance, validated before anything is opened.

An invalid option is refused where it is given, with advice, so adapters need no checks. Everything here is frozen data:
no file, no socket and no event loop.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, cast
from uuid import UUID

from attrs import converters, define, evolve, field, validators

from tolliver_proto import Acl, Limits, Policy, Revision, Subscription
from tolliver_proto.layouts import LAYOUTS, Dialect

from .checks import as_path as _path
from .checks import check as _check
from .checks import flag as _flag
from .checks import is_a as _is
from .checks import told as _told
from .tls import TLS as TLS
from .unix import UnixAddress, is_unix

DEFAULT_PORT = 7011  # (T-78)
STATUS_PORT = 9464  # the usual port of OpenTelemetry's Prometheus exporter

Registering = tuple[str, str, Callable[..., object]] | tuple[str, str, Callable[..., object], Mapping[str, Any]]
"""Channel, key and handler; optionally a dict of options of `register_callback`."""

RespondingTo = tuple[str, str, Callable[..., object]] | tuple[str, str, Callable[..., object], Mapping[str, Any]]
"""Channel, key and handler of requests; optionally a dict of options of `respond`."""

_A_REVISION = f"give one of {', '.join(f'Revision.{revision.name}' for revision in Revision)}"
_OF_A_HANDLER = frozenset({"ack", "concurrency", "ordered_by", "pending", "retry"})
_OF_A_RESPONDER = frozenset({"concurrency"})
_NO_UUIDS = (UUID(int=0), UUID(int=2**128 - 1))


_seconds_or_none = _check(
    lambda value: value is None or (isinstance(value, int | float) and not isinstance(value, bool)),
    "give seconds as a number, or None",
    TypeError,
)
_uuid = validators.optional(
    [
        _is(UUID, 'give a uuid.UUID, such as UUID("01890000-0000-7000-8000-000000000001")'),
        _check(lambda value: value not in _NO_UUIDS, "nil and max name nobody, give a real one"),
    ]
)


def split_address(text: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Host and port of "host:port", "host" (with the default port), "[v6]:port" or "[v6]"."""
    if not isinstance(text, str):
        raise TypeError(f'the address {text!r} is no text: write "host:port", "host" or "[::1]:{default_port}"')
    if is_unix(text):
        return text, default_port
    scheme, is_url, rest = text.partition("://")
    if is_url:
        raise ValueError(f'the address {text!r:.100} is a URL: write it without "{scheme}://", as "{rest}"')
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or colon not in ("", ":"):
            raise ValueError(f'the address {text!r} is not closed: write "[::1]:{default_port}"')
    else:
        host, colon, port = text.partition(":")
        if text.isascii() and text.isdigit():
            raise ValueError(f'the address {text!r} is a port, and the host is missing: write "127.0.0.1:{text}"')
        if ":" in port:
            raise ValueError(f'the address {text!r} has several colons: write IPv6 as "[{text}]" or "[...]:port"')
    if not colon:
        return host, default_port
    if not (port.isascii() and port.isdigit()):
        raise ValueError(f'the port of {text!r} is no number: write "host:{default_port}" or leave ":port" out')
    return host, int(port)


def _pin(peer: str) -> dict[str, Any]:
    """The field of a Remote that a pin, the text before "@", sets, with its value."""
    try:
        return {"spki_sha256": bytes.fromhex(peer)} if len(peer) == 64 else {"identity": UUID(peer)}
    except ValueError:
        raise ValueError(
            f"{peer!r:.100} before the @ is no peer: write its UUID, or the 64 hexadecimal digits of its key's SHA-256"
        ) from None


def _join_address(host: str, port: int) -> str:
    if is_unix(host):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_host(value: str) -> bool:
    if is_unix(value):
        return UnixAddress.parse(value).is_usable
    try:
        value.encode("idna")
    except UnicodeError:  # a label is empty or too long
        return False
    return bool(value) and value.isprintable() and not any(c in value for c in " /[]@")


_host = [
    _is(str, "give a host name or an address"),
    _check(_is_host, "give a host name or an address, without scheme, brackets or spaces"),
]


def _subscriptions(value: Iterable[str | tuple[str, str]]) -> tuple[Subscription, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f'subscriptions is {value!r}: give a list, such as ["readings", ("orders", "42")]')
    pairs = [(one, "") if isinstance(one, str) else one for one in value]
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise TypeError(f"subscriptions has {pair!r}: give a channel, or (channel, key)")
    return tuple(Subscription(*pair) for pair in pairs)


@define(frozen=True)
class Remote:
    """An address to dial, and the peer expected there. Remotes with equal address and pins are the same remote.

    With `identity` (the UUID in the peer's certificate) or `spki_sha256` (32 bytes: the SHA-256 of its public key) the
    peer is recognized by that, and its host name is not checked; without either, the name must match (D-2). `dialect`
    describes a peer that deviates from the protocol, `revision` one with another wire layout (C6). Raises TypeError or
    ValueError.
    """

    host: str = field(validator=_host)
    port: int = field(
        default=DEFAULT_PORT,
        validator=[
            _is(int, "give a port number"),
            _check(lambda value: 0 < value < 65536, "a port to dial is between 1 and 65535"),
        ],
    )
    identity: UUID | None = field(default=None, validator=_uuid)
    spki_sha256: bytes | None = field(
        default=None,
        validator=validators.optional(
            [
                _is(bytes, "give the digest as bytes: bytes.fromhex(...)"),
                _check(lambda value: len(value) == 32, "a SHA-256 has 32 bytes"),
            ]
        ),
    )
    dialect: Dialect = field(factory=Dialect, validator=_is(Dialect, "give a Dialect(...)"), eq=False)
    revision: Revision | None = field(default=None, validator=validators.optional(_is(Revision, _A_REVISION)), eq=False)

    @property
    def full_dialect(self) -> Dialect:
        """The remote's dialect, with its revision in it."""
        return self.dialect.over(Dialect(revision=self.revision))

    @classmethod
    def parse(cls, address: str | Remote, default_port: int = DEFAULT_PORT) -> Remote:
        """Remote from "host:port", "host" (port 7011, T-78), "[::1]:7011" or "[::1]"; a Remote is returned unchanged.

        "PIN@..." pins the peer, where PIN is its UUID or the SHA-256 of its key (64 hexadecimal digits).
        """
        if isinstance(address, Remote):
            return address
        if not isinstance(address, str) or "@" not in address:
            return cls(*split_address(address, default_port))
        peer, _, place = address.rpartition("@")
        return cls(*split_address(place, default_port), **_pin(peer))

    @property
    def is_unix(self) -> bool:
        """True for a Unix socket of this machine, `unix:PATH`, over which there is no TLS."""
        return is_unix(self.host)

    @property
    def pinned(self) -> bool:
        """True if the peer is recognized by its UUID or key instead of its host name."""
        return self.identity is not None or self.spki_sha256 is not None

    def __str__(self) -> str:
        return _join_address(self.host, self.port)


def _listen(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    return value if value is None or isinstance(value, tuple) else split_address(value)


def _is_listen(value: tuple[str, int]) -> bool:
    return len(value) == 2 and _is_host(value[0]) and 0 <= value[1] < 65536


is_on_event = validators.optional(_check(callable, "give a function of an event", TypeError))
is_listen = validators.optional(
    _check(_is_listen, 'write "host:port" with a port from 0 to 65535; "0.0.0.0:7011" listens everywhere')
)


def _status(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    return value if value is None or isinstance(value, tuple) else split_address(value, STATUS_PORT)


def _accept(value: str | os.PathLike[str] | UnixAddress | None) -> UnixAddress | None:
    return None if value is None else UnixAddress.parse(value)


def _remotes(value: Iterable[str | Remote]) -> tuple[Remote, ...]:
    if isinstance(value, str | Remote) or not isinstance(value, Iterable):
        raise TypeError(f'remotes is {value!r}: give a list, such as ["host:{DEFAULT_PORT}"]')
    return tuple(Remote.parse(remote) for remote in value)


def _handlers(value: Iterable[Registering]) -> tuple[Registering, ...]:
    return _functions("handlers", value, _OF_A_HANDLER)


def _responders(value: Iterable[RespondingTo]) -> tuple[RespondingTo, ...]:
    return _functions("responders", value, _OF_A_RESPONDER)


def _functions(option: str, value: Iterable[Any], choices: frozenset[str]) -> tuple[Any, ...]:
    """The validated (channel, key, handler) entries of the option called `option`, each with a dict of its own options,
    which must be among `choices`.
    """
    if not isinstance(value, Iterable):
        raise TypeError(f"{option} is {value!r}: give a list of (channel, key, handler)")
    functions = tuple(value)
    for one in functions:
        if not isinstance(one, tuple) or len(one) not in (3, 4) or not callable(one[2]):
            raise TypeError(f"{option} has {one!r}: give (channel, key, handler), of which the last is a function")
        if len(one) == 4 and not (isinstance(one[3], Mapping) and one[3].keys() <= choices):
            raise TypeError(
                f"{option} has {one!r}: give as the fourth a dict with some of {', '.join(sorted(choices))}"
            )
    return functions


def _speaks_no_other(_version: int) -> bool:
    return False


def is_loopback(host: str) -> bool:
    """True for loopback addresses, "localhost" and Unix sockets. Another name may lead to another machine (D-15)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or is_unix(host)


@define(frozen=True, kw_only=True)
class EndpointOptions:
    """Options common to both protocols: the security of connections (D-1, D-15)."""

    default_port: ClassVar[int] = DEFAULT_PORT

    tls: TLS | None = field(
        default=None, validator=validators.optional(_is(TLS, "give TLS(cert, key, ca) or leave it out"))
    )
    plaintext: bool = field(
        default=False,
        validator=_flag,
        metadata=_told("", "no TLS: for a trial on one machine only", "I try it on one machine, without certificates."),
    )

    def check_security(self, listen: tuple[str, int] | None) -> None:
        """Raises ValueError without TLS or `plaintext`, and for plaintext to another machine, be that by listening on
        (host, port) or by dialling.
        """
        if (self.tls is None) is not self.plaintext:
            raise ValueError(
                f"{type(self).__name__} has {'neither' if self.tls is None else 'both'} of the options tls "
                "and plaintext: give tls.cert, tls.key and tls.ca, or plaintext for a trial on one machine"
            )
        if listen is not None:
            self._require_loopback(*listen)

    def remote(self, address: str | Remote) -> Remote:
        """Remote for an address. Raises ValueError for plaintext to another machine (D-15)."""
        remote = Remote.parse(address, self.default_port)
        self._require_loopback(remote.host, remote.port)
        return remote

    def _require_loopback(self, host: str, port: int) -> None:
        if self.plaintext and not is_loopback(host):
            raise ValueError(
                f"plaintext with {_join_address(host, port)} would leave this machine: give the option tls in "
                'place of plaintext, or one of "localhost", "127.0.0.1", "[::1]" (D-15)'
            )


@define(frozen=True, kw_only=True)
class InstanceOptions(EndpointOptions):
    """Everything that `create_instance` needs. Give `tls`, or `plaintext=True` for a trial on one machine.

    - `database`: path of the SQLite file; one process at a time (T-79). ":memory:" stores nothing on disk: for trials
      and tests.
    - `min_free`: bytes of free disk. With less, new messages are refused, but acknowledged ones are still removed
      (D-13).
    - `listen`: "host:port", "[::1]:port" or None not to listen; port 0 lets the system choose. Stored as (host, port).
      "unix:PATH" is for peers of this machine: no TLS, and the mode of the file says who may connect.
    - `accept`: "unix:PATH", where programs of this machine hand messages over (`tolliver.local`): those of our user, as
      the socket's file has mode 0600; "unix:PATH?mode=660" gives it another.
    - `tls`: certificates. `plaintext=True` instead requires loopback addresses everywhere (D-15).
    - `retry_interval`: seconds before the first resend of an unacknowledged message; doubled each time (T-50).
    - `remotes`: addresses to dial from the start (T-75): strings as for `Remote.parse`, or Remotes.
    - `subscriptions`: (channel, key) pairs, or channels, to subscribe to before it listens or dials, in addition to the
      stored ones. If given, even as an empty list, messages that match no subscription are acknowledged and dropped
      from the start, else only 30 seconds after the opening (T-46).
    - `handlers`: (channel, key, handler) to register before it listens or dials, as by `register_callback`; optionally
      with a dict of its options, such as {"concurrency": 4, "ordered_by": "key"}.
    - `responders`: (channel, key, handler) to register likewise, as by `respond`, so that waiting requests find them;
      optionally with a dict of its options, such as {"concurrency": 4}.
    - `on_event`: a callback for each event, as `events()` yields them, one after the other. On a loop it may be async,
      on threads it has a thread of its own. Its exceptions are logged with their traceback.
    - `revision`: the wire layout of all connections, except peers whose dialect has another (C6, docs/foreign.md);
      `version`: the version that we announce (T-02); `speaks(version)`: True for another version of a peer that we can
      speak (T-60).
    - `dialect`: deviations from the protocol of all peers; `dialects`: those of single peers, by UUID, instead of
      `dialect`. A remote's own replaces both (C6).
    - `policy`: choices of behaviour; `limits`: limits.
    - `identity`: our UUID, if neither the certificate nor the database has it, or one derived from our certificate's
      prefix (`tolliver.derived`): such an instance can only send (T-72a).
    - `acl`: rights of peers to connect, subscribe and publish; by default everything (D-4, D-5).
    - `status`: "host:port" of an HTTP endpoint for probes, scrapers and people (docs/watching.md); port 0 lets the
      system choose, None opens none. It has neither TLS nor authentication, so it must be on this machine, unless
      `status_anywhere=True`.
    - `ready_behind`: seconds; the instance is not ready while a message has waited longer than this for a peer's
      acknowledgement. None: no limit.
    - `record`: a directory for recordings of all traffic (docs/recordings.md). They are plaintext on disk, bodies
      included, even with TLS: off by default (D-14).
    - `record_compression`: "zlib" makes recordings smaller and uses more CPU; "none" by default.

    Raises TypeError or ValueError.
    """

    listen: tuple[str, int] | None = field(
        default=None,
        converter=_listen,
        validator=is_listen,
        metadata=_told("HOST:PORT", "let peers connect here; port 0 lets the system choose", "Peers connect to me."),
    )
    accept: UnixAddress | None = field(
        default=None,
        converter=_accept,
        metadata=_told(
            "unix:PATH",
            "let programs of this machine hand messages over here; ?mode=660 behind it lets in a group, too",
            "My web workers, cron jobs and shells send by one instance.",
        ),
    )
    remotes: tuple[Remote, ...] = field(
        default=(),
        converter=_remotes,
        metadata=_told(
            "[PEER@]HOST:PORT",
            "peers to dial; UUID@ or the SHA-256 of the key and @ in front pins one",
            "I connect to these peers.",
        ),
    )
    database: Path = field(
        default=Path("node.db"),
        converter=_path,
        metadata=_told(
            "FILE", "the instance's database, made if missing", "Messages must survive a restart of my program."
        ),
    )
    min_free: int = field(
        default=0,
        validator=[
            _is(int, "give a number of bytes"),
            _check(lambda value: value >= 0, "give a number of bytes, or 0"),
        ],
        metadata=_told(
            "BYTES",
            "free disk below which new messages are refused",
            "Other programs need room on this disk, too.",
        ),
    )
    subscriptions: tuple[Subscription, ...] | None = field(
        default=None,
        converter=converters.optional(_subscriptions),
        metadata=_told(
            "CHANNEL",
            "what is subscribed to, beside what earlier runs asked for",
            "I want what goes out on these channels.",
        ),
    )
    handlers: tuple[Registering, ...] = field(default=(), converter=_handlers, eq=False, repr=False)
    responders: tuple[RespondingTo, ...] = field(default=(), converter=_responders, eq=False, repr=False)
    on_event: Callable[[Any], object] | None = field(default=None, eq=False, validator=is_on_event)
    acl: Acl = field(
        factory=Acl,
        validator=_is(Acl, "give an Acl(...), or load_acl(path)"),
        metadata=_told("RULES", "access rules (TOML)", "Not every member of the CA may do everything."),
    )
    identity: UUID | None = field(
        default=None,
        validator=_uuid,
        metadata=_told(
            "UUID",
            "our UUID, where neither the certificate nor the database says it",
            "My certificate names no instance, and I know its UUID.",
        ),
    )
    record: Path | None = field(
        default=None,
        converter=converters.optional(_path),
        metadata=_told(
            "DIR",
            "record what goes over the wire into this directory, bodies in plaintext",
            "I want to see later what came and went.",
        ),
    )
    record_compression: Literal["none", "zlib"] = field(
        default="none",
        validator=_check(lambda value: value in ("none", "zlib"), 'give "none" or "zlib"'),
        metadata=_told(
            "none|zlib", "zlib makes recordings smaller, and the processor busier", "My recordings fill the disk."
        ),
    )
    status: tuple[str, int] | None = field(
        default=None,
        converter=_status,
        validator=validators.optional(
            _check(_is_listen, f'write "127.0.0.1:{STATUS_PORT}", with a port from 0 to 65535')
        ),
        metadata=_told(
            "HOST:PORT",
            "serve the status there: probes, metrics, a page; port 0 lets the system choose",
            "Prometheus, Kubernetes or a browser looks after my instance.",
        ),
    )
    status_anywhere: bool = field(
        default=False,
        validator=_flag,
        metadata=_told(
            "",
            "beyond this machine, too, where whoever reaches it reads it",
            "They look from another machine, by a network that I trust.",
        ),
    )
    ready_behind: float | None = field(
        default=cast("float | None", 600.0),
        validator=[
            _seconds_or_none,
            _check(lambda value: value is None or value > 0, "give a positive number of seconds, or None"),
        ],
        metadata=_told(
            "SECONDS|none",
            "age of the oldest unacknowledged message from which it is not ready",
            "A peer that is away for days is no reason to call my instance unwell.",
        ),
    )
    retry_interval: float = field(
        default=10.0,
        validator=[
            _is(int | float, "give seconds as a number"),
            _check(lambda value: 0 < value < float("inf"), "give a positive number of seconds"),
        ],
        metadata=_told(
            "SECONDS",
            "before the first resend of an unacknowledged message, doubling from there",
            "A message that was not handled should be sent again sooner, or later.",
        ),
    )
    revision: Revision = field(
        default=Revision.DRAFT_2,
        validator=_is(Revision, _A_REVISION),
        metadata=_told(
            "LAYOUT", "the wire layout: 1 or 2, or that of another program (docs/foreign.md)", "My peers speak draft 1."
        ),
    )
    version: int = field(
        default=1,
        validator=[
            _is(int, "give a whole number"),
            _check(lambda value: 0 <= value < 2**64, "it is a 64-bit number on the wire, not negative"),
        ],
        metadata=_told("N", "the version that we announce", "My peers take another version than 1 alone."),
    )
    speaks: Callable[[int], bool] = field(
        default=_speaks_no_other,
        validator=_check(callable, "give a function of a version", TypeError),
        metadata=_told(
            "VERSION", "a peer's version that we can speak beside ours", "Some peers announce another version."
        ),
    )
    dialect: Dialect = field(
        factory=Dialect,
        validator=_is(Dialect, "give a Dialect(...)"),
        metadata=_told(
            "HABIT,...",
            "how everybody speaks: unreliable-id:N, strict-uuid7, accept-either, announce-after-handshake, "
            "control-messages:0, subscriptions:CHANNEL",
            "My peers are another program, with habits of its own.",
        ),
    )
    dialects: Mapping[UUID, Dialect] = field(
        factory=dict,
        hash=False,
        validator=validators.deep_mapping(
            _is(UUID, "give a uuid.UUID for each peer"),
            _is(Dialect, "give a Dialect(...) for each peer"),
            _is(Mapping, "give a dict by UUID"),
        ),
        metadata=_told(
            "UUID=HABIT,...",
            "the same for one peer, also where it dials us, and revision:LAYOUT, version:N",
            "One peer is another program.",
        ),
    )
    policy: Policy = field(factory=Policy, validator=_is(Policy, "give a Policy(...)"))
    limits: Limits = field(factory=Limits, validator=_is(Limits, "give a Limits(...)"))

    def remote(self, address: str | Remote) -> Remote:
        """Remote for an address. Raises ValueError for plaintext to another machine (D-15), and for TLS with a layout
        whose programs only speak plaintext."""
        remote = super().remote(address)
        self._require_transport(remote.full_dialect.revision, str(remote))
        return remote

    def _require_transport(self, revision: Revision | None, whose: str) -> None:
        if revision is not None and LAYOUTS[revision].plaintext and not self.plaintext:
            raise ValueError(
                f"{whose} speaks {revision.name}, whose programs know no TLS: give them an instance of their own with "
                "the option plaintext, which stays on this machine"
            )

    def __attrs_post_init__(self) -> None:
        self.dialect.of_everybody()
        self.check_security(self.listen)
        if self.status is not None and not self.status_anywhere and not is_loopback(self.status[0]):
            raise ValueError(
                f"the status at {_join_address(*self.status)} would leave this machine, and whoever reaches it reads "
                f'peers, addresses and channels: use "127.0.0.1:{self.status[1]}", or give the option status_anywhere'
            )
        self._require_transport(self.revision, "this instance")
        for peer, dialect in self.dialects.items():
            self._require_transport(dialect.revision, f"peer {peer}")
        for remote in self.remotes:
            self.remote(remote)

    def given(
        self,
        subscriptions: Iterable[str | tuple[str, str]] | None,
        handlers: Iterable[Registering] | None,
        responders: Iterable[RespondingTo] | None,
    ) -> InstanceOptions:
        """These options with other subscriptions, handlers and responders, if they are not None."""
        changes: dict[str, Any] = {"subscriptions": subscriptions, "handlers": handlers, "responders": responders}
        return evolve(self, **{name: value for name, value in changes.items() if value is not None})

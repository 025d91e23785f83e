"""Options of a program's streams, validated before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from attrs import converters, define, field, validators

from tolliver_proto import Acl
from tolliver_proto.reactive import DEFAULT_PORT, Extension, Hub, Limits

from .instance import EndpointOptions, is_listen, is_on_event, split_address


def _listen(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    return value if value is None or isinstance(value, tuple) else split_address(value, DEFAULT_PORT)


def _together(extensions: Iterable[Extension]) -> tuple[Extension, ...]:
    return tuple(extensions)


_extensions = validators.deep_iterable(validators.instance_of(Extension))


@define(frozen=True, kw_only=True)
class StreamsOptions(EndpointOptions):
    """Everything that `create_streams` needs. Give `tls`, or `plaintext=True` for a trial on one machine.

    - `listen`: "host:port", "host" (port 7012, R-35), "[::1]:port" or None not to listen; port 0 lets the system
      choose. It must not be the port of an instance. Stored as (host, port).
    - `tls`: certificates. `plaintext=True` instead requires loopback addresses everywhere (D-15).
    - `limits`: limits, of `tolliver_proto.reactive`.
    - `acl`: rights of peers to connect, and to subscribe to names; by default everything (D-4). A name takes the place
      of a channel: `Rights(subscribe=(("sensors/*", "*"),))`. `publish` has no effect, as we subscribe to what we ask
      for.
    - `on_event`: a callback for each event, as `events()` yields them, one after the other. On a loop it may be async,
      on threads it has a thread of its own. Its exceptions are logged with their traceback.
    - `extensions`: extensions of the protocol that are announced, `Extension(id, forms)` (R-27). `peer.extensions` has
      those that the peer announces, too; `peer.send(frame)` sends their frames.
    - `on_frame`: called as `on_frame(peer, frame)` for each received frame of an extension, in order. On a loop it must
      not block; on threads it has a thread of its own, and may.
    - `max_feeds`: on threads, most sources read at a time, each on a thread; further subscriptions are refused (R-14).
      Sources that have not returned since their streams ended count apart, up to the same number.
      A blocking source keeps its thread after a cancel, until it returns.
    - `record`: a directory for recordings of all traffic, which `tolliver decode` shows. They are plaintext on disk.

    Raises TypeError or ValueError, and LocalProtocolError for extensions that cannot be announced together.
    """

    default_port: ClassVar[int] = DEFAULT_PORT

    listen: tuple[str, int] | None = field(default=None, converter=_listen, validator=is_listen)
    limits: Limits = field(factory=Limits, validator=validators.instance_of(Limits))
    acl: Acl = field(factory=Acl, validator=validators.instance_of(Acl))
    on_event: Callable[[Any], object] | None = field(default=None, eq=False, validator=is_on_event)
    extensions: tuple[Extension, ...] = field(default=(), converter=_together, validator=_extensions)
    on_frame: Callable[[Any, Any], object] | None = field(
        default=None, validator=validators.optional(validators.is_callable())
    )
    max_feeds: int = field(default=256, validator=[validators.instance_of(int), validators.ge(1)])
    record: Path | None = field(default=None, converter=converters.optional(Path))

    def __attrs_post_init__(self) -> None:
        self.check_security(self.listen)
        Hub(extensions=self.extensions, limits=self.limits)  # raises an error for extensions that clash

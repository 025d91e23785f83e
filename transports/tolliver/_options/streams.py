"""Options of a program's streams, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from attrs import define, field, validators

from tolliver_proto import Acl
from tolliver_proto.reactive import DEFAULT_PORT, Connection, Extension, Limits, Role

from .instance import EndpointOptions, is_listen, is_on_event, split_address


def _listen(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    return value if value is None or isinstance(value, tuple) else split_address(value, DEFAULT_PORT)


def _together(extensions: Iterable[Extension]) -> tuple[Extension, ...]:
    return tuple(extensions)


_extensions = validators.deep_iterable(validators.instance_of(Extension))


@define(frozen=True, kw_only=True)
class StreamsOptions(EndpointOptions):
    """Everything that `create_streams` needs. Give `tls`, or for a trial on one machine `plaintext=True`.

    - `listen`: "host:port", "host" (port 7012, R-35), "[::1]:port" or None not to listen; port 0 lets the system
      choose. Never a port where an instance of Tolliver listens. Kept as (host, port).
    - `tls`: certificates; `plaintext=True` instead needs loopback addresses everywhere (D-15).
    - `limits`: bounds, of `tolliver_proto.reactive`.
    - `acl`: which peer may connect, and subscribe to which names; everything, if it is not given (D-4). A name stands
      where a channel does: `Rights(subscribe=(("sensors/*", "*"),))`. We ask for all that a peer
      publishes, so `publish` has no meaning here.
    - `on_event`: a function that is called with each event, as `events()` has them, one after the other; on a loop it
      may be async, on threads it has a thread of its own. A failure is logged with its traceback.
    - `extensions`: what is announced beyond the draft, `Extension(id, forms)` (R-27); `peer.extensions` has those that
      the peer announces too, and `peer.send(frame)` sends their frames.
    - `on_frame`: called as `on_frame(peer, frame)` for each frame of an extension that comes, in order. It must not
      wait; on threads it is called on one of its own, and may.
    - `max_feeds`: on threads, how many sources are read at once, each on a thread; a subscription beyond that is
      refused (R-14). A source that blocks keeps its thread after a cancel, too, until it returns.

    Raises TypeError or ValueError, and LocalProtocolError where extensions cannot be announced together.
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

    def __attrs_post_init__(self) -> None:
        self.check_security(self.listen)
        Connection(Role.CLIENT, extensions=self.extensions, limits=self.limits)  # it refuses what cannot be announced

"""tolliver on Twisted: messages, and streams with demand.

`create_instance` and `create_streams` return Deferreds of what a program uses; the services open and close them with
their parents. Everything runs on the reactor's thread, files and certificates in its thread pool.
docs/twisted.md shows it at work.
"""

from __future__ import annotations

from .._messages.inbox import Received, Run
from .._messages.iterators import Messages, Registration, Runs
from .._options.acl_file import load_acl
from .._options.instance import TLS, InstanceOptions, Remote
from .._options.streams import StreamsOptions
from .._streams.bridge import bridge
from .._streams.publishing import Publication
from .._streams.streams import Peer
from .instance import Instance, create_instance
from .service import StreamsService, TolliverService
from .streams import EndOfStream, Streams, Subscription, create_streams

__all__ = [
    "TLS",
    "EndOfStream",
    "Instance",
    "InstanceOptions",
    "Messages",
    "Peer",
    "Publication",
    "Received",
    "Registration",
    "Remote",
    "Run",
    "Runs",
    "Streams",
    "StreamsOptions",
    "StreamsService",
    "Subscription",
    "TolliverService",
    "bridge",
    "create_instance",
    "create_streams",
    "load_acl",
]

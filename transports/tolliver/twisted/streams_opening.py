"""Opening of streams on Twisted."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from .._options.streams import StreamsOptions
from .streams import Streams
from .streams_core import StreamsCore


def create_streams(options: StreamsOptions, reactor: Any = None) -> Deferred[Streams]:
    """Create streams: `async with await create_streams(options) as streams:` closes them in order.

    `reactor`: by default the global one. Fails with CertificateError, and ConnectionLost if it cannot listen. If the
    Deferred is cancelled, what was opened is closed again.
    """
    streams = Streams(StreamsCore(options, reactor))
    return streams._core.open().addCallback(lambda _: streams)

"""Opening of streams on threads."""

from __future__ import annotations

from .._options.streams import StreamsOptions
from .streams import Streams
from .streams_core import StreamsCore


def create_streams(options: StreamsOptions) -> Streams:
    """Create streams: `with create_streams(options) as streams:` listens, and closes in order.

    Entering raises CertificateError, and ConnectionLost if it cannot listen.
    """
    return Streams(StreamsCore(options))

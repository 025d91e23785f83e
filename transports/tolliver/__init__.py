"""tolliver: brokerless messaging over mutual TLS, under one name.

Import the adapter of your program, `tolliver.anyio`, `tolliver.blocking` or `tolliver.twisted`, and all else from here:
every public name of `tolliver_proto` is one of this package, every door of `tolliver_transports` one of its modules.
Nothing is loaded before it is asked for, and an adapter whose extra is missing says which one to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolliver_proto import __version__ as __version__

if TYPE_CHECKING:
    from tolliver_proto import *

    from . import anyio as anyio
    from . import blocking as blocking
    from . import certs as certs
    from . import codecs as codecs
    from . import derived as derived
    from . import events as events
    from . import layouts as layouts
    from . import otel as otel
    from . import prometheus as prometheus
    from . import reactive as reactive
    from . import recording as recording
    from . import spark as spark
    from . import sqlite as sqlite
    from . import staging as staging
    from . import status as status
    from . import testing as testing
    from . import twisted as twisted
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same(
        "tolliver_proto",
        globals(),
        "anyio",
        "blocking",
        "certs",
        "codecs",
        "derived",
        "events",
        "layouts",
        "otel",
        "prometheus",
        "reactive",
        "recording",
        "spark",
        "sqlite",
        "staging",
        "status",
        "testing",
        "twisted",
    )

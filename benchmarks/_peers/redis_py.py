"""redis: XADD to a stream."""

from __future__ import annotations

import redis

from benchmarks._peers.measuring import BODY, HOST, Meter, Setting

KEPT = 100_000  # messages of the stream, about


def publish(setting: Setting) -> None:
    """One after the other, or as many in a pipeline as are outstanding; the server's answer counts."""
    server, meter = redis.Redis(HOST, setting.broker), Meter(setting.seconds)
    server.delete("bench")
    while setting.outstanding == 1:
        server.xadd("bench", {"body": BODY}, maxlen=KEPT)
        meter.add()
    while True:
        pipeline = server.pipeline(transaction=False)
        for _ in range(setting.outstanding):
            pipeline.xadd("bench", {"body": BODY}, maxlen=KEPT)
        pipeline.execute()
        meter.add(setting.outstanding)

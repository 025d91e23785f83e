"""redis: values at the end of a list, with RPUSH."""

from __future__ import annotations

import redis

from benchmarks._peers.measuring import BODY, HOST, Meter, Setting

KEPT = 100_000  # messages of the list: trimmed once a batch


def publish(setting: Setting) -> None:
    """One after the other, a pipeline of commands, or a command with many values; the server's answer counts."""
    server, meter = redis.Redis(HOST, setting.broker), Meter(setting.seconds)
    server.delete("bench")
    batch = [BODY] * setting.outstanding
    while setting.way == "one":
        server.rpush("bench", BODY)
        meter.add()
    while True:
        pipeline = server.pipeline(transaction=False)
        if setting.way == "values":
            pipeline.rpush("bench", *batch)
        else:
            for body in batch:
                pipeline.rpush("bench", body)
        pipeline.ltrim("bench", -KEPT, -1)
        pipeline.execute()
        meter.add(len(batch))

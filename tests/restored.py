"""Sender that another process has copied, killed and put back.

    python -m tests.restored DATABASE ADDRESS

Reads lines of JSON: `["send", prefix, count]` answers when all are acknowledged, `["backup", path]` when the copy is
there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tolliver.blocking import InstanceOptions, create_instance

PATIENCE = 60.0  # seconds


def done() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()


def main(database: str, address: str) -> None:
    options = InstanceOptions(database=Path(database), remotes=[address], plaintext=True)
    with create_instance(options) as instance:
        instance.new_connection(address, timeout=PATIENCE)
        done()
        for line in sys.stdin:
            call, *given = json.loads(line)
            if call == "backup":
                instance.admin.backup(given[0])
            else:
                prefix, count = given
                receipt = instance.send_many([("news", "", f"{prefix} {n}".encode()) for n in range(count)])
                assert receipt.deliveries == count
                instance.wait_acked(receipt, timeout=PATIENCE)
            done()


if __name__ == "__main__":
    main(*sys.argv[1:])

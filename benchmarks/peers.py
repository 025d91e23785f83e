"""Our messaging and streams beside those of others, and beside bare loops.

    python benchmarks/peers.py [--seconds 2] [--runs 3] [--only ROW ...] [--json FILE]

A row is one kind of work; `--list` names all of them. Each end of a pair is a process of its own on a core of its own.
The contestants of a row take turns, and each figure is the median of the runs; its ratio is to the row's yardstick,
run by run, so that ratios hold on a busy machine where figures do not.
All rows take a quarter of an hour.

It starts the brokers that it finds on PATH (nats-server, redis-server, mosquitto) in a new directory of the working
directory, on free ports of 127.0.0.1, and ends them. Contestants whose package or broker is not installed are left out,
by name: `pip install -e '.[all]' --group bench` and, on Debian, `apt-get install nats-server redis-server mosquitto`
bring all.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]  # its parts are beside it, under the name that tests use

from benchmarks._peers.report import circumstances, data_of, lines_of  # noqa: E402  # the line above comes first
from benchmarks._peers.rows import ROWS, Row  # noqa: E402  # as above
from benchmarks._peers.running import Bench, run  # noqa: E402  # as above


def chosen(names: Sequence[str]) -> list[Row]:
    """The rows of these names, or whose names begin so; all where none is given. Raises ValueError."""
    known = [row.name for row in ROWS]
    fitting = {name: [name] if name in known else [one for one in known if one.startswith(name)] for name in names}
    for name, rows in fitting.items():
        if not rows:
            raise ValueError(f"no row begins with {name!r}: give some of {', '.join(known)}")
    return [row for row in ROWS if not names or any(row.name in rows for rows in fitting.values())]


def tell(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="rows whose names begin so")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--list", action="store_true", help="name the rows, and nothing else")
    arguments = parser.parse_args(argv)
    if arguments.list:
        for row in ROWS:
            print(f"{row.name:<20}{row.title}")
        return
    try:
        rows = chosen(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that brokers end
    with Bench(arguments.seconds) as bench:
        facts = circumstances(arguments.seconds, arguments.runs, bench.cores)
        data = data_of(run(rows, bench.measure, arguments.runs, tell), facts)
    tell("")
    print("\n".join(lines_of(data)))
    if arguments.json:
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    print("again: python benchmarks/peers.py " + " ".join(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    main()

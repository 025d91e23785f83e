"""Rows of docs/proof.md: promises, and the commands that show them.

Rows are data. A command is run as it stands here, and prints at least one line `result: ROW | size | figures`; its exit
status says whether the figures are those that are asked for. Where the sizes of `commands` are less than what is asked
for, as that takes too long, `full` has the commands of that size.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("asyncio", "trio", "twisted", "blocking")


class Row(NamedTuple):
    """One thing that must hold. `asked` is the size of a release and the figure that passes.

    `fails`: what a failure would be, in words of a reader.
    `full`: the commands in the size that is asked for, where the others are smaller.
    `waits`: its commands mostly wait, for the system to give a connection up, so they run side by side.
    `beside`: it takes long and leaves the machine to the others: it runs while they do.
    """

    name: str
    what: str
    asked: str
    commands: tuple[str, ...]
    full: tuple[str, ...] = ()
    waits: bool = False
    beside: bool = False
    fails: str = ""


def _hostile(command: str, *options: str) -> tuple[str, ...]:
    """One of the hostile peers against every adapter."""
    return tuple(" ".join(("python -m scripts.prove.hostile", command, kind, *options)) for kind in KINDS)


ROWS = (
    Row(
        "V1",
        "Known frames give the same events however their bytes are cut",
        "every golden vector x every 2-way split, byte by byte, every 3-way split, every ordered pair; every other "
        "case of vectors/ whole and byte by byte",
        ("python -m scripts.prove.counted V1",),
        fails="a cut after which a frame gives other events, named with its bytes",
    ),
    Row(
        "V2",
        "Encoded frames decode to themselves",
        "1,000,000 frames for each protocol",
        ("python -m scripts.prove.proofs frames",),
        fails="a stream that differs after decoding, named with its seed",
    ),
    Row(
        "V3",
        "No input raises what is not documented: bytes and operations",
        "24 core-hours or 100,000,000 inputs",
        ("python -m scripts.prove.fuzz 3",),
        full=("python -m scripts.prove.fuzz 720",),
        fails="an input that raises an undocumented error, kept as a file of its bytes",
    ),
    Row(
        "V4",
        "The tests see every line and branch of the core, and bugs that are planted",
        "100 % statement and branch; every planted bug caught",
        ("python scripts/coverage_core.py", "python -m scripts.prove.counted V4", "python -m scripts.planted"),
        fails="a line or branch that no test reaches, or a planted bug that no test sees",
    ),
    Row(
        "V5",
        "Simulated networks: drops at any byte, half-open lines, crossing dials, crashes, store errors, clocks",
        "1,000,000 schedules, 0 failures, same seed same trace",
        ("python -m scripts.prove.simulate 2000", "python -m scripts.prove.simulate --reactive 2000"),
        full=("python -m scripts.prove.simulate 1000000", "python -m scripts.prove.simulate --reactive 1000000"),
        fails="a seed whose history breaks a promise, shrunk to a short story",
    ),
    Row(
        "V6",
        "A crash before and after every store call, on both nodes, and every pair of them",
        "every point and every pair, 0 lost",
        ("python -m scripts.prove.proofs crash",),
        fails="a crash point after which a message is missing, or the outbox does not drain",
    ),
    Row(
        "V7",
        "kill -9 of real senders and receivers, with SQLite and TLS, also in opening and close; orderly restarts, "
        "copies put back, other databases and new disks",
        "10,000 kills, 1,000,000 messages or more, 0 lost, 0 overtaken",
        ("python -m scripts.prove.kills messages 1000",),
        full=("python -m scripts.prove.kills messages 10000",),
        fails="a message whose send returned and that no receiver handled: `1 lost`",
    ),
    Row(
        "V8",
        "Power loss: the database, what was synced of its log, and any of the rest",
        "10,000 images, 0 lost; without syncing it must lose",
        (
            "python -m scripts.prove.proofs power",
            "python -m scripts.prove.proofs power-normal",
            "python -m scripts.prove.proofs power-off",
        ),
        fails="an image of the disk that lacks a message whose send had returned",
    ),
    Row(
        "V9",
        "Bits that flip in the store are never silent",
        "10,000 flips, 0 silent",
        ("python -m scripts.prove.proofs flips",),
        fails="a flip after which the store gives other content and says nothing: `1 silent`",
    ),
    Row(
        "V10",
        "A store that is full, busy, failing or no database",
        "send raises StoreError, nothing half-written, connections live, it recovers",
        ("python -m scripts.prove.store_errors",),
        fails="a send that returns and is not stored, or a store that does not recover",
    ),
    Row(
        "V11",
        "Sizes that nobody has: 4 GiB bodies and names, 2^32-1 subscriptions, 2^63 packed elements",
        "closed at the header, under 64 KiB each; under 8 MiB for 1,000",
        _hostile("bombs"),
        fails="a head that is not refused at once, or more than 8 MiB of memory",
    ),
    Row(
        "V12",
        "A large frame in small pieces takes linear time",
        "16 MiB byte by byte: time(2n) ≤ 2.3 time(n)",
        ("python -m scripts.prove.linear", *_hostile("linear")),
        fails="twice the size takes more than 2.3 times as long",
    ),
    Row(
        "V13",
        "Silent strangers",
        "1,000 silent TCP and 1,000 TLS-only: a good peer connects within 1 s, closed at 2 ± 1 s and 10 ± 1 s",
        _hostile("slowloris"),
        fails="a good peer waits for more than 1 s, or a stranger outlives its time limit by more than 1 s",
    ),
    Row(
        "V14",
        "Half-open connections",
        "noticed within 60 s, 0 lost after return",
        _hostile("half-open"),
        waits=True,
        fails="a dead line that is not noticed within 60.5 s, or a message that is missing afterwards",
    ),
    Row(
        "V15",
        "Crossing dials leave one connection",
        "10,000 pairs, 0 lost",
        ("python -m scripts.prove.proofs cross 10000",),
        fails="two connections, or none, or a lost message",
    ),
    Row(
        "V16",
        "A peer that reads nothing",
        "its buffer ≤ 1 MiB + 1 frame; the others' p99 under twice",
        _hostile("slow-reader"),
        fails="more than one buffer and one frame in memory, or others that wait twice as long",
    ),
    Row(
        "V17",
        "Message ids begin again while some are outstanding",
        "5,000 messages over the wrap, 0 lost",
        ("python -m scripts.prove.proofs wrap 20",),
        fails="an id that two messages have at once, or a lost message",
    ),
    Row(
        "V18",
        "TLS that must not work: certificates missing, wrong, expired, not bound; plaintext either way",
        "4 adapters x 2 roles, 100 % the right error",
        ("python -m scripts.prove.counted V18",),
        fails="a cell that connects, or that ends with another error",
    ),
    Row(
        "V19",
        "Many connections",
        "2,000 over TLS at ≤ 100 KiB each; 10,000 in memory",
        _hostile("many"),
        fails="more than 100 KiB for each peer, or a message that takes more than 10 s",
    ),
    Row(
        "V20",
        "Clocks that jump, stand still or go back; ages over kills, closes and boots while the wall clock is set",
        "10,000 runs; 300 stories of 5 kills",
        ("python -m scripts.prove.proofs clocks 10000", "python -m scripts.prove.proofs ages 300"),
        fails="a message that is given up too early, or one that is lost",
    ),
    Row(
        "V21",
        "The views that peers have of each other's subscriptions converge",
        "100,000 runs",
        ("python -m scripts.prove.proofs converge 20000",),
        full=("python -m scripts.prove.proofs converge 100000",),
        fails="two sides that know different subscriptions when all is quiet",
    ),
    Row(
        "V22",
        "A peer that behaves as the Go program does",
        "handshake, subscribe, send, ack both ways",
        ("python -m scripts.prove.counted V22",),
        fails="a case in which the double of the Go peer gets other bytes than it expects",
    ),
    Row(
        "V23",
        "Three nodes, random kills, for long",
        "24 h: RSS slope < 1 MiB/h, descriptors constant",
        ("python -m scripts.prove.endurance 2400",),
        full=("python -m scripts.prove.endurance 86400",),
        beside=True,
        fails="memory that grows by 1 MiB an hour or more, or a descriptor more",
    ),
    Row(
        "V24",
        "The rules of Reactive Streams on the wire, on each layer",
        "59 + 20, all",
        ("python -m scripts.prove.tck",),
        fails="a rule of the kit (those that it leaves untested included) whose test fails on one layer",
    ),
    Row(
        "V25",
        "Spark: its driver and JVM killed in the middle, tasks that fail or run twice",
        "20 kills, 1,000,000 messages, 0 lost, none twice in the table",
        (
            "python -m scripts.prove.spark_soak 3 60000",
            "python -m scripts.prove.spark_soak 3 60000 --external",
            "python -m scripts.prove.spark_soak 3 60000 --streams",
        ),
        full=(
            "python -m scripts.prove.spark_soak 20 1000000",
            "python -m scripts.prove.spark_soak 5 100000 --external",
            "python -m scripts.prove.spark_soak 5 100000 --streams",
        ),
        fails="a row that is missing in the table, or is there twice",
    ),
    Row(
        "model",
        "A model of the outbox, ids, acks, notes, keys, holds and copies put back: TLC visits all of its states",
        "1,000,000 distinct states; each planted mistake refused",
        ("python -m model.check", "python -m model.plant"),
        beside=True,
        fails="a state that breaks a promise, with the steps to it, or a planted mistake that is not refused",
    ),
    Row(
        "mutation",
        "The tests of the core see a small change of the wire, the node, the patterns and the codec of the store",
        "a seeded sample of 1,500 mutants, each killed, or with a reason",
        ("python -m scripts.mutation 100",),
        full=("python -m scripts.mutation 1500",),
        fails="a mutant that no test kills, and nobody has said why",
    ),
    Row(
        "loop",
        "The real asyncio adapter under a seeded loop: two programs in simulated time, threads and network, cut at any "
        "moment in sends, handlers, requests and closings",
        "20,000 histories, 0 broken; one seed is one trace",
        ("python -m scripts.prove.loop 300",),
        full=("python -m scripts.prove.loop 20000",),
        beside=True,
        fails="a seed that hangs, leaves a task or a socket, loses what `send` called stored, or has it handled twice: "
        "`seed 7 is broken`",
    ),
    Row(
        "stagers",
        "Many stagers, one table: kills of stagers, drivers and executors, while one more stager joins",
        "20 kills, 1,000,000 rows, 0 lost, none twice",
        ("python -m scripts.prove.spark_stages 4 40000 --stagers 2",),
        full=("python -m scripts.prove.spark_stages 20 1000000",),
        fails="a row that is missing in the table, or is there twice",
    ),
    Row(
        "consumers",
        "Two readers with places of their own, killed with their stager again and again while its disk is full; a "
        "third one is overtaken",
        "20 kills, 1,000,000 rows, 0 lost, none twice; the third is told how many it missed",
        ("python -m scripts.prove.spark_stages 3 150000 --consumers",),
        full=("python -m scripts.prove.spark_stages 20 1000000 --consumers",),
        fails="a row that is missing in a table, or is there twice; a reader that goes on as if it had missed nothing",
    ),
    Row(
        "traces-model",
        "Traces of simulated nodes are held to the model's actions, and refuse planted bugs",
        "20,000 schedules accepted; 40 planted bugs of the outbox, ids, acks, dedupe and holds refused",
        ("python -m model.trace --schedules 20000", "python -m scripts.planted --traces 100"),
        beside=True,
        fails="a step that no action of the model allows, or planted bugs that no trace tells of",
    ),
    Row(
        "copies",
        "A stage restored from a copy, between kills: Spark reads all that stands in it then, or says so",
        "20 kills, 100,000 messages, 0 unread, 0 times told without reason",
        ("python -m scripts.prove.spark_soak 6 30000 --copies",),
        full=("python -m scripts.prove.spark_soak 20 100000 --copies",),
        fails="a message that stands in the stage and in no table: `1 unread`",
    ),
    Row(
        "shapes",
        "The sink of Spark: jobs that are killed and run again with other partitions, some beside the one before",
        "20 kills, 1,000,000 rows, 0 lost; none twice with `stable` (batches) and `idColumn` (streams)",
        tuple(f"python -m scripts.prove.spark_shapes {how} 3 60000" for how in ("any", "stable", "ids")),
        full=tuple(f"python -m scripts.prove.spark_shapes {how} 20 1000000" for how in ("any", "stable", "ids")),
        fails="a row that no receiver handled: `1 lost`, or one twice where each counts once",
    ),
    Row(
        "handlers",
        "Slow, stuck and dead handlers, and iterators that nobody reads on",
        "from 10 s on the other channels' p99 under twice; a slow one holds back its own peer alone; bounded memory, "
        "over reconnects too; 0 lost",
        _hostile("handlers"),
        waits=True,
        fails="a stuck handler that is not reported, or another channel that waits twice as long",
    ),
    Row(
        "held",
        "A peer that comes back with an empty list, and what waits for it is held",
        "1,000,000 messages of 1 kB: no body is read, 64 MiB at most",
        ("python -m scripts.prove.backlog 1000000 --held",),
        fails="a held body that is read, or more than 64 MiB of memory",
    ),
    Row(
        "abuse",
        "Peers that follow the grammar and abuse it",
        "bounded memory and time, a good peer goes on",
        _hostile("abuse"),
        waits=True,
        fails="an attack with another outcome, or a good peer that waits for the victim",
    ),
    Row(
        "relays",
        "Relays of streams whose subscribers leave, in every way, are cancelled upstream",
        "100,000 on each adapter, no stream, thread or descriptor left; of memory ≤ 1 MiB",
        _hostile("relays", "--size 20000"),
        full=_hostile("relays"),
        fails="a stream, a thread or a descriptor that is left",
    ),
    Row(
        "work",
        "Work queues and calls: workers and their producer killed again and again",
        "1,000 kills, 0 jobs lost, the queue drains, each call has one answer",
        ("python -m scripts.prove.kills work 1000",),
        fails="a job that no worker has finished: `1 lost`, or a call with no answer, or with two",
    ),
    Row(
        "later",
        "Messages that wait for a time or for a subscriber: sender and receiver killed; memory of a million of them",
        "1,000 kills, 0 early, 0 lost, 0 stored twice, 0 overtaken; 1,000,000 messages in 64 MiB at most",
        ("python -m scripts.prove.kills later 40", "python -m scripts.prove.later 100000"),
        full=("python -m scripts.prove.kills later 1000", "python -m scripts.prove.later 1000000"),
        fails="a message before its time: `1 early`, or one that is lost, or stored twice",
    ),
    Row(
        "poison",
        "Messages whose handlers end the process, with good ones before and behind them",
        "1,000 deaths on four adapters, 0 lost, each poison a dead letter after five tries at most",
        ("python -m scripts.prove.kills poison 240",),
        full=("python -m scripts.prove.kills poison 1000",),
        fails="a good message that is lost, or a bad one that ends more than five processes",
    ),
    Row(
        "banks",
        "Two banks with outboxes and inboxes in their own databases, killed before and after each kind of commit",
        "10,000 kills, 0 transfers lost, 0 twice, 0 sent after a rollback, both accounts in balance; without "
        "`inbox.once` there are doubles",
        ("python -m scripts.prove.kills banks 40", "python -m scripts.prove.kills doubles 10"),
        full=("python -m scripts.prove.kills banks 10000", "python -m scripts.prove.kills doubles 10"),
        fails="money that is missing, or there twice: the balances do not match the transfers",
    ),
    Row(
        "local",
        "Four local programs, as the workers of a web server are, and the instance that they hand over to, killed at "
        "random, about each kind of commit and within their calls",
        "200 kills, each call that returned is handled, each message key has one effect",
        ("python -m scripts.prove.kills local 20",),
        full=("python -m scripts.prove.kills local 200",),
        fails="a call that returned and had no effect, or a key with two effects",
    ),
    Row(
        "local-hostile",
        "Hostile programs at the socket of an instance: connections, half frames, drips and floods",
        "10,000 connections at once, honest programs and peers are served, 192 MiB at most",
        ("python -m scripts.prove.local_hostile 2000",),
        full=("python -m scripts.prove.local_hostile 10000",),
        fails="an honest send that is not handled, or more than 192 MiB of memory",
    ),
    Row(
        "restored",
        "The two banks, whose own databases or those of their instances are restored from copies made while they ran",
        "1,000 kills, 0 twice, 0 lost but with what was restored, 0 losses not told, 0 wrong alarms",
        ("python -m scripts.prove.kills restored 20",),
        full=("python -m scripts.prove.kills restored 1000",),
        fails="a loss after a restored copy that no notice names: `1 not told`",
    ),
    Row(
        "ctrl-c",
        "Ctrl-C during each call on threads is caught, and the same instance or streams go on",
        "3,000 times in each of 33 calls, 0 broken",
        ("python -m scripts.prove.kills ctrl-c 3300",),
        full=("python -m scripts.prove.kills ctrl-c 99000",),
        fails="an instance that hangs, or fails, after the interrupt was caught: `1 broken`",
    ),
    Row(
        "rotations",
        "Certificates that live for a minute are rotated under load: by a call, by a signal, by a volume that changes",
        "100 rotations of three instances, 0 lost",
        ("python -m scripts.prove.rotations",),
        waits=True,
        fails="a lost message, or a connection that a rotation ends for good",
    ),
    Row(
        "foreign",
        "We and programs of other layouts killed again and again, on every adapter; networks of their layout",
        "600 kills with Go and Rust of 2026, 0 lost where acks exist; 10,000 schedules, 0 failures",
        ("python -m scripts.prove.kills foreign 240", "python -m scripts.prove.simulate --revision GO_2026 500"),
        full=("python -m scripts.prove.kills foreign 600", "python -m scripts.prove.simulate --revision GO_2026 10000"),
        fails="a message that is lost although the other side acknowledges",
    ),
    Row(
        "matrix",
        "Each peer with each: four adapters, JavaScript, WebAssembly, doubles of Go and Rust (docs/interop.md)",
        "every ordered pair in five scenarios, 0 failed",
        ("python -m interop.matrix --write",),
        full=("python -m interop.matrix --write --kills 50",),
        fails="a pair and a scenario that fails; unsupported is what one of the two has not",
    ),
    Row(
        "pyodide",
        "The core in WebAssembly: its tests, its traces, and a node over the TLS sockets of Node.js",
        "the tests that `make core` watches, 20 seeds of 4 kinds, both roles",
        ("python -m scripts.prove.counted pyodide",),
        fails="a test of the core, or a trace, with another result than in CPython",
    ),
    Row(
        "conform",
        "`tolliver conform` holds against each adapter in both roles, and finds the planted faults of a peer",
        "every case, every fault",
        ("python -m scripts.prove.counted conform -n 2",),
        fails="a case that an adapter does not pass, or a planted fault that no case finds",
    ),
    Row(
        "dissector",
        "Wireshark's dissector reads anything, in every layout",
        "100,000 hostile inputs, no error of the script",
        ("python -m scripts.prove.proofs dissector",),
        fails="an error of the script, shown in Wireshark's column",
    ),
    Row(
        "scale",
        "1,000 nodes and 10,000 subscriptions converge",
        "every list right; cost per node does not grow with their number",
        ("python -m scripts.prove.scale",),
        fails="a list that is wrong, or a cost for each node that grows with their number",
    ),
    Row(
        "run",
        "`tolliver run` under load: kills, restarts, full disks, changed files, copies put back; writers of one file",
        "100 of them, 0 lost, none twice in the stage; 300 kills of three writers, 0 lines lost",
        ("python -m scripts.prove.run_proof 30",),
        full=("python -m scripts.prove.run_proof 100",),
        fails="a message that is in none of the files, or a line that is torn",
    ),
    Row(
        "upgrade",
        "An older commit beside today's: wire, stage and recordings go on both ways; each refuses the other's "
        "database, untouched",
        "0 lost, no database touched",
        ("python -m scripts.prove.upgrade",),
        fails="a message that is missing on the other side, or a foreign database that was changed",
    ),
    Row(
        "pages",
        "The walk-throughs of the documentation, on two machines with names of their own",
        "each step as its page says",
        ("python -m scripts.prove.walk",),
        fails="a step that does not end as its page says",
    ),
)

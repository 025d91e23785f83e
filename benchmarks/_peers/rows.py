"""Table of the measured work: contestants, yardsticks and aims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Aim:
    """Bound of a figure: a number, or so many times another one of the same run."""

    bound: float
    at_least: bool = True
    figure: str = ""
    """The row's own one where it is empty."""

    of_figure: str = ""
    """The bound is so many times this figure of the same contestant."""

    of: str = ""
    """The bound is so many times what this contestant of the row has."""

    stage: str = ""
    """Of the work for which it is the aim; now where it is empty."""


def at_least(bound: float, of: str = "", stage: str = "") -> Aim:
    return Aim(bound, of=of, stage=stage)


def at_most(bound: float, figure: str = "", of_figure: str = "") -> Aim:
    return Aim(bound, False, figure, of_figure)


@dataclass(frozen=True)
class Contestant:
    """A pair of programs, `module:function` of this package."""

    name: str
    here: str
    """Says the figures."""

    there: str = ""
    """Serves; none where only a broker does, or nobody."""

    flood: str = ""
    """A second client that sends all the time; `here` is measured without it, then with it."""

    aims: tuple[Aim, ...] = ()
    needs: tuple[str, ...] = ()
    """Modules."""

    broker: str = ""
    setting: Mapping[str, object] = field(default_factory=dict)
    note: str = ""

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("tolliver")


@dataclass(frozen=True)
class Row:
    """One kind of work."""

    name: str
    title: str
    unit: str
    figure: str
    yardstick: str
    contestants: tuple[Contestant, ...]
    more_is_better: bool = False
    is_hurt_by_nice: bool = False


ASYNCIO, UVLOOP, THREADS, TRIO = "tolliver, asyncio", "tolliver, uvloop", "tolliver, threads", "tolliver, trio"
PLAIN = "tolliver, asyncio, plain"
BARE = "bare asyncio protocol"
WEBSOCKETS = ("websockets",)
PICOWS = ("picows", "uvloop")
BY_SERVER = "counts when the server has answered"


def fire() -> Row:
    return Row(
        "fire",
        "Unreliable: one call and one callback a message",
        "messages/s",
        "rate",
        BARE,
        (
            Contestant(BARE, "bare:count", "bare:fire", note="written 100 at a time, with a parse loop"),
            Contestant(
                ASYNCIO, "ours:count", "ours:fire", aims=(at_least(500_000), at_least(900_000, stage="compiled"))
            ),
            _on(UVLOOP, "uvloop", "ours:count", "ours:fire"),
            Contestant(THREADS, "ours_threads:count", "ours_threads:fire", aims=(at_least(300_000),)),
            Contestant(
                "tolliver, asyncio, messages()", "ours:count_messages", "ours:fire", aims=(at_least(0.9, ASYNCIO),)
            ),
            Contestant("pyzmq", "zeromq:count", "zeromq:fire", needs=("zmq",), note="PUSH to PULL"),
            Contestant("picows, uvloop", "picows_py:count", "picows_py:fire", needs=PICOWS),
            Contestant("websockets", "websocket:count", "websocket:fire", needs=WEBSOCKETS),
            Contestant(
                "nats-py",
                "nats_py:count",
                "nats_py:fire",
                needs=("nats",),
                broker="nats-server",
                note="over nats-server",
            ),
        ),
        more_is_better=True,
    )


def _on(name: str, loop: str, here: str, there: str, aims: tuple[Aim, ...] = ()) -> Contestant:
    return Contestant(name, here, there, aims=aims, needs=(loop,), setting={"loop": loop})


def one() -> Row:
    single = {"way": "one"}
    return Row(
        "one",
        "Reliable: one after the other",
        "messages/s",
        "rate",
        "SQLite FULL, 1 row a commit",
        (
            Contestant("SQLite FULL, 1 row a commit", "bare:store", note="no network; rows are only added"),
            Contestant(
                "SQLite FULL and a blocking socket",
                "bare:store_and_ask",
                "bare:answer_blocking",
                note="a row in, a round trip, and out with the next commit",
            ),
            Contestant(ASYNCIO, "ours:publish", "ours:handle", aims=(at_least(2000),), setting=single),
            Contestant(THREADS, "ours_threads:publish", "ours_threads:handle", aims=(at_least(2300),), setting=single),
            *_redis(1, "one", "RPUSH"),
            _paho(1),
            _jetstream(1),
        ),
        more_is_better=True,
    )


def tasks() -> Row:
    return Row(
        "tasks",
        "Reliable: 1,000 tasks, each with its own send and wait",
        "messages/s",
        "rate",
        "SQLite FULL, 1,000 rows a commit",
        (
            _rows_of_a_commit(),
            Contestant(ASYNCIO, "ours:publish", "ours:handle", aims=(at_least(70_000),), setting={"way": "tasks"}),
            Contestant(
                UVLOOP,
                "ours:publish",
                "ours:handle",
                needs=("uvloop",),
                setting={"way": "tasks", "loop": "uvloop"},
            ),
            _paho(1000),
            _jetstream(1000),
        ),
        more_is_better=True,
    )


def many(outstanding: int, aims: tuple[Aim, ...]) -> Row:
    setting = {"way": "many", "outstanding": outstanding}
    return Row(
        f"many-{outstanding}",
        f"Reliable: batches, {outstanding:,} outstanding",
        "messages/s",
        "rate",
        "SQLite FULL, 1,000 rows a commit",
        (
            _rows_of_a_commit(),
            Contestant(ASYNCIO, "ours:publish", "ours:handle", aims=aims, setting=setting, note="send_many"),
            Contestant(THREADS, "ours_threads:publish", "ours_threads:handle", setting=setting, note="send_many"),
            *_redis(outstanding, "pipeline", "a pipeline of RPUSH"),
            *_redis(outstanding, "values", "RPUSH of all of them"),
            _paho(outstanding),
            _jetstream(outstanding),
        ),
        more_is_better=True,
    )


def _rows_of_a_commit() -> Contestant:
    return Contestant(
        "SQLite FULL, 1,000 rows a commit",
        "bare:store",
        setting={"outstanding": 1000},
        note="no network; rows are only added",
    )


def _redis(outstanding: int, way: str, how: str) -> tuple[Contestant, ...]:
    return tuple(
        Contestant(
            f"redis, fsync {when}{', one command' if way == 'values' else ''}",
            "redis_py:publish",
            needs=("redis",),
            broker=f"redis-server {when}",
            setting={"outstanding": outstanding, "way": way},
            note=f"{how}; {BY_SERVER}",
        )
        for when in ("always", "everysec")
    )


def _paho(outstanding: int) -> Contestant:
    return Contestant(
        "paho-mqtt QoS 1",
        "mqtt:publish",
        needs=("paho",),
        broker="mosquitto",
        setting={"outstanding": outstanding},
        note=f"no fsync; {BY_SERVER}",
    )


def _jetstream(outstanding: int) -> Contestant:
    return Contestant(
        "nats-py JetStream",
        "nats_py:publish",
        needs=("nats",),
        broker="nats-server",
        setting={"outstanding": outstanding},
        note=f"no fsync; {BY_SERVER}",
    )


def round_trip() -> Row:
    def aims(p50: float) -> tuple[Aim, ...]:
        return at_most(p50), at_most(2.5, "p99", "p50")

    return Row(
        "round-trip",
        "Round trip through callbacks",
        "us",
        "p50",
        BARE,
        (
            Contestant(BARE, "bare:ask", "bare:answer"),
            Contestant("bare blocking socket", "bare:ask_blocking", "bare:answer_blocking"),
            Contestant(ASYNCIO, "ours:ask", "ours:answer", aims=aims(150)),
            Contestant(PLAIN, "ours:ask", "ours:answer", setting={"plaintext": True}),
            _on(UVLOOP, "uvloop", "ours:ask", "ours:answer", aims(120)),
            Contestant(THREADS, "ours_threads:ask", "ours_threads:answer", aims=aims(130)),
            _on(TRIO, "trio", "ours:ask", "ours:answer"),
            Contestant("picows, uvloop", "picows_py:ask", "picows_py:answer", needs=PICOWS),
            Contestant("pyzmq", "zeromq:ask", "zeromq:answer", needs=("zmq",), note="PAIR, blocking"),
            Contestant("websockets", "websocket:ask", "websocket:answer", needs=WEBSOCKETS),
            Contestant(
                "nats-py",
                "nats_py:ask",
                "nats_py:answer",
                needs=("nats",),
                broker="nats-server",
                note="over nats-server",
            ),
        ),
    )


def request() -> Row:
    callbacks = "tolliver, asyncio, callbacks"
    return Row(
        "request",
        "Request and its reply",
        "us",
        "p50",
        callbacks,
        (
            Contestant(callbacks, "ours:ask", "ours:answer", note="a round trip of bare unreliable messages"),
            Contestant(
                ASYNCIO,
                "ours:request",
                "ours:respond",
                aims=(Aim(2.2, False, of=callbacks), Aim(1.0, False, of="nats-py")),
            ),
            Contestant(PLAIN, "ours:request", "ours:respond", setting={"plaintext": True}),
            _on(UVLOOP, "uvloop", "ours:request", "ours:respond"),
            Contestant(THREADS, "ours_threads:request", "ours_threads:respond"),
            _on(TRIO, "trio", "ours:request", "ours:respond"),
            Contestant(
                "nats-py",
                "nats_py:request",
                "nats_py:respond",
                needs=("nats",),
                broker="nats-server",
                note="`request` and `respond`, over nats-server",
            ),
        ),
    )


def streams(size: int, window: int, aim: Aim) -> Row:
    setting = {"size": size, "window": window}
    threads, plain = "tolliver, threads, plain", {**setting, "plaintext": True}
    return Row(
        f"streams-{size}-{window}",
        f"Streams: {size:,} bytes, window {window:,}",
        "elements/s",
        "rate",
        "rsocket-py",
        (
            Contestant(
                "rsocket-py", "streams:take_rsocket", "streams:give_rsocket", needs=("rsocket",), setting=setting
            ),
            Contestant(ASYNCIO, "streams:take", "streams:give", aims=(aim,), setting=setting),
            Contestant(PLAIN, "streams:take", "streams:give", setting=plain),
            Contestant(threads, "streams:take_blocking", "streams:give_blocking", setting=plain),
        ),
        more_is_better=True,
    )


def imports() -> Row:
    def of(name: str, modules: str, aims: tuple[Aim, ...] = (), needs: tuple[str, ...] = ()) -> Contestant:
        return Contestant(name, "costs:imports", aims=aims, needs=needs, setting={"modules": modules})

    return Row(
        "import",
        "Import",
        "ms",
        "ms",
        "asyncio, ssl, sqlite3",
        (
            of("asyncio, ssl, sqlite3", "asyncio, ssl, sqlite3"),
            of("tolliver_proto", "tolliver_proto", (at_most(15),)),
            of("tolliver.anyio", "tolliver.anyio", (at_most(60),)),
            of("tolliver.blocking", "tolliver.blocking", (at_most(55),)),
            *(
                of(f"{name}, with create_instance", f"{name}; {name}.create_instance")
                for name in ("tolliver.anyio", "tolliver.blocking")
            ),
            of("pyzmq", "zmq", needs=("zmq",)),
            of("websockets", "websockets.asyncio.client, websockets.asyncio.server", needs=WEBSOCKETS),
            of("nats-py", "nats", needs=("nats",)),
        ),
    )


def memory() -> Row:
    return Row(
        "memory",
        "Memory of an idle TLS connection, asyncio",
        "KiB",
        "kib",
        BARE,
        (
            Contestant(BARE, "costs:connect_bare", "costs:be_connected_bare"),
            Contestant(ASYNCIO, "costs:connect_peers", "costs:be_connected", aims=(at_most(40),)),
            Contestant(
                "websockets",
                "costs:connect_websockets",
                "websocket:idle",
                needs=WEBSOCKETS,
                note="over TLS in this row",
            ),
        ),
    )


def fairness() -> Row:
    def of(name: str, module: str, needs: tuple[str, ...] = (), aims: tuple[Aim, ...] = ()) -> Contestant:
        return Contestant(name, f"{module}:ask", f"{module}:answer", f"{module}:flood", aims, needs)

    return Row(
        "fairness",
        "Fairness: p99 of a round trip beside a flood on another connection",
        "times quiet p99",
        "times",
        BARE,
        (
            of(BARE, "bare"),
            of(ASYNCIO, "ours", aims=(at_most(2),)),
            of(THREADS, "ours_threads", aims=(at_most(2),)),
            of("websockets", "websocket", WEBSOCKETS),
        ),
        is_hurt_by_nice=True,
    )


ROWS = (
    fire(),
    one(),
    tasks(),
    many(1000, (at_least(200_000), at_least(300_000, stage="later"))),
    many(10_000, ()),
    round_trip(),
    request(),
    streams(100, 4096, at_least(1_615_000)),
    streams(100, 16, at_least(200_000)),
    *(streams(10_000, window, at_least(3, "rsocket-py")) for window in (16, 256, 4096)),
    imports(),
    memory(),
    fairness(),
)

"""Typed bodies in the simulator for programs: crashes and restarts of both ends, and bodies that have no value."""

from __future__ import annotations

from collections.abc import Callable

from tolliver.codecs import Json, TypedDelivery, decoding

from tests.codecs.kinds import Reading
from tolliver_proto import Limits
from tolliver_proto.testing import App, ProgramNet, rehearse

READINGS = Json(Reading)
WANTED = [Reading(percent) for percent in range(5)]


def story(net: ProgramNet) -> Callable[[], bool]:
    seen: list[Reading] = []

    def sender(app: App) -> None:
        def offer() -> None:
            if app.disk.get("sent") or app.subscribed("readings") < 2:
                return
            items = [("readings", "", READINGS.encode(one)) for one in WANTED]
            receipt = app.send_many([*items, ("readings", "", b"poison")])
            app.when_stored(receipt, lambda error: error is None and app.disk.update(sent=True))

        app.every(1.0, offer)

    def receiver(app: App) -> None:
        def on_reading(delivery: TypedDelivery[Reading]) -> None:
            seen.append(delivery.value)

        app.register_callback("readings", "", decoding(READINGS, on_reading))

    def settling(app: App) -> None:
        def on_reading(delivery: TypedDelivery[Reading]) -> None:
            app.later(0.5, delivery.ack)

        app.register_callback("readings", "", decoding(READINGS, on_reading), settles=True)

    net.instance("receiver", receiver, subscriptions=[("readings", "")], limits=Limits(max_attempts=3))
    net.instance("settling", settling, subscriptions=[("readings", "")], limits=Limits(max_attempts=3))
    net.instance("sender", sender, remotes=["receiver", "settling"])
    return lambda: all(one in seen for one in WANTED)


def test_every_value_comes_and_nonsense_stops_nobody() -> None:
    rehearse(story, seeds=range(10))


def queue(net: ProgramNet) -> Callable[[], bool]:
    done: list[Reading] = []

    def boss(app: App) -> None:
        jobs = app.work_queue("readings")
        if not app.disk.get("put"):
            bodies = [("", b"poison"), *(("", READINGS.encode(one)) for one in WANTED)]
            app.when_stored(jobs.put_many(bodies), lambda error: error is None and app.disk.update(put=True))

    def worker(app: App) -> None:
        def work(job: TypedDelivery[Reading]) -> None:
            done.append(job.value)

        app.work("readings", decoding(READINGS, work), concurrency=2)

    for name in ("one", "other"):
        net.instance(name, worker, limits=Limits(max_attempts=3))
    net.instance("boss", boss, remotes=["one", "other"])
    return lambda: all(one in done for one in WANTED)


def test_every_job_is_done_but_for_what_has_no_value() -> None:
    rehearse(queue, seeds=range(10))

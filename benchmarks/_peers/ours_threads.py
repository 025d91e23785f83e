"""Our messaging on threads."""

from __future__ import annotations

import threading
import time
from typing import Any

from tolliver.blocking import Instance, create_instance

from benchmarks._peers.measuring import BODY, FLOOD, HOST, Meter, RoundTrips, Setting, counter, say, serving
from benchmarks._peers.ours import LANES, options


def wait() -> None:
    threading.Event().wait()


def send_on_and_on(instance: Instance, body: bytes) -> None:
    while True:
        if not instance.unreliable_send("bench", "", body):
            time.sleep(0)


def fire(setting: Setting) -> None:
    with create_instance(options(setting, "there")) as instance:
        serving(instance.port or 0)
        instance.wait_subscribed("bench")
        send_on_and_on(instance, BODY)


def count(setting: Setting) -> None:
    with create_instance(options(setting, "here")) as instance:
        instance.subscribe("bench", "", counter(setting.seconds))
        instance.new_connection(f"{HOST}:{setting.port}")
        wait()


def answer(setting: Setting) -> None:
    with create_instance(options(setting, "there")) as instance:

        def echo(delivery: Any) -> None:
            instance.unreliable_send("pong", "", delivery.body)

        instance.subscribe("ping", "", echo)
        instance.subscribe("bench", "", lambda _delivery: None)
        serving(instance.port or 0)
        wait()


def ask(setting: Setting) -> None:
    with create_instance(options(setting, "here")) as instance:
        trips = RoundTrips(setting, lambda: instance.unreliable_send("ping", "", BODY))
        instance.subscribe("pong", "", trips.answered)
        instance.new_connection(f"{HOST}:{setting.port}")
        instance.wait_subscribed("ping")
        trips.begin()
        wait()


def respond(setting: Setting) -> None:
    with create_instance(options(setting, "there")) as instance:
        instance.respond("ask", lambda request: request.body)
        serving(instance.port or 0)
        wait()


def request(setting: Setting) -> None:
    with create_instance(options(setting, "here")) as instance:
        instance.new_connection(f"{HOST}:{setting.port}")
        instance.request("ask", BODY)
        trips = RoundTrips(setting, lambda: None)
        trips.begin()
        while True:
            instance.request("ask", BODY)
            trips.answered()


def flood(setting: Setting) -> None:
    with create_instance(options(setting, "flooder")) as instance:
        instance.new_connection(f"{HOST}:{setting.port}")
        instance.wait_subscribed("bench")
        say({})
        send_on_and_on(instance, FLOOD)


def handle(setting: Setting) -> None:
    with create_instance(options(setting, "there")) as instance:
        if setting.way == "many":
            runs = instance.message_runs("bench")
            serving(instance.port or 0)
            for run in runs:
                run.ack()
        instance.subscribe("bench", "", lambda _delivery: None)
        serving(instance.port or 0)
        wait()


def publish(setting: Setting) -> None:
    meter = Meter(setting.seconds)
    with create_instance(options(setting, "here")) as instance:
        instance.new_connection(f"{HOST}:{setting.port}")
        instance.wait_subscribed("bench")
        if setting.way == "many":
            batch = [("bench", "", BODY)] * (setting.outstanding // LANES)
            lock = threading.Lock()

            def lane() -> None:
                while True:
                    instance.wait_acked(instance.send_many(batch))
                    with lock:
                        meter.add(len(batch))

            for _ in range(LANES):
                threading.Thread(target=lane, daemon=True).start()
            wait()
        while True:
            instance.wait_acked(instance.send("bench", "", BODY))
            meter.add()

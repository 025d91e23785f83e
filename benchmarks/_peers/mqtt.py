"""paho-mqtt over mosquitto, QoS 1."""

from __future__ import annotations

import threading
from typing import Any

from paho.mqtt import client
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks._peers.measuring import BODY, HOST, Meter, Setting


def publish(setting: Setting) -> None:
    """One after the other, or with so many outstanding; the broker's answer counts."""
    meter, connected = Meter(setting.seconds), threading.Event()
    publisher = client.Client(CallbackAPIVersion.VERSION2)
    publisher.max_inflight_messages_set(setting.outstanding)
    publisher.max_queued_messages_set(0)
    publisher.on_connect = lambda *_: connected.set()
    publisher.connect(HOST, setting.broker)
    publisher.loop_start()
    connected.wait(10)
    while setting.outstanding == 1:
        publisher.publish("bench", BODY, qos=1).wait_for_publish()
        meter.add()

    def on_publish(*_: Any) -> None:
        meter.add()
        publisher.publish("bench", BODY, qos=1)

    publisher.on_publish = on_publish
    for _ in range(setting.outstanding):
        publisher.publish("bench", BODY, qos=1)
    threading.Event().wait()

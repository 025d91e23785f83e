"""pyzmq: PUSH to PULL, and PAIR to PAIR."""

from __future__ import annotations

import zmq

from benchmarks._peers.measuring import BODY, HOST, RoundTrips, Setting, counter, serving


def fire(_setting: Setting) -> None:
    socket = zmq.Context().socket(zmq.PUSH)
    serving(socket.bind_to_random_port(f"tcp://{HOST}"))
    while True:
        socket.send(BODY)


def count(setting: Setting) -> None:
    socket, count_one = zmq.Context().socket(zmq.PULL), counter(setting.seconds)
    socket.connect(f"tcp://{HOST}:{setting.port}")
    while True:
        count_one(socket.recv())


def answer(_setting: Setting) -> None:
    socket = zmq.Context().socket(zmq.PAIR)
    serving(socket.bind_to_random_port(f"tcp://{HOST}"))
    while True:
        socket.send(socket.recv())


def ask(setting: Setting) -> None:
    socket = zmq.Context().socket(zmq.PAIR)
    socket.connect(f"tcp://{HOST}:{setting.port}")
    trips = RoundTrips(setting, lambda: socket.send(BODY))
    trips.begin()
    while True:
        trips.answered(socket.recv())

"""Actions of a machine: each has one function in the driver."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from tolliver._driver.driver import Driver
from tolliver.blocking import InstanceOptions, StreamsOptions, create_instance, create_streams

from tolliver_proto import Action
from tolliver_proto.reactive import Action as StreamsAction


def carried_out(driver: Driver) -> set[type]:
    return set(driver._apply)


def test_every_action_of_a_node_is_carried_out(tmp_path: Path) -> None:
    with create_instance(InstanceOptions(database=tmp_path / "node.db", plaintext=True)) as instance:
        assert carried_out(instance._core._driver) == set(get_args(Action))


def test_every_action_of_a_hub_is_carried_out() -> None:
    with create_streams(StreamsOptions(plaintext=True)) as streams:
        assert carried_out(streams._core._driver) == set(get_args(StreamsAction))

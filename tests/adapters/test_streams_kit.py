"""Completeness of the rule tables, against the conformance kit (V24)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.reactive import kit, test_rules

from . import test_streams_publisher, test_streams_relay, test_streams_subscriber
from .kinds import KINDS

pytestmark = pytest.mark.thorough
ALL = {*kit.TESTED, *kit.UNTESTED}
TABLES = (test_streams_publisher.RULES, test_streams_subscriber.RULES, test_streams_relay.RULES)


def on_engines(mark: str) -> set[str]:
    named = {
        one.kit.partition(" ")[0] for one in test_rules.RULES if any(layer.startswith(mark) for layer in one.layers)
    }
    relay = {name for names in test_rules.RELAY.values() for name in names}
    return named | (relay if mark == "pair" else set())


def on_adapters(kind: str) -> set[str]:
    return {
        name
        for table in TABLES
        for case in table.values()
        if kind in case.kinds
        for rule in case.rules
        for name in rule.kit
    }


@pytest.mark.parametrize(
    ("verification", "counts"),
    [
        ("PublisherVerification", {"required": 22, "optional": 8, "stochastic": 1, "untested": 7}),
        ("SubscriberWhiteboxVerification", {"required": 14, "untested": 13}),
        ("SubscriberBlackboxVerification", {"required": 11, "untested": 15}),
    ],
)
def test_the_list_has_as_many_names_as_the_kit(verification: str, counts: dict[str, int]) -> None:
    assert Counter(name.partition("_")[0] for name in kit.KIT[verification]) == counts


def test_there_are_59_tests_and_20_untested_rules() -> None:
    assert len(kit.KIT["IdentityProcessorVerification"]) == 3
    assert (len(kit.TESTED), len({*kit.TESTED}), len({*kit.UNTESTED})) == (59, 59, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_shows_all_of_them(kind: str) -> None:
    assert on_adapters(kind) == ALL


def test_engines_show_all_but_what_they_cannot() -> None:
    assert on_engines("bare") == ALL - kit.NOT_ON_ONE_ENGINE.keys()
    assert on_engines("pair") == ALL - kit.NOT_IN_A_PAIR.keys()


def test_every_rule_of_the_specification_has_a_test() -> None:
    last = {1: 11, 2: 13, 3: 17, 4: 2}
    shown = {rule.rule for table in TABLES for case in table.values() for rule in case.rules}
    shown |= {one.rule for one in test_rules.RULES} | {kit.rule_of(name) for name in ALL} - {""}
    assert shown == {f"{part}.{number}" for part in last for number in range(1, last[part] + 1)}

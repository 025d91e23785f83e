"""Records of the core: all that the standard dataclasses give, with less to compile."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import pytest

import tolliver_proto
from tolliver_proto import Limits, Message, node, store
from tolliver_proto._common.records import frozen, options, record


@record
class Open:
    """One that nobody changes."""

    first: int
    second: str = "two"


@frozen
class Closed:
    """One that nobody can change."""

    first: int
    second: str = field(default="two", repr=False, compare=False)
    third: dict[str, int] = field(default_factory=dict, hash=False)


@options
class Chosen:
    """One by names."""

    first: int = 1


@frozen
class Silent:
    """One with words of its own."""

    first: int

    def __repr__(self) -> str:
        return "silent"


@frozen
class Compiled:
    """One with a property whose function has no code to look into, as those of compiled modules (Python 3.13.1)."""

    first: int
    other_name = property(attrgetter("first"))


ONES: tuple[Callable[[], Any], ...] = (lambda: Open(1), lambda: Closed(1), lambda: Chosen(first=1))


@pytest.mark.parametrize("make", ONES)
def test_they_are_what_their_fields_are(make: Callable[[], Any]) -> None:
    one = make()
    assert one == make()
    assert hash(one) == hash(make())
    assert one != replace(one, first=2)
    assert one != object()
    assert not hasattr(one, "__dict__")
    assert type(one).__match_args__ == (() if isinstance(one, Chosen) else tuple(each.name for each in fields(one)))
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert again == one
        assert again is not one


def test_they_show_themselves() -> None:
    assert repr(Open(1)) == "Open(first=1, second='two')"
    assert repr(Closed(1)) == "Closed(first=1, third={})"
    assert repr(Chosen()) == "Chosen(first=1)"
    assert repr(Silent(1)) == "silent"


def test_compiled_properties_stay() -> None:
    assert Compiled(1).other_name == 1


def test_fields_that_do_not_compare() -> None:
    assert Closed(1, "two") == Closed(1, "zwei")
    assert hash(Closed(1, "two", {"three": 3})) == hash(Closed(1, "zwei", {}))
    assert Closed(1, third={"three": 3}) != Closed(1)


@pytest.mark.parametrize("one", [Closed(1), Chosen(), Limits()])
def test_those_of_programs_are_frozen(one: Any) -> None:
    name = fields(one)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError):
        delattr(one, name)


def test_they_match() -> None:
    match Message("channel", "key", b"body", 1):
        case Message("channel", key, body, message_id):
            assert (key, body, message_id) == ("key", b"body", 1)
        case _:
            raise AssertionError("it did not match")


def test_options_want_names() -> None:
    with pytest.raises(TypeError):
        Chosen(1)  # type: ignore[call-arg]  # so says the type checker


def arguments(kind: type) -> list[tuple[str, object, object]]:
    """Those of its constructor, without their types, which a compiled one does not tell."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(kind).parameters.values()]


@pytest.mark.parametrize("name", ["Message", "Limits", "Policy", "PeerIdentity", "LoadedPeer", "Commit", "NodeStats"])
def test_public_ones_are_built_and_shown_as_dataclasses_are(name: str) -> None:
    kind = next(getattr(door, name) for door in (tolliver_proto, node, store) if name in door.__all__)
    own = {one.name: one for one in fields(kind)}
    namespace = {
        "__annotations__": {each: one.type for each, one in own.items()},
        **{
            each: field(default=one.default, default_factory=one.default_factory, repr=one.repr)
            for each, one in own.items()
        },
    }
    twin: Any = dataclass(kw_only=all(one.kw_only for one in own.values()))(type(name, (), namespace))
    assert arguments(kind) == arguments(twin)
    given = {each: number for number, (each, one) in enumerate(own.items()) if name not in ("Limits", "Policy")}
    assert repr(kind(**given)) == repr(twin(**given))

"""Files of `vectors/`: their schema, their ids, and rulings without a case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cases import VECTORS
from tests.test_rulings import cited, defined
from tolliver_proto import Limits, reactive

FILES = sorted(VECTORS.glob("*/*.json"))
SCHEMA = json.loads((VECTORS / "schema.json").read_text("utf-8"))
NOT_OF_THE_WIRE = {
    "C5": "an API",
    "D-1": "TLS",
    "D-2": "TLS",
    "D-4": "rules of an operator",
    "D-5": "rules of an operator",
    "D-7": "a number of connections",
    "D-8": "options of sockets",
    "D-9": "memory",
    "D-10": "a quota on disk",
    "D-13": "files",
    "D-14": "logs and terminals",
    "D-15": "options",
    "D-16": "processes",
    "D-17": "files",
    "D-18": "rights on one machine",
    "D-19": "users of one machine",
    "R-32": "how much is pulled",
    "T-54": "an API",
    "T-73": "an API",
    "T-74": "TLS",
    "T-75": "an API",
    "T-76": "times of dials",
    "T-77": "an API",
    "T-78": "a port",
    "T-79": "processes",
}
"""Rulings that no bytes show, each with its matter."""


def content(path: Any) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_is_as_the_schema_says(path: Any) -> None:
    found = content(path)
    wrong = [f"{one.json_path}: {one.message:.200}" for one in Draft202012Validator(SCHEMA).iter_errors(found)]
    assert wrong == []
    assert (found["protocol"], found["kind"]) == (path.parent.name, path.stem)
    ids = [case["id"] for case in found["cases"]]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize(
    ("file", "broken"),
    [
        ("messages/frame", {"bytes": "0g"}),
        ("messages/frame", {"level": "may"}),
        ("messages/frame", {"layouts": ["DRAFT_3"]}),
        ("messages/frames", {"error": {"class": "closed", "code": "x", "at": 0}}),
        ("messages/connection", {"steps": [{"in": "00", "end": True}]}),
        ("messages/instance", {"role": "server"}),
        ("streams/frame", {"layouts": ["DRAFT_1"]}),
        ("streams/unwritable", {"frame": {"frame": "ping"}}),
    ],
)
def test_the_schema_refuses(file: str, broken: dict[str, Any]) -> None:
    found = content(VECTORS / f"{file}.json")
    found["cases"][0] |= broken
    assert not Draft202012Validator(SCHEMA).is_valid(found)


def test_every_ruling_of_the_wire_has_a_case() -> None:
    shown = {ruling for path in FILES for case in content(path)["cases"] for ruling in case["rulings"]}
    assert shown - defined() == set()
    assert shown & NOT_OF_THE_WIRE.keys() == set()
    rulings = {ruling for ruling in defined() if ruling[0] in "CTRD"}
    assert rulings - shown == NOT_OF_THE_WIRE.keys()


def test_the_cases_are_many(record_property: Callable[[str, object], None]) -> None:
    """Of each layout; each case counts once, in however many layouts it holds."""
    cases = [(path.parent.name, case) for path in FILES for case in content(path)["cases"]]
    assert len(cases) >= 300
    layouts = {layout for protocol, case in cases if protocol == "messages" for layout in case["layouts"]}
    assert layouts == {*SCHEMA["$defs"]["layout"]["enum"]}
    record_property("V1 cases", len(cases))


def test_the_page_names_every_file() -> None:
    page = (VECTORS / "README.md").read_text("utf-8")
    for path in FILES:
        assert f"`*/{path.name}`" in page or f"`{path.parent.name}/{path.name}`" in page
    assert cited(page) <= defined()


def test_the_page_has_the_limits_and_habits() -> None:
    page = (VECTORS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d*) ?\| (\d*) ?\| ", page, re.MULTILINE)
    told: dict[str, dict[str, int]] = {"messages": {}, "streams": {}}
    for name, of_messages, of_streams in rows:
        for protocol, default in (("messages", of_messages), ("streams", of_streams)):
            if default:
                told[protocol][name] = int(default)
    for protocol, limits in (("messages", Limits()), ("streams", reactive.Limits())):
        assert told[protocol] == {name: getattr(limits, name) for name in told[protocol]}
    for path in FILES:
        for case in content(path)["cases"]:
            assert case.get("options", {}).get("limits", {}).keys() <= told[path.parent.name].keys()
    assert set(SCHEMA["$defs"]["dialect"]["properties"]) <= set(re.findall(r"`(\w+)`", page))

"""Page of the Tolliver protocol: its rulings and its vectors."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from tolliver_proto import Connection, Decoder, Established, Message, Revision, Role, decode

from .vectors import D1, D2, VECTORS

ROOT = Path(__file__).parents[2]
PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
RULINGS = [
    *(f"C{number}" for number in range(1, 7)),
    *(f"T-{number:02}" for number in [*range(1, 13), *range(19, 35), *range(40, 58), *range(60, 81)]),
    "T-72a",
]


def test_every_ruling_has_a_row() -> None:
    rows = re.findall(r"^\| <a id=\S+></a>(C\d|T-\d\da?) \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(RULINGS)


def test_the_tests_that_the_page_of_other_programs_names_are_there() -> None:
    page = (ROOT / "docs" / "foreign.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for path, test in named:
        assert not test or f"\ndef {test}(" in (ROOT / path).read_text("utf-8"), (path, test)
        assert (ROOT / path).exists()


def test_the_vectors_are_those_that_are_tested() -> None:
    rows = re.findall(r"^\| .+ \| ([12, ]+|[A-Z0-9_, ]+) \| `([0-9a-f]+)` \|$", PAGE, re.MULTILINE)
    names = {"1": D1, "2": D2} | {revision.name: revision for revision in Revision}
    on_page = [(names[layout], bytes.fromhex(text)) for layouts, text in rows for layout in layouts.split(", ")]
    assert {*on_page} <= {(vector.revision, vector.data) for vector in VECTORS}
    assert {layout for layout, _ in on_page} == {*Revision}
    for revision, data in on_page:
        assert len(decode(data, revision)) == 1


def conversation(name: str) -> list[tuple[str, bytes]]:
    """Writes of a drawn table, each with its side."""
    section = PAGE.split(f"<!-- drawn: {name} -->")[1].split("<!-- end -->")[0]
    return [(who, bytes.fromhex(text)) for who, text in re.findall(r"^\| \d+ \| ([AB]) \| `(\w+)` \|", section, re.M)]


@pytest.mark.parametrize(("name", "rows"), [("messages", 11), ("versions", 3)])
def test_each_write_of_a_conversation_is_one_frame(name: str, rows: int) -> None:
    writes = conversation(name)
    assert len(writes) == rows
    decoders = {side: Decoder(Revision.DRAFT_2) for side in "AB"}
    for side, data in writes:
        decoders[side].feed(data[:-1])
        assert decoders[side].next_frame() is None
        decoders[side].feed(data[-1:])
        assert decoders[side].next_frame() is not None
        assert decoders[side].next_frame() is None


def test_a_request_and_a_message_in_one_write_are_taken_with_the_same_version() -> None:
    """As the page says of a client that does not wait for its response."""
    data = b"".join(data for side, data in conversation("messages") if side == "A")
    server = Connection(Role.SERVER, instance_id=UUID("01890000-0000-7000-8000-000000000002"))
    server.receive_data(data)
    server.next_event()
    server.accept()
    kinds = [type(event) for event in server.events()]
    assert kinds[:2] == [Established, Message]

"""Proofs by number of runs (V6, V15, V17, V20, V21).

`scripts/prove/proofs.py` runs many more of each.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tolliver_proto._node.links.handshakes import Handshakes
from tolliver_proto._node.lists.control_sync import ControlSync
from tolliver_proto._node.outboxes.outbox import Window

from . import proofs

Record = Callable[[str, object], None]


@pytest.mark.parametrize(
    ("prove", "runs"),
    [(proofs.converge, 100), (proofs.cross, 40), (proofs.wrap, 1), (proofs.clocks, 40)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_many(prove: Callable[[int], None], runs: int, record_property: Record) -> None:
    for seed in range(runs):
        try:
            prove(seed)
        except AssertionError as error:
            raise AssertionError(f"{prove.__name__}({seed}): {error}") from error
    record_property(f"runs of {prove.__name__}", runs)


def test_a_crash_at_every_store_call(record_property: Record) -> None:
    """V6: each single point; `scripts/prove/proofs.py crash` tries every pair, too."""
    points = proofs.crash_points()
    assert len(points) > 60
    for point in points:
        try:
            proofs.scenario({point})
        except AssertionError as error:
            raise AssertionError(f"scenario({{{point}}}): {error}") from error
    record_property("crash points", len(points))


# Each can fail.


def test_replayed_control_messages_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that is sent while another change of it is under way can arrive in the wrong order (T-29)."""

    def forgetful(control: ControlSync, wire_id: int) -> None:
        control._frames.pop(wire_id, None)

    monkeypatch.setattr(ControlSync, "acked", forgetful)
    with pytest.raises(AssertionError):
        list(map(proofs.converge, range(50)))


def test_a_wrong_choice_between_two_connections_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """First wins on both sides is another one on each (T-70)."""
    monkeypatch.setattr(Handshakes, "_keeps", lambda *_: True)
    with pytest.raises(AssertionError):
        list(map(proofs.cross, range(100)))


def test_a_row_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read back from the store: what was owed before the crash is never sent."""
    monkeypatch.setattr(Window, "next_fetch", lambda _: None)
    with pytest.raises(AssertionError):
        [proofs.scenario({point}) for point in proofs.crash_points()]

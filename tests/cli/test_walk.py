"""Pages whose steps are typed on machines of their own, and what befalls `tolliver run` under load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.prove import run_proof, walk

DOCS = Path(__file__).parents[2] / "docs"
OBSTACLE = walk.obstacle()


@pytest.mark.parametrize("page", [page for pages in walk.WALKS for page in pages])
def test_every_block_of_a_walk_is_a_step_of_it(page: str) -> None:
    text, steps = (DOCS / page).read_text("utf-8"), walk.steps(DOCS / page)
    typed = [step.typed for step in steps if step.typed not in ("stop", "kill", "tolliver init")]
    assert typed == re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len({step.machine for step in steps}) <= 2


@pytest.mark.thorough
@pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")
@pytest.mark.parametrize("pages", walk.WALKS, ids=lambda pages: pages[0])
def test_a_walk_goes_as_its_pages_say(pages: tuple[str, ...]) -> None:
    assert walk.walk([DOCS / page for page in pages]) > 5


@pytest.mark.thorough
def test_nothing_is_lost_whatever_befalls_it(tmp_path: Path) -> None:
    counts = run_proof.prove(tmp_path, 5, 1)
    assert counts["messages"] > 0
    assert (counts["lost"], counts["unexpected"], counts["twice staged"]) == (0, 0, 0)

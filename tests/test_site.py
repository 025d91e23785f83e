"""Site of the documentation: each page stands in its navigation once, and the reference has every public name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from scripts.release import docs, reference
from scripts.rooms import FLOORS, ROOT


@cache
def settings() -> dict[str, Any]:
    """Made for the first test that asks: all public names are read for it, which takes seconds."""
    project: dict[str, Any] = tomllib.loads(docs.with_reference((ROOT / "zensical.toml").read_text("utf-8")))["project"]
    return project


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the site is built from."""
    into = tmp_path_factory.mktemp("site") / "docs"
    docs.written(into)
    return into


def navigation(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for below in entries.values():
            yield from navigation(below)
    else:
        for below in entries:
            yield from navigation(below)


def test_every_page_stands_once_in_the_navigation(pages: Path) -> None:
    listed = [*navigation(settings()["nav"])]
    assert sorted(listed) == sorted(str(path.relative_to(pages)) for path in pages.rglob("*.md"))


def test_the_navigation_has_four_parts() -> None:
    assert [name for part in settings()["nav"] for name in part] == ["Learn", "Do", "Look up", "Understand"]


def test_every_public_name_is_in_the_reference(pages: Path) -> None:
    """Each is told on one page, and has a row and an anchor under every module that offers it."""
    doors = {room.name for floor in FLOORS for room in floor if "._" not in room.name}
    assert {*reference.MODULES} == doors - {"tolliver.cli", "pyspark_tolliver"}
    texts = {path.name: path.read_text("utf-8") for path in (pages / "reference").glob("*.md")}
    for module in reference.MODULES:
        for public in import_module(module).__all__:
            name, _, anchor = reference.place(module, public).partition("#")
            assert f"::: {anchor}\n" in texts[name]
            assert f"({name}#{anchor})" in texts["index.md"]
            assert anchor == f"{module}.{public}" or f'<a id="{module}.{public}">' in texts[f"{module}.md"]


def test_a_module_begins_with_what_opens_it() -> None:
    for module in ("tolliver.anyio", "tolliver.twisted", "tolliver.blocking"):
        assert reference.parts(module)[0].names[0] == "create_instance"


def test_every_command_and_option_is_in_the_reference(pages: Path) -> None:
    page = (pages / "reference/command-line.md").read_text("utf-8")
    assert {"tolliver listen", "tolliver send", "tolliver certs"} <= {*re.findall(r"^##+ (.+)$", page, re.MULTILINE)}
    assert "--quota-policies" in page
    assert "--expire" in page or "--peer" in page


def test_links_of_pages_lead_to_pages_of_the_site(pages: Path) -> None:
    for path in pages.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
            assert re.match(r"[a-z]+:", target) or (path.parent / target).exists(), f"{path.name}: {target}"


def test_programs_that_read_find_each_page_in_one_line(pages: Path) -> None:
    lines = (pages / "llms.txt").read_text("utf-8").splitlines()
    assert lines[:3] == ["# tolliver", "", f"> {settings()['site_description']}"]
    found = [re.fullmatch(r"- \[.+?\]\((\S+)\.html\): (\S.{20,})", line) for line in lines if line.startswith("- ")]
    places = [one[1] for one in found if one]
    assert len(places) == len(found)
    assert {*places} >= {path.stem for path in pages.glob("*.md")}
    assert [place for place in places if not (pages / f"{place}.md").is_file()] == []


def test_something_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="x" href="https://example.org/a.css"><a href="https://example.org">b</a>'
    )
    (tmp_path / "b.html").write_text('<script src="assets/a.js"></script>')
    assert docs.from_elsewhere(tmp_path) == ["a.html: https://example.org/a.css"]


def test_versions_are_listed_and_the_first_page_leads_to_the_newest(tmp_path: Path) -> None:
    for name in ("0.1.0", "0.2.0"):
        (tmp_path / name).mkdir()
    docs.listed(tmp_path, "0.2.0")
    assert '"version": "0.2.0"' in (tmp_path / "versions.json").read_text("utf-8")
    assert 'url=0.2.0/index.html"' in (tmp_path / "index.html").read_text("utf-8")


def test_a_link_says_the_title_of_its_page(pages: Path) -> None:
    text = (pages / "messaging.md").read_text("utf-8")
    assert "[Which adapter](adapters.md)" in text
    assert "[adapters.md]" not in text


# Bounds of the pages.

MOST_PAGES, MOST_WORDS = 55, 111_250
DRAWN = ("drafts.md", "interop.md", "proof.md")
"""Pages that scripts write: their words are results and quotations."""
WAY = ("first-message.md", "two-machines.md", "config-and-service.md", "watch-it.md", "backup.md")
"""Pages that take one program from a message to production."""


def test_the_pages_are_few() -> None:
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
    assert len(texts) <= MOST_PAGES
    assert sum(len(text.split()) for name, text in texts.items() if name not in DRAWN) <= MOST_WORDS


def test_each_page_of_the_way_promises_its_minutes_and_leads_to_the_next() -> None:
    texts = [(ROOT / "docs" / page).read_text("utf-8") for page in WAY]
    assert all(re.search(r" minutes\b", text.split("\n\n")[1]) for text in texts)
    for text, following in zip(texts, WAY[1:], strict=False):
        assert re.search(rf"\*\*Next: \[.+\]\({re.escape(following)}\)\.\*\*\n$", text), following


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("Retry", "delivery.md"),
        ("Timeouts", "delivery.md"),
        ("Order", "delivery.md"),
        ("Dead letters", "delivery.md"),
        ("Duplicates", "delivery.md"),
        ("Exactly once", "delivery.md"),
        ("FastAPI", "web.md"),
        ("Django", "web.md"),
        ("Kubernetes", "service.md"),
        ("When something is wrong", "troubles.md"),
    ],
)
def test_a_heading_has_the_word_that_people_search_for(word: str, page: str) -> None:
    assert re.search(rf"^#+ {word}$", (ROOT / "docs" / page).read_text("utf-8"), re.MULTILINE)


def test_ids_of_rulings_show_where_a_reader_asks_for_them(pages: Path) -> None:
    """They stand behind a sentence in a part that the style of the site hides."""
    text = (pages / "guarantees.md").read_text("utf-8")
    assert '<span class="ruling"> ([' in text
    assert not re.search(r"(?<!ruling\">)\s\(\[[A-Z]-?\d+\]", text)
    assert ".ruling {\n  display: none;" in (pages / "site.css").read_text("utf-8")

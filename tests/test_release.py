"""Checks of a release: contents of its archives, breaks of the public interface, fragments of the changelog."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

import tolliver_proto
from scripts.release import __main__ as release
from scripts.release import hosting, versions
from scripts.rooms import ROOT

api = pytest.importorskip("scripts.release.api", reason="griffe is not installed: pip install --group release")
KINDS = ("added", "changed", "deprecated", "fixed", "removed", "security")
PROJECT = f"tolliver_proto-{tolliver_proto.__version__}.dist-info"


def metadata(**changed: str) -> Message:
    """Metadata of a wheel as they are to be, but for these."""
    settings = release.settings()
    message = Message()
    message["Name"] = settings["name"]
    message["Version"] = tolliver_proto.__version__
    message["Requires-Python"] = settings["requires-python"]
    message["Description-Content-Type"] = "text/markdown"
    for extra, wanted in settings["optional-dependencies"].items():
        message["Provides-Extra"] = extra
        for one in wanted:
            library, _, marker = one.partition(";")
            also = f" and ({marker.strip()})" if marker else ""
            message["Requires-Dist"] = f"{library}; extra == '{extra}'{also}"
    for name, value in changed.items():
        message[name.replace("_", "-")] = value
    return message


def wheel(path: Path, told: Message, change: Callable[[set[str]], set[str]] = lambda names: names) -> Path:
    with ZipFile(path, "w") as archive:
        for name in sorted(change({*release.wanted(), "pyspark_tolliver/__init__.py", f"{PROJECT}/licenses/LICENSE"})):
            archive.writestr(name, "")
        archive.writestr(f"{PROJECT}/METADATA", told.as_string())
    return path


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda names: names, ""),
        (lambda names: names - {"tolliver/py.typed"}, "the wheel lacks tolliver/py.typed"),
        (lambda names: names - {"tolliver_proto/_node/node.py"}, "the wheel lacks tolliver_proto/_node/node.py"),
        (lambda names: names | {"tests/conftest.py"}, "the wheel has tests/conftest.py, which is no part of a package"),
        (lambda names: names - {f"{PROJECT}/licenses/LICENSE"}, "the wheel lacks the license"),
    ],
    ids=["whole", "untyped", "a module is missing", "a test is in it", "no license"],
)
def test_contents_of_a_wheel(change: Callable[[set[str]], set[str]], problem: str, tmp_path: Path) -> None:
    found = list(release.wheel_problems(wheel(tmp_path / "a.whl", metadata(), change)))
    assert found == [problem] * bool(problem)


def test_metadata_of_a_wheel() -> None:
    assert list(release.metadata_problems(metadata())) == []
    assert list(release.metadata_problems(metadata(Requires_Dist="attrs>=23"))) == [
        "an installation without extras asks for ['attrs>=23']"
    ]
    assert list(release.metadata_problems(metadata(Provides_Extra="more"))) == ["the metadata have other extras"]
    other = metadata()
    other.replace_header("Version", "0.0.9")
    assert list(release.metadata_problems(other)) == [
        f"the metadata have version 0.0.9, the code has {tolliver_proto.__version__}"
    ]


def test_every_extra_of_users_is_tried_with_the_lowest_and_the_newest_libraries() -> None:
    (everything,) = release.settings()["optional-dependencies"]["all"]
    assert {*versions.EXTRAS, "spark"} == {*everything.partition("[")[2].rstrip("]").split(",")}


def test_each_library_is_in_the_bill_with_its_extras() -> None:
    found = release.requirements(metadata())
    assert found["anyio"][0] == ">=4.7"
    assert found["attrs"][1] >= {"anyio", "blocking", "twisted", "spark"}
    assert found["pyspark"][1] == {"spark"}
    assert "tolliver-proto" not in found


def test_every_fragment_of_the_changelog_has_a_known_type() -> None:
    found = [path for path in (ROOT / "changelog.d").iterdir() if path.name not in ("README.md", "template.md.jinja")]
    names = [path.name for path in found]
    assert [name for name in names if not re.fullmatch(rf"[\w-]+\.({'|'.join(KINDS)})\.md", name)] == []
    assert [path.name for path in found if not path.read_text("utf-8").startswith("**")] == []


# Address of the repository.

ADDRESS = "https://example.org/us/tolliver"


def test_the_address_is_filled_into_links_contact_and_readme(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    hosting.fill(tmp_path, ADDRESS, "0.1.0")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"] == hosting.urls(ADDRESS, "0.1.0")
    assert f"[the private report]({ADDRESS}/security/advisories/new)" in (tmp_path / "SECURITY.md").read_text("utf-8")
    readme = (tmp_path / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", readme, flags=re.MULTILINE | re.DOTALL))
    assert [target for target in targets if not target.startswith((ADDRESS, "#"))] == []
    for kind, path in re.findall(rf"\({ADDRESS}/(\w+)/v0\.1\.0/([^)#\s]+)", readme):
        assert kind == ("raw" if path.endswith((".svg", ".png")) else "blob")
        assert (ROOT / path).exists()


def test_links_that_lead_elsewhere_and_code_stay_as_they_are() -> None:
    text = "[a](https://a.b) [c](#c) [d](docs/d.md#e)\n\n```\n[f](g.md)\n```\n"
    expected = text.replace("(docs/d.md#e)", f"({ADDRESS}/blob/v1/docs/d.md#e)")
    assert hosting.absolute(text, ADDRESS, "1") == expected


def test_a_text_without_a_place_for_the_address_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(SystemExit, match=r"pyproject\.toml has no place for the address of the repository"):
        hosting.fill(tmp_path, ADDRESS, "0.1.0")


def test_links_of_the_metadata_are_those_of_the_repository() -> None:
    told = metadata()
    assert list(release.address_problems(told, "")) == []
    assert list(release.address_problems(told, ADDRESS)) == ["the metadata have other links of the project"]
    for label, url in hosting.urls(ADDRESS, tolliver_proto.__version__).items():
        told["Project-URL"] = f"{label}, {url}"
    assert list(release.address_problems(told, ADDRESS)) == []
    told.set_payload("[guarantees](docs/guarantees.md)")
    assert list(release.address_problems(told, ADDRESS)) == [
        "the README links to files beside it, which an index has not"
    ]


@pytest.mark.parametrize(
    ("version", "candidate"),
    [("0.1.0rc1", True), ("0.1.0b2", True), ("0.2.0.dev3", True), ("0.1.0", False), ("1.10.2", False)],
)
def test_a_candidate_is_told_by_its_version(version: str, candidate: bool) -> None:
    assert hosting.is_candidate(version) == candidate


def test_a_release_without_the_address_says_what_is_missing() -> None:
    empty = r"\[tool\.tolliver\] repository in pyproject\.toml is empty"
    assert re.search(empty, hosting.missing("", "0.1.0rc1"))
    with pytest.raises(SystemExit, match=rf"0\.1\.0 is no candidate.*{empty}"):
        hosting.missing("", "0.1.0")
    assert {hosting.missing(ADDRESS, version) for version in ("0.1.0", "0.1.0rc1")} == {""}


# Breaks.

BEFORE = '''"""A package."""

__all__ = ["Thing", "kept", "gone"]


class Thing:
    """A class."""

    def call(self, one: int, two: int = 2) -> int:
        """A method."""
        return one + two


def kept(one: int) -> int:
    """A function."""
    return one


def gone() -> None:
    """Another one."""


def _private() -> None: ...
'''


def repository(home: Path) -> Path:
    """A repository with a commit of a package."""
    (home / "package").mkdir()
    (home / "changelog.d").mkdir()
    (home / "package/__init__.py").write_text(BEFORE)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"], ["tag", "v1.0"]):
        subprocess.run(["git", *command], cwd=home, check=True)
    return home


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("def kept(one: int)", "def kept(one: int, more: int = 1)", None),
        ("def _private() -> None: ...", "", None),
        ('"kept", "gone"]', '"kept"]', "package.gone: Public object was removed"),
        ("two: int = 2", "three: int = 2", "package.Thing.call: Parameter was removed"),
    ],
    ids=["a parameter more", "a private function", "a function less", "a parameter renamed"],
)
def test_a_break_is_found_unless_a_fragment_names_it(old: str, new: str, line: str | None, tmp_path: Path) -> None:
    home = repository(tmp_path)
    assert api.last_release(home) == "v1.0"
    text = BEFORE.replace(old, new)
    if line and "gone" in line:
        text = text.replace('def gone() -> None:\n    """Another one."""\n', "")
    (home / "package/__init__.py").write_text(text)
    found = api.unannounced("v1.0", home, ["package"], ["."])
    assert (line in found) if line else (found == [])
    (home / "changelog.d/said.removed.md").write_text("**Gone** are `gone` and a parameter of `call`.\n")
    assert api.unannounced("v1.0", home, ["package"], ["."]) == []


def test_no_commit_no_answer(tmp_path: Path) -> None:
    home = repository(tmp_path)
    with pytest.raises(SystemExit, match="no such commit: v2"):
        api.unannounced("v2", home, ["package"], ["."])

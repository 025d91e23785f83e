"""The switch between the compiled modules and their sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

import tolliver_proto
import tolliver_proto._wire as room
from tolliver_proto._common.builds import PURE, REQUIRE_COMPILED, SourceFinder, choose

FRAMES = "tolliver_proto._wire.frames"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
SHOW = """
import tolliver_proto
print(tolliver_proto.build_info())
import tolliver_proto._wire.frames as frames
print(frames.__file__)
"""
compiled = pytest.mark.skipif(
    not tolliver_proto.build_info().compiled, reason="no compiled modules here: make compiled-test"
)


def shown(home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The output of a process that finds the packages in this folder alone."""
    kept = {name: value for name, value in os.environ.items() if name not in (PURE, REQUIRE_COMPILED)}
    return subprocess.run(
        [sys.executable, "-S", "-c", SHOW],
        env={**kept, "PYTHONPATH": str(home), **variables},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with the sources of the pure package alone."""
    pure = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(Path(tolliver_proto.__file__).parent, tmp_path / "tolliver_proto", ignore=pure)
    return tmp_path


def test_sources_alone_are_the_pure_build(sources: Path) -> None:
    for variables in ({}, {PURE: "1"}, {PURE: "0", REQUIRE_COMPILED: "0"}, {REQUIRE_COMPILED: ""}):
        done = shown(sources, **variables)
        assert done.stdout.split("\n")[:2] == [
            "BuildInfo(compiled=False)",
            str(sources / "tolliver_proto/_wire/frames.py"),
        ]


def test_the_compiled_build_is_required(sources: Path) -> None:
    done = shown(sources, **{REQUIRE_COMPILED: "1"})
    assert done.returncode == 1
    assert "ImportError: TOLLIVER_REQUIRE_COMPILED is set, and tolliver_proto has no compiled modules" in done.stderr


def test_sources_are_chosen_beside_a_library(sources: Path) -> None:
    """The library is none, so whoever loads it ends with an error."""
    (sources / f"tolliver_proto/_wire/frames{SUFFIX}").write_bytes(b"not a library")
    assert "frames" in shown(sources).stderr
    assert "BuildInfo(compiled=True)" in shown(sources).stdout
    done = shown(sources, **{PURE: "1"})
    assert (done.stdout.split("\n")[0], done.stderr) == ("BuildInfo(compiled=False)", "")


def test_one_asks_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PURE, "1")
    monkeypatch.setenv(REQUIRE_COMPILED, "1")
    with pytest.raises(ImportError, match="TOLLIVER_PURE and TOLLIVER_REQUIRE_COMPILED are both set: unset one"):
        choose()


def test_one_asks_for_the_compiled_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PURE, raising=False)
    monkeypatch.setenv(REQUIRE_COMPILED, "1")
    if tolliver_proto.build_info().compiled:
        choose()
    else:
        with pytest.raises(ImportError, match="unset the variable"):
            choose()


def test_one_asks_for_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setenv(PURE, "1")
    monkeypatch.delenv(REQUIRE_COMPILED, raising=False)
    choose()
    assert isinstance(sys.meta_path[0], SourceFinder)


def test_the_finder_finds_sources_of_these_packages_alone() -> None:
    finder = SourceFinder()
    found = finder.find_spec(FRAMES, room.__path__)
    assert found is not None
    assert isinstance(found.loader, SourceFileLoader)
    assert finder.find_spec("tolliver_proto._wire.nothing", room.__path__) is None
    assert finder.find_spec("tolliver_proto") is None
    assert finder.find_spec("json.decoder", room.__path__) is None


@compiled
def test_the_sources_are_chosen_in_a_compiled_build() -> None:
    home = Path(tolliver_proto.__file__).parents[1]
    assert shown(home, **{REQUIRE_COMPILED: "1"}).stdout.startswith("BuildInfo(compiled=True)")
    assert shown(home, **{PURE: "1"}).stdout.split("\n")[:2] == [
        "BuildInfo(compiled=False)",
        str(home / "tolliver_proto/_wire/frames.py"),
    ]

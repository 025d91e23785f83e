"""Public interface beside that of the last release: what broke, and whether the changelog says so.

    python -m scripts.release.api                    against the newest tag that begins with v
    python -m scripts.release.api --against COMMIT   against any commit, such as the branch that a change goes to

A break is announced by a fragment in `changelog.d`, of the type `removed` or `changed`, that names the object. Needs
the dependency group `release`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tolliver_proto", "tolliver")
SEARCH = (".", "transports")
MADE_BY_CALLS = (
    "Instance",
    "Messages",
    "Peer",
    "Publication",
    "Registration",
    "Responder",
    "Run",
    "Runs",
    "Streams",
    "Subscription",
    "TypedMessages",
    "TypedRun",
    "TypedRuns",
    "Work",
    "WorkQueue",
)
"""Classes of which a program gets objects and makes none."""
_ANNOUNCING = (".removed.md", ".changed.md")
_NAME = re.compile(r"\w+")


def git(*arguments: str, root: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def last_release(root: Path = ROOT) -> str:
    """The newest tag of a version; empty where there is none."""
    return git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", root=root)


def loaded(tree: Path, packages: Sequence[str], search: Sequence[str]) -> dict[str, griffe.Object | griffe.Alias]:
    """The packages of a checkout, with their names looked up in each other."""
    loader = griffe.GriffeLoader(search_paths=[tree / path for path in search], allow_inspection=False)
    found = {package: loader.load(package) for package in packages}
    loader.resolve_aliases(implicit=True, external=False)
    return found


def at(commit: str, root: Path, into: Path) -> Path:
    """The tree of a commit, laid out in a folder. Raises SystemExit where there is no such commit."""
    packed = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"no such commit: {commit}\n{packed.stderr.decode()}")
    subprocess.run(["tar", "-x", "-C", str(into)], input=packed.stdout, check=True)
    return into


def breaks(
    before: Mapping[str, griffe.Object | griffe.Alias], now: Mapping[str, griffe.Object | griffe.Alias]
) -> Iterator[griffe.Breakage]:
    """Those of names that a public module has in its `__all__`; constructors of what calls give are no part of it."""
    for package, old in before.items():
        public = {*_public(old)}
        for one in griffe.find_breaking_changes(old, now[package]):
            path = one.obj.path.partition("(")[0]
            above = {path, *(path[: cut.start()] for cut in re.finditer(r"\.", path))}
            made = any(f".{name}.__init__" in f"{path}." for name in MADE_BY_CALLS)
            if above & public and not made:
                yield one


def _public(module: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Paths of all that the public modules list, there and at home."""
    for name in module.exports or ():
        yield f"{module.path}.{name}"
        member = module.members.get(str(name))
        if member is not None:
            try:
                yield member.canonical_path
            except griffe.AliasResolutionError:  # of another package, which has its own list
                continue
    for name, below in module.members.items():
        if not name.startswith("_") and not below.is_alias and below.is_module:
            yield from _public(below)


def announced(root: Path = ROOT) -> set[str]:
    """Words of the fragments that may announce a break."""
    fragments = (path for path in (root / "changelog.d").glob("*.md") if path.name.endswith(_ANNOUNCING))
    return {word for path in fragments for word in _NAME.findall(path.read_text("utf-8"))}


def unannounced(
    commit: str, root: Path = ROOT, packages: Sequence[str] = PACKAGES, search: Sequence[str] = SEARCH
) -> list[str]:
    """Breaks since a commit that no fragment names, each as a line."""
    words = announced(root)
    with tempfile.TemporaryDirectory() as folder:
        before = loaded(at(commit, root, Path(folder)), packages, search)
        found = list(breaks(before, loaded(root, packages, search)))
    return sorted(
        {
            f"{one.obj.path}: {one.kind.value}"
            for one in found
            if not {one.obj.name, re.sub(r"\W.*", "", one.obj.path.rpartition(".")[2])} & words
        }
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", default="", help="a commit, tag or branch")
    options = parser.parse_args(arguments)
    commit = options.against or last_release()
    if not commit:
        print("there is no release yet, so nothing can break: --against COMMIT compares with a commit")
        return 0
    found = unannounced(commit)
    for line in found:
        print(line)
    print(f"{len(found)} breaks since {commit} that no fragment in changelog.d names")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

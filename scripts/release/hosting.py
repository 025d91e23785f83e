"""Address of the repository, filled into the texts of a release.

`[tool.tolliver] repository` in pyproject.toml is its one place, committed, so that anybody builds the same bytes again.
An index shows README without the files beside it, so its links are made absolute, to the tag of the version.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_MISSING = (
    "[tool.tolliver] repository in pyproject.toml is empty: give the address of the repository there, https://..."
)
_CANDIDATE = re.compile(r"(?:a|b|rc|\.dev)\d+$")
_URLS = {
    "Homepage": "{repository}",
    "Documentation": "{repository}/tree/v{version}/docs",
    "Changelog": "{repository}/blob/v{version}/CHANGELOG.md",
    "Issues": "{repository}/issues",
    "Security": "{repository}/security/advisories/new",
}
_CONTACT = "the private report of the place where this repository is hosted"
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+\))")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def repository(root: Path) -> str:
    """The setting, without a slash at its end; empty where nothing is set."""
    found = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["tolliver"]["repository"]
    return str(found).rstrip("/")


def is_candidate(version: str) -> bool:
    """True for a version that installers pass over unless they are asked for it (PEP 440)."""
    return _CANDIDATE.search(version) is not None


def missing(address: str, version: str) -> str:
    """Words about a candidate without an address, else none. Raises SystemExit where a final version has none."""
    if address:
        return ""
    if not is_candidate(version):
        raise SystemExit(f"{version} is no candidate, and a release says where it lives. {_MISSING}")
    return f"A candidate that is not to be published: it has no links, and those of README lead nowhere. {_MISSING}"


def urls(address: str, version: str) -> dict[str, str]:
    """The project's links by their labels, as an index shows them."""
    return {label: form.format(repository=address, version=version) for label, form in _URLS.items()}


def fill(sources: Path, address: str, version: str) -> None:
    """Change the texts of a copy of the sources."""
    table = "".join(f'{label} = "{url}"\n' for label, url in urls(address, version).items())
    _replace(sources / "pyproject.toml", "[project.scripts]\n", f"[project.urls]\n{table}\n[project.scripts]\n")
    contact = f"[the private report]({urls(address, version)['Security']})"
    _replace(sources / "SECURITY.md", _CONTACT, contact)
    readme = sources / "README.md"
    readme.write_text(absolute(readme.read_text("utf-8"), address, version), "utf-8")


def absolute(text: str, address: str, version: str) -> str:
    """A page whose links to files lead to the repository, and whose pictures come from there."""

    def led(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}{address}/{kind}/v{version}/{link[2]}"

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        raise SystemExit(
            f"{path.name} has no place for the address of the repository: {old.strip()!r} is to stand there once"
        )
    path.write_text(text.replace(old, new), "utf-8")

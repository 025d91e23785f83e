"""Site of the documentation: its pages, a reference out of the sources, and one folder for each version.

    python -m scripts.release.docs [--version NAME] [--serve [PORT]]

The pages are those of docs/ and the texts beside README.md; the reference has every public name, the command line, the
errors, the notices and counters. A warning is an error, and so is a page that would load something from elsewhere.
`build/site` then has a folder for this version and those that were built before. Needs the extra `cli` and the
dependency group `docs`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripts.pages import LEADS, rulings
from scripts.release import reference, search

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
"""Texts beside the packages, and their names on the site."""
SOURCES = "sources"
"""Folder of the site with the files of the repository that pages link to, each as text."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_RULINGS = re.compile(r"\s+\(((?:\[[A-Z]-?\d+[a-z]?\](?:, |; | to | and )?)+)\)")
_NAMED = re.compile(r"\[((?:docs/)?[\w-]+\.md)\]\(([^)\s]+)\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FOLDED = '<details markdown="1">\n<summary>The diagram as text</summary>\n\n```text\n\\1```\n\n</details>'
_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(https?://[^\"'\s>]+)")
_SAYS = 50  # characters of a line about a page, at least
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


# Pages.


def moved(link: re.Match[str], beside: Path) -> str:
    """A link of a page in `beside`, as it leads on the site."""
    start, target, anchor = link[1], link[2], link[3] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    path = (beside / target).resolve()
    if path.parent == ROOT / "docs":
        return f"{start}{path.name}{anchor})"
    if path.parent == ROOT and path.name in TOP:
        return f"{start}{TOP[path.name]}{anchor})"
    if path.is_file() and path.is_relative_to(ROOT):
        return f"{start}{SOURCES}/{path.relative_to(ROOT)}.txt)"
    return link[0]


def titled(link: re.Match[str], beside: Path) -> str:
    """A link whose text is the name of a page, with that page's title instead."""
    path = beside / link[2].partition("#")[0]
    if link[2].startswith(("http:", "https:")) or not path.is_file():
        return link[0]
    heading = re.search(r"^# (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return f"[{heading[1]}]({link[2]})" if heading else link[0]


def page(path: Path) -> str:
    """A page as it stands on the site: links lead there, and rulings show where a reader asks for them (site.js)."""
    text = _NAMED.sub(partial(titled, beside=path.parent), path.read_text("utf-8"))
    text = _LINK.sub(partial(moved, beside=path.parent), text)
    text = LEADS.sub(_with_tooltip, text)
    text = _RULINGS.sub(r'<span class="ruling"> (\1)</span>', text)
    return _MERMAID.sub(_FOLDED, text)  # a picture of it would need a program from elsewhere


def _with_tooltip(lead: re.Match[str]) -> str:
    return f'[{lead[1]}]: {lead[2].removeprefix("docs/")} "{lead[1]}: {rulings()[lead[1]].question}"\n'


def written(into: Path) -> None:
    """All that the site is built from."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(ROOT / "docs", into)
    for path in sorted((ROOT / "docs").glob("*.md")):
        (into / path.name).write_text(page(path), "utf-8")
    for name, public in TOP.items():
        if not (into / public).exists():
            (into / public).write_text(page(ROOT / name), "utf-8")
    for source in sorted({found for one in into.glob("*.md") for found in sources(one.read_text("utf-8"))}):
        (into / SOURCES / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source.removesuffix(".txt"), into / SOURCES / source)
    folder = into / "reference"
    folder.mkdir()
    for name, text in reference.references():
        (folder / name).write_text(text, "utf-8")
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    (into / "llms.txt").write_text(overview(into, settings), "utf-8")


def overview(pages: Path, settings: dict[str, Any]) -> str:
    """The site for a program that reads it, as llmstxt.org describes: each page with its name and one line."""
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}"]
    for part in settings["nav"]:
        for title, entries in part.items():
            named = (_named(pages / name) for name in _files(entries) if (pages / name).is_file())
            lines += ["", f"## {title}", "", *named]
    return "\n".join(lines) + "\n"


def _files(entries: Any) -> Iterator[str]:
    """Pages of a part of the navigation, in their order."""
    if isinstance(entries, str):
        yield entries
        return
    for below in entries.values() if isinstance(entries, dict) else entries:
        yield from _files(below)


def _named(path: Path) -> str:
    """A page as a line: its heading, and the sentences that follow, until they say something."""
    heading, text = re.split(r"^# (.+)\n+", path.read_text("utf-8"), maxsplit=1, flags=re.MULTILINE)[1:]
    paragraphs = re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL).split("\n\n")
    first = next(" ".join(one.split()) for one in paragraphs if re.match(r"[\w`*]", one))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>|[*_]{2}", r"\1", first)
    about = re.match(rf".{{{_SAYS}}}.*?[.:](?= |$)", plain)
    place = f"{path.parent.name}/" * (path.parent.name == "reference") + f"{path.stem}.html"
    return f"- [{heading.strip('`')}]({place}): {(about[0] if about else plain).rstrip(':')}"


def sources(text: str) -> list[str]:
    """Files of the repository that a page of the site links to, as they are named there."""
    return [link[2].removeprefix(f"{SOURCES}/") for link in _LINK.finditer(text) if link[2].startswith(f"{SOURCES}/")]


# The site.


def with_reference(settings: str) -> str:
    """The settings of the site with the pages of all modules in the navigation."""

    def entry(title: str, pages: str | dict[str, str]) -> str:
        listed = pages if isinstance(pages, str) else [{name: path} for name, path in pages.items()]
        return f"{{ {json.dumps(title)} = {_toml(listed)} }}"

    return settings.replace('"reference/MODULES"', ", ".join(entry(*one) for one in reference.navigation()))


def _toml(value: str | list[dict[str, str]]) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    pairs = ((json.dumps(name), json.dumps(path)) for one in value for name, path in one.items())
    return "[" + ", ".join(f"{{ {name} = {path} }}" for name, path in pairs) + "]"


def built(version: str) -> Path:
    """Builds the site of a version from what is written; a warning ends it."""
    out = SITE / version
    shutil.rmtree(out, ignore_errors=True)
    settings = ROOT / "zensical.toml"
    own = ROOT / "build" / "zensical.toml"
    text = settings.read_text("utf-8").replace('"build/site/latest"', f'"site/{version}"')
    text = with_reference(text)
    text = text.replace('"build/docs"', '"docs"').replace('[".", "transports"]', '["..", "../transports"]')
    own.write_text(text, "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(own)]
    done = subprocess.run(command, cwd=ROOT / "build", capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(_COLOUR.sub("", done.stdout + done.stderr) + "the site has warnings")
    return out


def from_elsewhere(site: Path) -> list[str]:
    """Everything that a page would load from another host."""
    return sorted(
        {
            f"{path.relative_to(site)}: {found}"
            for path in site.rglob("*.html")
            for found in _ELSEWHERE.findall(path.read_text("utf-8"))
        }
    )


def listed(site: Path, newest: str) -> None:
    """The list of versions that the pages offer, and a first page that leads to the newest."""
    versions = sorted((path.name for path in site.iterdir() if path.is_dir()), reverse=True)
    entries = [{"version": name, "title": name, "aliases": []} for name in versions]
    (site / "versions.json").write_text(json.dumps(entries) + "\n", "utf-8")
    (site / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<title>tolliver</title><a href="{newest}/index.html">tolliver {newest}</a>\n',
        "utf-8",
    )


def served(site: Path, port: int) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends)", flush=True)
        server.serve_forever()


def main(arguments: Iterable[str] | None = None) -> int:
    from scripts.release.__main__ import version

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default=version(), help="the name of the version's folder")
    parser.add_argument("--serve", nargs="?", const=8000, type=int, metavar="PORT", help="show it afterwards")
    options = parser.parse_args(None if arguments is None else [*arguments])
    written(PAGES)
    out = built(options.version)
    search.prefer_guides(out / "search.json")
    if foreign := from_elsewhere(out):
        raise SystemExit("the site loads from elsewhere:\n" + "\n".join(foreign))
    print(search.checked(out))
    listed(SITE, options.version)
    print(f"{sum(1 for _ in out.rglob('*.html'))} pages in {out.relative_to(ROOT)}")
    if options.serve is not None:
        served(SITE, options.serve)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Site of the documentation: its pages, a reference out of the sources, and one folder for each version.

    python -m scripts.release.docs [--version NAME] [--serve [PORT]]

The pages are those of docs/ and the texts beside README.md; the reference has every public name, the command line, the
errors, the notices and counters. A warning is an error, and so is a page that would load something from elsewhere.
`build/site` then has a folder for this version and those that were built before. Needs the extra `cli` and the
dependency group `docs`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.draw import causes, metrics, options, states
from scripts.release.api import PACKAGES, SEARCH, loaded

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
MODULES = (
    *("tolliver", "tolliver.anyio", "tolliver.twisted", "tolliver.blocking", "tolliver.events", "tolliver.codecs"),
    *("tolliver.certs", "tolliver.derived", "tolliver.reactive", "tolliver.sqlite", "tolliver.spark"),
    *("tolliver.staging", "tolliver.status", "tolliver.prometheus", "tolliver.otel", "tolliver.testing"),
    *(
        "tolliver_proto",
        "tolliver_proto.errors",
        "tolliver_proto.node",
        "tolliver_proto.store",
        "tolliver_proto.testing",
        "tolliver_proto.recording",
        "tolliver_proto.layouts",
    ),
    *("tolliver_proto.reactive", "tolliver_proto.reactive.testing"),
)
"""Modules that the reference shows."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_LEAD = re.compile(r"^(\[[\w-]+\]: )(\S+?)(#\S*)?(?= \")", re.MULTILINE)
_RULINGS = re.compile(r" \(((?:\[[A-Z]-?\d+[a-z]?\](?:, |; | to | and )?)+)\)")
_NAMED = re.compile(r"\[((?:docs/)?[\w-]+\.md)\]\(([^)\s]+)\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FOLDED = '<details markdown="1">\n<summary>The diagram as text</summary>\n\n```text\n\\1```\n\n</details>'
_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(https?://[^\"'\s>]+)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TABLE = r"^\| {} \|.*\n\|[-| ]+\n(?:\|.*\n)+"


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
    text = _LEAD.sub(lambda lead: f"{lead[1]}{Path(lead[2]).name}{lead[3] or ''}", text)
    text = _RULINGS.sub(r'<span class="ruling"> (\1)</span>', text)
    return _MERMAID.sub(_FOLDED, text)  # a picture of it would need a program from elsewhere


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
    reference = into / "reference"
    reference.mkdir()
    for name, text in references():
        (reference / name).write_text(text, "utf-8")


def sources(text: str) -> list[str]:
    """Files of the repository that a page of the site links to, as they are named there."""
    return [link[2].removeprefix(f"{SOURCES}/") for link in _LINK.finditer(text) if link[2].startswith(f"{SOURCES}/")]


# Reference.


def references() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        yield f"{module}.md", "\n".join(of_module(module))
    yield "index.md", "\n".join(every_name())
    yield "errors.md", "\n".join(errors())
    yield "notices.md", "\n".join(notices())
    yield "command-line.md", "\n".join(command_line())
    yield "options.md", options.page()
    yield "causes.md", causes.page()
    yield "metrics.md", metrics.page()
    yield "states.md", states.page()


@cache
def interface() -> dict[str, Any]:
    """Each module of the reference, read from the sources: what an extra brings need not be installed."""
    packages: dict[str, Any] = {**loaded(ROOT, PACKAGES, SEARCH)}
    found = ((name, *name.split(".", 1)) for name in MODULES)
    return {name: packages[package][below[0]] if below else packages[package] for name, package, *below in found}


def summary(text: str) -> str:
    """The first paragraph of a docstring, for a cell of a table."""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def documented(found: Any) -> str:
    """The docstring of an object out of the sources; empty where it has none."""
    return str(found.docstring.value) if found.docstring else ""


def of_module(name: str) -> Iterator[str]:
    module = interface()[name]
    yield f"# `{name}`\n"
    yield f"{documented(module)}\n"
    for public in sorted(map(str, module.exports), key=str.lower):
        yield f"::: {name}.{public}\n"


def every_name() -> Iterator[str]:
    yield "# Every public name\n"
    yield "Each name, where it is imported from, and its first sentence.\n"
    yield "| name | of | |\n|---|---|---|"
    found = {(str(public), name) for name, module in interface().items() for public in module.exports}
    for public, name in sorted(found, key=lambda pair: (pair[0].lower(), pair[1])):
        about = summary(documented(interface()[name][public]))
        yield f"| [`{public}`]({name}.md#{name}.{public}) | `{name}` | {about} |"


def errors() -> Iterator[str]:
    proto: Any = import_module("tolliver_proto.errors")
    yield "# Classes of errors\n"
    yield "Each below its base. [Errors](../errors.md) says the cause of each, and what to do.\n"
    yield from _family(proto.TolliverError, {*proto.__all__}, 0)


def _family(kind: type, public: set[str], depth: int) -> Iterator[str]:
    name = kind.__name__
    shown = f"[`{name}`](tolliver_proto.errors.md#tolliver_proto.errors.{name})" if name in public else f"`{name}`"
    yield f"{'    ' * depth}- {shown}: {summary(inspect.getdoc(kind) or '')}"
    children: list[type] = sorted(kind.__subclasses__(), key=lambda one: one.__name__)
    for below in children:
        if below.__module__.split(".")[0].startswith("tolliver"):
            yield from _family(below, public, depth + 1)


def tables(name: str, first_column: str) -> Iterator[str]:
    """The tables of a page whose first column has this title; their links lead from the reference."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    for table in re.findall(_TABLE.format(first_column), text, re.MULTILINE):
        yield _LINK.sub(lambda link: f"{link[1]}../{link[2]}{link[3] or ''})", table).replace("](#", f"](../{name}#")


def notices() -> Iterator[str]:
    yield "# Notices and counters\n"
    yield "`notices()` and `events()` tell [notices](../messaging.md#notices-and-counters).\n"
    yield "## Notices\n"
    yield from tables("messaging.md", "kind")
    yield "## Counters of streams\n"
    yield from tables("streams.md", "count")
    yield "## Causes of a failed dial\n"
    yield from tables("messaging.md", "cause")


def command_line() -> Iterator[str]:
    os.environ |= {"TYPER_USE_RICH": "0", "COLUMNS": "100", "NO_COLOR": "1"}
    import typer.main
    from tolliver._cli.commands import app

    yield "# Every command and option\n"
    yield "As the program itself says it; [the command line](../cli.md) has examples.\n"
    group: Any = typer.main.get_command(app)
    yield from _command(group, [], 1)
    yield "## Options of an instance\n"
    yield "`tolliver options` says, of every option of an instance, its flag, its key in a file and its default.\n"
    yield f"```text\n{_said('options')}\n```\n"


def _command(command: Any, path: list[str], depth: int) -> Iterator[str]:
    if path:
        yield f"{'#' * min(depth, 4)} tolliver {' '.join(path)}\n"
        yield f"```text\n{_said(*path, '--help')}\n```\n"
    for name, below in getattr(command, "commands", {}).items():
        yield from _command(below, [*path, name], depth + 1)


def _said(*typed: str) -> str:
    from tolliver._cli.commands import app
    from typer.testing import CliRunner

    return CliRunner().invoke(app, [*typed], prog_name="tolliver").stdout.strip()


# The site.


def built(version: str) -> Path:
    """Builds the site of a version from what is written; a warning ends it."""
    out = SITE / version
    shutil.rmtree(out, ignore_errors=True)
    settings = ROOT / "zensical.toml"
    own = ROOT / "build" / "zensical.toml"
    text = settings.read_text("utf-8").replace('"build/site/latest"', f'"site/{version}"')
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
    if foreign := from_elsewhere(out):
        raise SystemExit("the site loads from elsewhere:\n" + "\n".join(foreign))
    listed(SITE, options.version)
    print(f"{sum(1 for _ in out.rglob('*.html'))} pages in {out.relative_to(ROOT)}")
    if options.serve is not None:
        served(SITE, options.serve)
    return 0


if __name__ == "__main__":
    sys.exit(main())

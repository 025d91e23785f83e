"""Questions to the search box of the site, asked in a real browser: does a page that answers come up?

    python scripts/site_questions.py [--version NAME] [--pictures FOLDER] [--widths] [QUESTION ...]

The site is one that `make docs` has built. Each question is typed into the search box in headless Chromium, and the
first results are printed; those of the list below must have a page that answers among the first five. `--pictures` also
takes some pages at the widths of a phone and a desk, light and dark. `--widths` asks every page, at both widths,
whether it is wider than the screen.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.docs import SITE  # noqa: E402  # the line above comes first

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
QUESTIONS = {
    "share work": {"patterns.html"},
    "ask answer": {"patterns.html"},
    "ack mean": {"messaging.html"},
    "rotate certificate": {"security.html"},
    "message twice": {"messaging.html"},
    "disk full": {"messaging.html"},
    "redelivered": {"messaging.html"},
    "two machines": {"two-machines.html"},
    "how to share work": {"patterns.html"},
    "how to ask and answer": {"patterns.html", "questions.html"},
    "what an ack means": {"messaging.html"},
    "rotate a certificate": {"security.html"},
    "why a message came twice": {"messaging.html"},
    "what to do when the disk is full": {"messaging.html"},
    "coming from kafka": {"from-kafka.html"},
}
"""Questions of newcomers, and the pages of which one must come up."""
PICTURED = ("index.html", "patterns.html", "messaging.html", "reference/tolliver.anyio.html")
SIZES = {"phone": "390,844", "desk": "1280,1400"}
FIRST = 5
_ASKING = """<!doctype html><iframe id="site" src="{site}" style="width: 1280px; height: 900px"></iframe>
<pre id="found"></pre>
<script>
const every = (root) => [...root.querySelectorAll("*")].flatMap(
  (one) => [one, ...(one.shadowRoot ? every(one.shadowRoot) : [])])
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds))
const until = async (holds) => {{ for (let tries = 0; tries < 60 && !holds(); tries++) await pause(250) }}
site.onload = async () => {{
  const inner = site.contentDocument
  const button = () => every(inner).find((one) => one.matches(".md-search__button"))
  const boxes = "input:not([type=checkbox], [type=radio])"
  const box = () => every(inner).find((one) => one.matches(boxes) && one.offsetParent)
  const links = () => every(inner).filter((one) => one.tagName === "A" && one.getRootNode() === box().getRootNode())
  const type = (text) => {{
    Object.getOwnPropertyDescriptor(site.contentWindow.HTMLInputElement.prototype, "value").set.call(box(), text)
    box().dispatchEvent(new site.contentWindow.Event("input", {{ bubbles: true }}))
  }}
  await until(button)
  button().click()
  await until(box)
  for (const question of {questions}) {{
    type("")
    await until(() => !links().length)
    type(question)
    await until(() => links().length)
    await pause(1000)
    found.textContent += JSON.stringify([question, links().map((one) => one.href)]) + "\\n"
  }}
  found.dataset.done = "yes"
}}
</script>
"""


_MEASURING = """<!doctype html><pre id="found"></pre>
<script>
const pages = {pages}
const wide = async (page, width) => {{
  const site = document.createElement("iframe")
  site.style = `width: ${{width}}px; height: 900px; border: 0`
  site.src = page
  document.body.append(site)
  await new Promise((done) => {{ site.onload = done }})
  const root = site.contentDocument.documentElement
  const widest = [...site.contentDocument.querySelectorAll(".md-content *")].find(
    (one) => one.getBoundingClientRect().right > width + 1 && !one.closest(".md-typeset__scrollwrap, pre, .highlight"))
  if (root.scrollWidth > width) found.textContent += JSON.stringify(
    [page, width, root.scrollWidth, widest ? widest.outerHTML.slice(0, 200) : ""]) + "\\n"
  site.remove()
}}
(async () => {{
  for (const page of pages) for (const width of {widths}) await wide(page, width)
  found.dataset.done = pages.length
}})()
</script>
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which a folder is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def browser(*arguments: str) -> str:
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit("no browser was found: on Debian, apt-get install chromium-headless-shell")
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def answers(version: str, questions: list[str]) -> dict[str, list[str]]:
    """From each question to the pages that come up, best first, each once."""
    page = SITE / "asking.html"
    page.write_text(_ASKING.format(site=f"{version}/index.html", questions=json.dumps(questions)), "utf-8")
    try:
        with serving(SITE) as address:
            patience = 15_000 + 15_000 * len(questions)
            shown = browser(f"--virtual-time-budget={patience}", "--dump-dom", f"{address}asking.html")
    finally:
        page.unlink()
    [text] = re.findall(r'<pre id="found"[^>]*>(.*?)</pre>', shown, re.DOTALL)
    found: dict[str, list[str]] = {}
    for line in unescape(text).splitlines():
        question, links = json.loads(line)
        pages = (link.partition(f"/{version}/")[2].partition("?")[0].partition("#")[0] for link in links)
        found[question] = [*dict.fromkeys(filter(None, pages))]
    return found


def too_wide(version: str) -> list[str]:
    """Pages that are wider than a screen, each with the width and the first element that goes beyond."""
    pages = sorted(f"{version}/{path.relative_to(SITE / version)}" for path in (SITE / version).rglob("*.html"))
    widths = [int(size.split(",")[0]) for size in SIZES.values()]
    page = SITE / "measuring.html"
    page.write_text(_MEASURING.format(pages=json.dumps(pages), widths=widths), "utf-8")
    try:
        with serving(SITE) as address:
            shown = browser(f"--virtual-time-budget={60_000 * len(pages)}", "--dump-dom", f"{address}measuring.html")
    finally:
        page.unlink()
    [(done, text)] = re.findall(r'<pre id="found"(?: data-done="(\d+)")?>(.*?)</pre>', shown, re.DOTALL)
    if done != str(len(pages)):
        raise SystemExit(f"only some of {len(pages)} pages were measured")
    return unescape(text).splitlines()


def pictures(version: str, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    with serving(SITE) as address:
        for name in PICTURED:
            for width, size in SIZES.items():
                for scheme, number in (("light", 1), ("dark", 0)):
                    path = into / f"{quote(name, safe='').removesuffix('.html')}-{width}-{scheme}.png"
                    browser(
                        "--virtual-time-budget=10000",
                        f"--window-size={size}",
                        f"--blink-settings=preferredColorScheme={number}",
                        f"--screenshot={path}",
                        f"{address}{version}/{name}",
                    )


def main(arguments: list[str] | None = None) -> int:
    from scripts.release import version

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION")
    parser.add_argument("--version", default=version())
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--widths", action="store_true")
    options = parser.parse_args(arguments)
    if not (SITE / options.version).is_dir():
        raise SystemExit("there is no site: make docs")
    if options.pictures:
        pictures(options.version, options.pictures)
    missed = 0
    for question, pages in answers(options.version, options.questions or [*QUESTIONS]).items():
        good = not {*pages[:FIRST]}.isdisjoint(wanted) if (wanted := QUESTIONS.get(question)) else True
        missed += not good
        print(f"{'' if good else 'MISSED '}{question}: {', '.join(pages[:FIRST]) or 'nothing'}")
    wide = too_wide(options.version) if options.widths else []
    print(*wide, sep="\n", end="\n" if wide else "")
    return 1 if missed or wide else 0


if __name__ == "__main__":
    sys.exit(main())

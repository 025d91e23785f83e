"""Search of the site: guides are found before the reference, and a check of what a word finds first.

The theme's search weighs a title thrice. The reference repeats every word of the guides in short titles of members, so
each class or function is one entry there, whose text is its first sentence and the names of its members.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

FIRST = {
    "retry": "delivery.html#retry",
    "dead letter": "delivery.html#dead-letters",
    "timeout": "delivery.html#timeouts",
    "fastapi": "web.html#fastapi",
    "django": "web.html#django",
    "gunicorn": "web.html#several-workers",
    "jupyter": "web.html#notebooks",
    "duplicate": "delivery.html#duplicates",
    "order": "delivery.html#order",
    "kubernetes": "service.html#kubernetes",
    "exactly once": "delivery.html#exactly-once",
    "certificate expired": "questions.html#a-certificate-has-expired",
    "reconnect": "questions.html#how-soon-does-it-reconnect",
    "background jobs": "questions.html#background-jobs",
    "idempotent": "questions.html#how-to-write-each-order-once",
    "create_instance": "reference/tolliver.anyio.html",
}
"""Words that people type, and the page that answers."""
_PROGRAM = Path(__file__).with_name("search.js")
_TAG = re.compile(r"<[^>]+>")
_NEVER = ("reference/proofs.html", "proof.html")
"""Pages whose rows have everybody's words, and answer nobody's question."""
_BEHIND = ("reference/", "changelog.html", "contributing.html")
"""Pages that answer nobody's first question: their sections are found by their titles alone."""


def prefer_guides(path: Path) -> None:
    """Rewrites the index of a built site."""
    index = json.loads(path.read_text("utf-8"))
    kept: list[dict[str, Any]] = []
    for item in index["items"]:
        if item["location"].startswith(_NEVER):
            continue
        if not item["location"].startswith(_BEHIND):
            kept.append(item)
        elif not item["location"].startswith("reference/"):
            kept.append({**item, "text": ""})
        elif item["level"] <= 2:
            anchor = item["location"].partition("#")[2]  # a name with its module: the longer, the later it is found
            title = anchor if "." in anchor else _TAG.sub("", item["title"])
            kept.append({**item, "title": title, "text": _first(item["text"])})
        else:
            kept[-1]["text"] += " " + _TAG.sub("", item["title"]).split()[0]
    path.write_text(json.dumps({**index, "items": kept}, ensure_ascii=False), "utf-8")


def _first(text: str) -> str:
    return _TAG.sub("", text.partition("</p>")[0])[:200]


def checked(site: Path) -> str:
    """Says that each word of FIRST finds its page first; raises SystemExit where one does not."""
    node = shutil.which("node")
    if node is None:
        return "search is not checked: there is no node here"
    done = subprocess.run(
        [node, str(_PROGRAM), str(site), *FIRST], capture_output=True, text=True, check=True, timeout=60
    )
    found = dict(zip(FIRST, json.loads(done.stdout), strict=True))
    wrong = {word: hits[:3] for word, hits in found.items() if not hits or not hits[0].startswith(FIRST[word])}
    if wrong:
        raise SystemExit("\n".join(f"{word!r} finds {hits}, not {FIRST[word]} first" for word, hits in wrong.items()))
    return f"{len(found)} searches find their page first"

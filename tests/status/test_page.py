"""The page for people: its policy, its texts, and a look at it in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from tolliver._status.pages import respond
from tolliver.status import InstanceStatus

from .samples import hostile, snapshot
from .test_server import serving

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
PAGE = respond("/", None).whole.partition(b"\r\n\r\n")[2].decode()
POLICY = respond("/", None).head.decode().partition("Content-Security-Policy: ")[2].partition("\r\n")[0]
SECONDS = 120


@pytest.mark.parametrize("tag", ["style", "script"])
def test_the_policy_lets_its_own_parts_alone_run(tag: str) -> None:
    (part,) = re.findall(f"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    assert f"{tag}-src 'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" in POLICY
    assert POLICY.startswith("default-src 'none'; ")
    assert "unsafe" not in POLICY


def test_the_page_loads_nothing_and_makes_no_markup_of_texts() -> None:
    assert re.findall(r"https?://[^\"\s]+", PAGE) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", PAGE) == []
    assert re.findall(r"\bsrc=|@import|url\(", PAGE) == []
    assert re.findall(r"<[^>]+\s(?:on\w+|style)=", PAGE) == [], "the policy would keep them out"


def browse(tmp_path: Path, status: InstanceStatus) -> tuple[str, str]:
    """The page as a browser has it after some looks, and what that says in its console."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser looks at the page: on Debian, apt-get install chromium-headless-shell")
    command = [browser, "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    with serving(lambda answered: answered(status)) as server:
        url = f"http://127.0.0.1:{server.address[1]}/"
        seen = subprocess.run(
            [*command, "--virtual-time-budget=7000", url],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "HOME": str(tmp_path)},
            check=True,
        )
    return seen.stdout, "\n".join(line for line in seen.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.thorough
def test_a_browser_shows_what_there_is(tmp_path: Path) -> None:
    document, said = browse(tmp_path, snapshot())
    assert said == ""
    assert '<span id="state" class="pill good" role="status">ready</span>' in document
    for text in ("alice", "bob", "127.0.0.1:7011", "b:7011", "news", "jobs", "dial_failed"):
        assert text in document
    assert document.count("<svg") == 6


@pytest.mark.thorough
def test_a_browser_runs_nothing_that_others_have_written(tmp_path: Path) -> None:
    document, said = browse(tmp_path, hostile())
    assert said == ""
    assert "<script>alert" not in document
    assert document.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5

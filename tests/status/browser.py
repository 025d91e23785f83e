"""Headless browser with a page that stays open: told and asked by its protocol, over two pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
PATIENCE = 120.0  # seconds for one answer, and for what a page is to show
STEP = 0.05  # seconds between two looks
_PIPES = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def until(true: Callable[[], object], what: str) -> None:
    """Wait for it: each wait has its own time, as a browser takes its own."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what} did not come true"
        time.sleep(STEP)


def browser_or_skip() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser looks at the page: on Debian, apt-get install chromium-headless-shell")
    return found


class Browser:
    """A running browser, and what its pages say in their consoles."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._read = b""
        self._last = 0
        self.said: list[str] = []
        """Errors and words of consoles, and what the policy of a page has kept out."""

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._last += 1
        command: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            command["sessionId"] = session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._last:
                assert "error" not in told, told
                return dict(told["result"])
            self._hear(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            data = os.read(self._answers, 65536)
            assert data, "the browser has ended"
            self._read += data
        one, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(one))

    def _hear(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        if told["method"] == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(one.get("value")) for one in params["args"]))
        elif told["method"] == "Runtime.exceptionThrown":
            self.said.append(str(params["exceptionDetails"]))
        elif told["method"] == "Log.entryAdded" and params["entry"]["source"] not in ("network", "other"):
            self.said.append(str(params["entry"]["text"]))

    def open(self, url: str) -> Page:
        """A page of its own, in front of the others."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable", session)
        page = Page(self, session)
        self.call("Page.navigate", session, url=url)
        return page


class Page:
    """A page that stays open."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def ask(self, expression: str) -> Any:
        """The value of an expression of the page."""
        answer = self._browser.call("Runtime.evaluate", self._session, expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """All that it shows."""
        return str(self.ask("document.body.innerText"))

    def texts(self, selector: str) -> list[str]:
        """Texts of the elements that are shown."""
        found = self.ask(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.checkVisibility())"
            ".map(e => e.innerText.trim())"
        )
        return [str(one) for one in found]

    def until_shown(self, words: str) -> None:
        until(lambda: words in self.text, f"{words!r} on the page")

    def resize(self, width: int, height: int, *, dark: bool) -> None:
        self._browser.call(
            "Emulation.setDeviceMetricsOverride",
            self._session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._browser.call("Emulation.setEmulatedMedia", self._session, features=[scheme])


@contextmanager
def browsing(directory: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block."""
    command = [browser_or_skip(), "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    (for_browser, commands), (answers, of_browser) = os.pipe(), os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _PIPES, str(for_browser), str(of_browser), *command, f"--user-data-dir={directory}"],
        pass_fds=(for_browser, of_browser),
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(directory)},
    )
    os.close(for_browser)
    os.close(of_browser)
    browser = Browser(commands, answers)
    try:
        yield browser
        browser.call("Browser.close")
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()

"""First page of the site: the program in each of its tabs reaches a receiver."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import zygote
from .ports import free_port

PAGE = Path(__file__).parents[1] / "docs" / "index.md"
TABS = dict(re.findall(r"^/// tab \| ([^\n]+)\n.*?^```\w+\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S))
LIMIT = 60  # seconds, far above what any of them takes


def test_there_is_a_tab_for_each_way_of_at_most_a_dozen_lines() -> None:
    assert [*TABS] == ["asyncio", "threads", "Twisted", "command line"]
    assert all(sum(1 for line in text.splitlines() if line.strip()) <= 13 for text in TABS.values())


@pytest.mark.parametrize("tab", TABS)
def test_a_message_of_that_tab_is_handled(tab: str, tmp_path: Path) -> None:
    tolliver, port = [sys.executable, "-m", "tolliver"], str(free_port())
    zygote.run([*tolliver, "certs", "certs", "alice", "bob"], cwd=tmp_path, check=True, capture_output=True)
    said = TABS["command line"].replace("\\\n", " ").replace("7011", port)
    lines = [line.split()[1:] for line in said.splitlines() if line.startswith("tolliver")]
    typed = {words[0]: [*tolliver, *words] for words in lines}
    program = typed["send"] if tab == "command line" else [sys.executable, "-c", TABS[tab].replace("7011", port)]
    listen = [*typed["listen"], "--count", "1"]
    with zygote.Process(listen, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stderr is not None
            assert any("listening" in line for line in receiver.stderr)  # up to that line
            subprocess.run(program, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT)
            heard, _ = receiver.communicate(timeout=LIMIT)
        finally:
            receiver.kill()
    assert "greetings" in heard
    assert "hello" in heard

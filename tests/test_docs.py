"""Every Python example in README.md and docs/ runs.

The idea: a block with `anyio.run(` or `if __name__` is a program and runs alone. The other blocks of a page are one
program in the order of the page, in which `alice` and `bob` are two connected instances. A block that cannot run says
why in the line before it: `<!-- not run: reason -->`. Certificates lie in `certs/`, as the pages say; the default port
is replaced by a free one.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.certificates import Certificates

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATIENCE = 60  # seconds, far above what any of them takes
_BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_AROUND = """
import anyio
from tolliver_transports.anyio import TLS, InstanceOptions, create_instance

def options(name, **more):
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

async def main():
    async with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        async with create_instance(options("alice")) as alice:
            await alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

anyio.run(main)
"""

_AROUND_BLOCKING = """
from tolliver_transports.blocking import TLS, InstanceOptions, create_instance

def options(name, **more):
    tls = TLS(f"certs/{{name}}.pem", f"certs/{{name}}.key", "certs/ca.pem")
    return InstanceOptions(database=f"{{name}}.db", tls=tls, **more)

def main():
    with create_instance(options("bob", listen="127.0.0.1:0")) as bob:
        with create_instance(options("alice")) as alice:
            alice.new_connection(f"127.0.0.1:{{bob.port}}")
{fragments}

main()
"""
_AROUND_ON = {"blocking.md": _AROUND_BLOCKING}


def programs(page: Path) -> list[tuple[str, str]]:
    """(name, code) of all that a page can run."""
    found, fragments = [], []
    text = "\n" + page.read_text()
    for block in _BLOCK.finditer(text):
        code, line = block["code"], text[: block.start("code")].count("\n")
        if _NOT_RUN.fullmatch(block["before"].strip()):
            continue
        if "anyio.run(" in code or "if __name__" in code:
            found.append((f"{page.name}:{line}", code))
        else:
            fragments.append(code)
    if fragments:
        body = textwrap.indent("\n".join(fragments), " " * 12)
        found.append((f"{page.name}:fragments", _AROUND_ON.get(page.name, _AROUND).format(fragments=body)))
    return found


EXAMPLES = [example for page in PAGES for example in programs(page)]


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(name: str, code: str, certs: Certificates, tmp_path: Path) -> None:
    for member in ("alice", "bob"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = tmp_path / "example.py"
    program.write_text(code.replace("7011", str(port)))
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"


def test_the_pages_have_examples() -> None:
    pages = {name.partition(":")[0] for name, _ in EXAMPLES}
    assert {"README.md", "anyio.md", "blocking.md", "embedding.md", "twisted.md"} <= pages

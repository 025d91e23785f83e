"""Short suite with the lowest and the newest versions of each dependency, for each supported Python of this machine.

    python -m scripts.release.versions [--python 3.12 ...] [--resolution lowest-direct] [--spark]

An environment is made for each of them, with uv, and thrown away. The Pythons that are not here are named and left out;
`--spark` adds PySpark, half a gigabyte of it. Needs uv, which the dependency group `release` brings.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = ("lowest-direct", "highest")
EXTRAS = (
    "anyio", "audit", "blocking", "cli", "cloudevents", "django", "msgspec", "otel", "prometheus", "protobuf", "protoc",
    "twisted",
)  # fmt: skip
"""All that users can ask for, but `spark`."""
TOOLS = (
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "opentelemetry-sdk>=1.30",
    "trio>=0.26",
    "uvloop>=0.21",
    "psutil>=5.9",
)
"""For the tests alone: the newest is good enough."""
SUITE = (
    "tests/test_one_name.py",
    "tests/test_doors.py",
    "tests/wire/test_connection.py",
    "tests/anyio",
    "tests/blocking",
    "tests/twisted/test_deferreds.py",
    "tests/twisted/test_instance.py",
    "tests/twisted/test_pressure.py",
    "tests/twisted/test_service.py",
    "tests/twisted/test_streams.py",
    "tests/codecs/test_codecs.py",
    "tests/cli/test_errors.py",
    "tests/cli/test_auditing.py",
    "tests/tls/test_certs.py",
)


def uv(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """One command of uv, with the package index that pip is set to."""
    settings = {} if "UV_DEFAULT_INDEX" in os.environ else {"UV_DEFAULT_INDEX": _index()}
    environment = os.environ | {name: value for name, value in settings.items() if value}
    environment.pop("VIRTUAL_ENV", None)
    command = [shutil.which("uv") or str(Path(sys.executable).with_name("uv")), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _index() -> str:
    asked = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = re.search(r"index-url='([^']+)'", re.sub(r".*extra-index-url.*", "", said))
    return found[1] if found else ""


def demand(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def is_here(version: str) -> bool:
    return uv("python", "find", "--no-python-downloads", version).returncode == 0


def tried(version: str, resolution: str, extras: str) -> tuple[bool, str]:
    """True if the suite passes with one Python and one choice of versions; and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "venv"
        python, pins = home / "bin" / "python", Path(folder) / "pins.txt"
        demand(uv("venv", "--python", version, "--no-python-downloads", home))
        wanted = [part for extra in extras.split(",") for part in ("--extra", extra)]
        compiled = demand(
            uv("pip", "compile", "--python", python, "--resolution", resolution, *wanted, "pyproject.toml")
        )
        pins.write_text(compiled)
        demand(uv("pip", "install", "--python", python, "--constraint", pins, f"{ROOT}[{extras}]", *TOOLS))
        direct = "\n".join(line for line in compiled.splitlines() if "==" in line)
        print(f"Python {version}, {resolution}: {', '.join(direct.split())}", flush=True)
        command = [str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-m", _MARKS, *SUITE]
        if resolution != "highest":  # old libraries call what others have deprecated since, and leave sockets open
            command += [part for kind in _OLD for part in ("-W", f"ignore::{kind}")]
        if "spark" not in extras:
            command += ["-k", "not spark"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [done.stderr])[-1]
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-2000:])
    return done.returncode == 0, last


_OLD = ("DeprecationWarning", "PendingDeprecationWarning", "pytest.PytestUnraisableExceptionWarning")
_MARKS = "not loops and not turns and not tck and not thorough and not typed and not search"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="VERSION")
    parser.add_argument("--resolution", nargs="+", default=RESOLUTIONS, choices=RESOLUTIONS)
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args(arguments)
    extras = ",".join([*EXTRAS, *(["spark"] if options.spark else [])])
    failed = False
    for version in options.python:
        if not is_here(version):
            print(f"Python {version}: not on this machine, left out")
            continue
        for resolution in options.resolution:
            passed, last = tried(version, resolution, extras)
            failed |= not passed
            print(f"Python {version}, {resolution}: {'passed' if passed else 'FAILED'}: {last}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

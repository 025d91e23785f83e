"""Release: a wheel and a source archive, built twice and checked, with a bill of materials and checksums beside them.

    python -m scripts.release [--out dist] [--against COMMIT]

It builds from fresh copies of the files that git has, so that nothing else gets in, and fills in the address of the
repository (scripts/release/hosting.py). Without that setting it says what is missing, and makes a candidate alone. The
first message of README is sent with the wheel (scripts/release/installed.py). `--against` is for the break check
(scripts/release/api.py). Needs the extra `cli` and the dependency group `release`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email import message_from_string
from email.message import Message
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

from scripts.release import hosting, installed
from scripts.rooms import packages

ROOT = Path(__file__).resolve().parents[2]

TYPED = ("tolliver_proto", "tolliver")
PLAIN = ("pyspark_tolliver",)
_WITH_SOURCES = ("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "docs/messaging.md")
_SIZES = {".whl": 3 * 2**19, ".gz": 4 * 2**20}
"""Bytes that an archive may have: half as much again as it had when it was first made."""
_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)(?P<extras>\[[^]]*\])?(?P<range>[^;]*?)\s*(?:;(?P<marker>.*))?$")
_OF_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(parts)}\n{done.stdout}{done.stderr}")
    return done.stdout


def version(root: Path = ROOT) -> str:
    """The one place that has it."""
    [found] = re.findall(r'^__version__ = "([^"]+)"$', (root / "tolliver_proto/__init__.py").read_text("utf-8"), re.M)
    return str(found)


def moment() -> str:
    """The time that goes into the archives: SOURCE_DATE_EPOCH, else that of the commit."""
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()


def copied(into: Path) -> Path:
    """The files that git has or would take, in a folder of their own."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, into / name)
    return into


def built(into: Path, epoch: str, address: str) -> list[Path]:
    """A source archive, and the wheel that is built from it."""
    with tempfile.TemporaryDirectory() as folder:
        sources = copied(Path(folder))
        if address:
            hosting.fill(sources, address, version())
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, cwd=sources, SOURCE_DATE_EPOCH=epoch)
    return sorted(path for path in into.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Contents.


def in_wheel(wheel: Path) -> tuple[set[str], Message]:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        return names, message_from_string(archive.read(metadata).decode())


def wanted() -> set[str]:
    """Files of the packages that a wheel must have."""
    modules = {str(path.relative_to(ROOT)).removeprefix("transports/") for path in packages().values()}
    return modules | {f"{package}/py.typed" for package in TYPED}


def wheel_problems(wheel: Path) -> Iterator[str]:
    names, metadata = in_wheel(wheel)
    code = {name for name in names if ".dist-info/" not in name}
    yield from (f"the wheel lacks {name}" for name in sorted(wanted() - code))
    foreign = {name for name in code if name.split("/")[0] not in (*TYPED, *PLAIN)}
    yield from (f"the wheel has {name}, which is no part of a package" for name in sorted(foreign))
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        yield "the wheel lacks the license"
    yield from metadata_problems(metadata)


def settings() -> dict[str, Any]:
    """The project's own, from pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def metadata_problems(metadata: Message) -> Iterator[str]:
    wished = settings()
    if metadata["Version"] != version():
        yield f"the metadata have version {metadata['Version']}, the code has {version()}"
    if metadata["Requires-Python"] != wished["requires-python"]:
        yield "the metadata name other versions of Python"
    if {*metadata.get_all("Provides-Extra", [])} != {*wished["optional-dependencies"]}:
        yield "the metadata have other extras"
    required = [one for one in metadata.get_all("Requires-Dist", []) if not _OF_EXTRA.search(one)]
    if required:
        yield f"an installation without extras asks for {required}"
    if metadata["Description-Content-Type"] != "text/markdown":
        yield "the README has no type"


def address_problems(metadata: Message, address: str) -> Iterator[str]:
    """Links of the metadata that are not those of the repository. Without its address there are none to be."""
    wished = hosting.urls(address, version()) if address else {}
    if {*metadata.get_all("Project-URL", [])} != {f"{label}, {url}" for label, url in wished.items()}:
        yield "the metadata have other links of the project"
    text = str(metadata.get_payload() or "")
    if address and hosting.absolute(text, address, version()) != text:
        yield "the README links to files beside it, which an index has not"


def source_problems(archive: Path) -> Iterator[str]:
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    needed = {str(path.relative_to(ROOT)) for path in packages().values()} | {*_WITH_SOURCES}
    yield from (f"the source archive lacks {name}" for name in sorted(needed - names))
    private = {name for name in names if name.split("/")[0] in {".git", ".venv", ".ci", "dist", "build"}}
    yield from (f"the source archive has {name}" for name in sorted(private))


def size_problems(archive: Path) -> Iterator[str]:
    size, most = archive.stat().st_size, _SIZES[archive.suffix]
    if size > most:
        yield f"{archive.name} has {size:,} bytes, more than {most:,}: look at what came in, or raise _SIZES"


# Bill of materials.


def requirements(metadata: Message) -> dict[str, tuple[str, set[str]]]:
    """From each library to its range and the extras that bring it, our own name left out."""
    found: dict[str, tuple[str, set[str]]] = {}
    for one in metadata.get_all("Requires-Dist", []):
        parts = _REQUIREMENT.match(one)
        assert parts is not None, one
        if parts["name"] != metadata["Name"]:
            extras = _OF_EXTRA.findall(parts["marker"] or "")
            found.setdefault(parts["name"].lower(), (parts["range"].strip(), set()))[1].update(extras)
    return found


def bill(metadata: Message, files: Iterable[Path], epoch: str) -> str:
    """CycloneDX 1.6 in JSON: the distribution, its archives, and each library that an extra brings."""
    from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentScope, ComponentType
    from cyclonedx.model.license import DisjunctiveLicense
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    name, number = metadata["Name"], metadata["Version"]
    archives = [*files]
    root = Component(
        name=name,
        version=number,
        type=ComponentType.LIBRARY,
        bom_ref=name,
        purl=PackageURL("pypi", name=name, version=number),
        licenses=[DisjunctiveLicense(id=metadata["License-Expression"])],
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(path.name),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest(path))],
            )
            for path in archives
        ],
    )
    libraries = [
        Component(
            name=library,
            type=ComponentType.LIBRARY,
            bom_ref=library,
            scope=ComponentScope.OPTIONAL,
            purl=PackageURL("pypi", name=library),
            properties=[
                Property(name="tolliver:range", value=allowed),
                Property(name="tolliver:extras", value=", ".join(sorted(extras))),
            ],
        )
        for library, (allowed, extras) in sorted(requirements(metadata).items())
    ]
    bom = Bom(components=libraries, serial_number=uuid5(NAMESPACE_URL, "".join(map(digest, archives))))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(epoch), UTC)
    bom.register_dependency(root, libraries)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise SystemExit(f"the bill of materials is no CycloneDX: {wrong}")
    return text + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--against", metavar="COMMIT", default="", help="compare the public interface with this one")
    options = parser.parse_args(arguments)
    address = hosting.repository(ROOT)
    missing = hosting.missing(address, version())
    epoch = moment()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    files = built(options.out, epoch, address)
    with tempfile.TemporaryDirectory() as again:
        other = {path.name: digest(path) for path in built(Path(again), epoch, address)}
    problems = [f"{path.name}: built twice, two results" for path in files if other.get(path.name) != digest(path)]
    sources, wheel = (next(path for path in files if path.name.endswith(end)) for end in (".tar.gz", ".whl"))
    problems += [*wheel_problems(wheel), *source_problems(sources)]
    problems += [problem for path in files for problem in size_problems(path)]
    problems += [*address_problems(in_wheel(wheel)[1], address), *installed.problems(wheel)]
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    metadata = in_wheel(wheel)[1]
    materials = options.out / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    materials.write_text(bill(metadata, files, epoch), "utf-8")
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in [*files, materials])
    (options.out / "SHA256SUMS").write_text(sums, "utf-8")
    draft = run(sys.executable, "-m", "towncrier", "build", "--draft", "--version", version())
    api: Any = import_module("scripts.release.api")
    problems += ["the public interface broke unannounced"] * api.main(["--against", options.against])
    print(sums + draft.rstrip())
    if missing:
        print(missing)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(json.loads(materials.read_text('utf-8'))['components'])} libraries, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""A build with compiled modules, from the same sources: `make compiled`.

    python -m scripts.compiled [--optimize 1]

mypyc compiles the modules that `[tool.tolliver] compiled` in pyproject.toml names: in a copy of the files that git has,
build/compiled/tree, where tests can run on it, and into a wheel beside it. scripts/native.py says there first, in words
that mypyc knows, which classes are records and which names are constants. The wheel has all that the pure one has, and
the compiled modules beside their sources, so that TOLLIVER_PURE=1 can choose the sources. Needs the extra `build` and a
C compiler. All modules are one library, with a C file for each: as one C file they take a C compiler hours, and as
libraries of their own each would compile mypyc's runtime again, which took two thirds of the time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.native import native
from scripts.release.__main__ import ROOT, copied, run

OUT = ROOT / "build" / "compiled"
TREE = OUT / "tree"
_PACKAGES = {"tolliver_proto": "tolliver_proto", "tolliver": "transports/tolliver"}
_LIBRARY = "tolliver_proto"  # the file has another name: mypyc finds the modules' files from the folder it is in
_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


def modules(root: Path = ROOT) -> list[str]:
    """Files of the modules to compile, from the root."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["tolliver"]
    return [str(path.relative_to(root)) for pattern in settings["compiled"] for path in sorted(root.glob(pattern))]


def compile_here(optimize: str) -> None:
    """Compiles in the current folder, beside the sources."""
    from mypyc.build import mypycify
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext

    class Compile(build_ext):  # type: ignore[misc]  # mypy does not follow it: see pyproject.toml
        """Compiles the C files of the library side by side: setuptools does so with libraries alone."""

        def build_extension(self, extension: Extension) -> None:
            options = {
                "output_dir": self.build_temp,
                "include_dirs": extension.include_dirs,
                "extra_postargs": extension.extra_compile_args,
            }
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = list(pool.map(lambda file: self.compiler.compile([file], **options), extension.sources))
            extension.sources, extension.extra_objects = [], [one for objects in made for one in objects]
            super().build_extension(extension)

    shutil.rmtree(".mypy_cache", ignore_errors=True)  # with the one of another build mypyc fails
    files = modules(Path.cwd())
    settings = ["--no-warn-return-any", "--no-warn-unused-ignores"]  # the fields of records have no types here
    settings += ["--no-warn-unreachable"]  # some lines are for other versions of Python
    made = mypycify(
        [*settings, *files], opt_level=optimize, debug_level="0", multi_file=True, separate=[(files, _LIBRARY)]
    )
    setup(name="tolliver", ext_modules=made, package_dir=_PACKAGES, packages=[], cmdclass={"build_ext": Compile},
          script_args=["--quiet", "build_ext", "--inplace", f"--parallel={os.cpu_count()}"])  # fmt: skip


def wheel(tree: Path, out: Path) -> Path:
    """The pure wheel of these sources, with the compiled modules of the tree, and the tag of this Python."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out / "pure", cwd=tree)
    [pure] = (out / "pure").glob("*.whl")
    run(sys.executable, "-m", "wheel", "unpack", "--dest", out, pure)
    [unpacked] = out.glob("tolliver_proto-*/")
    for file in tree.glob(f"*{_SUFFIX}"):
        shutil.copyfile(file, unpacked / file.name)
    for package, folder in _PACKAGES.items():
        for file in (tree / folder).rglob(f"*{_SUFFIX}"):
            shutil.copyfile(file, unpacked / package / file.relative_to(tree / folder))
    [told] = unpacked.glob("*.dist-info/WHEEL")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    text = told.read_text("utf-8").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    told.write_text(re.sub(r"^Tag: .*$", f"Tag: {python}-{python}-{platform}", text, flags=re.M), "utf-8")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", out, unpacked)
    [made] = out.glob("*.whl")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimize", choices="0123", default="1", help="of the C compiler")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        compile_here(options.optimize)
        return
    shutil.rmtree(OUT, ignore_errors=True)
    copied(TREE)
    for file in (TREE / name for name in modules(TREE)):
        file.write_text(native(file.read_text("utf-8")), "utf-8")
    command = [sys.executable, "-m", "scripts.compiled", "--here", "--optimize", options.optimize]
    subprocess.run(command, cwd=TREE, check=True, env={**os.environ, "PYTHONPATH": str(TREE)})
    copied(TREE)  # the sources as they are, for TOLLIVER_PURE=1
    print(wheel(TREE, OUT))


if __name__ == "__main__":
    main()

"""Fuzz targets (V3) as data: body, first cases, modules with edges.

A target is a name here and two functions in a module of bodies, `NAME(data)` and `NAME_seeds()`. Every maker of bytes
goes through this table: atheris (`python -m fuzz TARGET`), all of them at once (`make fuzz`), and the tests, with
hypothesis, every case of the corpus, and every crash there ever was.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent
CORPUS, CRASHES, DICTIONARIES = ROOT / "corpus", ROOT / "crashes", ROOT / "dictionaries"

Body = Callable[..., object]


class Target(NamedTuple):
    """One of them. `module` has its body; `watched` are the packages whose edges count; `words` names a dictionary."""

    name: str
    module: str
    body: str
    watched: tuple[str, ...] = ("tolliver_proto",)
    words: str = "wire"
    needs: str = ""

    def load(self) -> tuple[Body, Callable[[], list[bytes]]]:
        """The body and what makes its seeds. To be imported under atheris where edges are counted."""
        module = import_module(self.module)
        return getattr(module, self.body), getattr(module, f"{self.body}_seeds")

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name

    @property
    def crashes(self) -> Path:
        return CRASHES / self.name

    @property
    def cases(self) -> list[Path]:
        """Every case that is kept: of the corpus, and every crash that there was."""
        return sorted(path for folder in (self.corpus, self.crashes) for path in folder.glob("*") if path.is_file())


_SPARK = ("tolliver.spark.read._columns", "tolliver.spark.read._ranges")
_SHOWN = ("tolliver._tls.x509", "tolliver._options.acl_file", "tolliver.derived")
_STAGED = ("tolliver.staging",)
_ALL = (
    Target("decoder", "fuzz.bodies", "decoder"),
    Target("connection", "fuzz.bodies", "connection"),
    Target("node", "fuzz.node_bodies", "operations", words="steps"),
    Target("reactive_decoder", "fuzz.reactive_bodies", "decoder", words="reactive"),
    Target("reactive_connection", "fuzz.reactive_bodies", "connection", words="reactive"),
    Target("reactive_hub", "fuzz.hub_bodies", "operations", words="reactive"),
    Target("recording", "fuzz.recording_bodies", "blocks", words="recording"),
    Target("frames", "fuzz.recording_bodies", "frames"),
    Target("index", "fuzz.recording_bodies", "index", words="recording"),
    Target("ranges", "fuzz.ranges_bodies", "ranges", ("tolliver_proto", *_SPARK), "recording", needs="pyarrow"),
    Target("columns", "fuzz.columns_bodies", "columns", ("tolliver_proto", *_SPARK), needs="pyarrow"),
    Target("stages", "fuzz.staging_bodies", "stages", ("tolliver_proto", *_STAGED), "recording", needs="attrs"),
    Target("ids", "fuzz.staging_bodies", "ids", ("tolliver_proto", *_STAGED), "recording", needs="attrs"),
    Target(
        "certificate", "fuzz.trust_bodies", "certificate", ("tolliver_proto", *_SHOWN), "trust", needs="cryptography"
    ),
    Target("rules", "fuzz.trust_bodies", "rules", ("tolliver_proto", *_SHOWN), "trust", needs="cryptography"),
)
TARGETS = {target.name: target for target in _ALL}


def named(name: str) -> Target | None:
    """The target of that name, or one of your own: `MODULE:BODY`."""
    module, colon, body = name.partition(":")
    return Target(name, module, body, ("tolliver_proto", module)) if colon else TARGETS.get(name)

"""Results as JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from .cases import Result, Verdict


def write_junit(path: Path, results: Sequence[Result]) -> None:
    """A suite of all results. A case's name begins with its id. Raises OSError."""
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    suite = ElementTree.Element(
        "testsuite",
        name="tolliver conform",
        tests=str(len(results)),
        failures=str(counts[Verdict.FAILED]),
        errors="0",
        skipped=str(counts[Verdict.SKIPPED]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"conform.{result.role}",
            name=f"{result.id} {result.text}",
            time=f"{result.seconds:.3f}",
        )
        properties = ElementTree.SubElement(case, "properties")
        for name, value in (("level", result.level), ("rulings", " ".join(result.rulings))):
            ElementTree.SubElement(properties, "property", name=name, value=value)
        if result.verdict is Verdict.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=_plain(f"expected {result.expected}"))
            failure.text = _plain(f"saw {result.seen}")
        elif result.verdict is Verdict.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=_plain(result.seen))
    ElementTree.indent(suite)
    ElementTree.ElementTree(suite).write(path, "utf-8", xml_declaration=True)


def _plain(text: str) -> str:
    """Without the characters that XML has no form for."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)

"""Sentences of pages, docstrings and comments: each begins with its subject, none with a clause that stands for one."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.rooms import ROOT, files, outside, packages

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [*packages().values(), *outside().values(), *files(ROOT, ["tests"]).values()]
SETTINGS = [ROOT / "Makefile", ROOT / "pyproject.toml"]
# A question may begin so.
OPENING = re.compile(r"(?<![\w-])(?:What|Who|Whatever|Whoever)\b(?![^.!?|]*\?)")
SMALL = re.compile(r"# (?:what|who)")
COMMENT = re.compile(r"(?<!\S)#+ (.*)")
BEGINNING = re.compile(r"(?<=# )[a-z]")  # a comment beside code begins with a small letter
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`[^`\n]+`|\"[^\"|]+\"")


def blank(match: re.Match[str]) -> str:
    """As many lines, and nothing in them."""
    return "\n" * match[0].count("\n") or "x"


def capital(match: re.Match[str]) -> str:
    return match[0].upper()


def commented(match: re.Match[str]) -> str:
    """The comments of some lines of code."""
    return "\n".join("".join(COMMENT.findall(line)) for line in match[0].split("\n"))


def of_page(text: str) -> str:
    """The page's own words: no code but its comments, nothing quoted."""
    return QUOTED.sub(blank, FENCED.sub(commented, text))


def of_settings(text: str) -> str:
    return QUOTED.sub(blank, "\n".join("".join(COMMENT.findall(line)) for line in text.split("\n")))


def of_source(text: str) -> str:
    """Docstrings, of attributes too, and comments, each on its line."""
    lines = [""] * (text.count("\n") + 2)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number, line in enumerate(node.value.value.split("\n"), node.lineno):
                lines[number] += line
    above = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            number = token.start[0]
            lines[number] += token.string if number == above + 1 else BEGINNING.sub(capital, token.string)
            above = number if token.line.lstrip().startswith("#") else 0
    return QUOTED.sub(blank, "\n".join(lines[1:]))


KINDS = {".md": of_page, ".py": of_source}


def openings(path: Path) -> Iterator[int]:
    """Lines with such a sentence."""
    text = path.read_text("utf-8")
    if OPENING.search(text) or SMALL.search(text):  # to read a source as one takes its time
        prose = KINDS.get(path.suffix, of_settings)(text)
        for found in OPENING.finditer(prose):
            yield prose.count("\n", 0, found.start()) + 1


@pytest.mark.parametrize("paths", [PAGES, SOURCES, SETTINGS], ids=["pages", "sources", "settings"])
def test_no_sentence_begins_with_a_clause_for_its_subject(paths: list[Path]) -> None:
    assert len(paths) > 1
    assert [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in openings(path)] == []


QUESTION = re.compile(r'^ *"""(?:How|When|Where|Whether|Whom|Whose)\b.*', re.MULTILINE)


def test_no_docstring_begins_with_a_question() -> None:
    """Its first line is the noun that a reader looks for."""
    found = {str(path.relative_to(ROOT)): QUESTION.findall(path.read_text("utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_such_docstrings_are_found() -> None:
    text = '"""Whether it is."""\nclass A:\n    """Whereabouts."""\n    def b(self):\n        """How often."""'
    assert [one.strip() for one in QUESTION.findall(text)] == ['"""Whether it is."""', '"""How often."""']


FIRST_LINE = re.compile(r'"""(.*)')
CITATION = re.compile(r" \((?:PEP |[A-Z]-?)\d.*?\)")


def words(line: str) -> int:
    """Of a docstring's first line, without the rulings that it cites."""
    return len(CITATION.sub("", line).split())


def test_modules_are_named_within_twelve_words() -> None:
    """A line in a list of the room's files; the explanation follows it."""
    lines = {name: FIRST_LINE.match(path.read_text("utf-8")) for name, path in packages().items()}
    assert {name for name, line in lines.items() if line is not None and words(line[1]) > 12} == set()
    assert words("Lanes of one handler (P-20, P-21) and (not) others.") == 7


PAGE = """# Page

```python
x = 1  # {0} it is
```
- {0} is sent. {0} comes: {0} goes
| cell | {0} waits |
"{0} waits" and `{0} waits`. {0} waits?
"""
SOURCE = '''"""{0} is here.

So: {0} comes.
"""

x = "{0} is said"  # {0} waits
"""{0} it is."""
y = 1  # noqa: E501  # {1} waits
# Here is
# {1} waits.
'''


@pytest.mark.parametrize("word", ["What", "Who", "Whatever", "Whoever"])
@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [("page.md", PAGE, [4, 6, 6, 6, 7]), ("code.py", SOURCE, [1, 3, 6, 7, 8]), ("Makefile", "x: # {0} is\n", [1])],
)
def test_such_sentences_are_found(tmp_path: Path, word: str, name: str, text: str, lines: list[int]) -> None:
    path = tmp_path / name
    path.write_text(text.format(word, word.lower()))
    assert [*openings(path)] == lines

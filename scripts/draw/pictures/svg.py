"""Small SVG pictures for light and dark paper, with a text for who cannot see them.

Colours are classes, and fonts those of the system, so a picture asks for nothing from elsewhere.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from xml.sax.saxutils import escape

INKS = {  # of light paper, of dark paper
    ".paper": ("fill", "#ffffff", "#0d1117"),
    ".box": ("fill", "#f3f5f8", "#161c24"),
    ".ink": ("fill", "#1f2328", "#e6edf3"),
    ".faint": ("fill", "#59636e", "#9198a1"),
    ".good": ("fill", "#1a7f37", "#4cc38a"),
    ".fair": ("fill", "#9a6700", "#e3b341"),
    ".bad": ("fill", "#c2255c", "#ff7eb6"),
    ".rule": ("stroke", "#d1d9e0", "#30363d"),
    ".edge": ("stroke", "#8c959f", "#6e7681"),
    ".wire": ("stroke", "#0b63c5", "#6cb6ff"),
    ".disk": ("stroke", "#1a7f5a", "#4cc38a"),
    ".call": ("stroke", "#a8551f", "#f0a26b"),
}
_SHAPES = """
text { font: 13px system-ui, sans-serif; } .small { font-size: 12px; } .title { font-weight: 600; }
.mono { font-family: ui-monospace, monospace; font-size: 12px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.line { fill: none; stroke-width: 1.6; } .dashed { stroke-dasharray: 4 3; } .thin { stroke-width: 1; }
"""


def style() -> str:
    light, dark = (
        "\n".join(f"{chosen} {{ {what}: {colours[which]}; }}" for chosen, (what, *colours) in INKS.items())
        for which in (0, 1)
    )
    return f"{_SHAPES}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def picture(title: str, told: str, width: float, height: float, parts: Iterable[str], more: str = "") -> str:
    """The file. `told` says the same in words; `more` are further styles."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-labelledby="title told">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="told">{escape(told)}</desc>\n<style>{style()}{more}</style>\n'
        f"{rectangle('paper', 0, 0, width, height)}\n" + "\n".join(parts) + "\n</svg>\n"
    )


def words(kind: str, x: float, y: float, text: str) -> str:
    colour = "" if {"faint", "good", "fair", "bad"} & {*kind.split()} else "ink "
    return f'<text class="{colour}{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def rectangle(kind: str, x: float, y: float, width: float, height: float, round_: float = 0) -> str:
    corner = f' rx="{round_:g}"' if round_ else ""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{corner}/>'


def line(kind: str, *places: tuple[float, float]) -> str:
    path = "L".join(f"{x:g} {y:g}" for x, y in places)
    return f'<path class="line {kind}" d="M{path}"/>'


def arrow(kind: str, *places: tuple[float, float]) -> list[str]:
    """A line whose last stretch, level or upright, ends in a head."""
    (x0, y0), (x, y) = places[-2:]
    size = 6
    if abs(x - x0) >= abs(y - y0):
        back = -size if x > x0 else size
        head = ((x + back, y - 4), (x, y), (x + back, y + 4))
    else:
        back = -size if y > y0 else size
        head = ((x - 4, y + back), (x, y), (x + 4, y + back))
    return [line(kind, *places), line(kind, *head)]


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width) or [""]

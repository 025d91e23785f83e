"""Drawing of the Wireshark dissector's layouts from those of the core.

A layout that the dissector has and this version of the core has not stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tolliver_proto import Ack, HandshakeFinal, HandshakeRequest, HandshakeResponse, Message, Subscribe, Unsubscribe
from tolliver_proto.layouts import LAYOUTS

SCRIPT = Path(__file__).parents[2] / "transports" / "tolliver" / "_cli" / "tolliver.lua"
FRAMES = {HandshakeRequest: "request", HandshakeResponse: "response", HandshakeFinal: "final"} | {
    Message: "message",
    Ack: "ack",
}
CONTROLS = {Subscribe: "subscribe", Unsubscribe: "unsubscribe"}
_DRAWN = re.compile(r"(?<=-- drawn: layouts\n)local NAMES.*?^(  .*?)^\}\n(?=-- end\n)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^  (\w+) = \{\n(.*?)^  \},\n", re.MULTILINE | re.DOTALL)


def spec(head: Any, parts: Iterable[str]) -> str:
    """Fields and parts of a frame; "" where the layout has none."""
    return "" if head is None else ", ".join((head.spec, *(f"*{part}" for part in parts)))


def quoted(raw: bytes | str) -> str:
    text = raw if isinstance(raw, str) else "".join(f"\\{byte}" for byte in raw)
    return f'"{text}"'


def table(values: Mapping[Any, str]) -> str:
    cells = ", ".join(f"{key} = {value}" for key, value in values.items())
    return f"{{ {cells} }}" if values else "{}"


def by_code(codes: Mapping[Any, int], words: Mapping[Any, str]) -> str:
    drawn = {code: words[meaning] for meaning, code in codes.items()}
    return table({f"[{code}]": drawn[code] for code in sorted(drawn)})


def entry(layout: Any) -> Iterator[str]:
    """Lines of one layout, in the script's own names."""
    names = {kind: quoted(name) for kind, name in FRAMES.items()}
    acks = {kind: quoted("handled" if kind is Ack else "refused") for kind in getattr(layout, "acks", {Ack: 0})}
    statuses = {status: quoted(status.name.lower()) for status in layout.statuses}
    # In the layouts of both drafts all lengths stand before all parts; others name the parts where they are.
    parts = getattr(layout, "parts", ())
    yield f"codes = {by_code(layout.codes, names)}"
    yield f"request = {quoted(spec(layout.request, ()))}"
    yield f"response = {quoted(spec(layout.response, ()))}"
    yield f"final = {quoted(spec(layout.final, ()))}"
    yield f"message = {quoted(spec(layout.message, parts))}"
    yield f"ack = {quoted(spec(layout.ack, ()))}"
    yield f"entry = {quoted(spec(layout.entry, parts[:2]))}"
    yield f"list_prefix = {quoted(getattr(layout, 'list_prefix', b''))}"
    yield f"statuses = {by_code(layout.statuses, statuses)}"
    yield f"acks = {by_code(getattr(layout, 'acks', {Ack: 0}), acks)}"
    yield f"finals = {by_code(layout.finals, {True: 'true', False: 'false'})}"
    yield f"controls = {table({CONTROLS[kind]: quoted(prefix) for kind, prefix in layout.controls.items()})}"
    yield f"control_count = {quoted(spec(getattr(layout, 'control_count', None), ()))}"
    yield f"unreliable_id = {quoted(str(layout.unreliable_id))}"
    yield f"final_always = {'true' if getattr(layout, 'final_always', False) else 'false'}"


def script(text: str) -> str:
    """The script with the layouts as they are to be."""
    [found] = _DRAWN.finditer(text)
    entries = dict(_ENTRY.findall(found[1]))
    for revision, layout in LAYOUTS.items():
        entries[revision.name] = "".join(f"    {line},\n" for line in entry(layout))
    body = "".join(f"  {name} = {{\n{lines}  }},\n" for name, lines in entries.items())
    names = f"local NAMES = {{ {', '.join(map(quoted, entries))} }}"
    return f"{text[: found.start()]}{names}\nlocal LAYOUTS = {{\n{body}}}\n{text[found.end() :]}"


def files() -> Iterator[tuple[Path, str]]:
    yield SCRIPT, script(SCRIPT.read_text("utf-8"))

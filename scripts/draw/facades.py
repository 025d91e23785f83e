"""Drawing of the calls of Twisted and of threads from those of asyncio.

Signatures and docstrings are written once, in `anyio/instance.py` and `anyio/streams.py`. There a call that waits is a
coroutine whose last statement awaits one expression, `self._core.wait(CALL)` or another object's call:

    asyncio   return await self._core.wait(CALL)       another's: return f(await other.call(...))
    Twisted   return self._core.answer(lambda: CALL)   return maybeDeferred(lambda: other.call(...)).addCallback(f)
    threads   return self._core.ask(partial(CALL), t)  return f(other.call(..., timeout=timeout))

One with a time limit is `self._core.ask(partial(CALL), timeout)`, so that a wrong limit is refused before the call is
made: the same on threads, and `answer` in place of `ask` on Twisted.
On threads each of these has a `timeout`, in seconds, where asyncio's has none, and so has what returns an iterator.
Arguments are evaluated before the machine's lock is taken: a generator or a codec may take its time.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "transports" / "tolliver"
FILES = ("instance.py", "streams.py")
ITERATORS = {"Messages", "Runs", "Work", "TypedMessages", "TypedRuns", "TypedWork", "Events", "Subscription"}
TIMEOUT = "timeout: float | None = None"
Edit = tuple[int, int, str]
"""Text in place of that between two offsets."""


@dataclass(frozen=True)
class Adapter:
    """Names and words of another adapter, in place of those of asyncio."""

    folder: str
    modules: dict[str, str]
    """A name, and the import that brings it."""
    titles: dict[str, str]
    """The first line of a module."""
    classes: dict[str, str]
    """Docstrings of classes that are used otherwise."""
    words: dict[str, str]
    extra: tuple[str, ...]
    """Imports of what is drawn."""
    waits_itself: frozenset[str] = field(default_factory=frozenset)
    """Calls without a time limit."""


TWISTED = Adapter(
    "twisted",
    modules={
        "Events": "from .events import Events",
        "Subscription": "from .subscription import Subscription",
    },
    titles={
        "instance.py": "Calls of an instance on Twisted, which answer with Deferreds.",
        "streams.py": "Calls of streams with demand on Twisted.",
    },
    classes={
        "Instance": """A running instance, from `create_instance` to `close`. Its calls belong on the reactor's thread.

    A call that waits returns a Deferred: "returns" means that the Deferred fires, "raises" that it fails. Cancelling a
    Deferred makes it fail at once, but does not undo the operation. Every call except `close`, `peers`, `notices`,
    `stats` and `subscriptions` fails with ConnectionClosing if the instance is not open. A wrong argument fails a call
    with TypeError, or with ValueError for a number out of range, before anything changes.
    """,
        "Streams": "Running streams, from `create_streams` to `close`. Its calls belong on the reactor's thread.",
    },
    words={},
    extra=("from twisted.internet.defer import Deferred, maybeDeferred",),
)
THREADS = Adapter(
    "blocking",
    modules={
        "Events": "from .events import Events",
        "Messages": "from .iterators import Messages",
        "Runs": "from .iterators import Runs",
        "Registration": "from .handler_calls import Registration",
        "Work": "from .work import Work",
        "TypedMessages": "from .typed import TypedMessages",
        "TypedRuns": "from .typed import TypedRuns",
        "TypedWork": "from .typed import TypedWork",
        "CONCURRENCY": "from .handler_calls import CONCURRENCY",
        "Subscription": "from .subscription import Subscription",
        "Source": "from .._streams.sources import PlainSource as Source",
    },
    titles={
        "instance.py": "Calls of an instance on threads, which block.",
        "streams.py": "Calls of streams with demand on threads, which block.",
    },
    classes={
        "Instance": """A running instance: use `with create_instance(options) as instance`, from any thread.

    `timeout` is in seconds; None means no limit. After it TimeoutError is raised, but the operation goes on; a loop
    over an iterator ends instead, and may be started again. Every call except `close`, `peers`, `notices`, `stats` and
    `subscriptions` raises ConnectionClosing if the instance is not open; in a forked child every call does (T-79). A
    wrong argument raises TypeError, or ValueError for a number out of range, before anything changes.
    """,
        "Streams": """Running streams: use `with create_streams(options) as streams`, from any thread.

    A loop over an iterator also ends after `timeout` seconds without an item.
    """,
    },
    words={
        "`async for ": "`for ",
        "`async with ": "`with ",
        ", plain or async,": "",
        " or an async iterable": "",
        ", or an awaitable of one": "",
    },
    extra=("from functools import partial", "from .interrupts import made"),
    waits_itself=frozenset({"Streams.reload_tls"}),
)


def drawn(name: str, adapter: Adapter) -> str:
    """The text of a file of that adapter."""
    source = (PACKAGE / "anyio" / name).read_text(encoding="utf-8")
    drawing = _Drawing(source, name, adapter)
    return _formatted(drawing.text())


class _Drawing:
    """One file on its way to another adapter."""

    def __init__(self, source: str, name: str, adapter: Adapter) -> None:
        self._source = source
        self._name = name
        self._adapter = adapter
        self._on_threads = adapter is THREADS
        self._edits: list[Edit] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))

    def text(self) -> str:
        module = ast.parse(self._source)
        self._put(module.body[0], self._module_docstring())
        for node in module.body:
            if isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.ClassDef):
                self._class(node)
        last = next(node for node in module.body if isinstance(node, ast.ImportFrom) and node.module != "__future__")
        self._insert(self._start(last), "\n".join(self._adapter.extra) + "\n")
        data = self._source.encode()
        for start, end, text in sorted(self._edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        return data.decode()

    def _module_docstring(self) -> str:
        title = self._adapter.titles[self._name]
        return f'"""{title}\n\nDrawn by scripts/draw/facades.py from `anyio/{self._name}`: change that.\n"""'

    def _import(self, node: ast.ImportFrom) -> None:
        own = [alias.name for alias in node.names if alias.name in self._adapter.modules]
        if not own:
            return
        left = [ast.unparse(alias) for alias in node.names if alias.name not in self._adapter.modules]
        lines = [self._adapter.modules[name] for name in own]
        if left:
            lines.append(f"from {'.' * node.level}{node.module} import {', '.join(left)}")
        self._put(node, "\n".join(lines))

    def _class(self, node: ast.ClassDef) -> None:
        if node.name in self._adapter.classes:
            self._put(node.body[0], f'"""{self._adapter.classes[node.name]}"""')
        else:
            self._docstring(node)
        for one in node.body:
            if isinstance(one, ast.AsyncFunctionDef):
                self._docstring(one)
                self._waiting(one, f"{node.name}.{one.name}")
            elif isinstance(one, ast.FunctionDef):
                self._docstring(one)
                if self._on_threads:
                    self._iterator(one)

    def _docstring(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            text = old = self._text(first)
            for word, other in self._adapter.words.items():
                text = text.replace(word, other)
            if text != old:
                self._put(first, text)

    # A call that waits.

    def _waiting(self, node: ast.AsyncFunctionDef, name: str) -> None:
        last = node.body[-1]
        awaited = next(one for one in ast.walk(last) if isinstance(one, ast.Await))
        assert isinstance(awaited.value, ast.Call), name
        start = self._start(node)
        self._edits.append((start, start + len("async "), ""))
        if self._on_threads:
            self._blocks(node, awaited, name)
        else:
            assert node.returns is not None, name
            self._put(node.returns, f"Deferred[{self._text(node.returns)}]")
            self._put(last, self._deferred(last, awaited))

    def _deferred(self, last: ast.stmt, awaited: ast.Await) -> str:
        call = awaited.value
        assert isinstance(call, ast.Call)
        assert isinstance(last, ast.Return | ast.Expr)
        assert last.value is not None
        if self._text(call.func) == "self._core.ask":
            return f"return self._core.answer({', '.join(map(self._text, call.args))})"
        answer = f"return maybeDeferred(lambda: {self._text(call)})"
        if self._is_wait(call):
            [inner] = call.args
            answer = f"return self._core.answer(lambda: {self._text(inner)})"
        if last.value is awaited:
            return answer
        whole, part = self._text(last.value), self._text(awaited)
        return f"{answer}.addCallback(lambda answer: {whole.replace(part, 'answer')})"

    def _blocks(self, node: ast.AsyncFunctionDef, awaited: ast.Await, name: str) -> None:
        call = awaited.value
        assert isinstance(call, ast.Call)
        is_new = not _takes_timeout(node) and name not in self._adapter.waits_itself
        if is_new:
            self._add_timeout(node)
        if self._is_wait(call):
            [inner] = call.args
            assert isinstance(inner, ast.Call)
            limit = "timeout" if is_new else "None"
            given = ", ".join([self._text(inner.func), *map(self._text, inner.args)])
            asked = f"partial({given})" if inner.args else given
            self._put(awaited, f"self._core.ask({asked}, {limit})")
            return
        self._edits.append((self._start(awaited), self._start(call), ""))
        if is_new:
            self._append_argument(call, "timeout=timeout")

    def _is_wait(self, call: ast.Call) -> bool:
        return self._text(call.func) == "self._core.wait"

    # An iterator, on threads.

    def _iterator(self, node: ast.FunctionDef) -> None:
        kind = _name_of(node.returns)
        last = node.body[-1]
        if kind not in ITERATORS or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Call):
            return
        self._add_timeout(node)
        call = last.value
        inner = [one for one in call.args if isinstance(one, ast.Call)]
        if inner:  # over another one, which has the time limit
            start, end = self._span(call)
            at = self._end_of_arguments(inner[-1])
            text = self._slice(start, at) + ", timeout=timeout" + self._slice(at, end)
        else:
            text = self._text(call)
            text = f"{text[:-1].rstrip().rstrip(',')}, timeout)"
        if isinstance(call.func, ast.Name):
            text = f"made(lambda: {text}, {kind}.close)"
        self._put(call, text)

    # Text.

    def _add_timeout(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        everything = [*arguments.args, *arguments.kwonlyargs, *arguments.defaults]
        everything += [one for one in arguments.kw_defaults if one is not None]
        everything += [one.annotation for one in (*arguments.args, *arguments.kwonlyargs) if one.annotation is not None]
        end = max(self._span(one)[1] for one in everything)
        self._insert(end, f", {TIMEOUT}" if arguments.kwonlyargs else f", *, {TIMEOUT}")

    def _append_argument(self, call: ast.Call, text: str) -> None:
        self._insert(self._end_of_arguments(call), f", {text}" if call.args or call.keywords else text)

    def _end_of_arguments(self, call: ast.Call) -> int:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return max((self._span(one)[1] for one in given), default=self._span(call)[1] - 1)

    def _start(self, node: ast.AST) -> int:
        return self._span(node)[0]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column, end_line, end_column = (
            getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
        )
        return self._starts[line - 1] + column, self._starts[end_line - 1] + end_column

    def _text(self, node: ast.AST) -> str:
        return self._slice(*self._span(node))

    def _slice(self, start: int, end: int) -> str:
        return self._source.encode()[start:end].decode()

    def _put(self, node: ast.AST, text: str) -> None:
        self._edits.append((*self._span(node), text))

    def _insert(self, at: int, text: str) -> None:
        self._edits.append((at, at, text))


def _takes_timeout(node: ast.AsyncFunctionDef) -> bool:
    return any(one.arg == "timeout" for one in (*node.args.args, *node.args.kwonlyargs))


def _name_of(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return annotation.id if isinstance(annotation, ast.Name) else ""


def _formatted(text: str) -> str:
    """As ruff has it, with imports in order and without those that nothing needs."""
    for command in (["check", "--fix-only", "--select", "I,F401"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(PACKAGE / "drawn.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def files() -> Iterator[tuple[Path, str]]:
    """Each drawn file, and its text."""
    for adapter in (TWISTED, THREADS):
        for name in FILES:
            yield PACKAGE / adapter.folder / name, drawn(name, adapter)

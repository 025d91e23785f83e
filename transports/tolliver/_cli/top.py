"""`tolliver top`: a live screen of running instances.

Each endpoint is read by a thread of its own, so one that does not respond holds up neither the screen nor the others.
The screen only displays what the threads have read.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import ClassVar

import typer
from attrs import define
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from .endpoints import Endpoint, Look, look
from .figures import number, span, sparkline
from .trail import Row, Trail
from .views import BAD, CHANNELS, INSTANCES, NOTICES, PEERS, QUEUES, REMOTES, SOFT, WARN, Column, View, cell, of_all

VIEWS = {"1": PEERS, "2": REMOTES, "3": CHANNELS, "4": QUEUES, "5": NOTICES}
_ROWS = 200  # most rows of a table
_TELLINGS = 4  # lines of messages at the bottom
_FRAME = 0.2  # seconds between two updates of the screen
_FASTEST, _SLOWEST = 0.5, 60.0
_LETTERS = sorted({column.letter for view in VIEWS.values() for column in view.columns if column.letter})
_KEYS = " q quit  ? help  1-5 tables  Enter one alone  o p a n sort  space hold  + - pace"
HELP = """\
 1 2 3 4 5    peers, remotes, handlers, work queues, notices
 up down      move; left right: more columns; Tab: the other table
 Enter        on an instance: this one alone; again, or Esc: all
 o p a ...    sort by a column, again: the other way round
 r            the other way round
 space        hold the screen; again: go on
 + -          look more often, less often
 ? h          this help
 q Ctrl-C     end

"""


class Watchers:
    """A thread for each endpoint, which reads it repeatedly; `interval` and `timeout` are in seconds."""

    def __init__(self, endpoints: Sequence[Endpoint], interval: float, timeout: float) -> None:
        self.endpoints = endpoints
        self.interval = interval
        self._timeout = timeout
        self._ended = threading.Event()
        self._found: deque[tuple[int, Look]] = deque(maxlen=10 * len(endpoints))

    def start(self) -> None:
        for at, endpoint in enumerate(self.endpoints):
            name = f"tolliver top {endpoint}"
            threading.Thread(target=self._watch, args=(at, endpoint), name=name, daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def found(self) -> Iterator[tuple[int, Look]]:
        """Readings since the last call, oldest first, each after the index of its endpoint."""
        with suppress(IndexError):
            while True:
                yield self._found.popleft()

    def _watch(self, at: int, endpoint: Endpoint) -> None:
        while not self._ended.is_set():
            due = time.monotonic() + self.interval
            self._found.append((at, look(endpoint, self._timeout)))
            self._ended.wait(max(0.0, due - time.monotonic()))


@define
class _Order:
    """Column by which a table is sorted, and True if reversed."""

    column: Column
    turned: bool = False

    @property
    def falls(self) -> bool:
        """True if rows are sorted in descending order: that of numbers unless reversed, and of texts if reversed."""
        return self.column.right is not self.turned


class Help(ModalScreen[None]):
    """Help screen: lists the keys of `tolliver top`."""

    CSS = "Help { align: center middle; } #help { width: 72; max-height: 100%; height: auto; border: round $primary; }"

    def __init__(self, view: View) -> None:
        super().__init__()
        letters = ", ".join(f"{one.letter} {one.label}" for one in view.columns if one.letter)
        self._said = f"{HELP} {view.title} are sorted by: {letters}\n"

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(Text(self._said))

    def on_key(self, event: Key) -> None:
        event.stop()  # else the screen below would handle it, too
        if event.key == "q":
            self.app.exit()
        else:
            self.dismiss()


class Top(App[None]):
    """The main screen."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    #title, #heading, #keys { height: 1; background: $panel; }
    #charts { height: 2; }
    #instances { height: auto; max-height: 30%; }
    #table { height: 1fr; }
    #tellings { height: auto; max-height: 4; }
    #help Static { text-wrap: wrap; }
    DataTable { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
        Binding("question_mark,h", "help", "help"),
        Binding("space", "hold", "pause"),
        Binding("plus,equals_sign", "pace(0.5)", "faster"),
        Binding("minus", "pace(2)", "slower"),
        Binding("r", "turn", "turn round"),
        Binding("escape", "all", "all instances"),
        *(Binding(key, f"view('{key}')", view.title) for key, view in VIEWS.items()),
        *(Binding(letter, f"sort('{letter}')", "sort") for letter in _LETTERS),
    ]

    def __init__(self, watchers: Watchers, looks: int | None = None) -> None:
        super().__init__()
        self._trails = [Trail(one) for one in watchers.endpoints]
        self._watchers = watchers
        self._left = looks
        self._view = PEERS
        self._orders = {view.title: _Order(_by_letter(view, view.letter)) for view in VIEWS.values()}
        self._only: Trail | None = None
        self._held = False

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="charts")
        yield DataTable(id="instances", cursor_type="row")
        yield Static(id="heading")
        yield DataTable(id="table", cursor_type="row")
        yield Static(id="tellings")
        yield Static(Text(_KEYS), id="keys")

    def on_mount(self) -> None:
        self.title = "tolliver top"
        self.query_one("#instances", DataTable).add_columns(*_heads(INSTANCES, False))
        self._set_heads()
        self.query_one("#table").focus()
        self._show()
        self._watchers.start()
        self.set_interval(_FRAME, self._gather)

    def on_unmount(self) -> None:
        self._watchers.end()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "instances":
            chosen = self._trails[event.cursor_row]
            self._only = None if self._only is chosen else chosen
            self._show()

    # Keys.

    def action_help(self) -> None:
        self.push_screen(Help(self._view))

    def action_hold(self) -> None:
        self._held = not self._held
        self._show()

    def action_pace(self, factor: float) -> None:
        self._watchers.interval = min(_SLOWEST, max(_FASTEST, self._watchers.interval * factor))
        self._show()

    def action_all(self) -> None:
        self._only = None
        self._show()

    def action_view(self, key: str) -> None:
        self._view = VIEWS[key]
        self._set_heads()
        self._show()

    def action_sort(self, letter: str) -> None:
        if any(column.letter == letter for column in self._view.columns):
            column, order = _by_letter(self._view, letter), self._orders[self._view.title]
            self._orders[self._view.title] = _Order(column, column is order.column and not order.turned)
            self._show()

    def action_turn(self) -> None:
        order = self._orders[self._view.title]
        order.turned = not order.turned
        self._show()

    # Display.

    def _gather(self) -> None:
        """Add the threads' new readings to the histories."""
        news = False
        for at, one in self._watchers.found():
            self._trails[at].add(one)
            news = True
            if self._left is not None:
                self._left -= 1
        if news and not self._held:
            self._show()
        if self._left is not None and self._left <= 0:
            self.exit()

    def _show(self) -> None:
        self.query_one("#title", Static).update(self._title())
        self.query_one("#charts", Static).update(self._charts())
        _fill(self.query_one("#instances", DataTable), [self._instance(one) for one in self._trails])
        rows = self._rows()
        order = self._orders[self._view.title]
        whose = "all instances" if self._only is None else self._only.name
        if self._only is None and len(self._trails) == 1:
            whose = self._trails[0].name
        more = f", {_ROWS} of {len(rows):,}" if len(rows) > _ROWS else ""
        said = f" {self._view.title} of {whose}, by {order.column.label} {'↓' if order.falls else '↑'}{more}"
        if not rows:
            said = f" {self._view.title} of {whose}: {self._view.empty}"
        self.query_one("#heading", Static).update(Text(said))
        named = len(self._trails) > 1
        _fill(self.query_one("#table", DataTable), [_line(self._view, row, named) for row in rows[:_ROWS]])
        self.query_one("#tellings", Static).update(self._tellings())

    def _title(self) -> Text:
        away = sum(one.last is not None and not one.answers for one in self._trails)
        ready = sum(one.answers and one.status is not None and one.status.flag("ready") for one in self._trails)
        said = Text(f" tolliver top  {len(self._trails)} instance{'' if len(self._trails) == 1 else 's'}, ")
        said.append(f"{ready} ready")
        if away:
            said.append(f", {away} away", BAD)
        said.append(f"  every {self._watchers.interval:g} s  {time.strftime('%H:%M:%S')}")
        if self._held:
            said.append("  held", WARN)
        return said

    def _charts(self) -> Text:
        trails = self._trails if self._only is None else [self._only]
        width = max(8, (self.size.width - 2 * 22) // 2)
        charts = [
            (_CHARTS[name], form, _combined([trail.history[name] for trail in trails], name == "oldest"))
            for name, form in (("acked", number), ("handled", number), ("pending", number), ("oldest", span))
        ]
        said = Text()
        for at, (label, form, values) in enumerate(charts):
            newest = values[-1] if values else None
            said.append(f" {label:<10}").append(f"{form(newest):>8} ", "bold").append(sparkline(values, width), "cyan")
            said.append("\n" if at == 1 else "  ")
        return said

    def _instance(self, trail: Trail) -> list[Text]:
        line = _line(INSTANCES, trail.row, False)
        if trail.last is not None and not trail.answers:
            line = [one if at == 1 else Text(one.plain, SOFT, justify=one.justify) for at, one in enumerate(line)]
        if trail is self._only:
            line[0].stylize("reverse")
        return line

    def _rows(self) -> list[Row]:
        order = self._orders[self._view.title]
        rows = of_all(self._view, self._trails if self._only is None else [self._only])
        value = order.column.order
        assert value is not None
        rows.sort(key=value, reverse=order.falls)
        return rows

    def _tellings(self) -> Text:
        """Text of the messages pane: faults first, then the newest notices."""
        trails = self._trails if self._only is None else [self._only]
        lines: list[tuple[str, str]] = []
        for trail in trails:
            if trail.last is not None and not trail.answers:
                since = f" for {span(time.monotonic() - trail.answered_at)}" if trail.answered_at is not None else ""
                lines.append((f"{trail.name} is away{since}: {trail.last.error}", BAD))
            elif trail.status is not None:
                lines += [(f"{trail.name} is not ready: {one}", BAD) for one in trail.status.texts("not_ready")]
        notices = sorted(of_all(NOTICES, trails), key=lambda row: row.part.number("time") or 0, reverse=True)
        for row in notices[:_TELLINGS]:
            ago, kind, text = (cell(column, row).text for column in NOTICES.columns)
            lines.append((f"{ago} ago {row.trail.name}: {kind}: {text}", ""))
        said = Text()
        for at, (line, style) in enumerate(lines[:_TELLINGS]):
            said.append(f"{'' if at == 0 else chr(10)} {line}", style)
        return said

    def _set_heads(self) -> None:
        table = self.query_one("#table", DataTable)
        table.clear(columns=True)
        table.add_columns(*_heads(self._view, len(self._trails) > 1))


_CHARTS = {"acked": "acked/s", "handled": "handled/s", "pending": "pending", "oldest": "oldest"}


def _by_letter(view: View, letter: str) -> Column:
    return next(column for column in view.columns if column.letter == letter)


def _heads(view: View, named: bool) -> list[Text]:
    heads = [Text(column.label, justify="right" if column.right else "left") for column in view.columns]
    return [Text("instance"), *heads] if named else heads


def _line(view: View, row: Row, named: bool) -> list[Text]:
    line = []
    for column in view.columns:
        shown = cell(column, row)
        line.append(Text(shown.text, shown.style, justify="right" if column.right else "left"))
    return [Text(row.trail.name), *line] if named else line


def _fill(table: DataTable[Text], rows: Sequence[Sequence[Text]]) -> None:
    """Set the rows of a table in place, so that cursor and scroll position stay."""
    while table.row_count > len(rows):
        table.remove_row(table.coordinate_to_cell_key(Coordinate(table.row_count - 1, 0)).row_key)
    for at, row in enumerate(rows):
        if at < table.row_count:
            for column, one in enumerate(row):
                table.update_cell_at(Coordinate(at, column), one, update_width=True)
        else:
            table.add_row(*row)


def _combined(histories: Sequence[Sequence[float | None]], highest: bool) -> list[float | None]:
    """Sum or, with `highest`, maximum of several histories of values, point by point, newest last."""
    length = max((len(one) for one in histories), default=0)
    combined: list[float | None] = []
    for at in range(-length, 0):
        known = [value for one in histories if len(one) >= -at and (value := one[at]) is not None]
        combined.append((max(known) if highest else sum(known)) if known else None)
    return combined


def run(endpoints: Sequence[Endpoint], interval: float, timeout: float, looks: int | None) -> None:
    """Show the screen until it is ended, or `looks` readings of each endpoint were made (None: for ever). `interval`
    and `timeout` are in seconds. Raises ValueError without a terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("top needs a terminal: `tolliver status` prints once, and --json a line for each look")
    watchers = Watchers(endpoints, interval, timeout)
    try:
        Top(watchers, None if looks is None else looks * len(endpoints)).run()
    finally:
        watchers.end()


def print_looks(endpoints: Sequence[Endpoint], interval: float, timeout: float, looks: int | None) -> None:
    """Print one JSON line for each reading of each endpoint, `looks` of each (None: for ever). `interval` and `timeout`
    are in seconds.
    """
    from .status import facts

    watchers = Watchers(endpoints, interval, timeout)
    left = None if looks is None else looks * len(endpoints)
    watchers.start()
    try:
        while left is None or left > 0:
            for _, one in islice(watchers.found(), left):
                typer.echo(json.dumps(facts(one)))
                left = None if left is None else left - 1
            time.sleep(_FRAME)
    finally:
        watchers.end()

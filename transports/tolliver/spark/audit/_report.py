"""Audit report: one HTML file without scripts.

All text from recordings is escaped where it is inserted, and the page's Content-Security-Policy forbids scripts and
requests, as a second defence. All charts have the same time axis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from ._charts import REST, Axis, Bar, Curves, Series, bars, dashed, lines, look
from ._collect import Findings, Table, silent
from ._tables import Row

FLOWS = 12
"""Most pairs of sender and receiver with charts; tables have all pairs."""

_CHANNELS = 7  # lines of a chart; the rest are combined in one more
_LANES = 40
_SILENT = 5  # most names of instances without recordings
_Flow = tuple[str, str]


def render(found: Findings, curves: Iterable[Curves] = ()) -> str:
    """The HTML page of an audit's tables, with the user's own charts."""
    page = _Page(found)
    own = page.curves(curves)
    return "".join(
        (
            _HEAD,
            "<h1>Delivery audit</h1>",
            page.verdict(),
            page.section("Deliveries", page.deliveries(), _ABOUT_DELIVERIES),
            page.section("Connections", page.connection_bars(), _ABOUT_BARS),
            page.section("Messages over time", page.traffic_charts(), page.about_steps()),
            page.section("Delivery latency", page.latency_charts(), _ABOUT_LATENCY),
            page.section("Values over time", own, "") if own else "",
            page.section("Handshakes", page.handshakes(), ""),
            page.section("Subscriptions", page.subscriptions(), ""),
            page.section("Gaps in message ids", page.gaps(), _ABOUT_GAPS),
            page.section("Message ids used again", page.reused(), _ABOUT_REUSED),
            page.section("Recordings", page.recordings(), _ABOUT_RECORDINGS),
            "</main></html>\n",
        )
    )


class _Page:
    def __init__(self, found: Findings) -> None:
        self._found = found
        times = [_time(row[name]) for row in found.recordings.rows for name in ("began", "ended") if row[name]]
        self._axis = Axis(min(times, default=0.0), max(times, default=1.0))
        counted: defaultdict[_Flow, int] = defaultdict(int)
        for row in found.deliveries.rows:
            counted[_flow(row)] += (row["sent"] or row["delivered"] or 0) + (row["unreliable_sent"] or 0)
        self._flows = sorted(counted, key=lambda flow: (-counted[flow], flow))[:FLOWS]
        self._silent = silent(found.deliveries.rows)
        totals: defaultdict[str, int] = defaultdict(int)
        for row in found.traffic:
            totals[row["channel"]] += row["sent"] + row["delivered"]
        ranked = sorted(totals, key=lambda channel: (-totals[channel], channel))
        self._looks = {channel: look(number) for number, channel in enumerate(ranked)}

    def section(self, title: str, content: str, about: str) -> str:
        about = f'<p class="about">{about}</p>' if about else ""
        return f"<section><h2>{title}</h2>{about}{content}</section>"

    def verdict(self) -> str:
        """Text with the number of lost messages."""
        rows = self._found.deliveries.rows
        lost = _sum(rows, "lost")
        both = [row for row in rows if row["lost"] is not None]
        words = [f"<b>lost = {lost:,}</b>" if both or not rows else "<b>nothing to compare</b>"]
        words += [
            f"{name} {total:,}"
            for name in ("sent", "delivered", "duplicates", "resent")
            if (total := _sum(both, name)) or name in ("sent", "delivered")
        ]
        when = datetime.fromtimestamp(self._axis.begin, UTC).strftime("%Y-%m-%d")
        span = f"{self._axis.end - self._axis.begin:,.1f} s of recordings from {when} (times in UTC)"
        about = [_balance(both), *self._unchecked(rows), span]
        return f'<p class="verdict {"bad" if lost else "good"}">{" · ".join(words)}</p>' + "".join(
            f'<p class="about">{line}</p>' for line in about if line
        )

    def _unchecked(self, rows: list[Row]) -> Iterable[str]:
        """Texts about messages that only one side recorded: they count neither as delivered nor as lost."""
        for end, other, count, words in (
            ("receiver", "sender", "sent", "more were sent to"),
            ("sender", "receiver", "delivered", "more came from"),
        ):
            total = sum(row[count] or 0 for row in rows if row[end] in self._silent and row[other] not in self._silent)
            if total:
                who = sorted({self.name(row[end]) for row in rows if row[end] in self._silent})
                named = ", ".join(map(_visible, who[:_SILENT])) + (
                    f" and {len(who) - _SILENT:,} others" * (len(who) > _SILENT)
                )
                unknown = "arrived" if end == "receiver" else "was sent"
                yield f"{total:,} {words} {named}, which recorded nothing: how much of that {unknown} is not known."

    def name(self, uuid: str | None) -> str:
        """An instance's name, or the end of its UUID."""
        return "?" if uuid is None else self._found.names.get(uuid, uuid[-8:])

    def _pair(self, flow: _Flow) -> str:
        return f"{self.name(flow[0])} → {self.name(flow[1])}"

    # Charts.

    def connection_bars(self) -> str:
        lanes: defaultdict[tuple[str, str], list[Bar]] = defaultdict(list)
        for row in self._found.connections.rows:
            if row["peer"] is not None:
                lanes[row["local"], row["peer"]].append(self._bar(row))
        shown = sorted(lanes.items())[:_LANES]
        return _figure(
            "",
            bars(
                self._axis,
                [(_printable(f"{self.name(a)} with {self.name(b)}"), one) for (a, b), one in shown],
                "Connections over time, by who recorded them, and how many",
            ),
        )

    def _bar(self, row: Row) -> Bar:
        words = f"{_printable(row['outcome'])}, {row['messages_in']:,} messages in, {row['messages_out']:,} out"
        pale = row["outcome"] != "established"
        return Bar(_time(row["began"]), _time(row["ended"]), words, not row["recorded_to_end"], pale)

    def _gaps(self, flow: _Flow) -> list[Bar]:
        """Times between the connections of a sender and a receiver, as recorded by either side."""
        rows = [row for row in self._found.connections.rows if {row["local"], row["peer"]} == set(flow)]
        spans = sorted((_time(row["began"]), _time(row["ended"])) for row in rows if row["outcome"] == "established")
        gaps, end = [], spans[0][1] if spans else 0.0
        for begin, next_end in spans:
            if begin > end:
                gaps.append(Bar(end, begin, f"between two connections: {begin - end:.2f} s"))
            end = max(end, next_end)
        return gaps

    def about_steps(self) -> str:
        return (
            f"First copies a second, in steps of {self._found.step:g} s: delivered, or sent where the receiver "
            "recorded nothing. A channel looks the same in every chart. Shaded: between two connections."
        )

    def traffic_charts(self) -> str:
        by_flow = _by_flow(self._found.traffic)
        return "".join(self._traffic(flow, by_flow[flow]) for flow in self._flows if flow in by_flow)

    def _traffic(self, flow: _Flow, rows: list[Row]) -> str:
        name = "delivered" if any(row["delivered"] for row in rows) else "sent"
        totals: defaultdict[str, int] = defaultdict(int)
        for row in rows:
            totals[row["channel"]] += row[name]
        ranked = sorted(totals, key=lambda channel: (-totals[channel], channel))
        labels = {channel: channel for channel in ranked[:_CHANNELS]}
        values: dict[str, defaultdict[float, float]] = {}
        for row in rows:
            label = labels.get(row["channel"], f"{len(ranked) - _CHANNELS} others")
            values.setdefault(label, defaultdict(float))[_time(row["begin"])] += row[name] / self._found.step
        order = [*labels, *(label for label in values if label not in labels)]
        series = [
            Series(_name(label), self._filled(values[label]), self._looks[label] if label in labels else REST)
            for label in order
        ]
        return _figure(
            self._pair(flow),
            lines(
                self._axis,
                series,
                lambda value: f"{_short(value)}/s",
                self._gaps(flow),
                unit=f"messages {name} a second",
                about=f"Messages {name} a second over time, {_printable(self._pair(flow))}",
            ),
        )

    def _filled(self, values: dict[float, float]) -> list[tuple[float, float | None]]:
        """(time, value) pairs for all steps of the time axis: 0 for a step without a message."""
        step = self._found.step
        first, last = min(values), max(values)
        numbered = {round((time - first) / step): value for time, value in values.items()}
        return [
            (first + (number + 0.5) * step, numbered.get(number, 0.0))
            for number in range(round((last - first) / step) + 1)
        ]

    def latency_charts(self) -> str:
        by_flow = _by_flow(self._found.latency)
        return "".join(self._latency(flow, by_flow[flow]) for flow in self._flows if flow in by_flow)

    def _latency(self, flow: _Flow, rows: list[Row]) -> str:
        step = self._found.step
        points: list[tuple[float, Row | None]] = []
        for row in rows:
            time = _time(row["begin"]) + step / 2
            if points and time > points[-1][0] + 1.5 * step:
                points.append((time, None))
            points.append((time, row))
        series = [
            Series(name, [(time, None if row is None else row[name]) for time, row in points], f"q{number}")
            for number, name in enumerate(("p50", "p95", "p99", "max"))
        ]
        return _figure(
            self._pair(flow),
            lines(
                self._axis,
                series,
                seconds,
                self._gaps(flow),
                log=True,
                unit="from sent to acknowledged, by powers of ten",
                about=f"Time from sent to acknowledged, {_printable(self._pair(flow))}",
            ),
        )

    def curves(self, curves: Iterable[Curves]) -> str:
        return "".join(
            _figure(
                one.title,
                lines(
                    self._axis,
                    [
                        Series(_name(name), line, self._look(one.title, name, number))
                        for number, (name, line) in enumerate(one.lines.items())
                    ],
                    _short,
                    about=f"Values over time, {_printable(one.title)}",
                ),
            )
            for one in curves
        )

    def _look(self, title: str, name: str, number: int) -> str:
        """CSS classes of a user's line `number` of a chart: the colour of the channel after which the line (`name`) or
        its chart (`title`) is named.
        """
        if name in self._looks:
            return self._looks[name]
        return dashed(self._looks[title], number) if title in self._looks else look(len(self._looks) + number)

    # Tables.

    def deliveries(self) -> str:
        shown: list[_Column] = [
            ("from", self._of("sender")),
            ("to", self._of("receiver")),
            ("channel", _text("channel")),
        ]
        shown += [(name, _count(column)) for name, column in _COUNTS]
        shown.append(("lost", lambda row: _cell(_number(row["lost"]), "n bad" if row["lost"] else "n")))
        shown += [(name, _duration(name)) for name in ("p50", "p95", "p99", "max")]
        shown.append(("unreliable", lambda row: _cell(" / ".join(map(_number, _unreliable(row))), "n")))
        return _table(self._found.deliveries, shown)

    def handshakes(self) -> str:
        return _table(
            self._found.handshakes,
            [
                ("time", _when("requested")), ("recorded by", self._of("local")), ("as", _text("role")),
                ("with", self._of("peer")), ("its versions", _versions), ("status", _count("status")),
                ("outcome", _text("outcome")), ("took", _duration("seconds")),
            ],
        )  # fmt: skip

    def subscriptions(self) -> str:
        return _table(
            self._found.subscriptions,
            [
                ("time", _when("time")), ("who", self._of("subscriber")), ("of", self._of("publisher")),
                ("what", _text("action")), ("channel", _text("channel")), ("key", _text("key")),
            ],
        )  # fmt: skip

    def gaps(self) -> str:
        return _table(
            self._found.gaps,
            [("sender", self._of("sender")), *((name, _count(name)) for name in ("after", "before", "missing"))],
        )

    def reused(self) -> str:
        return _table(
            self._found.reused,
            [
                ("from", self._of("sender")), ("to", self._of("receiver")), ("ids", _count("ids")),
                ("messages", _count("messages")),
            ],
        )  # fmt: skip

    def recordings(self) -> str:
        return _table(
            self._found.recordings,
            [
                ("of", self._of("local")), ("file", _text("path")), ("bytes", _count("bytes")),
                ("frames", _count("frames")), ("began", _when("began")), ("ended", _when("ended")),
                ("closed in order", lambda row: _cell("yes" if row["ended_in_order"] else "no")),
                ("damage", _text("damage")),
            ],
        )  # fmt: skip

    def _of(self, column: str) -> Callable[[Row], str]:
        def show(row: Row) -> str:
            uuid = row[column]
            said = _NOT_RECORDED if uuid in self._silent else ""
            return f'<td class="who" title="{escape(uuid or "")}">{_visible(self.name(uuid))}{said}</td>'

        return show


_Column = tuple[str, Callable[[Row], str]]
_COUNTS = (
    ("sent", "sent"), ("acked", "acknowledged"), ("delivered", "delivered"), ("duplicates", "duplicates"),
    ("resent", "resent"), ("unproven", "unproven"), ("pending", "pending"),
    ("unrecorded", "unrecorded"),
)  # fmt: skip


def _unreliable(row: Row) -> tuple[int | None, int | None]:
    return row["unreliable_sent"], row["unreliable_received"]


def _balance(rows: list[Row]) -> str:
    """Text of the difference between sent and delivered as a sum; "" if there is none."""
    sent, delivered = _sum(rows, "sent"), _sum(rows, "delivered")
    parts = [f"{sign} {total:,} {meaning}" for name, sign, meaning in _BETWEEN if (total := _sum(rows, name))]
    return f"delivered {delivered:,} = sent {sent:,} {', '.join(parts)}" if parts else ""


_BETWEEN = (
    ("lost", "\N{MINUS SIGN}", "lost"),
    ("pending", "\N{MINUS SIGN}", "pending: not acknowledged yet, they wait with their sender"),
    ("unproven", "\N{MINUS SIGN}", "unproven: acknowledged, but the receiver's recording ends before them"),
    ("unrecorded", "+", "that the sender's recording lacks, as it ends before them"),
)
_NOT_RECORDED = ' <abbr title="recorded nothing">\N{DAGGER}</abbr>'


def _figure(title: str, chart: str) -> str:
    caption = f"<figcaption>{_visible(title)}</figcaption>" if title else ""
    return f"<figure>{caption}{chart}</figure>"


def _table(table: Table, columns: Sequence[_Column]) -> str:
    if not table.rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    body = "".join(f"<tr>{''.join(show(row) for _, show in columns)}</tr>" for row in table.rows)
    more = f"<p>These are the first {len(table.rows):,}; the Parquet tables have all.</p>" if table.more else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def _visible(text: str) -> str:
    return escape(_printable(text))


def _name(text: str) -> str:
    return _printable(text) or "(no name)"


def _printable(text: str) -> str:
    """The text without characters that could reverse or hide others, cut to a maximum length."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:200])


def _cell(text: str, style: str = "") -> str:
    return f'<td class="{style}">{text}</td>' if style else f"<td>{text}</td>"


def _text(column: str) -> Callable[[Row], str]:
    return lambda row: _cell("" if row[column] is None else _visible(str(row[column])))


def _count(column: str) -> Callable[[Row], str]:
    return lambda row: _cell(_number(row[column]), "n")


def _number(value: int | None) -> str:
    return '<abbr title="unknown: not recorded">\N{EN DASH}</abbr>' if value is None else f"{value:,}"


def _duration(column: str) -> Callable[[Row], str]:
    return lambda row: _cell("" if row[column] is None else seconds(row[column]), "n")


def _when(column: str) -> Callable[[Row], str]:
    return lambda row: _cell("" if row[column] is None else f"{_utc(row[column]):%H:%M:%S.%f}"[:-3], "n")


def _versions(row: Row) -> str:
    return _cell(
        " / ".join(
            "\N{EN DASH}" if row[name] is None else str(row[name]) for name in ("requested_version", "answered_version")
        )
    )


def seconds(value: float) -> str:
    """Text of a duration of `value` seconds."""
    return f"{value * 1000:,.3g} ms" if value < 1 else f"{value:,.3g} s"


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:,.4g}"


def _sum(rows: Iterable[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def _flow(row: Row) -> _Flow:
    return row["sender"], row["receiver"]


def _by_flow(rows: Iterable[Row]) -> dict[_Flow, list[Row]]:
    flows: defaultdict[_Flow, list[Row]] = defaultdict(list)
    for row in rows:
        flows[_flow(row)].append(row)
    return flows


def _utc(time: Any) -> datetime:
    """A time with the zone UTC, as Spark gives local times without a zone."""
    return datetime.fromtimestamp(time.timestamp(), UTC)


def _time(time: datetime) -> float:
    return time.timestamp()


_ABOUT_DELIVERIES = (
    "Reliable messages, each counted once. p50 to max: from the first sending to the first ack, by the sender's clock. "
    "Delivered = sent \N{MINUS SIGN} lost \N{MINUS SIGN} unproven \N{MINUS SIGN} pending + unrecorded. "
    "Unproven: acknowledged, but the receiver's recording ends before it. Pending: not acknowledged yet. Unrecorded: "
    "delivered, but the sender's recording lacks it. Unreliable: sent / received. \N{EN DASH}: not known, as that side "
    "recorded nothing, which the \N{DAGGER} says."
)
_ABOUT_BARS = (
    "From the first frame to the last one, as each side recorded it. A cross: the recording may end early. Pale: the "
    "handshake led to nothing."
)
_ABOUT_LATENCY = (
    "From the first sending to the first ack, by the sender's clock; the scale is by powers of ten. What was "
    "sent, lost its connection and was sent again counts from the first time. Shaded: between two connections."
)
_ABOUT_GAPS = "Runs of ids that a sender gave to nothing that anybody recorded."
_ABOUT_REUSED = (
    "A sender gave ids to more than one message. If it is a task of Spark, rows of a batch came again in another "
    "shape, and some may have come twice: write the batch with tolliver.spark.stable, or with idColumn. If it is an "
    "instance, its database was restored from a copy, or a copy of it is used beside it."
)
_ABOUT_RECORDINGS = (
    "A file that was not closed in order ends with a crash, or was being written: its last moments are missing."
)

_HEAD = f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Delivery audit</title>
<style>
{files(__package__).joinpath("report.css").read_text("utf-8")}</style><main>"""

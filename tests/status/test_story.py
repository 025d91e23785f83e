"""A night with three instances: work goes on, one is stopped, filled, cut off, near the end of its certificate.

In each state all that tells of an instance says the same and names the cause: /readyz, /metrics, /status.json, the
numbers of OpenTelemetry, notices, log lines, and the page as a browser has it open the whole time.
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client.parser import text_string_to_metric_families
from tolliver.blocking import Instance, InstanceOptions, create_instance
from tolliver.certs import make_certificate
from tolliver.otel import instrument
from tolliver.status import METRICS, Metric

from tests.adapters.relay import Relay
from tests.certificates import Certificates
from tests.disks import eat, small_disk
from tests.ports import free_address
from tolliver_proto import Limits, OutboxFull
from tolliver_proto.errors import DiskFull

from .browser import Browser, Page, browsing, until
from .spans import EVENTS, Memory, event, ids, parent

BEHIND = 0.3  # seconds
BEAT = 0.02  # seconds between two messages of the work that goes on
MOVING = {"uptime_seconds", "disk_free_bytes"}  # numbers that do not stand still when nothing happens
PARTS = ("bucket", "sum", "count")
Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Seen(Protocol):
    """Pages of instances, as far as somebody looks at them."""

    def open(self, node: Watched) -> None: ...

    def shows(self, node: Watched, state: str, *words: str) -> None:
        """It comes to show this state, and these words."""


class Nobody:
    """No page is looked at."""

    def open(self, node: Watched) -> None:
        pass

    def shows(self, node: Watched, state: str, *words: str) -> None:
        pass


class Screen:
    """Pages in a browser, which stay open."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._pages: dict[str, Page] = {}

    def open(self, node: Watched) -> None:
        host, port = node.where
        self._pages[node.name] = self._browser.open(f"http://{host}:{port}/")

    def shows(self, node: Watched, state: str, *words: str) -> None:
        page = self._pages[node.name]
        until(lambda: page.texts("#state") == [state], f"{state!r} on the page of {node.name}")
        for word in words:
            page.until_shown(word)
        if state != "does not answer":
            until(lambda: still(page.texts("#faults li")) == still(node.told()["not_ready"]), "the page's reasons")

    def fits(self) -> None:
        """Nothing of a page is cut off on a phone or on a desk, by day or by night."""
        grounds = set()
        for page in self._pages.values():
            for width, height in ((360, 740), (1280, 800)):
                for dark in (False, True):
                    page.resize(width, height, dark=dark)
                    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
                    grounds.add((dark, page.ask("getComputedStyle(document.body).backgroundColor")))
        assert len(grounds) == 2, "one for the day and one for the night"


class Watched:
    """One life of an instance, and all that tells of it."""

    def __init__(self, name: str, options: InstanceOptions, log: pytest.LogCaptureFixture) -> None:
        self.name = name
        self.memory = Memory()
        self.log = log
        self.instance: Instance = create_instance(options)
        self.got: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.instance)
        assert self.instance.status_address is not None
        self.where = self.instance.status_address
        self.uuid = self.instance.instance_id
        self.traced = instrument(self.instance, **self.memory.providers)
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def handles(self, channel: str) -> None:
        self.traced.channel(channel, codec=EVENTS).register_callback(
            "", lambda one: self.got.append(one.value.get_id())
        )
        self.instance.subscribe(channel)

    @contextmanager
    def beating(self, channel: str) -> Iterator[list[str]]:
        """Messages all the time, until the block ends: their names."""
        stop, sent = threading.Event(), list[str]()

        def beat() -> None:
            while not stop.wait(BEAT):
                name = f"{self.name} {len(sent)}"
                with suppress(OutboxFull):  # as long as it is cut off
                    self.traced.channel(channel, codec=EVENTS).send("", event(name))
                    sent.append(name)

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield sent
        finally:
            stop.set()
            thread.join()

    # All that tells of it.

    def asked(self, path: str) -> tuple[int, str]:
        with closing(http.client.HTTPConnection(*self.where, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def told(self) -> dict[str, Any]:
        """/status.json"""
        return dict(json.loads(self.asked("/status.json")[1]))

    def scraped(self) -> Numbers:
        """/metrics"""
        return {
            (one.name, frozenset(one.labels.items())): one.value
            for family in text_string_to_metric_families(self.asked("/metrics")[1])
            for one in family.samples
        }

    def exported(self) -> Numbers:
        """Numbers of OpenTelemetry, by their names in Prometheus."""
        return {
            (names[name], frozenset((label.removeprefix("tolliver."), text) for label, text in labels)): point.value
            for name, points in self.memory.numbers().items()
            if name.startswith("tolliver.")
            for point in points
            for labels in [[(k, str(v)) for k, v in (point.attributes or {}).items() if k != "tolliver.instance"]]
        }

    def number(self, name: str, /, **labels: str) -> float | None:
        return self.scraped().get((name, frozenset(labels.items())))

    def spans(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.memory.spans if one.name == name]

    def has_processed(self, count: int) -> bool:
        return len(self.spans("process news")) == count

    def is_logged(self, kind: str, words: str) -> bool:
        """A line of the log has this kind, as a field, and these words."""
        return any(getattr(one, "kind", None) == kind and words in one.getMessage() for one in self.log.records)

    def says(self, seen: Seen, *reasons: str) -> None:
        """All say so: ready without a reason; else each reason has one of these words, and no other is named."""

        def is_said() -> bool:
            code, text = self.asked("/readyz")
            status = self.told()
            first, *lines = text.splitlines()
            ready = not reasons
            return (
                all(any(word in line for word in reasons) for line in lines)
                and (code, first) == ((200, "ready") if ready else (503, "not ready"))
                and still(status["not_ready"]) == still(lines)
                and status["ready"] == status["gauges"]["ready"] == self.number("tolliver_ready") == ready
                and self.exported()["tolliver_ready", frozenset()] == ready
            )

        until(is_said, f"{self.name} says {reasons}: {self.asked('/readyz')}; it")
        assert self.asked("/healthz")[0] == 200
        for notice in self.told()["notices"]:
            assert self.is_logged(notice["kind"], notice["text"])
        seen.shows(self, "ready" if not reasons else "not ready")

    def tells(self, seen: Seen, kind: str, words: str) -> None:
        """A notice of this kind with these words: in the snapshot, in the log, counted, and on the page."""
        until(
            lambda: any(one["kind"] == kind and words in one["text"] for one in self.told()["notices"]),
            f"the notice {kind} of {self.name} with {words!r}",
        )
        assert self.is_logged(kind, words)
        until(lambda: (self.number("tolliver_notices_total", kind=kind) or 0) >= 1, f"{kind} counted")
        seen.shows(self, "ready" if self.told()["ready"] else "not ready", kind, words)

    def agrees(self) -> None:
        """Each number of the table is the same everywhere; nothing happens meanwhile."""

        def differences() -> list[object]:
            by_scrape, by_export, told = self.scraped(), self.exported(), self.told()
            by_table = {name: value for metric in METRICS for name, value in of_table(metric, told)}
            moving = {f"tolliver_{name}" for name in MOVING} | {"tolliver_instance_info"}
            scraped, exported, listed = (
                {item for item in one.items() if item[0][0] not in moving} for one in (by_scrape, by_export, by_table)
            )
            assert len(listed) > 100
            histograms = {f"{one.exported}_{part}" for one in METRICS if one.kind == "histogram" for part in PARTS}
            return [*(scraped ^ listed), *(exported ^ {one for one in listed if one[0][0] not in histograms})]

        until(lambda: not differences(), f"one word on {self.name}: {differences()}")


def still(lines: list[str]) -> list[str]:
    """Without ages, which go on."""
    return [re.sub(r"for \d+ s", "for a while", line) for line in lines]


names: dict[str, str] = {}
"""Names in Prometheus by those in OpenTelemetry."""
for metric in METRICS:
    subject = "" if metric.subject == "instance" else f"{metric.subject}."
    bare = re.sub("_bytes$", ".size", re.sub("_seconds$", "", metric.name))
    names[f"tolliver.{subject}{bare}"] = metric.exported


def of_table(metric: Metric, told: dict[str, Any]) -> Iterator[tuple[tuple[str, frozenset[tuple[str, str]]], float]]:
    """Samples of a row, read out of /status.json as docs/watching.md says where each is."""
    owners: list[tuple[dict[str, str], dict[str, Any]]]
    if metric.subject == "instance":
        owners = [({}, {**told["counters"], **told["gauges"], **told["histograms"]})]
    elif metric.subject == "remote":
        owners = [
            ({"remote": one["remote"]}, {**one, "connected": one["state"] == "connected"}) for one in told["remotes"]
        ]
    else:
        key = {"peer": "uuid", "channel": "channel", "queue": "queue"}[metric.subject]
        owners = [
            (
                {metric.subject: one[key]},
                {
                    **one,
                    "held_subscriptions": len(one.get("held", ())),
                    **({f"info_{one['name']}": 1} if metric.subject == "peer" else {}),
                    **one.get("counters", {}),
                },
            )
            for one in told[f"{metric.subject}s"]
        ]
    for labels, values in owners:
        if metric.by:
            head = f"{metric.name}_"
            for name, value in values.items():
                if name.startswith(head) and not any(name == other.name for other in METRICS):
                    yield (metric.exported, frozenset({**labels, metric.by: name.removeprefix(head)}.items())), value
        elif metric.kind == "histogram":
            one, so_far = values[metric.name], 0
            yield (f"{metric.exported}_sum", frozenset(labels.items())), one["sum"]
            yield (f"{metric.exported}_count", frozenset(labels.items())), one["count"]
            for bound, count in zip([*map(str, one["bounds"]), "+Inf"], one["counts"], strict=True):
                so_far += count
                yield (f"{metric.exported}_bucket", frozenset({**labels, "le": bound}.items())), so_far
        elif values.get(metric.name) is not None:
            yield (metric.exported, frozenset(labels.items())), values[metric.name]


class Night:
    """Alice has two remotes: bob, and carol behind a line that can be cut. Both have work for her all the time."""

    def __init__(self, place: Path, certs: Certificates, log: pytest.LogCaptureFixture, disk: Path) -> None:
        self._place, self._certs, self._log, self._disk = place, certs, log, disk
        self._addresses = {name: free_address() for name in ("bob", "carol")}
        member = make_certificate(certs.directory, f"soon-{place.name}", days=5)
        self._tls = {"alice": certs.tls("alice"), "bob": certs.tls("bob"), "carol": member.tls()}
        self._stack = ExitStack()
        self.redial_max = 0.1
        """Seconds. A remote is dialled 30 times a minute at most, and a look at pages takes its time."""

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        self.bob, self.carol = enter(self.life_of("bob")), enter(self.life_of("carol"))
        self.line = enter(Relay(int(self._addresses["carol"].rpartition(":")[2])))
        self.remotes = {"bob": self._addresses["bob"], "carol": self.line.address}
        self.alice = enter(self.life_of("alice", database=self._disk / "alice.db", remotes=[*self.remotes.values()]))
        self.alice.handles("work")
        for one in (self.bob, self.carol):
            one.handles("news")
            one.instance.subscribe("bulk", handler=lambda _delivery: None)
            one.instance.wait_subscribed("work", timeout=60)
        self.alice.instance.wait_subscribed("news", peers=2, timeout=60)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def life_of(self, name: str, **options: Any) -> Watched:
        chosen = {
            "database": self._place / f"{name}.db",
            "tls": self._tls[name],
            "listen": self._addresses.get(name, "127.0.0.1:0"),
            "status": "127.0.0.1:0",
            "ready_behind": BEHIND,
            "limits": Limits(redial_first=0.02, redial_max=self.redial_max, outbox_messages=30),
            "retry_interval": 0.2,
            **options,
        }
        return Watched(name, InstanceOptions(**chosen), self._log)

    def send(self, count: int) -> None:
        for number in range(count):
            self.alice.traced.channel("news", codec=EVENTS).send("secret key", event(f"news {number}"))

    def waits_for(self, node: Watched, count: int) -> None:
        until(lambda: self.alice.number("tolliver_peer_pending", peer=str(node.uuid)) == count, f"{count} for a peer")

    # Acts of the night.

    def at_work(self, seen: Seen) -> None:
        self.send(5)
        until(lambda: len(self.bob.got) == len(self.carol.got) == 5, "five messages at both")
        for node in (self.alice, self.bob, self.carol):
            node.says(seen)
        seen.shows(self.alice, "ready", "bob", f"soon-{self._place.name}", self.remotes["carol"], "work")
        until(lambda: self.alice.number("tolliver_acked_total") == 10, "ten acknowledgements")
        sends = self.alice.spans("send news")
        for node in (self.bob, self.carol):
            until(partial(node.has_processed, 5), "spans")
            found = node.spans("process news")
            assert [parent(one) for one in found] == [ids(one) for one in sends]
        assert "secret key" not in str([one.to_json() for one in self.alice.memory.spans])

    def near_expiry(self, seen: Seen) -> None:
        """Carol's certificate ends in five days: she says so, and alice of her; both are ready."""
        self.carol.tells(seen, "certificate_ends", "ends in 5.0 days")
        self.alice.tells(seen, "certificate_ends", f"soon-{self._place.name}")
        ends = self.carol.number("tolliver_certificate_not_after_timestamp_seconds")
        assert ends == self.alice.number(
            "tolliver_peer_certificate_not_after_timestamp_seconds", peer=str(self.carol.uuid)
        )
        assert 4 < (ends - self.carol.told()["time"]) / 86400 < 5
        seen.shows(self.carol, "ready", "4 d")
        self.carol.says(seen)

    def stopped(self, seen: Seen) -> None:
        """Bob is stopped, and comes back."""
        self.bob.close()
        seen.shows(self.bob, "does not answer", "the instance has ended, or cannot be reached")
        self.send(3)
        self.waits_for(self.bob, 3)
        self.alice.says(seen, f"{self.bob.uuid} for ")
        assert "(away, 3 wait)" in self.alice.told()["not_ready"][0]
        self.alice.tells(seen, "dial_failed", self.remotes["bob"])
        [remote] = [one for one in self.alice.told()["remotes"] if one["remote"] == self.remotes["bob"]]
        assert (remote["cause"], remote["peer"]) == ("refused", str(self.bob.uuid))
        assert remote["state"] in ("waiting", "dialling")
        assert any(getattr(one, "cause", None) == "refused" for one in self._log.records)
        assert (self.alice.number("tolliver_dials_failed_total", cause="refused") or 0) >= 1
        assert self.alice.number("tolliver_peer_connected", peer=str(self.bob.uuid)) == 0
        self.bob = self._stack.enter_context(self.life_of("bob"))
        self.bob.handles("news")
        self.bob.instance.register_callback("bulk", "", lambda _delivery: None)
        seen.open(self.bob)
        until(lambda: len(self.bob.got) == 3, "what waited for bob")
        for node in (self.alice, self.bob):
            node.says(seen)

    def cut_off(self, seen: Seen) -> None:
        """The line to carol is cut, and each new connection to her too: her quota fills, and then it is mended."""
        lost = self.alice.number("tolliver_disconnects_total", cause="lost") or 0
        self.line.refuses = True
        self.line.cut()
        self.send(1)
        self.alice.says(seen, f"{self.carol.uuid} for ")
        self.alice.tells(seen, "dial_failed", self.remotes["carol"])
        assert self.alice.number("tolliver_disconnects_total", cause="lost") == lost + 1
        [remote] = [one for one in self.alice.told()["remotes"] if one["remote"] == self.remotes["carol"]]
        assert remote["cause"] in ("lost", "closed")
        self.send(29)
        with pytest.raises(OutboxFull, match=str(self.carol.uuid)):
            self.send(1)
        self.alice.tells(seen, "outbox_filling", "of at most 30 messages")
        self.alice.says(seen, f"refused, for peer {self.carol.uuid} (away, 30 wait)", f"{self.carol.uuid} for ")
        assert self.alice.number("tolliver_peer_quota_used_ratio", peer=str(self.carol.uuid)) == 1
        assert self.alice.number("tolliver_refused_sends_total") == 1
        self.line.refuses = False
        self.waits_for(self.carol, 0)
        self.alice.says(seen)

    def disk_full(self, seen: Seen) -> None:
        """Another program takes the disk that alice's database is on, and gives it back: nothing else happens."""
        ballast = eat(self._disk)
        with pytest.raises(DiskFull):
            self.fill()
        self.alice.tells(seen, "store_error", "nothing of it was stored")
        self.alice.says(seen, "the last commit failed: ", "its reserve is given up")
        assert "disk" in " ".join(self.alice.told()["not_ready"])
        assert (self.alice.number("tolliver_commits_failed_total") or 0) >= 1
        ballast.unlink()
        self.alice.says(seen)

    def fill(self) -> None:
        for _ in range(100):
            self.alice.instance.wait_acked(self.alice.instance.send("bulk", "", bytes(100_000)), timeout=60)


ACTS = (Night.at_work, Night.near_expiry, Night.stopped, Night.cut_off, Night.disk_full)


def play(night: Night, seen: Seen) -> None:
    with night:
        for node in (night.alice, night.bob, night.carol):
            seen.open(node)
        with night.carol.beating("work") as sent:
            for act in ACTS:
                act(night, seen)
        until(lambda: {*sent} <= {*night.alice.got}, "all that carol has sent")
        for node in (night.alice, night.bob, night.carol):
            node.agrees()


@pytest.fixture
def night(tmp_path: Path, certs: Certificates, caplog: pytest.LogCaptureFixture) -> Iterator[Night]:
    caplog.set_level(logging.INFO, "tolliver")
    with small_disk(tmp_path / "disk") as disk:
        yield Night(tmp_path, certs, caplog, disk)


def test_all_that_tells_of_an_instance_says_the_same(night: Night) -> None:
    play(night, Nobody())


@pytest.mark.thorough
def test_the_page_says_it_too(night: Night, tmp_path: Path) -> None:
    with browsing(tmp_path / "browser") as browser:
        night.redial_max = 4.0
        screen = Screen(browser)
        play(night, screen)
        screen.fits()
        assert browser.said == []

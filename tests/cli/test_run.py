"""`tolliver run` and its files: an instance of one file, as a process."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.request import urlopen

import pytest
from tolliver._cli.config import KEYS, load
from tolliver._options.reading import leaves, read
from tolliver.staging import Position, StageFolder

from tests import zygote
from tests.cli.commands import COMMAND, SECONDS, Listener, run_process, running, tolliver
from tests.cli.conftest import Who
from tests.cli.test_errors import the_line
from tests.ports import free_address
from tests.store.given import open_store

HANDLE = """
import os, pathlib, sys
here = pathlib.Path(sys.argv[1])
names = [os.environ[f"TOLLIVER_{name}"] for name in ("CHANNEL", "KEY", "ATTEMPT")]
with here.open("a") as out:
    print(*names, sys.stdin.read(), sep="|", file=out)
sys.exit(names[2] == "1" and names[1] == "bad")
"""


PAGE = Path(__file__).parents[2] / "docs" / "run.md"


def config(tmp_path: Path, who: Who, more: str) -> Path:
    """A file for alice, on a free port."""
    who("alice")
    path = tmp_path / "alice.toml"
    path.write_text(
        'listen = "127.0.0.1:0"\ndatabase = "alice.db"\nsubscriptions = ["c"]\nretry_interval = "200ms"\n'
        f"{more}\n"
        '[tls]\ncert = "certificates/alice.pem"\nkey = "certificates/alice.key"\nca = "certificates/ca.pem"\n'
    )
    return path


@contextmanager
def started(*command: object, stdout: BinaryIO | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives no longer than the block."""
    with zygote.Process([*map(str, command)], stdout=stdout) as process:
        try:
            yield process
        finally:
            process.kill()


def until_lines(path: Path, count: int) -> list[str]:
    deadline = time.monotonic() + SECONDS
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text().splitlines()


def test_messages_go_to_a_file_and_rules_are_read_again(who: Who, tmp_path: Path) -> None:
    status = free_address()
    path = config(tmp_path, who, f'deliver.file = "got.jsonl"\nstatus = "{status}"')
    with running(tmp_path / "out", "run", path, "--json") as service:
        (said,) = service.lines()
        assert json.loads(said)["addresses"] == [service.address]
        send = ("send", "c", "k", "--connect", service.address, *who("bob", own=True))
        assert tolliver(*send, "one").exit_code == 0
        (line,) = until_lines(tmp_path / "got.jsonl", 1)
        assert (json.loads(line)["key"], base64.b64decode(json.loads(line)["body"])) == ("k", b"one")
        assert (tmp_path / "got.jsonl").stat().st_mode & 0o777 == 0o600

        good = path.read_text()
        path.write_text(good.replace("got", "other").replace('["c"]', '["c", "e"]'))
        service.process.send_signal(signal.SIGHUP)
        assert service.until_said("was read again")[-1].endswith("with certificates and access rules")
        assert tolliver("send", "e", *send[2:], "elsewhere").exit_code == 0
        assert json.loads(until_lines(tmp_path / "other.jsonl", 1)[0])["channel"] == "e"

        (tmp_path / "rules").write_text('default = "deny"')
        path.write_text(f"{'databse = 5'}\n{good}")
        service.process.send_signal(signal.SIGHUP)
        assert "is database meant?" in service.until_said("all stays as it was")[-1]
        path.write_text(good)
        pair = [tmp_path / "certificates" / f"alice.{end}" for end in ("pem", "key")]
        kept = pair[1].read_bytes()
        pair[1].write_bytes((tmp_path / "certificates" / "bob.key").read_bytes())  # half of a pair, as it is renewed
        service.process.send_signal(signal.SIGHUP)
        service.until_said("is not the key of")
        assert metric(status, 'tolliver_notices_total{kind="reload_refused"}') == 2
        assert tolliver(*send, "with the old pair").exit_code == 0
        pair[1].write_bytes(kept)
        path.write_text(f'acl = "rules"\ndedupe = 5\n{good}')
        service.process.send_signal(signal.SIGHUP)
        told = service.until_said("these take effect with a restart: dedupe")
        assert "still subscribed, by an earlier run, to 'e' ''" in told[-2]
        assert tolliver(*send, "two", "--timeout", 0.5).exit_code == 1
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0
    assert len(until_lines(tmp_path / "got.jsonl", 1)) == 1


def test_a_name_that_looks_like_a_pattern_is_told_to_be_none(tmp_path: Path, who: Who) -> None:
    path = tmp_path / "a.toml"
    path.write_text('plaintext = true\nsubscriptions = ["orders.*", "a>b", "", "C#"]\ndeliver.file = "got"\n')
    *told, end = tolliver("config", "check", path).stderr.splitlines()
    assert told == ["tolliver: 'orders.*' is one name, and no pattern: give each name, or none for all of them"]
    assert end.endswith("options set")
    path = config(tmp_path, who, 'deliver.file = "got"')
    path.write_text(path.read_text().replace('["c"]', '["orders/#"]'))
    with running(tmp_path / "out", "run", path) as service:
        service.until_said("'orders/#' is one name")
        assert service.interrupt() == 0
    with running(tmp_path / "out", "listen", "--key", "orders.>", "--listen", "127.0.0.1:0", *who("bob")) as alice:
        alice.until_said("'orders.>' is one name")
        assert alice.interrupt() == 0


def metric(address: str, name: str) -> float:
    """A sample of the instance with that status endpoint."""
    with urlopen(f"http://{address}/metrics", timeout=SECONDS) as answer:
        samples = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[:1] != "#")
    return float(samples[name])


SLOW = """
import pathlib, time
HERE = pathlib.Path(__file__).parent
def until(name):
    (HERE / f"{name}-began").write_text("x")
    while not (HERE / name).exists():
        time.sleep(0.01)
until("import")
def take(delivery):
    until("take")
"""


def test_a_hangup_ends_nothing_while_the_service_starts_or_closes(who: Who, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    path, errors = config(tmp_path, who, 'deliver.python = "slow:take"'), tmp_path / "errors"
    with errors.open("wb") as out, subprocess.Popen([*COMMAND, "run", str(path)], stderr=out) as process:
        try:
            until_there(tmp_path / "import-began")
            process.send_signal(signal.SIGHUP)
            (tmp_path / "import").touch()
            service = Listener(process, errors, errors)
            service.until_said("was read again")
            send = ("send", "c", "k", "x", "--connect", service.address, *who("bob", own=True))
            with started(*COMMAND, *send) as sending:
                until_there(tmp_path / "take-began")
                process.send_signal(signal.SIGTERM)
                for _ in range(10):
                    process.send_signal(signal.SIGHUP)
                    time.sleep(0.02)
                (tmp_path / "take").touch()
                assert process.wait(SECONDS) == 0, errors.read_text()
                assert sending.wait(SECONDS) == 0
        finally:
            process.kill()


def test_a_command_runs_for_each_message_and_again_where_it_fails(who: Who, tmp_path: Path) -> None:
    (tmp_path / "handle.py").write_text(HANDLE)
    command = json.dumps([sys.executable, str(tmp_path / "handle.py"), str(tmp_path / "got")])
    path = config(tmp_path, who, f"deliver.command = {command}")
    with running(tmp_path / "out", "run", path) as service:
        where = ("--connect", service.address, "--retry-interval", "200ms", *who("bob", own=True))
        assert tolliver("send", "c", "good", "x", *where).exit_code == 0
        assert tolliver("send", "c", "bad", "y", *where).exit_code == 0
        service.until_said("ended with status 1: the message 'c' 'bad' is redelivered")
        assert service.interrupt() == 0
    assert until_lines(tmp_path / "got", 3) == ["c|good|1|x", "c|bad|1|y", "c|bad|2|y"]


def test_the_example_is_a_file_that_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = tolliver("config", "example").stdout
    path = Path("alice.toml")
    path.write_text(text)
    assert "alice.pem" in the_line(tolliver("config", "check", path))  # which is not made yet
    assert tolliver("certs", "certs", "alice").exit_code == 0
    result = tolliver("config", "check", path, "--json")
    given = dict(leaves(tomllib.loads(text), KEYS))
    assert json.loads(result.stdout) == {"config": "alice.toml", "set": [*given]}
    assert tolliver("config", "check", path).stderr == "tolliver: alice.toml: nothing is wrong, 7 options set\n"


def test_a_configuration_is_checked_without_a_word_of_the_trial(tmp_path: Path) -> None:
    """In a process of its own: Python shows what a program without a handler logs."""
    (tmp_path / "a.toml").write_text('plaintext = true\ndatabase = "a.db"\nlisten = "127.0.0.1:0"\n')
    ended = subprocess.run(
        [*COMMAND, "config", "check", "a.toml"],
        capture_output=True,
        cwd=tmp_path,
        timeout=SECONDS,
        check=True,
    )
    assert ended.stderr.decode() == "tolliver: a.toml: nothing is wrong, 3 options set\n"
    assert not (tmp_path / "a.db").exists()


def everything() -> dict[str, Any]:
    """The example, with each option that is a comment there."""
    lines = tolliver("config", "example").stdout.splitlines()
    return tomllib.loads("\n".join(line.removeprefix("# ") if " = " in line else line for line in lines))


def test_the_example_has_every_option_and_each_could_be_written_so() -> None:
    document = everything()
    assert dict(leaves(document, KEYS)).keys() == KEYS.keys()
    assert read(document, KEYS, Path()).keys() == KEYS.keys()


def of_part(schema: dict[str, Any], part: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["properties"][part]
    table: dict[str, Any] = found.get("anyOf", [found])[0]  # or a list of such
    return table


def test_the_schema_has_every_option_too() -> None:
    schema = json.loads(tolliver("config", "schema").stdout)
    names = {
        f"{part}.{name}" if part else name
        for part, own in (("", schema["properties"]), *((p, of_part(schema, p)["properties"]) for p in PARTS))
        for name in own
    }
    assert names - {*PARTS} == {*KEYS}
    jsonschema = pytest.importorskip("jsonschema")
    document = everything()
    jsonschema.Draft202012Validator(schema).validate(document)
    jsonschema.Draft202012Validator(schema).validate(document | {"deliver": [document["deliver"]]})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"databse": "x"})


PARTS = ("tls", "deliver", "bridge", "limits")


def test_the_files_on_the_page_can_be_read() -> None:
    shown = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    whole, *parts = map(tomllib.loads, shown)
    assert [read({"deliver": one}, KEYS, Path())["deliver.channel"] for one in whole.pop("deliver")]
    assert read(whole, KEYS, Path())["limits.max_body"] == 64 * 2**20
    assert all(read(part, KEYS, Path()) for part in parts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = ", "bad.toml: "),
        ("plaintext = true\n[deliver]\nfile = 'x'", "nothing is subscribed to, so nothing would come"),
        ("plaintext = true\n[[deliver]]\nfile = 'x'\n[bridge]\nlisten = '127.0.0.1:0'", "nothing is subscribed to"),
        ("databse = 'x'", "there is no option 'databse': is database meant?"),
        ("plaintext = true\nsubscriptions = ['c']", "where do messages of 'c' go?"),
        ("plaintext = true\ndeliver.file = 'x'\ndeliver.command = ['true']", "it has file and command: give one of"),
        ("plaintext = true\ndeliver.command = ['no such program']", "there is no program 'no such program'"),
        ("plaintext = true\ndeliver.concurrency = 0", "deliver.concurrency: give at least 1"),
        ("plaintext = true\ndeliver.file = 'x'\ndeliver.rotate_size = 0", "deliver.rotate_size: give more than 0"),
        ("plaintext = true\ndeliver.python = 'os:abort'\ndeliver.rotate_age = '1h'", "give deliver.file with them"),
        (
            "plaintext = true\n[[deliver]]\nfile = 'x'\nrotate_age = 5\n[[deliver]]\nchannel = 'c'\nfile = './x'",
            "two tables have one file: give both the same rotate_size and rotate_age",
        ),
        ("plaintext = true\n[[deliver]]\nchannel = 'c'\nkey = 'k'", "where do its messages go: give one of"),
        ("subscriptions = ['c']\n[[deliver]]\nchannel = 'd'\nfile = 'x'", "where do messages of 'c' go?"),
        ("[[deliver]]\nfil = 'x'", "there is no option 'deliver.fil': is deliver.file meant?"),
        ("deliver.socket = '10.0.0.7:9'", "would leave this machine in plaintext"),
        ("deliver.python = 'no_such_module:f'", "no_such_module:f cannot be had: ModuleNotFoundError"),
        ("plaintext = true\nlisten = '0.0.0.0:0'", "would leave this machine"),
        ("log_level = 'loud'", "log_level: 'loud': give one of debug, info, warning, error"),
        ("database = 'x.db'", "neither of the options tls and plaintext: give tls.cert, tls.key and tls.ca"),
        (f"speaks = {'[' * 3000}{']' * 3000}", "nested too deeply"),
        ("plaintext = true\ndeliver.stage = 'bad.toml'", "bad.toml/stage.json cannot be read: Not a directory"),
        ("plaintext = true\ndeliver.stage = '.'", "is no stage, and not empty (it has 'bad.toml')"),
        ("plaintext = true\ndeliver.stage = 's'\ndeliver.max_staged = 1", "deliver.stage: FolderOptions.max_staged"),
        (
            "plaintext = true\n[[deliver]]\nstage = 's'\n[[deliver]]\nchannel = 'c'\nstage = 't/../s'",
            "two tables have one stage",
        ),
        ("deliver.timeout = -1", "deliver.timeout: it is -1: give seconds from 0 on"),
        ("reload_every = -0.5", "give seconds from 0 on"),
    ],
)
@pytest.mark.parametrize("command", [("run",), ("config", "check")])
def test_a_file_that_is_wrong_is_one_line(command: tuple[str, ...], text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert said in the_line(tolliver(*command, path))
    assert not (tmp_path / "node.db").exists()


@pytest.mark.parametrize("where", ["deliver.command = ['true']", "deliver.python = 'os:abort'"])
@pytest.mark.parametrize("command", [("run",), ("config", "check")])
def test_a_file_with_commands_that_everybody_may_write_is_refused(
    command: tuple[str, ...], where: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"plaintext = true\nlisten = '0.0.0.0:0'\nsubscriptions = ['c']\n{where}\n")
    path.chmod(0o666)
    assert f"everybody may write this file, and it says what is run here: chmod o-w {path}" in the_line(
        tolliver(*command, path)
    )
    path.chmod(0o664)
    assert "would leave this machine" in the_line(tolliver(*command, path))


def by_name(path: Path, place: Path) -> None:
    """It is the same file by its name."""
    assert path.name == place.name


@pytest.mark.parametrize("command", [("run",), ("config", "check")])
@pytest.mark.parametrize(
    ("place", "name", "alias"),
    [
        ("n.db", "n.db", by_name),
        ("n.db", "link", Path.symlink_to),
        ("n.db", "hard", Path.hardlink_to),
        ("n.db-wal", "n.db-wal", by_name),
        ("bad.toml", "link", Path.symlink_to),
    ],
)
@pytest.mark.parametrize("key", ["deliver.file", "tls.keylog"])
def test_no_file_is_written_that_the_instance_has_for_something_else(
    key: str, place: str, name: str, alias: Callable[[Path, Path], None], command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'database = "n.db"\nsubscriptions = ["c"]\nplaintext = true\n{key} = "{name}"\n')
    if alias is Path.hardlink_to:
        (tmp_path / place).touch()
    alias(tmp_path / name, tmp_path / place)
    if key != "deliver.file":
        path.write_text(f'{path.read_text()}deliver.file = "other"\n')
    assert f"{key}: {tmp_path / name} is " in the_line(tolliver(*command, path))


def test_a_reload_that_names_the_database_in_use_is_refused(who: Who, tmp_path: Path) -> None:
    path = config(tmp_path, who, 'deliver.file = "got.jsonl"')
    good = path.read_text()
    with running(tmp_path / "out", "run", path) as service:
        path.write_text(good.replace("alice.db", "later.db").replace("got.jsonl", "alice.db"))
        service.process.send_signal(signal.SIGHUP)
        assert "deliver.file" in service.until_said("all stays as it was")[-1]
        assert service.interrupt() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('database = "text"', "it is not a database; choose another path"),
        ('database = "."', "is a directory, and no regular file"),
        ('database = "gone.db"', "gone.db.mark belongs to one that was"),
        ('database = "none/n.db"', "check that its directory exists"),
        ('database = "twice.db"', "has 2 names (hard links)"),
        (f'database = "n.db"\nsubscriptions = ["{"x" * 5000}"]', "a name of 5000 bytes: the limit is 4096"),
        ('database = "n.db"\nsubscriptions = ["a", "b", "c"]\nlimits.max_subscriptions = 2', "3 subscriptions"),
    ],
)
def test_what_run_refuses_a_check_refuses_too_and_makes_nothing(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    (tmp_path / "text").write_text("hello")
    (tmp_path / "gone.db.mark").touch()
    open_store(tmp_path / "twice.db").close()
    (tmp_path / "second.db").hardlink_to(tmp_path / "twice.db")
    path.write_text(f'plaintext = true\n{text}\n[[deliver]]\nfile = "f"\nchannel = "c"\n[[deliver]]\nfile = "f"\n')
    before = sorted(tmp_path.iterdir())
    assert said in the_line(tolliver("config", "check", path))
    assert sorted(tmp_path.iterdir()) == before
    assert said in the_line(tolliver("run", path))


def test_a_pipe_or_device_is_no_configuration_and_is_not_waited_for(who: Who, tmp_path: Path) -> None:
    path, pipe = config(tmp_path, who, 'deliver.file = "got.jsonl"'), tmp_path / "pipe"
    os.mkfifo(pipe)
    good = path.read_text()
    for kind, place in (("pipe", pipe), ("device", Path("/dev/zero"))):
        for command in (("config", "check"), ("run",)):
            ended = run_process(*command, place)
            assert (ended.exit_code, f"{place} is a {kind}, and no regular file" in ended.stderr) == (1, True)
        (tmp_path / "rules.toml").unlink(missing_ok=True)
        (tmp_path / "rules.toml").symlink_to(place)
        path.write_text(f'acl = "rules.toml"\n{good}')
        assert f"is a {kind}, and no regular file" in run_process("config", "check", path).stderr
    path.write_text(good)
    with running(tmp_path / "out", "run", path) as service:
        pipe.replace(path)
        service.process.send_signal(signal.SIGHUP)
        assert "is a pipe" in service.until_said("all stays as it was")[-1]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Odd(BaseException): ...\nraise Odd", "Odd"),
        ("def take(delivery): yield", "is a generator"),
        ("async def take(delivery): yield", "is a generator"),
    ],
)
def test_a_module_that_is_wrong_is_one_line(module: str, said: str, tmp_path: Path) -> None:
    name = f"wrong_{abs(hash(module))}"
    (tmp_path / f"{name}.py").write_text(module)
    path = tmp_path / "bad.toml"
    path.write_text(f'plaintext = true\n[deliver]\nchannel = "c"\npython = "{name}:take"\n')
    assert said in the_line(tolliver("config", "check", path))


def test_a_reload_that_is_refused_leaves_no_subscription(who: Who, tmp_path: Path) -> None:
    path = config(tmp_path, who, 'deliver.file = "got.jsonl"\nlimits.max_subscriptions = 3')
    good = path.read_text()
    with running(tmp_path / "out", "run", path) as service:
        path.write_text(good.replace('["c"]', '["c", "d", "e", "f", "g"]'))
        service.process.send_signal(signal.SIGHUP)
        service.until_said("all stays as it was")
        path.write_text(good.replace('["c"]', '["c", "x", "y"]'))
        service.process.send_signal(signal.SIGHUP)
        service.until_said("was read again")
        assert service.interrupt() == 0


def test_a_reload_that_cannot_be_opened_is_refused_and_all_stays(who: Who, tmp_path: Path) -> None:
    table = '[[deliver]]\nchannel = "{}"\nstage = "{}"\n'
    path = config(tmp_path, who, "")
    served, taken = free_address(), socket.create_server(("127.0.0.1", 0))
    bridged = f'[bridge]\nlisten = "{served}"\nnames = ["tolliver://s"]\n'
    base = path.read_text().replace('subscriptions = ["c"]\n', "")
    good = base + table.format("c", "staged") + bridged
    (tmp_path / "m.py").write_text("")
    mistakes = [
        good + table.format("d", "m.py"),
        good + table.format("d", "fresh") + table.format("e", "/proc/xx"),
        good + f"{table.format('d', 'small')}max_staged = 1\n",
        good.replace(served, f"127.0.0.1:{taken.getsockname()[1]}"),
        good.replace(served, served.replace("127.0.0.1", "203.0.113.1")),
    ]
    path.write_text(good)
    with taken, running(tmp_path / "out", "run", path) as service:
        where = ("--connect", service.address, "--retry-interval", "200ms", *who("bob", own=True))
        service.until_said("of messages are on")
        host, port = served.split(":")
        for count, mistake in enumerate(mistakes, 1):
            path.write_text(mistake)
            service.process.send_signal(signal.SIGHUP)
            service.until_said("all stays as it was", count)
            assert tolliver("send", "c", "k", "x", *where).exit_code == 0
            socket.create_connection((host, int(port)), SECONDS).close()
        path.write_text(base + table.format("d", "staged") + table.format("e", "fresh"))  # from one hand to another
        service.process.send_signal(signal.SIGHUP)
        service.until_said("was read again")
        for channel in "de":
            assert tolliver("send", channel, "k", "x", *where).exit_code == 0
        assert service.interrupt() == 0
    staged = (StageFolder(tmp_path / name).head() or Position(0, 0, 0) for name in ("staged", "fresh"))
    assert [one.frames for one in staged] == [len(mistakes) + 1, 1]


SERVE = """
import base64, json, socket, sys
ours = socket.socket(socket.AF_UNIX)
ours.bind(sys.argv[1])
ours.listen()
line, _ = ours.accept()
stream = line.makefile("rw")
for each in stream:
    message = json.loads(each)
    body = base64.b64decode(message["body"]).decode()
    with open(sys.argv[2], "a") as out:
        print("socket", message["attempt"], body, file=out)
    print("not now" if body == "bad" and message["attempt"] == 1 else "ok", file=stream, flush=True)
"""
FUNCTIONS = """
import pathlib, time
def plain(delivery):
    with open(pathlib.Path(__file__).with_name("got"), "a") as out:
        print("plain", delivery.attempt, delivery.body.decode(), file=out)
    if delivery.attempt == 1 and delivery.body == b"bad":
        raise ValueError("not now")
async def waits(delivery):
    plain(delivery)
"""


def test_each_channel_goes_its_own_way(who: Who, tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "serve.py").write_text(SERVE)
    ways = {
        "a": 'socket = "unix:here.sock"',
        "b": 'python = "functions:waits"',
        "d": 'python = "functions:plain"',
        "e": 'stage = "staged"',
    }
    tables = "".join(f'[[deliver]]\nchannel = "{channel}"\n{way}\n' for channel, way in ways.items())
    path = config(tmp_path, who, "")
    bridged = 'subscriptions = ["s"]\nbridge.listen = "127.0.0.1:0"\n'
    path.write_text(path.read_text().replace('subscriptions = ["c"]\n', bridged) + tables)
    with running(tmp_path / "out", "run", path) as service:
        service.until_said("wait until somebody listens there")
        to = ("--connect", service.address, "--retry-interval", "200ms")
        where = (*to, *who("bob", own=True))
        serving = [sys.executable, str(tmp_path / "serve.py"), str(tmp_path / "here.sock"), str(tmp_path / "got")]
        # Nobody listens yet. This sender stays until its message is handled: from there it is redelivered.
        waits = ("send", "a", "k", "bad", "--timeout", SECONDS, *to, *who("dave", own=True))
        with started(*COMMAND, *waits) as sender:
            assert tolliver("send", "b", "k", "bad", *where).exit_code == 0
            with started(*serving):
                for channel in "de":
                    assert tolliver("send", channel, "k", "bad", *where).exit_code == 0
                assert sender.wait(SECONDS) == 0
                service.until_said("the answer was 'not now'")
                service.until_said("ValueError: not now")
                assert sorted(until_lines(tmp_path / "got", 6)) == [
                    "plain 1 bad",
                    "plain 1 bad",
                    "plain 2 bad",
                    "plain 2 bad",
                    "socket 1 bad",
                    "socket 2 bad",
                ]
        assert (StageFolder(tmp_path / "staged").head() or Position(0, 0, 0)).frames == 1
        streams = re.search(r"of messages are on (\S+)", "\n".join(service.until_said("of messages are on")))
        assert streams is not None
        stream = ("stream", "tolliver://s", "--connect", streams[1], "--count", 1, *who("carol"))
        with (tmp_path / "bridged").open("wb") as out, started(*COMMAND, *stream, stdout=out) as s:
            for _ in range(60):  # the last element of a stream is not acknowledged, and nobody may ask for it yet
                tolliver("send", "s", "k", "streamed", "--timeout", 1, *where)
                if s.poll() is not None:
                    break
            assert s.poll() == 0
        assert until_lines(tmp_path / "bridged", 1) == ["streamed"]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0


WAITS = """
import os, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
here.joinpath("began").write_text(str(os.getpid()))
while not here.joinpath("go").exists():
    time.sleep(0.01)
here.joinpath("done").touch()
"""


def until_there(path: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.parametrize("ends", [True, False])
def test_a_message_that_is_being_handled_may_end_after_sigterm(ends: bool, who: Who, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    command = json.dumps([sys.executable, "waits.py", str(tmp_path)]).replace("waits.py", str(tmp_path / "waits.py"))
    path = config(tmp_path, who, f'deliver.command = {command}\nstop_timeout = "{60 if ends else 0.1}s"')
    with running(tmp_path / "out", "run", path, *(["--trio"] if ends else [])) as service:
        send = ("send", "c", "k", "x", "--connect", service.address, *who("bob", own=True))
        with zygote.Process([*COMMAND, *map(str, send)], stdout=subprocess.DEVNULL) as sender:
            process = int(until_there(tmp_path / "began"))
            service.process.send_signal(signal.SIGTERM)
            if ends:
                (tmp_path / "go").touch()
            assert service.process.wait(SECONDS) == 0
            if ends:
                assert sender.wait(SECONDS) == 0  # it was acknowledged
            sender.kill()
    assert (tmp_path / "done").exists() is ends
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_command_with_a_slash_is_relative_to_the_file(tmp_path: Path) -> None:
    path, program = tmp_path / "a.toml", tmp_path / "handle"
    path.write_text('plaintext = true\nsubscriptions = ["c"]\ndeliver.command = ["./handle", "x"]')
    assert "there is no program" in the_line(tolliver("config", "check", path))
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (found,) = load(path).destinations
    assert found.command == (str(program), "x")


def test_the_database_that_no_key_names_is_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every path; one that an earlier version made in the current directory is not left behind without a word."""
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "a.toml"
    path.write_text("plaintext = true\n")
    monkeypatch.chdir(tmp_path)
    assert load(Path("there/a.toml")).options().database == Path("there/node.db")
    (tmp_path / "node.db").touch()
    with pytest.raises(ValueError, match=r"a\.toml: database: .*/node\.db is in the current directory, .* the file's"):
        load(path)
    path.write_text('plaintext = true\ndatabase = "../node.db"\n')
    assert load(path).options().database == path.parent / "../node.db"
    path.write_text("plaintext = true\n")
    (path.parent / "node.db").touch()
    assert load(path).options().database == path.parent / "node.db"


def test_what_is_subscribed_to_follows_from_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'plaintext = true\nsubscriptions = ["a", ["b", "k"]]\n[[deliver]]\nfile = "rest"\n'
        '[[deliver]]\nchannel = "a"\nkey = "k"\nfile = "one"\n'
        '[[deliver]]\nchannel = "d"\nfile = "two"\ntimeout = "20m"\n'
    )
    found = load(path)
    assert found.subscriptions == (("a", ""), ("b", "k"), ("d", ""))
    options = found.options()
    assert options.subscriptions == found.subscriptions
    assert (options.policy.stuck_after, options.policy.handling_timeout) == (1201, 1201)

"""Commands of certificates, options and files; and `run`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from .. import words
from ..helping import App
from .choices import JsonResult, Trio, interruptible

app = App()


@app.command(
    examples=("init demo", "init"),
    statuses={1: "a file is there already, and nothing was written, or it cannot be written"},
)
def init(
    directory: Annotated[Path, typer.Argument(help="Where the files go, made if missing.")] = Path(),
    json: JsonResult = False,
) -> None:
    """Begin: two programs that exchange a message, their certificates, and a file for `tolliver run`. Overwrites
    nothing. Prints the commands to type next."""
    from ..init import make

    make(directory, json)


@app.command(
    examples=("certs certs alice bob", "certs certs alice --host alice.example --host 10.0.0.7 --json"),
    statuses={1: "a file is there already, which is not overwritten, or it cannot be made"},
)
def certs(
    directory: Annotated[Path, typer.Argument(help="Where the files go.", show_default=False)],
    names: Annotated[list[str], typer.Argument(help="An instance's name, for its file names.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A name or address under which others dial it; repeatable (default: this machine, and localhost).",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, metavar="N", help="How long the certificates are valid.")] = 365,
    uuid: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="The UUID, for a single name (default: a new one).")
    ] = None,
    derive: Annotated[
        bool, typer.Option("--derive", help="For a job's many writers: identities may be derived from it.")
    ] = False,
    no_uuid: Annotated[
        bool, typer.Option("--no-uuid", help="For a tool that plays several peers, as `tolliver conform` does.")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Make a private CA, if the directory has none, and a certificate for each name. Overwrites nothing. Prints of each
    its UUID, the names under which it is dialled, the SHA-256 of its key and when it expires."""
    from ..certificates import make

    make(directory, names, host or [], days, uuid, derive, json, anonymous=no_uuid)


@app.command(examples=("revoke certs certs/bob.pem", "revoke certs --days 7"))
def revoke(
    directory: Annotated[Path, typer.Argument(help="Where the CA is.", show_default=False)],
    files: Annotated[list[Path] | None, typer.Argument(help="Certificates (PEM).", show_default=False)] = None,
    days: Annotated[int, typer.Option(min=1, metavar="N", help="How long the list is valid.")] = 30,
    json: JsonResult = False,
) -> None:
    """Write crl.pem, the list of revoked certificates, for --tls.crl: with these and those that it had before. Sign it
    again before it expires."""
    from ...certs import revoke

    path = revoke(directory, files or (), days)
    words.tell(json, f"{path} is signed anew; instances read it at SIGHUP", crl=str(path))


@app.command(examples=("pin certs/alice.pem", "pin certs/*.pem --json"))
def pin(
    files: Annotated[list[Path], typer.Argument(help="Certificates (PEM).", show_default=False)],
    json: JsonResult = False,
) -> None:
    """Print what to pin of each certificate: the SHA-256 of its key, for --spki, and its names."""
    from ..certificates import show_pins

    show_pins(files, json)


@app.command(examples=("options", "options --json"))
def options(json: JsonResult = False) -> None:
    """List every option of an instance: its flag, its key in a file, its default. They are flags of listen, send and
    replay."""
    from ..config import print_options

    print_options(json)


@app.command(
    examples=("run alice.toml",),
    statuses={0: "SIGTERM, or Ctrl-C", 1: "the file is wrong, or it failed"},
)
def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The file (TOML).", show_default=False)],
    json: JsonResult = False,
    trio: Trio = False,
) -> None:
    """Run an instance as one file says: where it listens, whom it dials, and where messages go, to a file or to a
    command for each. SIGHUP reads the file, certificates and access rules again."""
    from ..config import load
    from ..connecting import run
    from ..service import serve

    with interruptible(in_order=True):
        run(partial(serve, load(config), json), trio, watches=True)


config = App(help="Files for `tolliver run`.")
app.add_typer(config, name="config")
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="The file (TOML).", show_default=False)]


@config.command("check", examples=("config check alice.toml",), statuses={1: "something is wrong with it"})
def check_config(config: ConfigFile, json: JsonResult = False) -> None:
    """Check a file as `tolliver run` would: every key, every value, and the files that it names. Opens no database."""
    from ..config import check

    keys = check(config)
    words.tell(
        json, f"{config}: nothing is wrong, {words.count(len(keys), 'option')} set", config=str(config), set=keys
    )


@config.command("example", examples=("config example > alice.toml",), fails=None)
def show_example() -> None:
    """Print a file with every option there is, its default and its purpose; those that are not needed as comments."""
    from ..config import example

    typer.echo(example(), nl=False)


@config.command("schema", examples=("config schema > tolliver.schema.json",), fails=None)
def show_schema() -> None:
    """Print the JSON schema of such a file, for editors."""
    from ..config import schema

    typer.echo(schema())


@app.command(examples=("bundle tolliver.zip",))
def bundle(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.zip", help="The zip; one that is there goes.", show_default=False)
    ],
    json: JsonResult = False,
) -> None:
    """Write this package as a zip, for the workers of a Spark job: spark-submit --py-files FILE.zip."""
    from ..bundle import bundle as make

    count, size = make(file), file.stat().st_size
    said = f"{file}: {words.count(count, 'file')}, {words.count(size, 'byte')}"
    words.tell(json, said, file=str(file), files=count, bytes=size)


class Shell(StrEnum):
    """Shells with completion scripts."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(examples=("completion bash > ~/.local/share/bash-completion/completions/tolliver",), fails=None)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Whose script.", show_default=False)],
) -> None:
    """Print a script that completes commands and options in a shell. `tolliver --install-completion` puts it where
    your own shell looks."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # since 0.4, and not its own

    typer.echo(get_completion_script(prog_name="tolliver", complete_var="_TOLLIVER_COMPLETE", shell=shell.value))

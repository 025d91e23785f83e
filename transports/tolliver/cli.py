"""The `tolliver` command.

The commands live in `_cli`, and nothing of what they need is part of the base installation. So this module imports
nothing itself, and where something is missing, at the start or in a command, it says what to install.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

_EXTRA = {"typer", "click", "rich", "textual", "anyio", "attr", "attrs", "cryptography", "psutil"}
_SPARK = {"pyspark", "pyarrow", "numpy"}


def main() -> None:
    """Run the command line with the arguments of the process."""
    if hasattr(signal, "pthread_sigmask"):  # POSIX
        # A service reads its file again at a SIGHUP, and this one might end it while it starts: it waits until the
        # command is known, and until a service watches for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        from ._cli.standard import StreamClosed, fill_gaps, words_of_stream

        fill_gaps()
        from ._cli.commands import app

        try:
            app(prog_name="tolliver")
        except StreamClosed as error:
            sys.exit(f"tolliver: {error}")
        except OSError as error:
            words = words_of_stream(error)
            if words is None:
                raise
            with suppress(OSError):
                sys.stdout.close()  # or Python tries once more at its end
            sys.exit(f"tolliver: {words}")
    except ModuleNotFoundError as error:
        if "pip install" in str(error):  # its user has said so itself
            sys.exit(f"tolliver: {error}")
        module = (error.name or "").split(".")[0]
        extra = "cli" if module in _EXTRA else "spark" if module in _SPARK else None
        if extra is None:
            raise
        sys.exit(f"tolliver: the module {module} is missing: pip install 'tolliver-proto[{extra}]'")


if __name__ == "__main__":
    main()

"""The `tolliver` command.

The commands are in `_cli`, and need packages that are not part of the base installation. So this module imports nothing
else, and if a package is missing, at the start or in a command, it says what to install.
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
        # A service reloads its file at SIGHUP, which would end it while it starts. So the signal is blocked until the
        # command is known, or until a service handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        from ._cli.standard import StreamClosed, fill_gaps, words_of_stream

        fill_gaps()
        from ._cli.commands import app, narrow

        narrow(sys.argv[1:])
        try:
            app(prog_name="tolliver")
        except StreamClosed as error:
            sys.exit(f"tolliver: {error}")
        except OSError as error:
            words = words_of_stream(error)
            if words is None:
                raise
            with suppress(OSError):
                sys.stdout.close()  # else Python tries again at its end
            sys.exit(f"tolliver: {words}")
    except ModuleNotFoundError as error:
        if "pip install" in str(error) or "POSIX" in str(error):  # it has advice already
            sys.exit(f"tolliver: {error}")
        module = (error.name or "").split(".")[0]
        extra = "cli" if module in _EXTRA else "spark" if module in _SPARK else None
        if extra is None:
            raise
        sys.exit(f"tolliver: the module {module} is missing: pip install 'tolliver-proto[{extra}]'")


if __name__ == "__main__":
    main()

"""The `tolliver` command.

The idea: the commands live in `_cli`, and nothing of what they need is part of the base installation. So this module
imports nothing itself, and where something is missing, at the start or in a command, it says what to install.
"""

from __future__ import annotations

import sys

_EXTRA = {"typer", "click", "rich", "anyio", "attr", "attrs", "cryptography", "psutil"}


def main() -> None:
    """Run the command line with the arguments of the process."""
    try:
        from ._cli.commands import app

        app()
    except ModuleNotFoundError as error:
        module = (error.name or "").split(".")[0]
        if module not in _EXTRA:
            raise
        sys.exit(f"tolliver: the module {module} is missing: pip install 'tolliver-proto[cli]'")


if __name__ == "__main__":
    main()

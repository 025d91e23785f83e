"""The `tolliver` command.

The idea: the commands live in `_cli`, and nothing of what they need is part of the base installation; so this module
imports nothing, and says what to install where something is missing.
"""

from __future__ import annotations

import sys

_EXTRA = {"typer", "click", "rich", "anyio", "attr", "attrs", "cryptography", "psutil"}


def main() -> None:
    """Run the command line with the arguments of the process."""
    try:
        from ._cli.commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        sys.exit(f"tolliver: the module {error.name} is missing: pip install 'tolliver-proto[cli]'")
    app()


if __name__ == "__main__":
    main()

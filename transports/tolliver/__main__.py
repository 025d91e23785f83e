"""`python -m tolliver`: the `tolliver` command."""

from .cli import main

main()

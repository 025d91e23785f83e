"""Commands of `tolliver`, one module each, and what they share.

`commands` declares them all with their options, and imports the module of the one that is called: so `tolliver --help`
is quick, and a command needs only its own extra. Those that connect are built on the anyio adapter.
`tolliver.cli` is the entry point.
"""

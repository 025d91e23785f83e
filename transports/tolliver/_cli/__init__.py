"""Commands of `tolliver`, one module each, and their common code.

`commands` declares all commands with their options, and imports a command's module only when it is called: so `tolliver
--help` is quick, and a command needs only its own extra. Commands that connect use the anyio adapter. The entry point
is `tolliver.cli`.
"""

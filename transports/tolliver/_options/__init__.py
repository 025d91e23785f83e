"""Options of instances and streams, checked before anything is opened.

An option that cannot work is refused where it is written, with a text that says what to write instead, so no adapter
checks again. All is frozen data: no socket, no loop. Rules of access come from a TOML file (`acl_file`), a new
instance's UUID from `uuid7`. Every adapter takes these, staging and Spark make them from options of their own.
"""

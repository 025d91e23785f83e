"""Options of instances and streams, validated before anything is opened.

An invalid option is refused where it is given, with advice, so adapters need no checks. Options are frozen data,
without sockets or loops. Access rules can come from a TOML file (`acl_file`), a new instance's UUID comes from `uuid7`.
Every adapter takes these classes; staging and Spark create them from options of their own.
"""

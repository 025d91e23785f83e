"""Adapters for the machines of `tolliver_proto`. Import one of the doors:

- `anyio`, `twisted`, `blocking`: instances and streams on asyncio and trio, on Twisted, on threads
- `events`: what `events()` and `on_event` of these tell
- `codecs`: typed values as bodies of messages and elements of streams
- `spark`: data sources, sink, streams with demand and delivery audit in PySpark
- `staging`: messages in files, each once, before they are acknowledged
- `certs`: a private CA and certificates in PEM files
- `derived`: identities derived from a label, for jobs with many short-lived writers
- `sqlite`: the durable store, for programs that drive a node themselves
- `cli`: the `tolliver` command

Each needs its own extra, so nothing is imported here. docs/architecture.md draws the rooms behind the doors.
"""

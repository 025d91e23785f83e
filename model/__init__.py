"""The model of reliable messages in TLA+, and what is held to it (model/README.md)."""

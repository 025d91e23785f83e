"""Fuzzing: `targets` has the list, `python -m fuzz` runs one, `make fuzz` runs all."""

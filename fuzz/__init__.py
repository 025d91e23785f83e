"""Fuzzing of every parser and machine, with coverage as the guide.

`targets` has the list, `python -m fuzz` runs one, `make fuzz` runs all.
"""

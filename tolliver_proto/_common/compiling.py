"""Decorator by which a class tells mypyc how to compile it.

mypyc reads it in the source. It does nothing at run time, where the core has no dependency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_said):
        return lambda cls: cls

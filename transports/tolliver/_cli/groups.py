"""Options that several commands have.

A group of options is a function that has them as its parameters and makes one value of them. A command names the value
and the function; on the command line it has the function's options in that place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def grouped(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Each parameter that is named here is replaced by those of its function, and gets what that returns.

    The function of a group may itself have groups.
    """
    options = {name: [_evaluated(option, group) for option in _parameters(group)] for name, group in groups.items()}

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(command)
        def wrapper(**values: Any) -> T:
            for name, group in groups.items():
                values[name] = group(
                    **{option.name: values.pop(option.name, option.default) for option in options[name]}
                )
            return command(**values)

        parameters: list[inspect.Parameter] = []
        for parameter in _parameters(command):
            parameters += options.get(parameter.name) or [_evaluated(parameter, command)]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return decorate


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _evaluated(parameter: inspect.Parameter, owner: Callable[..., Any]) -> inspect.Parameter:
    annotation = parameter.annotation
    if isinstance(annotation, str):  # else it was evaluated for a group within the group
        # Not typing.get_type_hints: it wants all of a function's types, also those that are there for mypy alone.
        annotation = eval(annotation, owner.__globals__)
    return parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)

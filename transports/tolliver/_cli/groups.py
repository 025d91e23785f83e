"""Groups of options common to several commands.

A group is a function whose parameters are the options, and which combines them into one value. A command names the
value as a parameter; on the command line the options of the function take its place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def grouped(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Decorator: replaces each named parameter by those of its function, and passes it that function's result.

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
    if isinstance(annotation, str):  # else already evaluated, for a nested group
        # Not typing.get_type_hints, which also evaluates types that are imported only for mypy.
        annotation = eval(annotation, owner.__globals__)
    return parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)

"""Functions of a program may take the value alone or key and value; inside there is one form.

Invariant: the form is chosen when the program is built, by the number of arguments that a function needs.
"""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from moldau.streams.columns import Column

#: A length of time: milliseconds, or a timedelta.
Duration = int | timedelta

Function = Callable[..., Any]


def milliseconds(duration: Duration) -> int:
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    return duration


def argument_count(function: Function) -> int | None:
    """How many positional arguments a function needs; None where it does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)


def of_key_and_value(function: Function) -> Callable[[Any, Any], Any]:
    """A function of key and value; one of the value alone is wrapped. Column expressions take both."""
    if isinstance(function, Column) or argument_count(function) == 2:
        return function
    return lambda key, value: function(value)


def joiner_with_key(function: Function) -> Callable[[Any, Any, Any], Any]:
    """A function of key, left and right; one of left and right is wrapped."""
    if argument_count(function) == 3:
        return function
    return lambda key, left, right: function(left, right)


def constant(value: Any) -> Callable[[], Any]:
    return lambda: value

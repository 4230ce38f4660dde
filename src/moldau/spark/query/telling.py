"""What a user sees of a mistake: one sentence, not the way through forty frames that led to it.

Spark shows the whole traceback of whatever its Python workers raise. The errors that are meant for users say
what is wrong and what to do; they leave this room without the frames below. Set ``MOLDAU_TRACEBACK=1`` in the
environment of driver and workers to see those as well.

Invariant: only errors that were written for users are shortened. A mistake of our own keeps every frame.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from moldau.client.registry.errors import RegistryError
from moldau.protocol.errors import KafkaError
from moldau.spark.options import OptionError

_F = TypeVar("_F", bound=Callable[..., Any])
_FOR_USERS = (KafkaError, OptionError, RegistryError)


def plainly(function: _F) -> _F:
    """A method that Spark calls, whose errors for users come out as they are worded."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def pieces(*arguments: Any, **named: Any) -> Iterator[Any]:
            try:
                yield from function(*arguments, **named)
            except _FOR_USERS as error:
                raise _bare(error) from None

        return cast(_F, pieces)

    @functools.wraps(function)
    def whole(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except _FOR_USERS as error:
            raise _bare(error) from None

    return cast(_F, whole)


def _bare(error: Exception) -> Exception:
    return error if os.environ.get("MOLDAU_TRACEBACK") else error.with_traceback(None)

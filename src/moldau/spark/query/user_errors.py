"""Shows users one sentence for a mistake, without the forty stack frames that led to it.

Spark prints the whole traceback of whatever its Python workers raise. Errors that are meant for users say
what is wrong and what to do, so their traceback is cut off where Spark called us. Set
``MOLDAU_TRACEBACK=1`` in the environment of driver and workers to see it.

Invariant: only errors that were written for users are shortened. A bug of our own keeps every frame.
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


def shorten_user_errors(function: _F) -> _F:
    """A decorator for methods that Spark calls."""
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

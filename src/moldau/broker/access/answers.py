"""Does something to what a handler answers, whether it answers now, later, or not at all.

Invariant: the function is called once for each answer, and never for "go on waiting".
"""

import inspect
from collections.abc import Callable, Generator
from typing import Any

from moldau.broker.purgatory import Parked


def when_answered(
    result: Any, change: Callable[[Any], Any], failed: Callable[[Exception], Any] | None = None
) -> Any:
    """``change`` makes the answer of a handler's answer; ``failed`` one of what was raised on the way."""
    if isinstance(result, Parked):
        attempt = result.attempt

        def again(expired: bool) -> Any:
            try:
                found = attempt(expired)
            except Exception as error:
                if failed is None:
                    raise
                found = failed(error)
            return None if found is None else when_answered(found, change, failed)

        result.attempt = again
        return result
    if inspect.isawaitable(result):
        return _awaited(result, change, failed)
    if inspect.isgenerator(result):
        return _in_steps(result, change, failed)
    return change(result)


async def _awaited(
    result: Any, change: Callable[[Any], Any], failed: Callable[[Exception], Any] | None
) -> Any:
    try:
        found = await result
    except Exception as error:
        if failed is None:
            raise
        found = failed(error)
    return when_answered(found, change, failed)


def _in_steps(
    steps: Generator[Any, Any, Any], change: Callable[[Any], Any], failed: Callable[[Exception], Any] | None
) -> Generator[None, None, Any]:
    try:
        found = yield from steps
    except Exception as error:
        if failed is None:
            raise
        found = failed(error)
    return when_answered(found, change, failed)

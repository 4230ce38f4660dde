"""What a test may do to a request on its way to the handler.

An interceptor is a function of the request (and, if it takes two arguments, its context). It may
change the request in place and return None to let it pass, or return ``fail(code)``, ``delay(s)``,
``drop()`` or a response of its own. It may be a coroutine function, and may raise a ``KafkaError``
instead of returning it.

Invariant: an interceptor runs on the broker's thread. What goes wrong inside it reaches the test that put
it there, and its client gets an answer all the same.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.testing.broker import Broker

log = logging.getLogger("moldau.testing")


@dataclass(frozen=True, slots=True)
class Delay:
    """Lets the request wait before it is handled, by the broker's clock."""

    seconds: float
    then: Any = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Closes the connection without an answer."""

    handled: bool = False


def fail(code: ErrorCode | int | str, message: str | None = None) -> KafkaError:
    """Answers with an error, by its code, number or name."""
    found = ErrorCode[code] if isinstance(code, str) else ErrorCode(code)
    return KafkaError(found, message)


def delay(seconds: float, then: Any = None) -> Delay:
    """Waits, then passes the request on, or does ``then`` (``drop()`` or ``fail(…)``).

    The seconds are those of ``broker.clock``: advancing it ends the wait. What the same connection
    asks next waits too, as it would for a slow broker.
    """
    return Delay(seconds, then)


def drop(*, handled: bool = False) -> Drop:
    """Closes the connection without an answer.

    The request is lost, unless ``handled``: then the broker does what it asks, and the answer is lost.
    """
    return Drop(handled)


class Interception:
    """An interceptor in place; ``calls`` counts the requests it saw. Remove it, or use it in a ``with``.

    An exception inside the function (a failed ``assert``, say) is raised again by ``remove`` or at the
    end of the ``with``.
    """

    def __init__(self, broker: "Broker", api_key: int, function: Callable[..., Any]) -> None:
        self._broker = broker
        self._takes_context = _takes_context(function)
        self.api_key = api_key
        self.function = function
        self.calls = 0
        #: The first thing that went wrong inside the function.
        self.error: BaseException | None = None

    def remove(self) -> None:
        """Takes the interceptor out of the way; a second call does nothing."""
        self._broker.remove_interception(self)
        error, self.error = self.error, None
        if error is not None:
            raise error

    def __enter__(self) -> "Interception":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.remove()
        except BaseException as own:
            if error is None:
                raise
            # The test failed already, most likely because of this.
            error.add_note(f"an interceptor failed before: {own!r}")

    def ask(self, request: Any, context: Any) -> Any:
        """The function's verdict, or an awaitable of it; called on the broker's thread."""
        self.calls += 1
        try:
            verdict = self.function(request, context) if self._takes_context else self.function(request)
        except BaseException as error:
            return self._raised(error)
        return self._awaited(verdict) if inspect.isawaitable(verdict) else verdict

    async def _awaited(self, verdict: Awaitable[Any]) -> Any:
        try:
            return await verdict
        except asyncio.CancelledError:
            raise  # the broker stops
        except BaseException as error:
            return self._raised(error)

    def _raised(self, error: BaseException) -> KafkaError:
        if isinstance(error, KafkaError):
            return error
        log.error("an interceptor of %s failed", ApiKey(self.api_key).name, exc_info=error)
        if self.error is None:
            self.error = error
        return fail(ErrorCode.UNKNOWN_SERVER_ERROR, f"the test's interceptor raised {error!r}")


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether the function wants a second argument; one that has a default is the test's own."""
    needed = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return True
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            needed += parameter.default is parameter.empty
    return needed > 1

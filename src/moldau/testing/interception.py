"""What a test may do to a request before the handler gets it.

An interceptor is a function of the request (and, if it takes two arguments, its context). It may
change the request in place and return None to let it pass, or return ``fail(code)``, ``delay(s)``,
``drop()`` or a response of its own. It may be a coroutine function, and may raise a ``KafkaError``
instead of returning it.

``Interceptors`` stands between the broker and its handlers.

Invariant: an interceptor runs on the broker's thread. What goes wrong inside it reaches the test that put
it there, and its client gets an answer all the same. The requests of one connection stay in order.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from moldau.broker.bounds.turns import Steps, at_once
from moldau.broker.context import CloseConnection, RequestContext
from moldau.broker.dispatch import Handler
from moldau.broker.purgatory import Parked
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.schema import declaration

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


class Interceptors:
    """The interceptors of one broker; they outlive a restart."""

    def __init__(self) -> None:
        #: By API, the latest last.
        self.placed: dict[int, list[Interception]] = {}
        #: Connections with a request that is delayed; what they ask next waits for it, as it would wait
        #: for a slow broker.
        self.delayed: dict[object, asyncio.Future[None]] = {}
        #: The ends of delays; None while the broker stops and no request is delayed.
        self._delays: set[asyncio.Event] | None = set()

    def place(self, interception: Interception) -> None:
        self.placed.setdefault(interception.api_key, []).append(interception)

    def remove(self, interception: Interception) -> None:
        placed = self.placed.get(interception.api_key, [])
        if interception in placed:
            placed.remove(interception)
        if not placed:
            self.placed.pop(interception.api_key, None)

    def start(self) -> None:
        self._delays = set()

    def end_delays(self) -> None:
        """The broker stops: delayed requests are answered."""
        delays, self._delays = self._delays, None
        for due in delays or ():
            due.set()

    def wrap(self, api_key: ApiKey, handle: Handler) -> Handler:
        """The handler of an API with the test's interceptors before it."""

        def intercepted(request: Any, context: RequestContext) -> Any:
            if not self.placed and not self.delayed:
                return handle(request, context)
            # A delayed request outlives this call, and so may one that a test keeps to look at.
            _copy_records(request)
            before = self.delayed.get(context.connection)
            verdict = self._ask(api_key, request, context) if before is None else None
            if before is None and not isinstance(verdict, Delay) and not inspect.isawaitable(verdict):
                return _carry_out(verdict, handle, request, context)
            done = self.delayed[context.connection] = asyncio.get_running_loop().create_future()

            async def later() -> Any:
                try:
                    if before is not None:
                        await before
                    found = verdict if before is None else self._ask(api_key, request, context)
                    result = _carry_out(await self._settled(found, context), handle, request, context)
                    return await result if inspect.isawaitable(result) else result
                finally:
                    done.set_result(None)
                    if self.delayed.get(context.connection) is done:
                        del self.delayed[context.connection]

            return later()

        return intercepted

    def _ask(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """The verdict of the latest interceptor that has one."""
        for interception in reversed(tuple(self.placed.get(api_key, ()))):
            verdict = interception.ask(request, context)
            if verdict is not None:
                return verdict
        return None

    async def _settled(self, verdict: Any, context: RequestContext) -> Any:
        """A verdict without delays."""
        if inspect.isawaitable(verdict):
            return await self._settled(await verdict, context)
        if isinstance(verdict, Delay):
            await self._delay(verdict.seconds, context)
            if self._delays is None:
                return fail(ErrorCode.REQUEST_TIMED_OUT, "The broker is stopping.")
            return await self._settled(verdict.then, context)
        return verdict

    async def _delay(self, seconds: float, context: RequestContext) -> None:
        if self._delays is None:
            return
        due = asyncio.Event()
        self._delays.add(due)
        context.services.timers.after(seconds, due.set)
        await due.wait()
        if self._delays is not None:
            self._delays.discard(due)


def _carry_out(verdict: Any, handle: Handler, request: Any, context: RequestContext) -> Any:
    """What the handler returns, or what the test wants instead."""
    if verdict is None:
        return handle(request, context)
    if isinstance(verdict, Exception):
        raise verdict
    if not isinstance(verdict, Drop):
        return verdict
    if not verdict.handled:
        raise CloseConnection("a test dropped the request")
    result = handle(request, context)
    if isinstance(result, Parked):
        context.services.purgatory.park(result, lambda response: None)
    elif inspect.isgenerator(result):
        at_once(cast(Steps[Any], result))
    elif inspect.isawaitable(result):
        context.services.background.start(_finished(result), "dropped answer")
    raise CloseConnection("a test dropped the answer")


async def _finished(result: Awaitable[Any]) -> Any:
    return await result


def _copy_records(message: Any) -> None:
    """Records are views of a buffer that the next request overwrites."""
    for field in declaration(type(message)).fields:
        value = getattr(message, field.name)
        if isinstance(value, memoryview):
            setattr(message, field.name, memoryview(bytearray(value)))
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__message__"):
                    _copy_records(each)


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether the function wants a second argument; one that has a default is the test's own."""
    needed = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return True
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            needed += parameter.default is parameter.empty
    return needed > 1

"""What a test may do to a request on its way to the handler.

An interceptor is a function of the request (and, if it takes two arguments, its context). It may
change the request in place and return None to let it pass, or return ``fail(code)``, ``delay(s)``,
``drop()`` or a response of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.testing.broker import Broker


@dataclass(frozen=True, slots=True)
class Delay:
    """Lets the request wait before it is handled, by the broker's clock."""

    seconds: float
    then: Any = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Closes the connection without an answer."""


def fail(code: ErrorCode | int | str, message: str | None = None) -> KafkaError:
    """Answers with an error, by its code, number or name."""
    found = ErrorCode[code] if isinstance(code, str) else ErrorCode(code)
    return KafkaError(found, message)


def delay(seconds: float, then: Any = None) -> Delay:
    """Waits, then passes the request on, or does ``then`` (``drop()`` or ``fail(…)``)."""
    return Delay(seconds, then)


def drop() -> Drop:
    return Drop()


class Interception:
    """An interceptor in place; ``calls`` counts the requests it saw. Remove it, or use it in a ``with``."""

    def __init__(self, broker: "Broker", api_key: int, function: Callable[..., Any]) -> None:
        self._broker = broker
        self.api_key = api_key
        self.function = function
        self.calls = 0

    def remove(self) -> None:
        self._broker.remove_interception(self)

    def __enter__(self) -> "Interception":
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

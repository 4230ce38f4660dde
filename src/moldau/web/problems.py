"""What a service answers when it will not or cannot: a problem with a code, a status and a message.

A handler raises a ``Problem``; the application answers it in the service's style. Confluent's services, and
Kafka Connect with them, answer ``{"error_code": …, "message": …}``; another style is another function.

Pure: nothing here knows how HTTP is spoken.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias


class Problem(Exception):
    """``code`` is the service's own number for what is wrong, ``status`` that of HTTP."""

    def __init__(
        self, code: int, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message
        self.headers = headers or {}


#: From a problem to the JSON of its answer.
ProblemStyle: TypeAlias = Callable[[Problem], Any]


def error_code_and_message(problem: Problem) -> dict[str, Any]:
    return {"error_code": problem.code, "message": problem.message}


#: The JSON Schema of that style.
ERROR_CODE_AND_MESSAGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def http_problem(status: int, message: str | None = None) -> Problem:
    """A problem with the request itself; the words are those of the Java services' HTTP library."""
    return Problem(status, status, message or f"HTTP {status} {HTTPStatus(status).phrase}")

"""What the server answers when it will not or cannot, in ksqlDB's codes and words.

Pure.
"""

from typing import Any

from moldau.web.problems import Problem

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
QUERY_ENDPOINT = 40002
NOT_FOUND = 40400
SERVER_ERROR = 50000
#: A statement of another server that this one has not seen yet.
NOT_YET = 50300


class StatementProblem(Problem):
    """A statement that failed; those before it in the same request were carried out."""

    def __init__(self, message: str, text: str, entities: list[Any], code: int = BAD_STATEMENT) -> None:
        super().__init__(code, code // 100, message)
        self.text = text
        self.entities = entities


def problem_style(problem: Problem) -> dict[str, Any]:
    found: dict[str, Any] = {
        "@type": "generic_error",
        "error_code": problem.code if problem.code >= 1000 else problem.code * 100,
        "message": problem.message,
    }
    if isinstance(problem, StatementProblem):
        found |= {"@type": "statement_error", "statementText": problem.text, "entities": problem.entities}
    return found


PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["@type", "error_code", "message"],
    "properties": {
        "@type": {"type": "string"},
        "error_code": {"type": "integer"},
        "message": {"type": "string"},
        "statementText": {"type": "string"},
        "entities": {"type": "array"},
    },
}

"""Problems, and how they are answered."""

import pytest

from moldau.web.problems import ERROR_CODE_AND_MESSAGE_SCHEMA, Problem, error_code_and_message, http_problem


def test_a_problem_says_what_is_wrong() -> None:
    problem = Problem(40401, 404, "There is no such subject", {"X-Why": "gone"})
    assert str(problem) == "There is no such subject"
    assert (problem.code, problem.status, problem.headers) == (40401, 404, {"X-Why": "gone"})
    assert Problem(1, 500, "").headers == {}


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, None, "HTTP 404 Not Found"),
        (404, "", "HTTP 404 Not Found"),
        (503, None, "HTTP 503 Service Unavailable"),
        (413, "The request is too large", "The request is too large"),
    ],
)
def test_a_problem_of_http(status: int, message: str | None, expected: str) -> None:
    problem = http_problem(status, message)
    assert (problem.code, problem.status, problem.message) == (status, status, expected)


def test_confluents_style() -> None:
    """The service's own code is answered, not the status, and nothing that its schema does not have."""
    answer = error_code_and_message(Problem(40401, 404, "gone"))
    assert answer == {"error_code": 40401, "message": "gone"}
    assert answer.keys() == ERROR_CODE_AND_MESSAGE_SCHEMA["properties"].keys()
    assert list(answer) == ERROR_CODE_AND_MESSAGE_SCHEMA["required"]

"""Confluent's error codes with their words and the status of HTTP."""

import inspect

import pytest

from moldau.registry import errors
from moldau.registry.errors import RegistryProblem


@pytest.mark.parametrize(
    ("error", "code", "status", "words"),
    [
        (errors.subject_not_found("s"), 40401, 404, "Subject 's' not found."),
        (errors.version_not_found(3), 40402, 404, "Version 3 not found."),
        (errors.schema_not_found(), 40403, 404, "Schema not found"),
        (errors.schema_not_found(7), 40403, 404, "Schema 7 not found"),
        (errors.incompatible("s", ["a", "b"]), 409, 409, "details: [a, b]"),
        (errors.invalid_version("x"), 42202, 422, "'x' is not a valid version id"),
        (errors.reference_exists("s", 2), 42206, 422, "{magic=1,keytype=SCHEMA,subject=s,version=2}."),
        (errors.unknown_leader(), 50004, 500, "leader"),
    ],
)
def test_codes_and_words(error: RegistryProblem, code: int, status: int, words: str) -> None:
    assert (error.code, error.status) == (code, status)
    assert words in error.message


def test_every_code_begins_with_its_status() -> None:
    """Or is the status itself: clients look at either."""
    made = 0
    for name, function in inspect.getmembers(errors, inspect.isfunction):
        error = function(*["s"] * len(inspect.signature(function).parameters))
        if isinstance(error, RegistryProblem):
            made += 1
            assert str(error.code).startswith(str(error.status)), name
    assert made > 20

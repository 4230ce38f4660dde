"""SCRAM credentials by the API, as a real broker answers."""

from typing import Any

import pytest

from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.broker.apis.asking import Ask

_TWICE = "A user credential cannot be altered twice in the same request"
_GONE = "Attempt to delete a user credential that does not exist"


def setting(user: str = "s1", mechanism: int = 1, iterations: int = 4096, salted: bytes = bytes(32)) -> Any:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", salted)


def alter(ask: Ask, removals: list[Any], settings: list[Any]) -> list[tuple[str, int, str | None]]:
    results = ask(AlterUserScramCredentialsRequest(removals, settings)).results
    return [(each.user, each.error_code, each.error_message) for each in results]


def describe(ask: Ask, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    asked = DescribeUserScramCredentialsRequest([UserName(user) for user in users] or None)
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in ask(asked).results
    ]


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (setting(), 0, None),
        (setting(mechanism=2, salted=bytes(64)), 0, None),
        (setting(mechanism=0), 33, "Unknown SCRAM mechanism"),
        (setting(mechanism=3), 33, "Unknown SCRAM mechanism"),
        (setting(iterations=4095), 93, "Too few iterations"),
        (setting(iterations=16384), 0, None),
        (setting(iterations=16385), 93, "Too many iterations"),
        (setting(user=""), 93, "Username must not be empty"),
        (setting(salted=b""), -1, None),
        (setting(salted=b"12345"), 0, None),
    ],
)
def test_what_can_be_set(ask: Ask, asked: Any, code: int, message: str | None) -> None:
    assert alter(ask, [], [asked]) == [(asked.name, code, message)]


def test_a_user_stands_in_a_request_once(ask: Ask) -> None:
    assert alter(ask, [], [setting("s3"), setting("s3")]) == [("s3", 92, _TWICE)]
    assert alter(ask, [], [setting("s3"), setting("s3", 2)]) == [("s3", 92, _TWICE)]
    assert alter(ask, [ScramCredentialDeletion("s3", 1)], [setting("s3")]) == [("s3", 91, _GONE)]
    assert describe(ask, "s3") == [("s3", 91, [])]


def test_one_that_is_refused_does_not_affect_the_others(ask: Ask) -> None:
    assert alter(ask, [], [setting("s4"), setting("s5", iterations=1)]) == [
        ("s4", 0, None),
        ("s5", 93, "Too few iterations"),
    ]
    assert alter(ask, [ScramCredentialDeletion("zz", 1)], []) == [("zz", 91, _GONE)]
    assert alter(ask, [ScramCredentialDeletion("s4", 1)], []) == [("s4", 0, None)]
    assert alter(ask, [], []) == []


def test_they_are_described_without_secrets(ask: Ask) -> None:
    alter(ask, [], [setting("d1", 1, 8192)])
    alter(ask, [], [setting("d1", 2)])
    assert describe(ask, "zz", "d1") == [("zz", 91, []), ("d1", 0, [(1, 8192), (2, 4096)])]
    assert describe(ask, "d1", "d1") == [("d1", 92, [])]
    assert ("d1", 0, [(1, 8192), (2, 4096)]) in describe(ask)

"""ApiVersions: the table as clients read it, and to whom our own APIs are listed."""

import pytest

from moldau.broker.apis import TABLE
from moldau.protocol.api_keys import FIRST_PRIVATE_KEY, ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.apis.asking import Ask


def listed(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_every_api_that_is_advertised_and_no_other(ask: Ask, version: int) -> None:
    response = ask(ApiVersionsRequest("some-client", "1.0"), version)
    assert response.error_code == 0
    expected = {key: (api.minimum, api.maximum) for key, api in TABLE.items() if api.advertised}
    assert listed(response) == expected
    assert ApiKey.PUSH_TELEMETRY not in listed(response)


def test_our_own_client_sees_our_own_apis(ask: Ask) -> None:
    ours = {key for key in TABLE if key >= FIRST_PRIVATE_KEY}
    assert ours
    assert ours <= listed(ask(ApiVersionsRequest("moldau", "1.0"), 3)).keys()
    assert not ours & listed(ask(ApiVersionsRequest("moldau-like", "1.0"), 3)).keys()


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")])
def test_names_that_no_client_would_have(ask: Ask, name: str, version: str) -> None:
    response = ask(ApiVersionsRequest(name, version), 3)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert ask(ApiVersionsRequest(name, version), 2).error_code == 0, "no names before version 3"


def test_features(ask: Ask) -> None:
    levels = {"group.version": 1, "transaction.version": 2}
    response = ask(ApiVersionsRequest("a", "1"), 4)
    assert {each.name: each.max_version_level for each in response.finalized_features} == levels
    assert {each.name: each.max_version for each in response.supported_features} == levels
    assert response.finalized_features_epoch >= 0
    older = ask(ApiVersionsRequest("a", "1"), 3)
    assert older.supported_features == [], "version 3 cannot carry a lowest level of 0"
    assert {each.name for each in older.finalized_features} == levels.keys()

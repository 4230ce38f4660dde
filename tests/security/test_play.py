"""Every row of the table of a real broker, over the wire."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.apis import TABLE
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.security.row_forms import FORMS
from tests.security.row_player import Players, errors_of, rows_of

_ROWS = dict(rows_of([str(Path(__file__).parent / "authorization.json")]))
#: Kafka's controllers listen by themselves, and answer these in a way that no broker does.
_OF_CONTROLLERS_ALONE = {
    f"controller listener: {row}"
    for row in (
        "Fetch v17",  # the metadata log is read by Fetch there
        "DescribeDelegationToken v3",  # an error of the server
        "DescribeUserScramCredentials v0",  # another one
        "DescribeCluster v2",  # a broker answers everybody
        "Metadata v12",  # the connection is closed
        "ListGroups v5",
    )
}
_PLAYED = {
    name: row
    for name, row in _ROWS.items()
    if name not in _OF_CONTROLLERS_ALONE and ("area" in row or row["api"] in FORMS)
}


@pytest.fixture(scope="module")
def players() -> Iterator[Players]:
    with Players() as players:
        yield players


@pytest.mark.slow
@pytest.mark.parametrize("name", _PLAYED)
def test_row(players: Players, name: str) -> None:
    assert players.play(_PLAYED[name]) is None


@pytest.mark.slow
def test_what_is_not_served_fails_and_says_so(players: Players) -> None:
    others = {name: row for name, row in _ROWS.items() if name not in _PLAYED}
    reasons = {name: players.play(row) for name, row in others.items()}
    assert None not in reasons.values()
    unserved = {name: text for name, text in reasons.items() if name not in _OF_CONTROLLERS_ALONE}
    assert all(text == f"{others[name]['api']} is not served here" for name, text in unserved.items())


def test_every_api_of_the_table_that_is_served_has_a_form() -> None:
    served = {key.name.replace("_", "").lower() for key in TABLE}
    named = {row["api"] for row in _ROWS.values() if "api" in row}
    missing = {api for api in named if api.lower() in served} - FORMS.keys()
    assert not missing


def test_a_row_that_is_wrong_fails(players: Players) -> None:
    row: dict[str, Any] = dict(_ROWS["ListOffsets v11 existing topic"])
    row["steps"] = [{"granted": [], "errors": ["ok"]}]
    reason = players.play(row)
    assert reason is not None
    assert "expected ok, got Topics[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)" in reason


@pytest.mark.parametrize(
    ("case", "result"),
    [
        ("allow READ, deny ALL", {"Fetch": "ok", "authorized operations": ["READ"]}),
        ("allow READ prefixed", {"Fetch": "TOPIC_AUTHORIZATION_FAILED (29)", "authorized operations": []}),
    ],
)
def test_a_rule_that_is_wrong_fails(players: Players, case: str, result: Any) -> None:
    reason = players.play({"area": "deny", "case": case, "result": result})
    assert reason is not None
    assert reason.startswith(f"expected {result}, got ")


def test_a_rule_that_nobody_can_read_fails(players: Players) -> None:
    assert players.play({"area": "weather", "case": "rain", "result": "wet"}) is not None


@pytest.mark.slow
def test_errors_with_their_places() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(0, 29)])])
    assert errors_of(answer) == ("Responses[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)",)
    assert errors_of(FetchResponse()) == ("ok",)

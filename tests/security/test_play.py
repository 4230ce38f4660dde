"""Every row of the table of a real broker, over the wire."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from row_forms import FORMS
from row_player import SETTINGS, Player, errors_of, rows_of

from moldau.broker.apis import TABLE
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from moldau.testing import Broker

_ROWS = dict(rows_of([str(Path(__file__).parent / "authorization.json")]))
#: What this broker does not answer: a row of these fails, and has to.
_SERVED = {name: row for name, row in _ROWS.items() if row.get("api") in FORMS}
_RULES = {name: row for name, row in _ROWS.items() if "area" in row}


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with Broker(SETTINGS) as broker:
        yield Player(broker)


@pytest.mark.parametrize("name", _SERVED)
def test_row(player: Player, name: str) -> None:
    assert player.row(_SERVED[name]) is None


@pytest.mark.parametrize("name", _RULES)
def test_rule(player: Player, name: str) -> None:
    assert player.rule(_RULES[name]) is None


def test_every_api_of_the_table_that_is_served_has_a_form() -> None:
    served = {key.name.replace("_", "").lower() for key in TABLE}
    named = {row["api"] for row in _ROWS.values() if "api" in row}
    missing = {api for api in named if api.lower() in served} - FORMS.keys()
    assert not missing


def test_a_row_that_is_wrong_fails(player: Player) -> None:
    row: dict[str, Any] = dict(_ROWS["ListOffsets v11 existing topic"])
    row["steps"] = [{"granted": [], "errors": ["ok"]}]
    reason = player.row(row)
    assert reason is not None
    assert "expected ok, got Topics[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)" in reason


def test_errors_with_their_places() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(0, 29)])])
    assert errors_of(answer) == ("Responses[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)",)
    assert errors_of(FetchResponse()) == ("ok",)

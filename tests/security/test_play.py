"""Every row of the table of a real broker, over the wire."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.apis import TABLE
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.security.row_forms import FORMS
from tests.security.row_player import Players, errors_of, main, rows_of

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


_DENIED = "Responses[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)"
_GROUP = "Groups[].ErrorCode=GROUP_AUTHORIZATION_FAILED (30)"
_TOPIC_OF_GROUP = "Groups[].Topics[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)"


def steps(*of: tuple[list[str], str]) -> list[dict[str, Any]]:
    return [{"granted": granted, "errors": [error]} for granted, error in of]


@pytest.mark.parametrize(
    "row",
    [
        # Names of its own, and a right on another topic, which does not help.
        {
            "api": "Fetch",
            "version": 12,
            "case": "consumer, existing topic",
            "steps": steps(([], _DENIED), (["READ TOPIC payments"], _DENIED), (["READ TOPIC orders"], "ok")),
        },
        {"api": "Fetch", "version": 11, "steps": steps(([], _DENIED), (["READ TOPIC orders"], "ok"))},
        {"api": "Fetch", "version": 13, "steps": steps((["READ TOPIC *"], "ok"))},
        {
            "api": "Fetch",
            "version": 8,
            "case": "topic 'payments', which is there",
            "steps": steps((["READ TOPIC orders"], _DENIED), (["READ TOPIC payments"], "ok")),
        },
        # Several resources.
        {
            "api": "OffsetFetch",
            "version": 9,
            "case": "named topic",
            "steps": steps(
                ([], _GROUP),
                (["DESCRIBE GROUP billing"], _TOPIC_OF_GROUP),
                (["DESCRIBE GROUP billing", "DESCRIBE TOPIC orders"], "ok"),
            ),
        },
        # Where the names are in the questions that were asked.
        {
            "api": "ListOffsets",
            "version": 6,
            "case": "a nonexistent topic",
            "steps": [
                {
                    "granted": ["DESCRIBE TOPIC nothing"],
                    "asks": [{"op": "DESCRIBE", "type": "TOPIC", "name": "nothing"}],
                    "errors": ["Topics[].Partitions[].ErrorCode=UNKNOWN_TOPIC_OR_PARTITION (3)"],
                }
            ],
        },
        {
            "api": "DeleteTopics",
            "version": 5,
            "case": "existing topic by name",
            "steps": steps(([], "Responses[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)")),
            "one_acl_alone": [{"granted_alone": "DELETE TOPIC orders", "errors": ["ok"]}],
        },
        {
            "api": "FindCoordinator",
            "version": 5,
            "steps": steps(
                ([], "Coordinators[].ErrorCode=TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53)"),
                (["DESCRIBE TRANSACTIONAL_ID shop-1"], "ok"),
            ),
        },
        {
            "api": "CreateDelegationToken",
            "version": 3,
            "case": "for User:carol, who is somebody else",
            "steps": steps(
                (["CREATE_TOKENS USER User:bob"], "ErrorCode=DELEGATION_TOKEN_AUTHORIZATION_FAILED (65)"),
                (["CREATE_TOKENS USER User:carol"], "ok"),
            ),
        },
    ],
    ids=lambda row: f"{row['api']}-{row['version']}",
)
def test_rows_that_nobody_has_seen(players: Players, row: dict[str, Any]) -> None:
    assert players.play(row) is None
    assert players.play(row) is None  # the names are there by now, and others are taken


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"api": "Nothing"}, "Nothing is not served here"),
        ({"version": "12"}, "'version' has to be a number, not \"12\""),
        ({"version": 99}, "ListOffsets has no version 99: there are 1 to 11"),
        ({"version": None}, "'version' has to be a number, not null"),
        ({"steps": []}, "the row has no steps"),
        ({"steps": "none"}, "'steps' has to be a list, each an object, not \"none\""),
        ({"steps": [{"granted": []}]}, "a step has no 'errors'"),
        ({"steps": [{"granted": [], "errors": "ok"}]}, "'errors' has to be a list, each a text, not \"ok\""),
        ({"steps": [{"granted": ["READ <T>"], "errors": []}]}, "'READ <T>' is no right, as WRITE TOPIC <T>"),
        ({"steps": [{"granted": ["EAT TOPIC x"], "errors": []}]}, "'EAT TOPIC x' is no right"),
        ({"steps": [{"granted": ["READ TOPIC <Z>"], "errors": []}]}, "<Z> stands for nothing here"),
        ({"case": 7}, "'case' has to be a text, not 7"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(players: Players, change: dict[str, Any], said: str) -> None:
    reason = players.play(_ROWS["ListOffsets v11 existing topic"] | change)
    assert reason is not None
    assert said in reason


def test_a_row_that_goes_wrong_keeps_no_other_from_being_played(players: Players) -> None:
    row: dict[str, Any] = dict(_ROWS["ListOffsets v11 existing topic"])
    reason = players.play(row | {"steps": steps((["READ TOPIC no/name"], "ok"))})
    assert reason is not None
    assert reason.startswith("could not be played: ")
    assert players.play(row) is None


def test_files_that_are_none_fail_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", "{"), ("b", "[]"), ("c", '"rows"'), ("d", '{"rows": [7, {"case": "x"}]}')):
        (tmp_path / name).write_text(text)
    assert main([str(tmp_path / name) for name in "abcde"]) == 1
    out = capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines()
    assert [line.partition(":")[0] for line in out] == [
        "a FAIL cannot be read",
        "b FAIL has no rows",
        "c FAIL has no rows",
        "d rows row 1 FAIL a row is an object, not 7",
        "d rows row 2 FAIL a row has an 'api', or an 'area' for a rule",
        "e FAIL cannot be read",
        "0 passed, 6 failed",
    ]
    assert main([]) == 2


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


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"area": "weather", "case": "rain", "result": "wet"}, "the area 'weather' is not known"),
        ({"area": "deny", "case": "allow READ, dney READ", "result": {}}, "'dney READ' is no ACL"),
        ({"area": "deny", "case": "allow EAT", "result": {}}, "'allow EAT' is no ACL"),
        ({"area": "deny", "case": "allow READ"}, "the rule has no 'result'"),
        ({"area": "deny", "result": {}}, "'case' has to be a text"),
    ],
)
def test_a_rule_that_nobody_can_read_fails(players: Players, rule: dict[str, Any], said: str) -> None:
    reason = players.play(rule)
    assert reason is not None
    assert said in reason


@pytest.mark.slow
def test_errors_with_their_places() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(0, 29)])])
    assert errors_of(answer) == ("Responses[].Partitions[].ErrorCode=TOPIC_AUTHORIZATION_FAILED (29)",)
    assert errors_of(FetchResponse()) == ("ok",)

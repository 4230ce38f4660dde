"""AlterClientQuotas and DescribeClientQuotas, by the answers of a real broker."""

import math
from typing import Any

import pytest

from moldau.protocol.messages import alter_client_quotas as alter_messages
from moldau.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from moldau.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.broker.apis.asking import Ask

_RATE, _CONNECTIONS = "producer_byte_rate", "connection_creation_rate"


def entry(entity: dict[str, str | None], **values: float | None) -> EntryData:
    parts = [alter_messages.EntityData(kind, name) for kind, name in entity.items()]
    changes = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    return EntryData(parts, changes)


def alter(ask: Ask, *entries: EntryData, validate_only: bool = False) -> list[tuple[int, str | None]]:
    answer = ask(AlterClientQuotasRequest(list(entries), validate_only))
    return [(each.error_code, each.error_message) for each in answer.entries]


def describe(ask: Ask, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    answer = ask(DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict))
    if answer.error_code:
        return answer.error_code, answer.error_message, answer.entries
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in answer.entries
    ]


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        ({"client-id": "z"}, {_RATE: 1e6, "consumer_byte_rate": 2e6}, None),
        ({}, {_RATE: 1.0}, "Invalid empty client quota entity"),
        ({"": "z"}, {_RATE: 1.0}, "Unhandled client quota entity type: "),
        ({"group": "z"}, {_RATE: 1.0}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {_RATE: 1.0}, "Empty user not supported"),
        (
            {"user": "a", "ip": "1.2.3.4"},
            {_RATE: 1.0},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ({"user": "a"}, {"foo": 1.0}, "Invalid configuration key foo"),
        ({"user": "a"}, {_RATE: -1.0}, f"Quota {_RATE} must be greater than 0"),
        ({"user": "a"}, {_RATE: 0.0}, f"Quota {_RATE} must be greater than 0"),
        ({"user": "a"}, {_RATE: 1.5}, f"{_RATE} cannot be a fractional value."),
        ({"user": "a"}, {_RATE: 1.00000001}, None),
        ({"user": "a"}, {_RATE: 1e30}, f"Proposed value for {_RATE} is too large for a LONG."),
        ({"user": "a"}, {_RATE: math.inf}, f"Proposed value for {_RATE} is too large for a LONG."),
        ({"user": "a"}, {_RATE: math.nan}, None),
        ({"user": "a"}, {"request_percentage": 0.5, "controller_mutation_rate": 0.5}, None),
        ({"ip": "127.0.0.9"}, {_CONNECTIONS: 1.5}, f"{_CONNECTIONS} cannot be a fractional value."),
        ({"ip": "127.0.0.9"}, {_RATE: 1.0}, f"Invalid configuration key {_RATE}"),
        ({"user": "u1"}, {_CONNECTIONS: 1.0}, f"Invalid configuration key {_CONNECTIONS}"),
        ({"ip": "999.1.1.1"}, {_CONNECTIONS: 1.0}, "999.1.1.1 is not a valid IP or resolvable host."),
        ({"ip": "::1"}, {_CONNECTIONS: 5.0}, None),
        ({"ip": "localhost"}, {_CONNECTIONS: 5.0}, None),
        ({"ip": None}, {_CONNECTIONS: 555.0}, None),
        ({"user": "CN=x, y/é*"}, {_RATE: 1.0}, None),
    ],
)
def test_what_can_be_set(
    ask: Ask, entity: dict[str, str | None], values: dict[str, float], message: str | None
) -> None:
    code = 0 if message is None else 42
    assert alter(ask, entry(entity, **values), validate_only=True) == [(code, message)]


def test_an_entity_stands_in_a_request_once(ask: Ask) -> None:
    twice = "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"
    same = entry({"user": "a"}, **{_RATE: 1.0})
    assert alter(ask, same, same, validate_only=True) == [(0, None), (42, twice)]
    same.ops = [OpData(_RATE, 1.0), OpData(_RATE, 2.0)]
    assert alter(ask, same, validate_only=True) == [(42, twice)]
    assert alter(ask) == []


def test_they_are_described_by_a_filter(ask: Ask) -> None:
    entities: list[tuple[dict[str, str | None], str, float]] = [
        ({"user": None}, _RATE, 111.0),
        ({"user": "du", "client-id": None}, _RATE, 222.0),
        ({"user": "du", "client-id": "dc"}, _RATE, 333.0),
        ({"client-id": "dc"}, "consumer_byte_rate", 444.0),
        ({"ip": None}, _CONNECTIONS, 555.0),
    ]
    assert alter(ask, *(entry(entity, **{key: value}) for entity, key, value in entities)) == [(0, None)] * 5

    def values(*components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
        return sorted(next(iter(each[1].values())) for each in describe(ask, *components, strict=strict))

    assert values(("user", 0, "du")) == [222.0, 333.0]
    assert values(("user", 0, "du"), strict=True) == []
    assert values(("user", 1, None)) == values(("user", 1, None), strict=True) == [111.0]
    assert values(("user", 0, "du"), ("client-id", 2, None), strict=True) == [222.0, 333.0]
    assert values(("user", 0, "du"), ("client-id", 1, None), strict=True) == [222.0]
    assert values(("client-id", 0, "dc")) == [333.0, 444.0]
    assert values(("client-id", 0, "dc"), strict=True) == [444.0]
    assert values(("ip", 2, None)) == [555.0]
    assert values() == [111.0, 222.0, 333.0, 444.0, 555.0]
    assert values(strict=True) == []
    removals = (entry({"user": None}, **{_RATE: None}), entry({"user": "x"}, bar=None))
    assert alter(ask, *removals) == [(0, None)] * 2
    assert values(("user", 1, None)) == []


_MATCH = "Request specified MATCH_TYPE_"


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        (
            [("user", 0, "a"), ("ip", 0, "b")],
            42,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        ),
        ([("user", 0, "a")] * 2, 42, "Entity type user cannot appear more than once in the filter."),
        ([("foo", 0, "a")], 35, "Unsupported entity type foo"),
        ([("", 0, "a")], 42, "Invalid empty entity type."),
        ([("user", 7, None)], 42, "Unknown match type 7"),
        ([("user", 0, None)], 42, f"{_MATCH}EXACT, but set match string to null."),
        ([("user", 1, "a")], 42, f"{_MATCH}DEFAULT, but also specified a match string."),
        ([("user", 2, "a")], 42, f"{_MATCH}SPECIFIED, but also specified a match string."),
    ],
)
def test_filters_that_make_no_sense(ask: Ask, components: list[Any], code: int, message: str) -> None:
    assert describe(ask, *components) == (code, message, None)

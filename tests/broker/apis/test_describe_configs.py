"""DescribeConfigs: the configs of every kind of resource, and where each value comes from."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.apis.asking import Ask

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


def describe(
    ask: Ask, kind: int, name: str, keys: list[str] | None = None, **options: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, keys)
    (result,) = ask(DescribeConfigsRequest([resource], **options)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result  # type: ignore[no-any-return]


def by_name(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert result.error_code == 0
    return {entry.name: entry for entry in result.configs}


def test_a_topic(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.ms": 1000})
    entries = by_name(describe(ask, TOPIC, "orders"))
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == (
        "1000",
        DYNAMIC_TOPIC_CONFIG,
    )
    assert (entries["cleanup.policy"].value, entries["cleanup.policy"].config_source) == (
        "delete",
        DEFAULT_CONFIG,
    )
    assert not entries["retention.ms"].read_only


def test_only_what_is_named(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert by_name(describe(ask, TOPIC, "orders", ["retention.ms", "no.such"])).keys() == {"retention.ms"}


def test_synonyms_and_documentation_when_asked_for(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"segment.bytes": 2 << 20})
    plain = by_name(describe(ask, TOPIC, "orders"))["segment.bytes"]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = by_name(describe(ask, TOPIC, "orders", include_synonyms=True, include_documentation=True))
    assert [(each.name, each.source) for each in full["segment.bytes"].synonyms] == [
        ("segment.bytes", DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", DEFAULT_CONFIG),
    ]
    assert full["segment.bytes"].documentation


def test_this_broker_and_all_brokers(ask: Ask) -> None:
    own = by_name(describe(ask, BROKER, "1"))
    assert (own["node.id"].value, own["node.id"].config_source) == ("1", STATIC_BROKER_CONFIG)
    assert own["node.id"].read_only
    assert "node.id" not in by_name(describe(ask, BROKER, "")), "what is set for all, and nothing else"


def test_loggers_groups_and_client_metrics(ask: Ask) -> None:
    assert "root" in by_name(describe(ask, BROKER_LOGGER, "1"))
    assert "consumer.session.timeout.ms" in by_name(describe(ask, GROUP, "readers"))
    assert describe(ask, CLIENT_METRICS, "watch").error_code == 0


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (3, "what", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_this_broker_does_not_speak_for(ask: Ask, kind: int, name: str, code: int) -> None:
    result = describe(ask, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_a_type_that_nobody_knows_refuses_the_whole_request(ask: Ask) -> None:
    """As Kafka 4.3 does."""
    resources = [DescribeConfigsResource(BROKER, "", None), DescribeConfigsResource(99, "x", None)]
    results = ask(DescribeConfigsRequest(resources)).results
    assert [(each.error_code, each.resource_type) for each in results] == [
        (ErrorCode.INVALID_REQUEST, BROKER),
        (ErrorCode.INVALID_REQUEST, 99),
    ]
    assert all("malformed" in each.error_message for each in results)

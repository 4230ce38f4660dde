"""IncrementalAlterConfigs: set, unset, append and take away, resource by resource."""

import logging

import pytest

from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.apis.asking import Ask

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


def alter(ask: Ask, kind: int, name: str, *changes: tuple[str, int, str | None], check: bool = False) -> int:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(*each) for each in changes])
    (result,) = ask(IncrementalAlterConfigsRequest([resource], check)).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert (result.error_message is None) == (result.error_code == 0)
    return result.error_code  # type: ignore[no-any-return]


def overrides(ask: Ask, topic: str) -> dict[str, str]:
    return dict(ask.broker.node.metadata.image.configs(ResourceType.TOPIC, topic))


def test_set_and_unset(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.bytes": 7})
    assert alter(ask, TOPIC, "orders", ("retention.ms", SET, "1000")) == 0
    assert overrides(ask, "orders") == {"retention.bytes": "7", "retention.ms": "1000"}
    assert alter(ask, TOPIC, "orders", ("retention.bytes", DELETE, None)) == 0
    assert overrides(ask, "orders") == {"retention.ms": "1000"}


def test_lists_grow_and_shrink(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"cleanup.policy": "delete"})
    assert alter(ask, TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == 0
    assert overrides(ask, "orders") == {"cleanup.policy": "delete,compact"}
    assert alter(ask, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert overrides(ask, "orders") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "orders", ("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "nowhere", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "2", ("log.cleaner.threads", SET, "1"), ErrorCode.INVALID_REQUEST),
        (3, "what", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing(
    ask: Ask, kind: int, name: str, change: tuple[str, int, str], code: ErrorCode
) -> None:
    ask.broker.create_topic("orders")
    assert alter(ask, kind, name, ("retention.bytes", SET, "7"), change) == code
    assert overrides(ask, "orders") == {}


def test_a_refused_resource_spoils_no_other(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    changed = [AlterableConfig("retention.ms", SET, "1000")]
    resources = [AlterConfigsResource(TOPIC, name, changed) for name in ("nowhere", "orders")]
    codes = [each.error_code for each in ask(IncrementalAlterConfigsRequest(resources)).responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert overrides(ask, "orders") == {"retention.ms": "1000"}


def test_a_resource_that_stands_twice_is_refused(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    resource = AlterConfigsResource(TOPIC, "orders", [AlterableConfig("retention.ms", SET, "1000")])
    results = ask(IncrementalAlterConfigsRequest([resource, resource])).responses
    assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
    assert overrides(ask, "orders") == {}


def test_to_validate_only_changes_nothing(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert alter(ask, TOPIC, "orders", ("retention.ms", SET, "1000"), check=True) == 0
    refused = alter(ask, TOPIC, "orders", ("retention.ms", SET, "soon"), check=True)
    assert refused == ErrorCode.INVALID_CONFIG
    assert overrides(ask, "orders") == {}


def test_the_level_of_a_logger(ask: Ask) -> None:
    logger = logging.getLogger("moldau.storage")
    before = logger.level
    try:
        assert alter(ask, BROKER_LOGGER, "1", ("moldau.storage", SET, "DEBUG"), check=True) == 0
        assert logger.level == before
        assert alter(ask, BROKER_LOGGER, "1", ("moldau.storage", SET, "DEBUG")) == 0
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("kind", "name"), [(0, "x"), (BROKER_LOGGER, "x"), (BROKER, "one"), (TOPIC, "nowhere")]
)
def test_what_is_asked_is_looked_at_before_the_resource(ask: Ask, kind: int, name: str) -> None:
    """The messages of Kafka 4.3."""
    twice = [AlterableConfig("a", SET, "1"), AlterableConfig("a", SET, "2")]
    for changes, message in (
        (twice, "Error due to duplicate config keys"),
        ([AlterableConfig("a", SET, None)], "Null value not supported for : a"),
    ):
        (result,) = ask(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])).responses
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)

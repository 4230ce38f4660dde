"""AlterConfigs: what is given takes the place of all that was set."""

from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.broker.apis.asking import Ask

TOPIC, BROKER_LOGGER = 2, 8


def replace(ask: Ask, kind: int, name: str, *, check: bool = False, **configs: str | None) -> int:
    given = [AlterableConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, given)], check)
    (result,) = ask(request).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code  # type: ignore[no-any-return]


def overrides(ask: Ask, topic: str) -> dict[str, str]:
    return dict(ask.broker.node.metadata.image.configs(ResourceType.TOPIC, topic))


def test_what_was_set_before_is_gone(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.bytes": 7})
    assert replace(ask, TOPIC, "orders", retention_ms="1000") == 0
    assert overrides(ask, "orders") == {"retention.ms": "1000"}
    assert replace(ask, TOPIC, "orders") == 0
    assert overrides(ask, "orders") == {}


def test_what_is_refused_changes_nothing(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.bytes": 7})
    assert replace(ask, TOPIC, "orders", retention_ms="soon") == ErrorCode.INVALID_CONFIG
    assert replace(ask, TOPIC, "nowhere", retention_ms="1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replace(ask, BROKER_LOGGER, "1") == ErrorCode.INVALID_REQUEST, "only IncrementalAlterConfigs does"
    assert overrides(ask, "orders") == {"retention.bytes": "7"}


def test_to_validate_only_changes_nothing(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.bytes": 7})
    assert replace(ask, TOPIC, "orders", check=True, retention_ms="1000") == 0
    assert overrides(ask, "orders") == {"retention.bytes": "7"}

"""Which resources this broker speaks for, and that a change reaches what it is about."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.broker import config_resources
from moldau.broker.context import Services
from moldau.cluster.controller.config_changes import ConfigChange
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker

SET = 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"node.id": 1}) as broker:
        broker.create_topic("orders")
        yield broker


def run(broker: Broker, work: Callable[[Services], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        return await work(broker.node.services)

    return broker.run(inside())


def values(broker: Broker, kind: ResourceType, name: str, *keys: str) -> dict[str, str | None]:
    async def describe(services: Services) -> dict[str, str | None]:
        entries = config_resources.describe(services, kind, name, list(keys))
        return {entry.name: entry.value for entry in entries}

    found: dict[str, str | None] = run(broker, describe)
    return found


def test_a_config_of_all_brokers_reaches_topics_without_one_of_their_own(broker: Broker) -> None:
    asked = [ConfigChange("log.retention.ms", SET, "5000")]
    run(broker, lambda services: config_resources.change(services, ResourceType.BROKER, "", asked, False))
    assert broker.node.settings.log_retention_ms == 5000
    assert values(broker, ResourceType.BROKER, "", "log.retention.ms") == {"log.retention.ms": "5000"}
    assert values(broker, ResourceType.TOPIC, "orders", "retention.ms") == {"retention.ms": "5000"}
    own = [("retention.ms", "7000")]
    run(broker, lambda services: config_resources.replace(services, ResourceType.TOPIC, "orders", own, False))
    assert values(broker, ResourceType.TOPIC, "orders", "retention.ms") == {"retention.ms": "7000"}


def test_a_value_that_is_refused_leaves_the_old_one(broker: Broker) -> None:
    asked = [ConfigChange("log.retention.ms", SET, "soon")]
    with pytest.raises(KafkaError) as refused:
        run(
            broker, lambda services: config_resources.change(services, ResourceType.BROKER, "1", asked, False)
        )
    assert refused.value.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    assert values(broker, ResourceType.BROKER, "1", "log.retention.ms") == {"log.retention.ms": None}


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (ResourceType.BROKER, "2", "expected 1, but received 2"),
        (ResourceType.BROKER, "first", "must be an integer, but it is: first"),
        (ResourceType.BROKER, "99999999999", "must be an integer"),
        (ResourceType.BROKER_LOGGER, "2", "Expected 1, but received 2"),
        (ResourceType.TOPIC, "", "Default topic resources are not allowed"),
        (ResourceType.GROUP, "", "Default group resources are not allowed"),
        (ResourceType.CLIENT_METRICS, "", "can't be empty"),
    ],
)
def test_resources_that_cannot_be_changed_here(
    broker: Broker, kind: ResourceType, name: str, words: str
) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        run(broker, lambda services: config_resources.change(services, kind, name, [], False))
    assert refused.value.code is ErrorCode.INVALID_REQUEST

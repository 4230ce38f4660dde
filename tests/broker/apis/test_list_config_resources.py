"""ListConfigResources: the names of resources that have, or may have, configs."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.apis.asking import Ask

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def filled(ask: Ask) -> Ask:
    ask.broker.create_topic("orders")
    changes = [
        AlterConfigsResource(GROUP, "readers", [AlterableConfig("consumer.session.timeout.ms", 0, "50000")]),
        AlterConfigsResource(CLIENT_METRICS, "watch", [AlterableConfig("interval.ms", 0, "1000")]),
    ]
    assert {each.error_code for each in ask(IncrementalAlterConfigsRequest(changes)).responses} == {0}
    return ask


def listed(ask: Ask, kinds: list[int], version: int = 1) -> set[tuple[int, str]]:
    response = ask(ListConfigResourcesRequest(kinds), version)
    assert response.error_code == 0
    return {(each.resource_type, each.resource_name) for each in response.config_resources}


def test_all_of_them(filled: Ask) -> None:
    assert listed(filled, []) == {
        (TOPIC, "orders"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
        (GROUP, "readers"),
        (CLIENT_METRICS, "watch"),
    }


def test_some_kinds_only(filled: Ask) -> None:
    assert listed(filled, [TOPIC, GROUP]) == {(TOPIC, "orders"), (GROUP, "readers")}


def test_version_0_knows_client_metrics_only(filled: Ask) -> None:
    assert listed(filled, [], 0) == {(CLIENT_METRICS, "watch")}


def test_an_unknown_kind(ask: Ask) -> None:
    response = ask(ListConfigResourcesRequest([TOPIC, 3]))
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])

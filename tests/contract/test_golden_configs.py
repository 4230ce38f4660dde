"""The config APIs over the wire, as the real broker answers them.

What a value may be and how it is shown is tested row by row in ``tests/cluster``; here it is which
resources there are, how they are refused, and that a change is in force when its answer comes.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.errors import MALFORMED_REQUEST
from moldau.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.testing import Broker
from tests.contract.scene import Scene

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
BAD_NAME = (
    "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
    "and '-'"
)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Broker({"node.id": "1"}) as broker:
        made = Scene(broker)
        made.create("fresh")
        yield made
        made.close()


def describe(scene: Scene, resource_type: int, name: str, keys: list[str] | None = None) -> Any:
    asked = [DescribeConfigsResource(resource_type, name, keys)]
    (result,) = scene.ask(DescribeConfigsRequest(asked, True), 4)["Results"]
    return result


def alter(scene: Scene, *resources: tuple[int, str], configs: dict[str, str | None]) -> list[Any]:
    """Sets configs of resources, or deletes those whose value is None; code and message of each."""
    changes = [
        AlterableConfig(name, DELETE if value is None else SET, value) for name, value in configs.items()
    ]
    asked = [AlterConfigsResource(*resource, changes) for resource in resources]
    answers = scene.ask(IncrementalAlterConfigsRequest(asked), 1)["Responses"]
    return [(each["ErrorCode"], each["ErrorMessage"]) for each in answers]


# Type, name, keys; code, message, how many configs come.
DESCRIBED: list[tuple[int, str, list[str] | None, int, str, int]] = [
    (TOPIC, "nope", None, 3, "", 0),
    (TOPIC, "", None, 17, "Topic name is invalid: the empty string is not allowed", 0),
    (TOPIC, "a b", None, 17, BAD_NAME, 0),
    (TOPIC, "fresh", ["no.such.config"], 0, "", 0),
    (TOPIC, "fresh", ["retention.ms"], 0, "", 1),
    (TOPIC, "fresh", [], 0, "", 33),
    (BROKER, "2", None, 42, "Unexpected broker id, expected 1 or empty string, but received 2", 0),
    (BROKER, "abc", None, 42, "Broker id must be an integer, but it is: abc", 0),
    (BROKER, "-1", None, 42, "Unexpected broker id, expected 1 or empty string, but received -1", 0),
    (0, "x", None, 42, MALFORMED_REQUEST, 0),
    (1, "x", None, 42, MALFORMED_REQUEST, 0),
    (3, "x", None, 42, MALFORMED_REQUEST, 0),
    (64, "x", None, 42, MALFORMED_REQUEST, 0),
]


@pytest.mark.parametrize(("kind", "name", "keys", "code", "message", "count"), DESCRIBED)
def test_describe(
    scene: Scene, kind: int, name: str, keys: list[str] | None, code: int, message: str, count: int
) -> None:
    result = describe(scene, kind, name, keys)
    assert (result["ErrorCode"], result["ErrorMessage"], len(result["Configs"])) == (code, message, count)


ALTERED: list[tuple[int, str, dict[str, str | None], int, str]] = [
    (TOPIC, "nope", {"retention.ms": "1"}, 3, "The topic 'nope' does not exist."),
    (TOPIC, "", {"retention.ms": "1"}, 42, "Default topic resources are not allowed."),
    (TOPIC, "a b", {"retention.ms": "1"}, 17, BAD_NAME),
    (GROUP, "", {"consumer.session.timeout.ms": "50000"}, 42, "Default group resources are not allowed."),
    (0, "x", {}, 42, "Unknown resource type 0"),
    (1, "x", {}, 42, "Unknown resource type 1"),
    (3, "x", {}, 42, "Unknown resource type 3"),
    (64, "x", {}, 42, "Unknown resource type 64"),
]


@pytest.mark.parametrize(("kind", "name", "configs", "code", "message"), ALTERED)
def test_alter(
    scene: Scene, kind: int, name: str, configs: dict[str, str | None], code: int, message: str
) -> None:
    assert alter(scene, (kind, name), configs=configs) == [(code, message)]


def test_the_same_resource_twice(scene: Scene) -> None:
    refused = (42, "Each resource must appear at most once.")
    twice = alter(scene, (TOPIC, "fresh"), (TOPIC, "fresh"), configs={"retention.ms": "1"})
    assert twice == [refused, refused]


def test_a_change_is_in_force_when_its_answer_comes(scene: Scene) -> None:
    """Kafka's answer may come before the change can be seen."""

    def shown() -> Any:
        (config,) = describe(scene, TOPIC, "fresh", ["retention.ms"])["Configs"]
        return config["Value"], config["ConfigSource"]

    before = shown()
    assert alter(scene, (TOPIC, "fresh"), configs={"retention.ms": "86400000"}) == [(0, None)]
    assert shown() == ("86400000", 1)
    assert alter(scene, (TOPIC, "fresh"), configs={"retention.ms": None}) == [(0, None)]
    assert shown() == before


def test_configs_of_brokers_reach_their_topics(scene: Scene) -> None:
    assert alter(scene, (BROKER, "1"), configs={"log.retention.ms": "3600000"}) == [(0, None)]
    assert alter(scene, (BROKER, ""), configs={"log.retention.ms": "7200000"}) == [(0, None)]
    (config,) = describe(scene, TOPIC, "fresh", ["retention.ms"])["Configs"]
    assert (config["Value"], config["ConfigSource"]) == ("3600000", 2)
    assert [(each["Name"], each["Value"], each["Source"]) for each in config["Synonyms"]] == [
        ("log.retention.ms", "3600000", 2),
        ("log.retention.ms", "7200000", 3),
        ("log.retention.hours", "168", 5),
    ]
    for name in ("1", ""):
        assert alter(scene, (BROKER, name), configs={"log.retention.ms": None}) == [(0, None)]


def test_loggers(scene: Scene) -> None:
    result = describe(scene, LOGGER, "1")
    assert (result["ErrorCode"], result["ErrorMessage"]) == (0, "")
    assert "root" in [config["Name"] for config in result["Configs"]]
    assert alter(scene, (LOGGER, "1"), configs={"no.such": "DEBUG"}) == [
        (40, "Logger no.such does not exist!")
    ]


def whole(scene: Scene, configs: list[WholeConfig]) -> Any:
    asked = [WholeResource(TOPIC, "fresh", configs)]
    (answer,) = scene.ask(AlterConfigsRequest(asked), 2)["Responses"]
    return answer["ErrorCode"], answer["ErrorMessage"]


def test_whole_sets(scene: Scene) -> None:
    assert whole(scene, [WholeConfig("retention.ms", "5000")]) == (0, None)
    refused = (42, "Null value not supported for : retention.ms")
    assert whole(scene, [WholeConfig("retention.ms", None)]) == refused
    (config,) = describe(scene, TOPIC, "fresh", ["retention.ms"])["Configs"]
    assert config["Value"] == "5000"
    assert whole(scene, []) == (0, None)
    (config,) = describe(scene, TOPIC, "fresh", ["retention.ms"])["Configs"]
    assert config["ConfigSource"] == 5


# Version and types that are asked for; code, types and names that come.
LISTED: list[tuple[int, list[int], int, list[tuple[int | None, str]]]] = [
    (0, [], 0, [(None, "cm1")]),
    (1, [], 0, [(32, "g1"), (16, "cm1"), (8, "1"), (4, "1"), (2, "fresh")]),
    (1, [2], 0, [(2, "fresh")]),
    (1, [4, 8], 0, [(8, "1"), (4, "1")]),
    (1, [16, 32], 0, [(32, "g1"), (16, "cm1")]),
    (1, [99], 35, []),
]


@pytest.mark.parametrize(("version", "types", "code", "listed"), LISTED)
def test_list(
    scene: Scene, version: int, types: list[int], code: int, listed: list[tuple[int | None, str]]
) -> None:
    alter(scene, (GROUP, "g1"), configs={"consumer.session.timeout.ms": "50000"})
    alter(scene, (CLIENT_METRICS, "cm1"), configs={"metrics": "*"})
    answer = scene.ask(ListConfigResourcesRequest(types), version)
    assert answer["ErrorCode"] == code
    found = [(each.get("ResourceType"), each["ResourceName"]) for each in answer["ConfigResources"]]
    assert found == listed

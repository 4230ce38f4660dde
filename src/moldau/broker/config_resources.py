"""Resources that have configs: which of them this broker speaks for, how they are shown and changed.

Invariant: what a value may be is the business of ``cluster.configs``; this file only finds the resource,
asks there, and hands the outcome to the metadata.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from moldau.base.names import topic_name_error
from moldau.broker import loggers
from moldau.broker.access.asks import Question
from moldau.broker.context import RequestContext, Services
from moldau.cluster.configs import descriptions
from moldau.cluster.configs.descriptions import ConfigEntry
from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.controller import config_changes as changes
from moldau.cluster.controller.commands import set_configs
from moldau.cluster.controller.config_changes import ConfigChange
from moldau.cluster.controller.elections import elections_after_configs
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import Record, ResourceType
from moldau.protocol.errors import MALFORMED_REQUEST, ErrorCode, KafkaError
from moldau.security import acls
from moldau.security.acls import Operation

_BROKER_ID = re.compile(r"[+-]?[0-9]{1,10}")

Names = Collection[str] | None
#: The types of resources that have configs.
DESCRIBED = frozenset(
    (
        ResourceType.TOPIC,
        ResourceType.BROKER,
        ResourceType.BROKER_LOGGER,
        ResourceType.CLIENT_METRICS,
        ResourceType.GROUP,
    )
)
#: What a resource's configs shall be, given what they are now.
Alteration = Callable[[Mapping[str, str]], dict[str, str]]


def describes_configs(resource: Any, context: RequestContext) -> Question | None:
    """What whoever describes the configs of a resource must be allowed to."""
    return _asked(Operation.DESCRIBE_CONFIGS, resource)


def alters_configs(resource: Any, context: RequestContext) -> Question | None:
    return _asked(Operation.ALTER_CONFIGS, resource)


def _asked(operation: Operation, resource: Any) -> Question | None:
    if resource.resource_type == ResourceType.TOPIC:
        return operation, acls.ResourceType.TOPIC, resource.resource_name
    if resource.resource_type == ResourceType.GROUP:
        return operation, acls.ResourceType.GROUP, resource.resource_name
    return operation, acls.ResourceType.CLUSTER, acls.CLUSTER_NAME


def describe(services: Services, resource_type: int, name: str, names: Names) -> list[ConfigEntry]:
    """The configs of a resource, or those that are named."""
    if resource_type == ResourceType.TOPIC:
        overrides = services.image.configs(ResourceType.TOPIC, _known_topic(services, name))
        return descriptions.describe_topic(services.layers, overrides, names)
    if resource_type == ResourceType.BROKER:
        if name == "":
            return descriptions.describe_default_broker(services.layers, names)
        _check_broker(services, name, "Unexpected broker id, expected {} or empty string, but")
        return descriptions.describe_broker(services.layers, names)
    if resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_broker(services, name, "Unexpected broker id, expected {} but")
        return descriptions.describe_broker_loggers(loggers.levels(), names)
    if resource_type == ResourceType.CLIENT_METRICS:
        _named(name, "Client metrics subscription name must not be empty")
        overrides = services.image.configs(ResourceType.CLIENT_METRICS, name)
        return descriptions.describe_client_metrics(overrides, names)
    if resource_type == ResourceType.GROUP:
        _named(name, "Group name must not be empty")
        overrides = services.image.configs(ResourceType.GROUP, name)
        return descriptions.describe_group(services.layers, overrides, names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, MALFORMED_REQUEST)


async def change(
    services: Services, resource_type: int, name: str, asked: Sequence[ConfigChange], validate_only: bool
) -> None:
    """IncrementalAlterConfigs: sets, unsets, and edits lists."""
    changes.check_asked(asked)
    if resource_type == ResourceType.BROKER_LOGGER:
        _check_broker(services, name, "Unexpected node id. Expected {}, but", noun="Node")
        levels = changes.alter_broker_loggers(asked)
        if not validate_only:
            loggers.set_levels(levels)
        return
    layers = _layers(services, resource_type, name)
    alterations: dict[int, Alteration] = {
        ResourceType.TOPIC: lambda current: changes.alter_topic(layers, current, asked),
        ResourceType.BROKER: lambda _: (
            changes.alter_broker(layers, asked) if name else changes.alter_default_broker(layers, asked)
        ),
        ResourceType.CLIENT_METRICS: lambda current: changes.alter_client_metrics(current, asked),
        ResourceType.GROUP: lambda current: changes.alter_group(layers, current, asked),
    }
    await _alter(services, resource_type, name, alterations, validate_only)


async def replace(
    services: Services,
    resource_type: int,
    name: str,
    asked: Sequence[tuple[str, str | None]],
    validate_only: bool,
) -> None:
    """AlterConfigs: what is given takes the place of all that was set."""
    changes.check_asked([ConfigChange(key, changes.AlterOperation.SET, value) for key, value in asked])
    layers = _layers(services, resource_type, name)
    alterations: dict[int, Alteration] = {
        ResourceType.TOPIC: lambda _: changes.replace_topic(layers, asked),
        ResourceType.BROKER: lambda _: (
            changes.replace_broker(layers, asked) if name else changes.replace_default_broker(layers, asked)
        ),
        ResourceType.CLIENT_METRICS: lambda _: changes.replace_client_metrics(asked),
        ResourceType.GROUP: lambda _: changes.replace_group(layers, asked),
    }
    await _alter(services, resource_type, name, alterations, validate_only)


async def _alter(
    services: Services,
    resource_type: int,
    name: str,
    alterations: Mapping[int, Alteration],
    validate_only: bool,
) -> None:
    alteration = alterations.get(resource_type)
    if alteration is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    kind = ResourceType(resource_type)
    _check_changeable(services, kind, name)

    def decide(image: ClusterImage) -> list[Record]:
        configs = set_configs(image, kind, name, alteration(image.configs(kind, name)))
        return [*configs, *elections_after_configs(image, configs, services.election_rules)]

    if validate_only:
        decide(services.image)
    else:
        await services.metadata.submit(decide)


def _layers(services: Services, resource_type: int, name: str) -> ConfigLayers:
    """The configs that a change is checked with: of another broker, those that the cluster knows of it."""
    layers = services.layers
    if resource_type != ResourceType.BROKER or name in ("", str(services.node_id)):
        return layers
    own = services.image.configs(ResourceType.BROKER, name)
    return ConfigLayers({}, layers.default_broker, own)


def _check_changeable(services: Services, kind: ResourceType, name: str) -> None:
    if kind is ResourceType.TOPIC:
        _named(name, "Default topic resources are not allowed.")
        _check_topic_name(name)
    elif kind is ResourceType.BROKER and name:
        if not (services.is_controller and _is_other_broker(services, name)):
            _check_broker(services, name, "Unexpected broker id, expected {}, but", noun="Node")
    elif kind is ResourceType.GROUP:
        _named(name, "Default group resources are not allowed.")
    elif kind is ResourceType.CLIENT_METRICS:
        _named(name, "Subscription name can't be empty")


def _known_topic(services: Services, name: str) -> str:
    _check_topic_name(name)
    if name not in services.image.topics_by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return name


def _check_topic_name(name: str) -> None:
    reason = topic_name_error(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def _check_broker(services: Services, name: str, refusal: str, *, noun: str = "Broker") -> None:
    """The words are Kafka's, which differ from place to place; ``refusal`` has a place for our id."""
    if _BROKER_ID.fullmatch(name) is None or not -(1 << 31) <= int(name) < 1 << 31:
        message = f"{noun} id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if int(name) != services.node_id:
        message = f"{refusal.format(services.node_id)} received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _is_other_broker(services: Services, name: str) -> bool:
    """Whether this is another broker of the cluster, for which the controller may speak too."""
    return _BROKER_ID.fullmatch(name) is not None and int(name) in services.image.brokers


def _named(name: str, message: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)

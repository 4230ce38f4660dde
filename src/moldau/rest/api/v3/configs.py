"""v3: configs of topics, of brokers and of the whole cluster: listed, set, reset, several at once.

The configs of the cluster (``broker-configs``) are the dynamic defaults of all brokers.

Invariant: a change goes to the cluster as one request, which takes all of it or nothing.
"""

from dataclasses import dataclass
from typing import Any

from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from moldau.protocol.errors import KafkaError
from moldau.rest import problems
from moldau.rest.api.call import RestCall, entries_of
from moldau.rest.api.v3.clusters import broker_of
from moldau.rest.api.v3.resources import cluster_of, collection, resource
from moldau.web.routes import Answer


@dataclass(frozen=True, slots=True)
class _Owner:
    """What configs belong to: for the cluster, for their links, and for their fields."""

    resource: ConfigResource
    kind: str
    path: tuple[object, ...]
    crn: str
    fields: dict[str, Any]


async def _topic(call: RestCall) -> _Owner:
    await cluster_of(call)
    name = call.topic()
    return _Owner(
        ConfigResource(ResourceType.TOPIC, name),
        "KafkaTopicConfig",
        ("topics", name, "configs"),
        f"topic={name}/config",
        {"topic_name": name},
    )


async def _broker(call: RestCall) -> _Owner:
    number = (await broker_of(call)).node_id
    return _Owner(
        ConfigResource(ResourceType.BROKER, str(number)),
        "KafkaBrokerConfig",
        ("brokers", number, "configs"),
        f"broker={number}/config",
        {"broker_id": number},
    )


async def _cluster(call: RestCall) -> _Owner:
    await cluster_of(call)
    return _Owner(
        ConfigResource(ResourceType.BROKER, ""),
        "KafkaClusterConfig",
        ("broker-configs",),
        "broker-config",
        {"config_type": "BROKER"},
    )


async def _entries(call: RestCall, owner: _Owner) -> list[ConfigEntry]:
    session = await call.session()
    found = (await session.admin.describe_configs([owner.resource], include_synonyms=True))[owner.resource]
    if isinstance(found, KafkaError):
        raise found
    return found


def _shown(call: RestCall, owner: _Owner, entry: ConfigEntry) -> dict[str, Any]:
    return resource(
        call,
        owner.kind,
        (*owner.path, entry.name),
        f"{owner.crn}={entry.name}",
        **owner.fields,
        name=entry.name,
        value=entry.value,
        is_default=entry.is_default,
        is_read_only=entry.read_only,
        is_sensitive=entry.sensitive,
        source=entry.source.name,
        synonyms=[
            {"name": each.name, "value": each.value, "source": each.source.name} for each in entry.synonyms
        ],
    )


async def _list(call: RestCall, owner: _Owner) -> Any:
    entries = await _entries(call, owner)
    return collection(call, f"{owner.kind}List", owner.path, [_shown(call, owner, each) for each in entries])


async def _get(call: RestCall, owner: _Owner) -> Any:
    name = call.parameters["name"]
    for each in await _entries(call, owner):
        if each.name == name:
            return _shown(call, owner, each)
    raise problems.not_found(f"Config {name[:100]}")


async def _change(
    call: RestCall, owner: _Owner, changes: list[ConfigChange], *, validate_only: bool = False
) -> Answer:
    session = await call.session()
    if owner.resource.type is ResourceType.TOPIC:
        await session.cluster.topic(owner.resource.name, refresh=True)
    found = await session.admin.incremental_alter_configs(
        {owner.resource: changes}, validate_only=validate_only
    )
    error = found.get(owner.resource)
    if error is not None:
        raise error
    return Answer(status=204)


async def _set(call: RestCall, owner: _Owner) -> Answer:
    value = (await call.body()).get("value")
    if value is not None and not isinstance(value, str):
        raise problems.bad_request("value is a text, or null")
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    return await _change(call, owner, [ConfigChange(call.parameters["name"], operation, value)])


async def _reset(call: RestCall, owner: _Owner) -> Answer:
    return await _change(call, owner, [ConfigChange(call.parameters["name"], ConfigOperation.DELETE)])


async def _alter(call: RestCall, owner: _Owner) -> Answer:
    body = await call.body()
    changes = [_config_change(each) for each in entries_of(body, "data")]
    if not changes:
        raise problems.bad_request("data is empty")
    return await _change(call, owner, changes, validate_only=body.get("validate_only") is True)


def _config_change(entry: dict[str, Any]) -> ConfigChange:
    name, value, operation = entry.get("name"), entry.get("value"), entry.get("operation") or "SET"
    if not isinstance(name, str) or not name:
        raise problems.bad_request("name is the name of a config")
    if value is not None and not isinstance(value, str):
        raise problems.bad_request(f"the value of {name[:100]} is a text, or null")
    if operation not in ("SET", "DELETE"):
        raise problems.bad_request("operation is SET or DELETE")
    return ConfigChange(name, ConfigOperation[operation], value if operation == "SET" else None)


# Of topics ---------------------------------------------------------------------------------------------


async def list_topic(call: RestCall) -> Any:
    owner = await _topic(call)
    await (await call.session()).cluster.topic(owner.resource.name, refresh=True)
    return await _list(call, owner)


async def get_topic(call: RestCall) -> Any:
    return await _get(call, await _topic(call))


async def set_topic(call: RestCall) -> Any:
    return await _set(call, await _topic(call))


async def reset_topic(call: RestCall) -> Any:
    return await _reset(call, await _topic(call))


async def alter_topic(call: RestCall) -> Any:
    return await _alter(call, await _topic(call))


async def list_all_topics(call: RestCall) -> Any:
    """The configs of every topic."""
    session, _ = await cluster_of(call)
    names = await session.admin.list_topics(include_internal=False)
    found = await session.admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in names], include_synonyms=True
    )
    data = []
    for key, entries in found.items():
        if isinstance(entries, KafkaError):
            continue  # gone meanwhile, or not for this user
        owner = _Owner(
            key,
            "KafkaTopicConfig",
            ("topics", key.name, "configs"),
            f"topic={key.name}/config",
            {"topic_name": key.name},
        )
        data += [_shown(call, owner, each) for each in entries]
    return collection(call, "KafkaTopicConfigList", ("topics", "-", "configs"), data)


async def list_topic_defaults(call: RestCall) -> Any:
    """What a topic would have without configs of its own."""
    owner = await _topic(call)
    data = []
    for entry in await _entries(call, owner):
        behind = [each for each in entry.synonyms if each.source != ConfigSource.DYNAMIC_TOPIC_CONFIG]
        shown = _shown(call, owner, entry)
        if behind:
            shown |= {
                "value": behind[0].value,
                "source": behind[0].source.name,
                "is_default": behind[0].source == ConfigSource.DEFAULT_CONFIG,
                "synonyms": [
                    {"name": each.name, "value": each.value, "source": each.source.name} for each in behind
                ],
            }
        data.append(shown)
    path = ("topics", call.topic(), "default-configs")
    return collection(call, "KafkaTopicConfigList", path, data)


# Of brokers --------------------------------------------------------------------------------------------


async def list_broker(call: RestCall) -> Any:
    return await _list(call, await _broker(call))


async def get_broker(call: RestCall) -> Any:
    return await _get(call, await _broker(call))


async def set_broker(call: RestCall) -> Any:
    return await _set(call, await _broker(call))


async def reset_broker(call: RestCall) -> Any:
    return await _reset(call, await _broker(call))


async def alter_broker(call: RestCall) -> Any:
    return await _alter(call, await _broker(call))


async def list_all_brokers(call: RestCall) -> Any:
    """The dynamic configs of every broker."""
    session, _ = await cluster_of(call)
    described = await session.admin.describe_cluster()
    data = []
    for broker in sorted(described.brokers, key=lambda each: each.node_id):
        owner = _Owner(
            ConfigResource(ResourceType.BROKER, str(broker.node_id)),
            "KafkaBrokerConfig",
            ("brokers", broker.node_id, "configs"),
            f"broker={broker.node_id}/config",
            {"broker_id": broker.node_id},
        )
        data += [
            _shown(call, owner, each)
            for each in await _entries(call, owner)
            if each.source == ConfigSource.DYNAMIC_BROKER_CONFIG
        ]
    return collection(call, "KafkaBrokerConfigList", ("brokers", "-", "configs"), data)


# Of the cluster ----------------------------------------------------------------------------------------


async def list_cluster(call: RestCall) -> Any:
    return await _list(call, await _cluster(call))


async def get_cluster(call: RestCall) -> Any:
    return await _get(call, await _cluster(call))


async def set_cluster(call: RestCall) -> Any:
    return await _set(call, await _cluster(call))


async def reset_cluster(call: RestCall) -> Any:
    return await _reset(call, await _cluster(call))


async def alter_cluster(call: RestCall) -> Any:
    return await _alter(call, await _cluster(call))

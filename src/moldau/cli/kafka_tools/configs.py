"""``moldau kafka-configs``: show and change configs, as Kafka's ConfigCommand does.

For topics, brokers (one, or the default of all), loggers of brokers, groups and client metrics; for users,
clients and ips, quotas and SCRAM credentials (``access/users_and_quotas.py``). ``config_entities`` reads the
options.
"""

import asyncio
from collections.abc import Iterable, Sequence

from moldau.base.names import topic_name_error
from moldau.cli.kafka_tools.access import users_and_quotas
from moldau.cli.kafka_tools.config_entities import (
    DEFAULT_FLAGS,
    FLAGS,
    QUOTA_TYPES,
    RESOURCE_TYPES,
    Entity,
    entity_names,
    entity_types,
    parse_added,
    parse_deleted,
    parse_entity,
)
from moldau.cli.kafka_tools.framework.bootstrap import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    open_admin_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_line,
    execution_lines,
    illegal_argument,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.client.admin.access import Access
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSynonym,
)
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.errors import ErrorCode, KafkaError

TOOL = Tool(
    "kafka-configs",
    "Shows and changes configs of topics, brokers, loggers, groups, client metrics; quotas and users.",
    Options(
        BOOTSTRAP_SERVER,
        Option("bootstrap-controller", "Not supported: give a broker with --bootstrap-server.", "servers"),
        COMMAND_CONFIG,
        Option("describe", "Show the configs that were set for the entity."),
        Option("all", "With --describe: show all configs, defaults included."),
        Option("alter", "Change configs of the entity."),
        Option("add-config", "Configs to set: k1=v1,k2=[v1,v2],k3=v3.", "pairs"),
        Option("add-config-file", "A properties file with configs to set.", "file"),
        Option("delete-config", "Configs to set back to their defaults: k1,k2.", "names"),
        Option(
            "entity-type",
            "topics, brokers, broker-loggers, groups, client-metrics, users, clients or ips.",
            "type",
        ),
        Option("entity-name", "The name of the topic or group, the id of the broker.", "name"),
        Option("entity-default", "The default of all brokers."),
        *(
            Option(flag, f"The same as --entity-type {kind} --entity-name.", "name")
            for flag, kind in FLAGS.items()
        ),
        *(
            Option(flag, f"The same as --entity-type {k} --entity-default.")
            for flag, k in DEFAULT_FLAGS.items()
        ),
    ),
    (
        "--bootstrap-server localhost:9092 --describe --topic orders --all",
        "--bootstrap-server localhost:9092 --alter --topic orders --add-config retention.ms=3600000",
        "--bootstrap-server localhost:9092 --alter --topic orders --delete-config retention.ms",
        "--bootstrap-server localhost:9092 --describe --entity-type brokers --entity-default",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError(
            "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
            "client-metrics or group"
        )
    try:
        given = TOOL.options.parse(with_bootstrap_server(arguments, console))
        entity = parse_entity(given)
        asyncio.run(_execute(given, entity, console))
    except ToolError as error:
        return _fail(error, arguments, console)
    except KafkaError as error:
        console.error(_failure_text(arguments))
        for line in execution_lines(error):
            console.error(line)
        return 1
    return 0


def _failure_text(arguments: Sequence[str]) -> str:
    return f"Error while executing config command with args '{' '.join(arguments)}'"


def _fail(error: ToolError, arguments: Sequence[str], console: Console) -> int:
    """Reports bad arguments with their message alone, and other errors with the command line."""
    if error.name.endswith(("IllegalArgumentException", "UnsupportedVersionException")):
        console.error(error.message)
    else:
        console.error(_failure_text(arguments))
        console.error(exception_line(error))
    return 1


# Lines -------------------------------------------------------------------------------------------------


def describe_lines(entity: Entity, entries: Iterable[ConfigEntry], *, everything: bool = False) -> list[str]:
    """One entity with its configs: only those that were set for it, or all."""
    if entity.type == "brokers" and entity.name == "":
        title = "Default configs for brokers in the cluster are:"
    else:
        title = f"{'All' if everything else 'Dynamic'} configs for {entity.kind} {entity.name} are:"
    wanted = None if everything else entity.source
    shown = [entry for entry in entries if wanted is None or entry.source == wanted]
    return [title, *(config_line(entry) for entry in sorted(shown, key=lambda entry: entry.name))]


def config_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(_synonym(synonym) for synonym in entry.synonyms)
    sensitive = "true" if entry.sensitive else "false"
    return f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _synonym(synonym: ConfigSynonym) -> str:
    return f"{synonym.source.name}:{synonym.name}={_value(synonym.value)}"


def _value(value: str | None) -> str:
    return "null" if value is None else value


# The cluster -------------------------------------------------------------------------------------------


async def _execute(given: Given, entity: Entity, console: Console) -> None:
    if given.has("bootstrap-controller"):
        raise illegal_argument(
            "--bootstrap-controller is not supported: give a broker with --bootstrap-server"
        )
    changes = _changes(given) if given.has("alter") and entity.type not in QUOTA_TYPES else []
    call = "incrementalAlterConfigs" if given.has("alter") else "describeConfigs"
    async with await open_admin_cluster(given, console, call=call) as cluster:
        admin = Admin(cluster)
        types, names = entity_types(given), entity_names(given)
        try:
            if entity.type in QUOTA_TYPES:
                access = Access(cluster)
                if given.has("alter"):
                    added, deleted = _added(given), parse_deleted(given.values("delete-config"))
                    await users_and_quotas.alter(access, types, names, added, deleted, console)
                else:
                    await users_and_quotas.describe(access, types, names, console)
            elif given.has("alter"):
                await _alter(admin, entity, changes, console)
            else:
                await _describe(admin, entity, given.has("all"), console)
        except BrokerNotAvailable as error:
            console.error(f"hint: {error}")
            message = f"Timed out waiting for a node assignment. Call: {call}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None


def _changes(given: Given) -> list[ConfigChange]:
    added = _added(given)
    changes = [ConfigChange(name, ConfigOperation.SET, value) for name, value in added.items()]
    deleted = parse_deleted(given.values("delete-config"))
    return changes + [ConfigChange(name, ConfigOperation.DELETE) for name in deleted]


def _added(given: Given) -> dict[str, str]:
    if given.has("add-config-file"):
        return read_properties(given.value("add-config-file"))
    return parse_added(given.value("add-config")) if given.has("add-config") else {}


async def _alter(admin: Admin, entity: Entity, changes: list[ConfigChange], console: Console) -> None:
    name = entity.name or ""
    resource = ConfigResource(RESOURCE_TYPES[entity.type], name)
    if entity.type == "broker-loggers":
        known = {entry.name for entry in await _entries(admin, entity)}
        unknown = [change.name for change in changes if change.name not in known]
        if unknown:
            raise illegal_argument(f"Invalid broker logger(s): {','.join(unknown)}")
    raise_errors(await admin.incremental_alter_configs({resource: changes}))
    if name:
        console.print(f"Completed updating config for {entity.kind} {name}.")
    else:
        console.print(f"Completed updating default config for {entity.type} in the cluster.")


async def _describe(admin: Admin, entity: Entity, everything: bool, console: Console) -> None:
    if entity.name and not everything and not await _exists(admin, entity):
        console.print(f"The {entity.kind} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        return
    names = await _names(admin, entity.type) if entity.name is None else [entity.name]
    for name in names:
        one = Entity(entity.type, name)
        lines = describe_lines(one, await _entries(admin, one), everything=everything)
        for line in lines:
            console.print(line)


async def _entries(admin: Admin, entity: Entity) -> list[ConfigEntry]:
    resource = ConfigResource(RESOURCE_TYPES[entity.type], entity.name or "")
    outcome = (await admin.describe_configs([resource], include_synonyms=True))[resource]
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def _exists(admin: Admin, entity: Entity) -> bool:
    if entity.type == "topics":
        error = topic_name_error(entity.name or "")
        if error is not None:
            raise illegal_argument(f"Topic name is invalid: {error}")
    return entity.name in await _names(admin, entity.type)


async def _names(admin: Admin, kind: str) -> list[str]:
    """The names of all entities of a type; the default of all brokers comes last."""
    if kind == "topics":
        return await admin.list_topics()
    if kind in ("brokers", "broker-loggers"):
        brokers = sorted(broker.node_id for broker in (await admin.describe_cluster()).brokers)
        return [*(str(broker) for broker in brokers), *([""] if kind == "brokers" else [])]
    return [resource.name for resource in await admin.list_config_resources([RESOURCE_TYPES[kind]])]

"""``moldau kafka-client-metrics``: subscriptions to what clients measure, as Kafka's ClientMetricsCommand."""

import asyncio
import os
from collections.abc import Sequence

from moldau.base.names import format_uuid
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, illegal_argument, sentence
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from moldau.protocol.errors import KafkaError

_ACTIONS = ("alter", "delete", "describe", "list")
#: The option, and the config that it sets.
_SETTINGS = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}

TOOL = Tool(
    "kafka-client-metrics",
    "Shows and changes which metrics clients push to the brokers (KIP-714).",
    Options(
        *CLUSTER_OPTIONS,
        Option("alter", "Create or change a subscription."),
        Option("list", "List the names of all subscriptions."),
        Option("describe", "Show subscriptions, or the one that is named."),
        Option("delete", "Delete a subscription."),
        Option("name", "The name of the subscription.", "name"),
        Option("generate-name", "Make up a name; for --alter."),
        Option("interval", "How often clients push, in milliseconds.", "push interval ms"),
        Option("match", "Which clients: client_id=REGEX,client_software_name=REGEX …", "k1=v1,k2=v2"),
        Option("metrics", "Prefixes of the names of metrics; * for all.", "m1,m2"),
    ),
    (
        "--bootstrap-server localhost:9092 --list",
        "--bootstrap-server localhost:9092 --alter --generate-name --metrics '*' --interval 30000",
        "--bootstrap-server localhost:9092 --describe --name all",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    try:
        check(given)
        asyncio.run(_run(given, console))
    except ToolError as error:
        console.error(error.message)
        console.error(exception_line(error))
        return 1
    except KafkaError as error:
        console.print(f"Error while executing client metrics command : {sentence(error)}")
        console.error(exception_line(error))
        return 1
    return 0


def check(given: Given) -> None:
    if sum(given.has(action) for action in _ACTIONS) != 1:
        raise OptionError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if not given.has("bootstrap-server"):
        raise OptionError('Missing required argument "[bootstrap-server]"')
    named = given.has("name") or given.has("generate-name")
    if given.has("alter") and not named:
        raise illegal_argument("One of --name or --generate-name must be specified with --alter.")
    if given.has("alter") and given.has("name") and given.has("generate-name"):
        raise illegal_argument("Only one of --name or --generate-name may be specified with --alter.")
    if given.has("delete") and not given.has("name"):
        raise illegal_argument("A client metrics resource name must be specified with --delete.")


async def _run(given: Given, console: Console) -> None:
    async with await open_admin_cluster(given, console, call="clientMetrics") as cluster:
        admin = Admin(cluster)
        if given.has("list"):
            console.print("\n".join(sorted(await _names(admin))))
        elif given.has("describe"):
            await _describe(admin, given.value("name"), console)
        elif given.has("delete"):
            await _delete(admin, str(given.value("name")), console)
        else:
            await _alter(admin, given, console)


async def _names(admin: Admin) -> list[str]:
    return [resource.name for resource in await admin.list_config_resources((ResourceType.CLIENT_METRICS,))]


async def _entries(admin: Admin, name: str) -> list[ConfigEntry]:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
    found = (await admin.describe_configs([resource]))[resource]
    if isinstance(found, KafkaError):
        raise found
    return sorted(found, key=lambda entry: entry.name)


async def _describe(admin: Admin, wanted: str | None, console: Console) -> None:
    known = await _names(admin)
    if wanted is not None and wanted not in known:
        console.print(f"The client metric resource {wanted} doesn't exist and doesn't have dynamic config.")
        return
    for name in known if wanted is None else [wanted]:
        console.print(f"Client metrics configs for {name} are:")
        for entry in await _entries(admin, name):
            console.print(f"  {entry.name}={entry.value or ''}")


async def _delete(admin: Admin, name: str, console: Console) -> None:
    set_ones = [
        e.name for e in await _entries(admin, name) if e.source is ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    ]
    changes = [ConfigChange(each, ConfigOperation.DELETE) for each in set_ones]
    if changes:
        await _change(admin, name, changes)
    console.print(f"Deleted client metrics config for {name}.")


async def _alter(admin: Admin, given: Given, console: Console) -> None:
    name = given.value("name") or format_uuid(os.urandom(16))
    changes = []
    for option, config in _SETTINGS.items():
        if given.has(option):
            value = given.value(option) or ""
            # Nothing behind the option puts the config back to its default.
            operation = ConfigOperation.SET if value or config == "metrics" else ConfigOperation.DELETE
            changes.append(
                ConfigChange(config, operation, value if operation is ConfigOperation.SET else None)
            )
    await _change(admin, name, changes)
    console.print(f"Altered client metrics config for {name}.")


async def _change(admin: Admin, name: str, changes: list[ConfigChange]) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
    raise_errors(await admin.incremental_alter_configs({resource: changes}))

"""``moldau configs``: show and change the configs of topics and brokers.

The configs are those of a topic, unless an option names something else.
"""

from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import echo, note, print_json, print_table
from moldau.cli.session import add_options, cluster_command_options, connected, pairs

if TYPE_CHECKING:
    from moldau.client.admin.descriptions import ConfigEntry, ConfigResource
    from moldau.client.transport.cluster import Cluster


@click.group()
def configs() -> None:
    """Show and change the configs of topics and brokers.

    \b
    Examples:
      moldau configs get orders
      moldau configs set orders retention.ms=3600000 cleanup.policy=delete
      moldau configs unset orders retention.ms
      moldau configs get --broker 1 --all
      moldau configs set --all-brokers log.retention.ms=3600000
    """


#: What the configs belong to.
resource_options = add_options(
    click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="One broker."),
    click.option("--all-brokers", is_flag=True, help="The default of all brokers."),
    click.option("--group", metavar="NAME", help="A consumer group."),
    click.option("--client-metrics", metavar="NAME", help="A client metrics subscription."),
)


@configs.command("get")
@click.argument("topic", required=False)
@resource_options
@click.option("-n", "--name", "names", multiple=True, help="Only this config; repeatable.")
@click.option("-a", "--all", "show_all", is_flag=True, help="Show defaults too.")
@cluster_command_options
def get(topic: str | None, names: tuple[str, ...], show_all: bool, as_json: bool, **named: Any) -> None:
    """Show the configs of a topic (or of a broker), and where each value comes from.

    \b
    Examples:
      moldau configs get orders
      moldau configs get orders --all --json
      moldau configs get orders --name retention.ms --name cleanup.policy
      moldau configs get --broker 1
    """
    what = resource(topic, **named)

    async def work(cluster: "Cluster") -> "list[ConfigEntry]":
        from moldau.client.admin.admin import Admin
        from moldau.protocol.errors import KafkaError

        outcome = (await Admin(cluster).describe_configs({what: list(names) or None}))[what]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    entries = connected(work)
    shown = [e for e in entries if show_all or names or not e.is_default]
    if as_json:
        print_json([entry_object(e) for e in shown])
    elif not shown:
        note("All configs have their defaults: --all shows them.")
    else:
        print_table(
            ["Config", "Value", "Source"],
            [[e.name, "(hidden)" if e.sensitive else e.value, source_text(e)] for e in shown],
        )


@configs.command("set")
@click.argument("arguments", nargs=-1, required=True, metavar="[TOPIC] NAME=VALUE...")
@resource_options
@cluster_command_options
def set_(arguments: tuple[str, ...], as_json: bool, **named: Any) -> None:
    """Set configs; the others stay as they are.

    \b
    Examples:
      moldau configs set orders retention.ms=3600000
      moldau configs set --broker 1 log.cleaner.threads=2
    """
    topic, rest = (None, arguments) if "=" in arguments[0] else (arguments[0], arguments[1:])
    what = resource(topic, **named)
    values = pairs(rest, "the argument")
    if not values:
        raise click.UsageError("nothing to set: name at least one NAME=VALUE")
    _change(what, "SET", dict(values))
    texts = [f"Set {name}={value}" for name, value in values.items()]
    _report_changes(what, texts, dict(values), as_json)


@configs.command("unset")
@click.argument("arguments", nargs=-1, required=True, metavar="[TOPIC] NAME...")
@resource_options
@cluster_command_options
def unset(arguments: tuple[str, ...], as_json: bool, **named: Any) -> None:
    """Take configs back to their defaults.

    \b
    Examples:
      moldau configs unset orders retention.ms
      moldau configs unset --all-brokers log.retention.ms
    """
    elsewhere = any(each is not None and each is not False for each in named.values())
    topic, names = (None, arguments) if elsewhere else (arguments[0], arguments[1:])
    if not names:
        raise click.UsageError("nothing to unset: name at least one config")
    what = resource(topic, **named)
    _change(what, "DELETE", dict.fromkeys(names))
    _report_changes(what, [f"Unset {name}" for name in names], dict.fromkeys(names), as_json)


def resource(
    topic: str | None, broker: int | None, all_brokers: bool, group: str | None, client_metrics: str | None
) -> "ConfigResource":
    """What the configs belong to, by ``resource_options``; anything but exactly one name is wrong usage."""
    from moldau.client.admin.descriptions import ConfigResource, ResourceType

    named = [
        ConfigResource(kind, name)
        for kind, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.BROKER, None if broker is None else str(broker)),
            (ResourceType.BROKER, "" if all_brokers else None),
            (ResourceType.GROUP, group),
            (ResourceType.CLIENT_METRICS, client_metrics),
        )
        if name is not None
    ]
    if len(named) != 1:
        raise click.UsageError(
            "name one thing: a TOPIC, --broker ID, --all-brokers, --group or --client-metrics"
        )
    return named[0]


def resource_text(what: "ConfigResource") -> str:
    return f"{what.type.name.lower().replace('_', ' ')} {what.name}" if what.name else "all brokers"


def entry_object(entry: "ConfigEntry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "source": entry.source.name,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "type": entry.type.name,
    }


def source_text(entry: "ConfigEntry") -> str:
    """Where a value comes from, in a word for the table."""
    words = {
        "DYNAMIC_TOPIC_CONFIG": "topic",
        "DYNAMIC_BROKER_CONFIG": "broker",
        "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
        "STATIC_BROKER_CONFIG": "broker's file",
        "DEFAULT_CONFIG": "default",
        "DYNAMIC_GROUP_CONFIG": "group",
        "DYNAMIC_CLIENT_METRICS_CONFIG": "client metrics",
        "DYNAMIC_BROKER_LOGGER_CONFIG": "logger",
    }
    return words.get(entry.source.name, "unknown")


def _report_changes(what: "ConfigResource", texts: list[str], values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"type": what.type.name, "name": what.name, "configs": values})
        return
    for text in texts:
        echo(f"{text} on {resource_text(what)}")


def _change(what: "ConfigResource", operation: str, values: dict[str, Any]) -> None:
    async def work(cluster: "Cluster") -> None:
        from moldau.client.admin.admin import Admin, raise_errors
        from moldau.client.admin.descriptions import ConfigChange, ConfigOperation

        changes = [ConfigChange(name, ConfigOperation[operation], value) for name, value in values.items()]
        raise_errors(await Admin(cluster).incremental_alter_configs({what: changes}))

    connected(work)

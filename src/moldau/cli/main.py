"""The ``moldau`` command: a table of commands, each imported when it is called.

A command of our own is a ``click.Command`` in a module of ``moldau.cli.commands``, named by
"module:attribute". A tool with Kafka's flags is a module in ``moldau.cli.kafka_tools``: its ``TOOL``
describes it, and its ``main(arguments, console)`` parses the arguments as Kafka's own tool does and returns
the exit code.

Invariant: nothing is imported here but click, so that ``moldau --help`` stays fast. Every error ends as one
line on stderr with a next step, with exit code 1 (2 for wrong usage).
"""

import sys
from importlib import import_module
from typing import Any, cast

import click

from moldau import __version__

#: Name -> "module:attribute" below ``moldau.cli.commands``, and what it does in a few words.
COMMANDS = {
    "up": (
        "services.up:up",
        "Start broker, registry, REST proxy and console here; --demo shows them at work.",
    ),
    "broker": ("services.broker:broker", "Run a broker in the foreground."),
    "cluster": (
        "clusters.cluster:cluster",
        "Show the brokers of a cluster, why it is not well, and move replicas.",
    ),
    "zookeeper": ("services.zookeeper:zookeeper", "Run a ZooKeeper server in the foreground."),
    "topics": ("data.topics:topics", "List, create, describe, alter, delete, fork and snapshot topics."),
    "configs": ("data.configs:configs", "Show and change the configs of topics and brokers."),
    "produce": ("data.produce:produce", "Write records to a topic."),
    "consume": ("data.consume:consume", "Read records from a topic."),
    "offsets": ("data.offsets:offsets", "Show where the partitions of a topic begin and end."),
    "transactions": ("data.transactions:transactions", "List, describe and abort transactions."),
    "groups": ("data.groups:groups", "List, describe, reset consumer groups; why they lag."),
    "lag": ("clusters.lag:lag", "Watch whether consumer groups keep up."),
    "probe": ("clusters.probe:probe", "Write and read a record through each broker, from outside."),
    "top": ("clusters.top:top", "Show what brokers do, live in the terminal."),
    "audit": ("data.audit:audit", "Find records that an application has not processed."),
    "connect": ("services.connect:connect", "Run one worker of a cluster that runs connectors."),
    "connect-standalone": (
        "services.connect:connect_standalone",
        "Run connectors in one process, as Kafka's connect-standalone does.",
    ),
    "mirror": ("clusters.mirror:mirror", "Copy topics between clusters, with their offsets."),
    "migrate": ("clusters.migrate:migrate", "Move a whole cluster to Moldau."),
    "backup": ("clusters.backup:backup", "Save topics, groups, schemas and ACLs; bring them back."),
    "console": ("services.console:console", "Run the web console in the foreground."),
    "mcp": ("services.mcp:mcp", "Let an assistant look at a cluster (Model Context Protocol)."),
    "connectors": (
        "services.connectors:connectors",
        "List, pause, resume, restart and delete connectors; why one fails.",
    ),
    "registry": ("services.registry:registry", "Run a schema registry in the foreground."),
    "rest": ("services.rest:rest", "Run a REST proxy in the foreground: topics over HTTP."),
    "schemas": ("data.schemas:schemas", "List, show, register, check, compare and move schemas."),
    "pipeline": ("programs.pipeline:pipeline", "Write, run, watch and stop data pipelines on Spark."),
    "streams": ("programs.streams:streams", "Draw, run and watch programs for stream processing."),
    "sql": ("programs.sql:sql", "SQL over topics: a shell, files and single statements."),
    "sql-server": (
        "services.sql_server:sql_server",
        "Run a SQL server in the foreground: ksqlDB's REST paths.",
    ),
    "log": ("local.log:log", "Look into log files; check, mend and import them."),
    "acls": ("clusters.acls:acls", "List, add, remove, check and suggest ACLs."),
    "roles": ("clusters.roles:roles", "Give users sets of rights that have a name."),
    "profile": ("local.profile:profile", "Keep addresses and secrets of clusters under a name."),
    "certs": ("local.certs:certs", "Make certificates for a laptop or a test cluster."),
    "doctor": ("local.doctor:doctor", "Explain what is wrong, and what to do about it."),
}

#: Name -> module below ``moldau.cli.kafka_tools``, and what it does in a few words.
KAFKA_TOOLS = {
    "kafka-topics": ("topics", "Create, list, describe, alter and delete topics."),
    "kafka-acls": ("access.acls", "Add, list and remove ACLs."),
    "kafka-delegation-tokens": ("access.delegation_tokens", "Create, renew, expire and describe tokens."),
    "kafka-console-producer": ("console_producer", "Write lines of standard input to a topic."),
    "kafka-console-consumer": ("console_consumer", "Print the records of a topic."),
    "kafka-avro-console-producer": ("typed_console", "Write lines of JSON as Avro records."),
    "kafka-avro-console-consumer": ("typed_console", "Print Avro records as JSON."),
    "kafka-json-schema-console-producer": ("typed_console", "The same with JSON Schema."),
    "kafka-json-schema-console-consumer": ("typed_console", "The same with JSON Schema."),
    "kafka-protobuf-console-producer": ("typed_console", "The same with Protobuf."),
    "kafka-protobuf-console-consumer": ("typed_console", "The same with Protobuf."),
    "kafka-configs": ("configs", "Show and change configs."),
    "kafka-consumer-groups": ("consumer_groups", "List, describe, delete and reset consumer groups."),
    "kafka-client-metrics": ("monitoring.client_metrics", "Ask clients to push what they measure."),
    "kafka-groups": ("groups", "List the groups of every type."),
    "kafka-get-offsets": ("get_offsets", "Print the offsets of partitions."),
    "kafka-delete-records": ("delete_records", "Delete records up to an offset."),
    "kafka-log-dirs": ("log_dirs", "Describe the log directories of brokers."),
    "kafka-dump-log": ("dump_log", "Print what the files of a log hold."),
    "kafka-producer-perf-test": ("performance.producer_perf_test", "Measure how fast records are written."),
    "kafka-consumer-perf-test": ("performance.consumer_perf_test", "Measure how fast records are read."),
    "kafka-e2e-latency": ("performance.e2e_latency", "Measure the time from producer to consumer."),
    "kafka-streams-application-reset": ("clusters.streams_application_reset", "Reset a streams application."),
    "kafka-transactions": ("transactions", "Show transactions, find and end those that hang."),
    "kafka-verifiable-producer": ("verifiable_producer", "Write numbers, and tell the fate of each in JSON."),
    "kafka-verifiable-consumer": ("verifiable_consumer", "Read records, and tell what was read in JSON."),
    "kafka-broker-api-versions": ("broker_api_versions", "Print the API versions of brokers."),
    "kafka-cluster": ("cluster", "Print the id of the cluster and more."),
    "kafka-leader-election": ("clusters.leader_election", "Elect leaders, preferred or unclean."),
    "kafka-reassign-partitions": ("clusters.reassign_partitions", "Move partitions to other brokers."),
    "kafka-mirror-maker": ("clusters.mirror_maker", "Copy topics to another cluster, the old way."),
    "kafka-metadata-quorum": ("clusters.metadata_quorum", "Show who keeps the cluster's metadata."),
    "zookeeper-shell": ("clusters.zookeeper_shell", "Look at and change znodes."),
}


class LazyGroup(click.Group):
    """Knows its commands by name, and imports one only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *KAFKA_TOOLS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            return cast(click.Command, getattr(import_module(f"moldau.cli.commands.{module}"), attribute))
        if cmd_name in KAFKA_TOOLS:
            return _kafka_tool(cmd_name)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command {args[0]!r}{_suggestion(args[0])}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
        with formatter.section("With Kafka's flags and output"):
            formatter.write_dl([(name, text) for name, (_, text) in KAFKA_TOOLS.items()], col_max=40)


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, [*COMMANDS, *KAFKA_TOOLS], n=1)
    return f"; did you mean {close[0]!r}?" if close else ": 'moldau --help' lists them"


class KafkaTool(click.Command):
    """Hands over its arguments unparsed, even ``--help``: the tool parses Kafka's options itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = list(args)
        return []


def load_kafka_tool(name: str) -> tuple[Any, Any]:
    """The description of a tool and its main function; a module with several tools has them in ``TOOLS``."""
    module: Any = import_module(f"moldau.cli.kafka_tools.{KAFKA_TOOLS[name][0]}")
    tool, main = module.TOOLS[name] if hasattr(module, "TOOLS") else (module.TOOL, module.main)
    return tool, main


def _kafka_tool(name: str) -> click.Command:
    text = KAFKA_TOOLS[name][1]

    def callback(arguments: list[str]) -> None:
        from moldau.cli.kafka_tools.framework.tool import run_standard

        sys.exit(run_standard(*load_kafka_tool(name), arguments))

    return KafkaTool(name, callback=callback, help=text)


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"moldau {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with:  moldau broker --port 9092 --data-dir ./data",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """A Kafka-compatible event-streaming platform in Python.

    The commands talk to any Kafka-compatible cluster: give its address with -b/--bootstrap-server or in
    MOLDAU_BOOTSTRAP_SERVERS (default 127.0.0.1:9092).
    """


def main() -> None:
    """The entry point of the installed command."""
    try:
        cli(prog_name="moldau")
    except BrokenPipeError:
        # The reader of our output has gone (``| head``): nobody would see an error message.
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    main()

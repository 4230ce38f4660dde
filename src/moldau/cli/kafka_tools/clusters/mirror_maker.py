"""``moldau kafka-mirror-maker``: the first MirrorMaker, which Kafka had up to 3.x, with its flags.

Topics keep their names. Unlike the old tool it writes each record once, keeps partitions, and notes its
positions at the target.
"""

import asyncio
import re
import signal
from collections.abc import Sequence

from moldau.cli.kafka_tools.framework.bootstrap import read_properties
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.mirror.flow import Flow
from moldau.mirror.rules.properties import MirrorSettings, read_settings
from moldau.mirror.running import run_flows, wait_until_caught_up
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-mirror-maker",
    "Copies topics from one cluster to another until it is stopped.",
    Options(
        Option("consumer.config", "Properties of the consumer: bootstrap.servers and group.id.", "file"),
        Option("producer.config", "Properties of the producer: bootstrap.servers.", "file"),
        Option("whitelist", "The topics to copy: a regular expression.", "Java regex (String)"),
        Option("include", "The same, by its newer name.", "Java regex (String)"),
        Option("num.streams", "Has no effect: one process reads all its partitions at once.", "number"),
        Option("offset.commit.interval.ms", "How often positions are committed.", "ms"),
        Option("abort.on.send.failure", "Has no effect: what fails is tried again.", "flag"),
        Option("new.consumer", "Has no effect: there is no other."),
        Option("once", "End when everything is copied."),
    ),
    ("--consumer.config consumer.properties --producer.config producer.properties --whitelist 'orders.*'",),
)


def main(arguments: Sequence[str], console: Console) -> int:
    given = TOOL.options.parse(arguments)
    require(given, "consumer.config", "producer.config")
    settings = settings_of(given)
    try:
        asyncio.run(_run(settings, console, once=given.has("once")))
    except KafkaError as error:
        console.error(f"ERROR {error}")
        return 1
    return 0


def settings_of(given: Given) -> MirrorSettings:
    """The old flags as a flow that keeps names and makes no topics of its own."""
    consumer, producer = (
        read_properties(given.value("consumer.config")),
        read_properties(given.value("producer.config")),
    )
    named = [given.value(name) for name in ("include", "whitelist") if given.has(name)]
    topics = named[0] if named else None
    if topics is None:
        raise ToolError("java.lang.IllegalArgumentException", "whitelist must be specified")
    # Kafka's own reading of the option: a comma stands for "or", and quotes may be left around it.
    pattern = re.sub(r"\s*,\s*", "|", topics.strip("\"' "))
    # MirrorMaker's group names the flow: two with other groups copy independently.
    group = consumer.get("group.id", "mirror-maker")
    properties = {
        "clusters": f"{group},target",
        f"{group}->target.enabled": "true",
        "topics": pattern,
        "replication.policy.class": "IdentityReplicationPolicy",
        "moldau.mode": "translated",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "refresh.topics.interval.seconds": "5",
        "moldau.transaction.ms": _commit_interval(given),
        f"{group}.consumer.auto.offset.reset": consumer.pop("auto.offset.reset", "latest"),
        f"{group}.consumer.isolation.level": consumer.pop("isolation.level", "read_committed"),
    }
    properties |= {f"{group}.{name}": value for name, value in consumer.items()}
    properties |= {f"target.{name}": value for name, value in producer.items()}
    try:
        return read_settings(properties)
    except ValueError as error:
        raise ToolError("org.apache.kafka.common.config.ConfigException", str(error)) from None


def _commit_interval(given: Given) -> str:
    """Positions are committed with each transaction; a minute, as the old tool has, would be a long one."""
    return str(given.value("offset.commit.interval.ms")) if given.has("offset.commit.interval.ms") else "500"


async def _run(settings: MirrorSettings, console: Console, *, once: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    for name in settings.unknown:
        console.error(f"hint: {name} is not known and has no effect")

    async def end_when_done(flows: "list[Flow]") -> None:
        await wait_until_caught_up(flows)
        stop.set()

    waiting: list[asyncio.Task[None]] = []

    def started(flows: "list[Flow]") -> None:
        if once:
            waiting.append(loop.create_task(end_when_done(flows)))

    try:
        await run_flows(settings, stop, started=started)
    finally:
        for task in waiting:
            task.cancel()

"""``moldau kafka-reassign-partitions``: move partitions between brokers and between their log directories.

Prints what Kafka's ReassignPartitionsCommand prints, without the stack frames of its errors.
"""

import asyncio
from collections.abc import Sequence

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.clusters.directory_moves import (
    find_places,
    start_moves,
    status_lines,
    under_way,
)
from moldau.cli.kafka_tools.clusters.reassignment_plan import (
    Directories,
    Plan,
    failed,
    move_line,
    parse_brokers,
    parse_directories,
    parse_plan,
    parse_topics,
    plan_text,
    throttled_replicas,
)
from moldau.cli.kafka_tools.delete_records import read_file
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_line,
    execution_lines,
    sentence,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceType,
    TopicDescription,
)
from moldau.client.admin.replicas import ongoing_moves, reassign
from moldau.cluster.controller.placement import place_replicas
from moldau.cluster.image import BrokerImage
from moldau.protocol.errors import ErrorCode, KafkaError

_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
TOOL = Tool(
    "kafka-reassign-partitions",
    "Moves partitions to other brokers: --generate a plan, --execute it, --verify, --list or --cancel it.",
    Options(
        *CLUSTER_OPTIONS,
        Option("generate", "Prints a plan; changes nothing."),
        Option("execute", "Begins to move partitions as a plan says."),
        Option("verify", "Tells whether a plan has been carried out, and then removes its throttles."),
        Option("cancel", "Ends the moves of a plan where they are."),
        Option("list", "Lists the moves that are under way."),
        Option("reassignment-json-file", "The plan.", "file"),
        Option("topics-to-move-json-file", "With --generate: the topics.", "file"),
        Option("broker-list", "With --generate: the brokers, as 1,2,3.", "ids"),
        Option("disable-rack-aware", "With --generate: racks do not count."),
        Option("throttle", "With --execute: bytes a second between brokers for these moves.", "rate", int),
        Option(
            "replica-alter-log-dirs-throttle",
            "With --execute: bytes a second between the log directories of each broker.",
            "rate",
            int,
        ),
        Option("additional", "With --execute: also while other moves are under way."),
        Option("preserve-throttles", "With --verify and --cancel: throttles stay."),
        Option(
            "timeout",
            "With --execute: how long moves between directories may take to begin.",
            "ms",
            int,
            default=10_000,
        ),
    ),
    (
        "--bootstrap-server localhost:9092 --topics-to-move-json-file t.json --broker-list 1,2 --generate",
        "--bootstrap-server localhost:9092 --reassignment-json-file plan.json --execute",
        "--bootstrap-server localhost:9092 --list",
    ),
)
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_REQUIRED = {
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "list": (),
}
_ALLOWED = {
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles", "timeout"),
    "cancel": ("preserve-throttles", "timeout"),
    "generate": ("disable-rack-aware",),
    "list": (),
}
_NUMBERS = ("throttle", "replica-alter-log-dirs-throttle", "timeout")
_ALWAYS = ("bootstrap-server", "command-config", "help", "version")


def main(arguments: Sequence[str], console: Console) -> int:
    given = TOOL.options.parse(with_bootstrap_server(arguments, console, broker_list=False))
    actions = [name for name in _ACTIONS if given.has(name)]
    if len(actions) != 1:
        raise OptionError(f"Command must include exactly one action: {', '.join(f'--{a}' for a in _ACTIONS)}")
    if not given.has("bootstrap-server"):
        raise OptionError("Please specify --bootstrap-server")
    (action,) = actions
    for name in _REQUIRED[action]:
        if not given.has(name):
            raise OptionError(f'Missing required argument "[{name}]"')
    fitting = {action, *_ALWAYS, *_REQUIRED[action], *_ALLOWED[action]}
    for option in TOOL.options.options:
        if given.has(option.name) and option.name not in fitting:
            raise OptionError(f'Option "[{option.name}]" can\'t be used with action "[{action}]"')
    try:
        for name in _NUMBERS:
            _check_number(given, name)
        return asyncio.run(_run(action, given, console))
    except KafkaError as error:
        lines = [f"Error: {exception_line(error)}", *execution_lines(error)]
    except ToolError as error:
        lines = [f"Error: {sentence(error)}", exception_line(error), *error.causes]
    for line in (*lines, ""):
        console.print(line)
    return 1


def _check_number(given: Given, name: str) -> None:
    try:
        given.value(name)
    except OptionError as error:
        bad = ToolError("joptsimple.OptionArgumentConversionException", error.message)
        reason = f'java.lang.NumberFormatException: For input string: "{given.values(name)[0]}"'
        bad.causes = [f"Caused by: joptsimple.internal.ReflectionException: {reason}", f"Caused by: {reason}"]
        raise bad from None


async def _run(action: str, given: Given, console: Console) -> int:
    plan: Plan = {}
    directories: Directories = {}
    if action in ("execute", "verify", "cancel"):
        text = read_file(given.value("reassignment-json-file"))
        plan, directories = parse_plan(text), parse_directories(text)
    async with await open_admin_cluster(
        given, console, call="listPartitionReassignments", client_id="reassign-partitions-tool"
    ) as cluster:
        work = _Work(Admin(cluster), given, console)
        if action == "generate":
            return await work.generate()
        if action == "list":
            return await work.list_moves()
        if action == "execute":
            return await work.execute(plan, directories)
        return await (work.verify if action == "verify" else work.cancel)(plan, directories)


class _Work:
    """One action against one cluster; each returns the exit code."""

    def __init__(self, admin: Admin, given: Given, console: Console) -> None:
        self._admin = admin
        self._given = given
        self._print = console.print

    async def generate(self) -> int:
        brokers = parse_brokers(self._given.value("broker-list"))
        names = parse_topics(read_file(self._given.value("topics-to-move-json-file")))
        described = await self._described(names)
        current: Plan = {
            TopicPartition(topic.name, each.index): each.replicas
            for topic in described
            for each in topic.partitions
        }
        racks = {broker.node_id: broker.rack for broker in self._admin.cluster.brokers.values()}
        if self._given.has("disable-rack-aware"):
            racks = dict.fromkeys(racks)
        usable = [
            BrokerImage(each, 0, bytes(16), (), racks[each], (), fenced=False)
            for each in brokers
            if each in racks
        ]
        proposed: Plan = {}
        for topic in described:
            try:
                placed = place_replicas(
                    usable,
                    first_partition=0,
                    partition_count=len(topic.partitions),
                    replication_factor=topic.replication_factor,
                    seed=0,
                )
            except KafkaError as error:
                text = str(error.message).partition(": ")[2]
                raise ToolError(
                    "org.apache.kafka.common.errors.InvalidReplicationFactorException", text
                ) from None
            proposed |= {TopicPartition(topic.name, index): replicas for index, replicas in enumerate(placed)}
        self._print("Current partition replica assignment")
        self._print(plan_text(current, await self._directories(current)))
        self._print("\nProposed partition reassignment configuration")
        self._print(plan_text(proposed))
        return 0

    async def list_moves(self) -> int:
        moves = await ongoing_moves(self._admin.cluster)
        self._print("Current partition reassignments:" if moves else "No partition reassignments found.")
        for partition, move in sorted(moves.items()):
            self._print(move_line(partition, move))
        return 0

    async def execute(self, plan: Plan, directories: Directories) -> int:
        if not self._given.has("additional") and await ongoing_moves(self._admin.cluster):
            self._print(
                "Cannot execute because there is an existing partition assignment.  Use --additional to "
                "override this and create a new partition assignment in addition to the existing one. The "
                "--additional flag can also be used to change the throttle by resubmitting the current "
                "reassignment."
            )
            return 1
        for replicas in plan.values():
            for broker in replicas:
                if broker not in self._admin.cluster.brokers:
                    raise failed(f"Unknown broker id {broker}")
        current = await self._current(plan)
        self._print("Current partition replica assignment\n")
        self._print(plan_text(current, await self._directories(current)))
        self._print("\nSave this to use as the --reassignment-json-file option during rollback")
        await self._set_throttles(current, plan, directories)
        outcomes = await reassign(self._admin.cluster, dict(plan))
        errors = {partition: error for partition, error in outcomes.items() if error is not None}
        if errors:
            lines = "\n".join(f"{each}: {error.message or error}" for each, error in sorted(errors.items()))
            raise failed(f"Error reassigning partition(s):\n{lines}")
        listed = ",".join(str(each) for each in sorted(plan))
        self._print(f"Successfully started partition reassignment{'s' if len(plan) > 1 else ''} for {listed}")
        await start_moves(self._admin, directories, self._given.value("timeout") / 1000, self._print)
        return 0

    async def verify(self, plan: Plan, directories: Directories) -> int:
        moves = await ongoing_moves(self._admin.cluster, plan)
        current = await self._current(plan, missing_is_empty=True)
        self._print("Status of partition reassignment:")
        for partition, target in sorted(plan.items()):
            if partition in moves:
                self._print(f"Reassignment of partition {partition} is still in progress.")
            elif current[partition] == target:
                self._print(f"Reassignment of partition {partition} is completed.")
            else:
                self._print(
                    f"There is no active reassignment of partition {partition}, but replica set is "
                    f"{','.join(map(str, current[partition]))} rather than {','.join(map(str, target))}."
                )
        places = await find_places(self._admin, directories)
        self._print("\n".join(status_lines(directories, places)))
        busy = moves or under_way(directories, places)
        if not busy and not self._given.has("preserve-throttles"):
            await self._clear_throttles(plan)
        return 0

    async def cancel(self, plan: Plan, directories: Directories) -> int:
        moves = await ongoing_moves(self._admin.cluster, plan)
        if moves:
            outcomes = await reassign(self._admin.cluster, dict.fromkeys(moves))
            errors = {each: error for each, error in outcomes.items() if error is not None}
            if errors:
                lines = "\n".join(
                    f"{each}: {error.message or error}" for each, error in sorted(errors.items())
                )
                raise failed(
                    f"Error cancelling partition reassignment{'s' if len(errors) > 1 else ''} for:\n{lines}"
                )
            listed = ",".join(str(each) for each in sorted(moves))
            self._print(
                f"Successfully cancelled partition reassignment{'s' if len(moves) > 1 else ''} for: {listed}"
            )
        else:
            self._print("None of the specified partition reassignments are active.")
        back = under_way(directories, await find_places(self._admin, directories))
        await start_moves(self._admin, back, self._given.value("timeout") / 1000, self._print)
        idle = "" if back else "None of the specified partition moves are active."
        if self._given.has("preserve-throttles"):
            if idle:
                self._print(idle)
        else:
            await self._clear_throttles(plan, before=idle)
        return 0

    # --- what the cluster says and is told ---------------------------------------------------------------

    async def _described(self, names: Sequence[str]) -> "list[TopicDescription]":
        found = await self._admin.describe_topics(names)
        described = []
        for name in names:
            topic = found.get(name)
            if not isinstance(topic, TopicDescription):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} not found.")
            described.append(topic)
        return described

    async def _current(self, plan: Plan, *, missing_is_empty: bool = False) -> Plan:
        topics = {
            topic.name: topic
            for topic in await self._described(list(dict.fromkeys(each.topic for each in plan)))
        }
        current: Plan = {}
        for each in plan:
            partitions = topics[each.topic].partitions
            if each.partition < len(partitions):
                current[each] = partitions[each.partition].replicas
            elif missing_is_empty:
                current[each] = ()
            else:
                raise failed(f"Partition {each} does not exist")
        return current

    async def _directories(self, current: Plan) -> dict[tuple[TopicPartition, int], str]:
        found: dict[tuple[TopicPartition, int], str] = {}
        brokers = sorted({broker for replicas in current.values() for broker in replicas})
        live = [broker for broker in brokers if broker in self._admin.cluster.brokers]
        for broker, directories in (await self._admin.describe_log_dirs(live, current)).items():
            for directory in () if isinstance(directories, KafkaError) else directories:
                for (topic, partition), replica in directory.replicas.items():
                    if not replica.is_future:
                        found[TopicPartition(topic, partition), broker] = directory.path
        return found

    async def _set_throttles(self, current: Plan, plan: Plan, directories: Directories) -> None:
        between_brokers = self._given.value("throttle")
        on_disk = self._given.value("replica-alter-log-dirs-throttle")
        if between_brokers is None and on_disk is None:
            return
        self._print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
            "the throttle is removed."
        )
        if between_brokers is not None:
            await self._throttle(current, plan, between_brokers)
            self._print(f"The inter-broker throttle limit was set to {between_brokers} B/s")
        if on_disk is not None:
            change = ConfigChange(_DIRECTORY_RATE, ConfigOperation.SET, str(on_disk))
            brokers = sorted({broker for _, broker in directories})
            await self._alter({ConfigResource(ResourceType.BROKER, str(each)): [change] for each in brokers})
            self._print(f"The replica-alter-dir throttle limit was set to {on_disk} B/s")

    async def _throttle(self, current: Plan, plan: Plan, rate: int) -> None:
        changes = {
            ConfigResource(ResourceType.TOPIC, topic): [
                ConfigChange(name, ConfigOperation.SET, value) for name, value in configs.items()
            ]
            for topic, configs in throttled_replicas(current, plan).items()
            if configs
        }
        for broker in sorted({each for ids in (*current.values(), *plan.values()) for each in ids}):
            changes[ConfigResource(ResourceType.BROKER, str(broker))] = [
                ConfigChange(name, ConfigOperation.SET, str(rate)) for name in _RATES
            ]
        await self._alter(changes)

    async def _clear_throttles(self, plan: Plan, before: str = "") -> None:
        brokers = sorted(self._admin.cluster.brokers)
        topics = sorted({each.topic for each in plan})
        self._print(
            f"{before}Clearing broker-level throttles on broker{'s' if len(brokers) > 1 else ''} "
            f"{','.join(map(str, brokers))}"
        )
        await self._alter(
            {
                ConfigResource(ResourceType.BROKER, str(broker)): [
                    ConfigChange(name, ConfigOperation.DELETE, None) for name in (*_RATES, _DIRECTORY_RATE)
                ]
                for broker in brokers
            }
        )
        self._print(
            f"Clearing topic-level throttles on topic{'s' if len(topics) > 1 else ''} {','.join(topics)}"
        )
        await self._alter(
            {
                ConfigResource(ResourceType.TOPIC, topic): [
                    ConfigChange(name, ConfigOperation.DELETE, None) for name in _THROTTLED
                ]
                for topic in topics
            }
        )

    async def _alter(self, changes: "dict[ConfigResource, list[ConfigChange]]") -> None:
        for error in (await self._admin.incremental_alter_configs(changes)).values():
            if error is not None:
                raise error

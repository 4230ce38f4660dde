"""``moldau kafka-consumer-groups``: list, describe, delete and reset groups, as Kafka's ConsumerGroupCommand.

``consumer_group_tables`` makes the lines, ``group_offset_resets`` resets offsets. As in Kafka's tool the exit
code is 0 even when the cluster refused the command; only a wrong command line ends with 1.
"""

import asyncio
from collections.abc import Mapping, Sequence

from moldau.base.names import TopicPartition
from moldau.base.re2.regular_expressions import BadExpression, compile_expression
from moldau.cli.kafka_tools import consumer_group_tables as tables
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_line,
    execution_lines,
    sentence,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, refuse_with, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.cli.kafka_tools.group_offset_resets import reset_offsets
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import LATEST, ListedOffset
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription, GroupListing
from moldau.client.groups.groups import Groups
from moldau.protocol.errors import ErrorCode, KafkaError

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "from-file",
    "to-current",
)
_STATES = (
    "Assigning",
    "Stable",
    "CompletingRebalance",
    "PreparingRebalance",
    "Reconciling",
    "Empty",
    "Dead",
)
_TYPES = ("Consumer", "Classic")
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
    "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly "
    "if you are scripting this command and want to keep the current default behavior without prompting."
)
#: Errors of single partitions, for which Kafka's tool refers to its table.
_OF_PARTITIONS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

TOOL = Tool(
    "kafka-consumer-groups",
    "Lists, describes and deletes consumer groups, and changes where they go on reading.",
    Options(
        *CLUSTER_OPTIONS,
        Option("list", "List all consumer groups."),
        Option("describe", "Show groups: offsets and lag, or --members, or --state."),
        Option("delete", "Delete groups without members."),
        Option("reset-offsets", "Set where a group without members goes on reading."),
        Option("delete-offsets", "Forget what a group has committed for a topic that it does not read."),
        Option("validate-regex", "Say whether a regular expression can be subscribed to.", "pattern"),
        Option("group", "The group to act on; may stand several times.", "group"),
        Option("all-groups", "Act on every consumer group."),
        Option("topic", "A topic, or topic:0,1 for some partitions; may stand several times.", "topic"),
        Option("all-topics", "All topics that the group has committed offsets for."),
        Option("offsets", "With --describe: offsets and lag of every partition (what it shows anyway)."),
        Option("members", "With --describe: the members of the group."),
        Option(
            "state",
            "With --describe: the state of the group. With --list: its state too, or only groups in these "
            "states (with commas between).",
            "states",
            optional=True,
        ),
        Option("type", "With --list: the type too, or only these types.", "types", optional=True),
        Option("verbose", "With --describe: more columns."),
        Option("timeout", "How long to wait for an answer.", "ms", int, 30_000),
        Option("dry-run", "Show what --reset-offsets would do."),
        Option("execute", "Do it."),
        Option("export", "Show it as comma-separated values, for --from-file."),
        Option("to-offset", "Go on at this offset.", "offset", int),
        Option("shift-by", "Go on by so many records later, or earlier if negative.", "count", int),
        Option("to-datetime", "Go on at a time: 2026-01-31T12:00:00.000, UTC unless it has a zone.", "time"),
        Option("by-duration", "Go on that long ago: P7D, PT1H30M.", "duration"),
        Option("to-earliest", "Go on at the first record."),
        Option("to-latest", "Go on behind the last record."),
        Option("to-current", "Stay; partitions without an offset go to their end."),
        Option("from-file", "Go on at the offsets of a file: topic,partition,offset in a line.", "file"),
    ),
    (
        "--bootstrap-server localhost:9092 --list --state",
        "--bootstrap-server localhost:9092 --describe --group billing",
        "--bootstrap-server localhost:9092 --reset-offsets --group billing --topic orders "
        "--to-earliest --execute",
        "--bootstrap-server localhost:9092 --delete --group billing",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError(
            "This tool helps to list all consumer groups, describe a consumer group, delete consumer group "
            "info, or reset consumer group offsets."
        )
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    check(given, console)
    try:
        asyncio.run(_execute(given, console))
    except KafkaError as error:
        first, *rest = execution_lines(_with_the_words_of_the_java_client(error, given))
        cause = first.removeprefix("java.util.concurrent.ExecutionException: ")
        print_error(f"Executing consumer group command failed due to {cause}", console, [first, *rest])
    except ToolError as error:
        trace = [exception_line(error)]
        if error.name == "java.lang.RuntimeException":  # it wraps a checked exception
            trace.append(f"Caused by: {error.message}")
        print_error(f"Executing consumer group command failed due to {sentence(error)}", console, trace)
    return 0


def _with_the_words_of_the_java_client(error: KafkaError, given: Given) -> KafkaError:
    """Whoever may not describe a group is told so when its coordinator is looked up."""
    if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED or error.message or len(given.values("group")) != 1:
        return error
    key = f"CoordinatorKey(idValue='{given.values('group')[0]}', type=GROUP)"
    said = f"FindCoordinator request for groupId `{key}` failed due to authorization failure"
    return KafkaError(error.code, said)


def print_error(text: str, console: Console, trace: Sequence[str] = ()) -> None:
    console.print(f"\nError: {text}")
    for line in trace:
        console.error(line)


# Options -----------------------------------------------------------------------------------------------


def check(given: Given, console: Console) -> None:
    """Refuses options that exclude each other, in the order of Kafka's tool."""
    if sum(given.has(action) for action in _ACTIONS) != 1:
        listed = ", ".join(f"--{action}" for action in _ACTIONS)
        raise OptionError(f"Command must include exactly one action: {listed}.")
    require(given, "bootstrap-server")
    for action in ("describe", "delete", "reset-offsets"):
        if given.has(action):
            if action == "reset-offsets":
                _check_reset(given, console)
            if not given.has("group") and not given.has("all-groups"):
                raise OptionError(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if given.has("describe"):
        if sum(given.has(name) for name in ("members", "offsets", "state")) > 1:
            raise OptionError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if given.value("state") is not None:
            raise OptionError("Option [describe] does not take a value for [state]")
    if given.has("delete") and given.has("topic"):
        raise OptionError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if given.has("delete-offsets") and not (given.has("group") and given.has("topic")):
        raise OptionError("Option [delete-offsets] takes the following options: [group], [topic]")
    refuse_with(given, "group", ("all-groups", "list", "validate-regex"))
    refuse_with(given, "topic", ("list", "describe", "validate-regex"))


def _check_reset(given: Given, console: Console) -> None:
    if given.has("dry-run") and given.has("execute"):
        raise OptionError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not given.has("dry-run") and not given.has("execute"):
        console.error(_NO_ACTION)
    for name in _SCENARIOS:
        refuse_with(given, name, [other for other in _SCENARIOS if other != name])
    if not any(given.has(name) for name in _SCENARIOS):
        listed = ", ".join(f"[{name}]" for name in sorted(_SCENARIOS))
        raise OptionError(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")


def parse_states(text: str | None) -> list[str]:
    return _known(text, _STATES, f"Invalid state list '{text}'. Valid states are")


def parse_types(text: str | None) -> list[str]:
    return _known(text, _TYPES, f"Invalid types list '{text}'. Valid types are")


def _known(text: str | None, allowed: Sequence[str], complaint: str) -> list[str]:
    if text is None:
        return []
    by_name = {word.lower(): word for word in allowed}
    found = [by_name.get(part.strip().lower()) for part in text.split(",")]
    if None in found:
        raise OptionError(f"{complaint}: {', '.join(allowed)}")
    return [word for word in found if word is not None]


def pattern_line(pattern: str) -> str:
    """Whether consumers may subscribe to a pattern, as the broker would decide."""
    try:
        compile_expression(pattern)
    except BadExpression as refused:
        return f"The regular expression `{pattern}` is invalid: {refused}."
    return f"The regular expression `{pattern}` is valid."


# The cluster -------------------------------------------------------------------------------------------


async def _execute(given: Given, console: Console) -> None:
    if given.has("validate-regex"):
        console.print(pattern_line(given.value("validate-regex")))
        return
    states, types = parse_states(given.value("state")), parse_types(given.value("type"))
    properties = read_properties(given.value("command-config"))
    properties.setdefault("default.api.timeout.ms", str(given.value("timeout")))
    async with await open_cluster(
        given.value("bootstrap-server"),
        properties,
        console,
        client_id="adminclient-1",
        call="listGroups" if given.has("list") or given.has("all-groups") else "findCoordinator",
    ) as cluster:
        groups = Groups(cluster)
        if given.has("list"):
            listings = await consumer_groups(groups, states, types)
            lines = tables.listing_lines(listings, state=given.has("state"), type_=given.has("type"))
            for line in lines:
                console.print(line)
            return
        wanted = given.values("group")
        if given.has("all-groups"):
            wanted = [listing.group_id for listing in await consumer_groups(groups)]
        if given.has("describe"):
            await _describe(groups, wanted, given, console)
        elif given.has("delete"):
            await _delete(groups, wanted, console)
        elif given.has("reset-offsets"):
            await reset_offsets(groups, wanted, given, console)
        else:
            await _delete_offsets(groups, given.value("group"), given.values("topic"), console)


async def consumer_groups(
    groups: Groups, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """All consumer groups; older brokers do not filter by type and state, so it is done here again."""
    found = await groups.list(states=states, types=types or _TYPES)
    return [
        group
        for group in found
        if group.is_consumer_group
        and (not states or group.state in states)
        and (not types or group.group_type in types)
    ]


async def _describe(groups: Groups, wanted: Sequence[str], given: Given, console: Console) -> None:
    described = await groups.describe(wanted)
    verbose = given.has("verbose")
    for group in described.values():
        if isinstance(group, KafkaError):
            raise group
    for group in described.values():
        assert isinstance(group, GroupDescription)
        if given.has("members"):
            lines = tables.member_lines(group, verbose=verbose)
        elif given.has("state"):
            lines = tables.state_lines(group, verbose=verbose)
        else:
            rows = await _rows(groups, group)
            lines = tables.offset_lines(group.group_id, rows, verbose=verbose) if rows else []
        if print_state(group, console) and lines:
            console.print()
            for line in lines:
                console.print(line)


def print_state(group: GroupDescription, console: Console) -> bool:
    """Prints a remark on the state of a group; False when there is no more to print."""
    name = f"onsumer group '{group.group_id}'"
    if group.state == "Dead":
        print_error(f"C{name} does not exist.", console)
    elif group.state == "Empty":
        console.error(f"\nC{name} has no active members.")
    elif group.state in _REBALANCING:
        console.error(f"\nWarning: C{name} is rebalancing.")
    return group.state != "Dead"


async def _rows(groups: Groups, group: GroupDescription) -> list[tables.OffsetRow]:
    committed = await committed_offsets(groups, group.group_id)
    partitions = {*committed, *(p for member in group.members for p in member.assignment)}
    listed = await Admin(groups.cluster).list_offsets(dict.fromkeys(partitions, LATEST))
    ends = {p: each.offset for p, each in listed.items() if isinstance(each, ListedOffset)}
    return tables.offset_rows(group, committed, ends)


async def committed_offsets(groups: Groups, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    found = await groups.committed(group_id)
    return {p: each for p, each in found.items() if isinstance(each, CommittedOffset)}


async def _delete(groups: Groups, wanted: Sequence[str], console: Console) -> None:
    outcomes = await groups.delete(wanted)
    done = ", ".join(f"'{group_id}'" for group_id, error in outcomes.items() if error is None)
    failed = {group_id: error for group_id, error in outcomes.items() if error is not None}
    if not failed:
        console.print(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:", console)
    for group_id, error in failed.items():
        console.print(f"* Group '{group_id}' could not be deleted due to: {exception_line(error)}")
    if done:
        console.print(f"\nThese consumer groups were deleted successfully: {done}")


async def _delete_offsets(groups: Groups, group_id: str, scopes: Sequence[str], console: Console) -> None:
    outcomes: dict[tuple[str, int | None], KafkaError | None] = {}
    wanted: list[TopicPartition] = []
    for scope in scopes:
        name, _, indexes = scope.partition(":")
        if indexes:
            wanted += [TopicPartition(name, int(index)) for index in _numbers(indexes)]
            continue
        (topic,) = await groups.cluster.topics([name])
        if topic.error_code:
            outcomes[name, None] = KafkaError(topic.error_code)
        wanted += [TopicPartition(name, partition.index) for partition in topic.partitions]
    whole: KafkaError | None = None
    found: Mapping[TopicPartition, KafkaError | None] = {}
    try:
        found = await groups.delete_offsets(group_id, wanted) if wanted else {}
    except KafkaError as error:
        whole = KafkaError(error.code)
        found = dict.fromkeys(wanted, whole)
    outcomes |= {(p.topic, p.partition): found.get(p) for p in sorted(wanted)}
    if whole is not None:
        print_error(sentence(whole), console)
    elif any(error is not None and error.code in _OF_PARTITIONS for error in found.values()):
        print_error("Encountered some partition-level error, see the follow-up details.", console)
    else:
        console.print(f"Request succeeded for deleting offsets from group {group_id}.")
    console.print()
    for line in tables.deleted_offset_lines(outcomes):
        console.print(line)


def _numbers(text: str) -> list[str]:
    for word in (parts := text.split(",")):
        if not word.isdecimal():
            raise OptionError(f'For input string: "{word}"')
    return parts

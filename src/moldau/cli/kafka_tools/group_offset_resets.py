"""``kafka-consumer-groups --reset-offsets``: computes new offsets, and prints, exports or commits them.

Invariant: a group with members is not changed. Nothing is committed without ``--execute``.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools import consumer_group_tables as tables
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_name, sentence
from moldau.cli.kafka_tools.framework.java_times import parse_date_time, parse_duration
from moldau.cli.kafka_tools.framework.options import Given, OptionError
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription
from moldau.client.groups.groups import Groups
from moldau.client.groups.offset_resets import (
    NewOffsets,
    NoCommittedOffset,
    Reset,
    ResetTo,
    check_exist,
    new_offsets,
    partitions_of,
    within,
)
from moldau.protocol.errors import ErrorCode, KafkaError

#: Group -> the new offset of each partition.
Plans = dict[str, dict[TopicPartition, int]]


async def reset_offsets(groups: Groups, wanted: Sequence[str], given: Given, console: Console) -> None:
    described = await groups.describe(wanted)
    reset = parse_reset(given)
    plans = read_plans(given) if given.has("from-file") else None
    outcomes: Plans = {}
    for group_id, group in described.items():
        state = _state(group)
        if state not in ("Empty", "Dead"):
            console.print(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {state}."
            )
            outcomes[group_id] = {}
            continue
        found = await _prepare(groups, group_id, reset, plans, given, console)
        print_remarks(found, console)
        if given.has("execute"):
            commits = {p: CommittedOffset(offset) for p, offset in found.offsets.items()}
            raise_errors(await groups.commit(group_id, commits) if commits else {})
        outcomes[group_id] = found.offsets
    if given.has("export"):
        console.print(tables.export_text(outcomes, with_group=len(wanted) > 1))
        return
    console.print()
    for line in tables.reset_lines(outcomes):
        console.print(line)


def _state(group: GroupDescription | KafkaError) -> str:
    if not isinstance(group, KafkaError):
        return group.state
    if group.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise group
    return "Dead"


def parse_reset(given: Given) -> Reset | None:
    """What the options ask for; None where a file has the offsets."""
    if given.has("to-offset"):
        return Reset(ResetTo.OFFSET, given.value("to-offset"))
    if given.has("shift-by"):
        return Reset(ResetTo.SHIFT, given.value("shift-by"))
    if given.has("to-datetime"):
        return Reset(ResetTo.TIMESTAMP, parse_date_time(given.value("to-datetime")))
    if given.has("by-duration"):
        return Reset(ResetTo.TIMESTAMP, SystemClock().now_ms() - parse_duration(given.value("by-duration")))
    for to in (ResetTo.EARLIEST, ResetTo.LATEST, ResetTo.CURRENT):
        if given.has(f"to-{to.value}"):
            return Reset(to)
    return None


async def _prepare(
    groups: Groups,
    group_id: str,
    reset: Reset | None,
    plans: Plans | None,
    given: Given,
    console: Console,
) -> NewOffsets:
    admin = Admin(groups.cluster)
    outcomes = await groups.committed(group_id)
    committed = {p: each for p, each in outcomes.items() if isinstance(each, CommittedOffset)}
    try:
        if plans is not None:
            return await _planned(admin, group_id, plans, console)
        assert reset is not None
        wanted = await _scope(groups, committed, given)
        return await new_offsets(admin, reset, wanted, committed)
    except NoCommittedOffset as error:
        raise OptionError(
            f"Cannot shift offset for partition {error.partition} since there is no current committed offset"
        ) from None
    except KafkaError as error:
        # Kafka's tool prints these without the ExecutionException around others.
        raise ToolError(exception_name(error.code), sentence(error)) from None


async def _planned(admin: Admin, group_id: str, plans: Plans, console: Console) -> NewOffsets:
    found = NewOffsets()
    if group_id not in plans:
        console.print(f"\nError: No reset plan for group {group_id} found")
        return found
    await check_exist(admin.cluster, plans[group_id])
    await within(admin, plans[group_id], found)
    return found


async def _scope(
    groups: Groups, committed: Mapping[TopicPartition, CommittedOffset], given: Given
) -> list[TopicPartition]:
    if given.has("all-topics"):
        return sorted(committed)
    if not given.has("topic"):
        raise OptionError("One of the reset scopes should be defined: --all-topics, --topic.")
    wanted: list[TopicPartition] = []
    for scope in given.values("topic"):
        try:
            wanted += await partitions_of(groups.cluster, scope)
        except ValueError:
            raise OptionError(f'For input string: "{scope.rpartition(":")[2]}"') from None
        except KafkaError as error:
            raise KafkaError(error.code) from None
    return list(dict.fromkeys(wanted))


def print_remarks(found: NewOffsets, console: Console) -> None:
    for topic, partition in found.without_record:
        console.print(
            f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset."
        )
    for moved in found.moved:
        relation = "higher than latest" if moved.wanted > moved.offset else "lower than earliest"
        console.error(
            f"hint: New offset ({moved.wanted}) is {relation} offset for topic partition "
            f"{moved.partition}. Value will be set to {moved.offset}"
        )


def read_plans(given: Given) -> Plans:
    """The offsets in a CSV file: topic,partition,offset, with the group before them if there are several."""
    path = given.value("from-file")
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise ToolError("java.nio.file.NoSuchFileException", path) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ToolError("java.io.IOException", f"{path}: {error}") from None
    groups = given.values("group")
    plans: Plans = {}
    for number, row in enumerate(rows, 1):
        # For a single group the column of the group may be left out.
        cells = [groups[0], *row] if len(row) == 3 and len(groups) == 1 else row
        try:
            group_id, topic, partition, offset = cells
            plans.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            columns = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise ToolError(
                "java.lang.IllegalArgumentException", f"{path}, line {number}: {columns} is expected"
            ) from None
    return plans

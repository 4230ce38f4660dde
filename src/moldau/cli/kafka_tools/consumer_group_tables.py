"""The tables of ``kafka-consumer-groups``, as Kafka's tool sets them.

Pure. Columns are as wide as Kafka's, because scripts cut them by position.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moldau.base.names import TopicPartition, by_topic
from moldau.cli.kafka_tools.framework.exceptions import exception_line
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription, GroupListing, GroupMember
from moldau.protocol.errors import KafkaError

MISSING = "-"
_NARROW = 15


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition of a group; None stands for what is not known."""

    partition: TopicPartition
    committed: CommittedOffset | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


def offset_rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
) -> list[OffsetRow]:
    """Assigned partitions, those of the member with the most first; then others with a committed offset."""
    rows: list[OffsetRow] = []
    owned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda m: -len(m.assignment)):
        owned.update(member.assignment)
        rows += [OffsetRow(p, committed.get(p), ends.get(p), member) for p in sorted(member.assignment)]
    rows += [OffsetRow(p, committed[p], ends.get(p), None) for p in sorted(committed) if p not in owned]
    return rows


# Describe ----------------------------------------------------------------------------------------------


def offset_lines(group_id: str, rows: Sequence[OffsetRow], *, verbose: bool) -> list[str]:
    titles = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    titles += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    table = [_offset_cells(group_id, row) for row in rows]
    widths = [
        _width(len(group_id)),
        _width(*(len(row.partition.topic) for row in rows)),
        10,
        15,
        15,
        15,
        _width(*(len(cells[6]) for cells in table)),
        _width(*(len(cells[7]) for cells in table)),
        0,
    ]
    if verbose:
        titles.insert(3, "LEADER-EPOCH")
        widths.insert(3, 15)
        for cells, row in zip(table, rows, strict=True):
            known = row.committed is not None and row.committed.leader_epoch >= 0
            cells.insert(3, str(row.committed.leader_epoch) if known and row.committed else MISSING)
    return [_line(cells, widths) for cells in (titles, *table)]


def _offset_cells(group_id: str, row: OffsetRow) -> list[str]:
    return [
        group_id,
        row.partition.topic,
        str(row.partition.partition),
        _shown(None if row.committed is None else row.committed.offset),
        _shown(row.end),
        _shown(row.lag),
        row.member.member_id if row.member else MISSING,
        row.member.client_host if row.member else MISSING,
        row.member.client_id if row.member else MISSING,
    ]


def member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    members = group.members
    static = any(member.group_instance_id for member in members)
    mixed = any(member.upgraded is False for member in members)
    titles = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [
        _width(len(group.group_id)),
        _width(*(len(m.member_id) for m in members)),
        _width(*(len(m.client_host) for m in members)),
        _width(*(len(m.client_id) for m in members)),
        15,
    ]
    table = [
        [group.group_id, m.member_id, m.client_host, m.client_id, str(len(m.assignment))] for m in members
    ]
    if static:
        titles.insert(2, "GROUP-INSTANCE-ID")
        widths.insert(2, max(17, *(len(m.group_instance_id or "") for m in members)))
        for cells, member in zip(table, members, strict=True):
            cells.insert(2, member.group_instance_id or "")
    if verbose:
        titles += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        current = [assignment_text(member.assignment) for member in members]
        target = [assignment_text(member.target_assignment) for member in members]
        widths += [15, max([20, *map(len, current)]), 15, max([19, *map(len, target)])]
        for cells, member, now, then in zip(table, members, current, target, strict=True):
            cells += [_shown(member.member_epoch), now, _shown(_target_epoch(group, member)), then]
        if mixed:
            titles.append("UPGRADED")
            widths.append(15)
            for cells, member in zip(table, members, strict=True):
                cells.append("true" if member.upgraded else "false")
    return [f"{_line(cells, widths)} " for cells in (titles, *table)]


def _target_epoch(group: GroupDescription, member: GroupMember) -> int | None:
    return None if member.target_assignment is None else group.target_assignment_epoch


def assignment_text(partitions: Iterable[TopicPartition] | None) -> str:
    """``orders:0,1;payments:0``; a dash for no partitions."""
    if not partitions:
        return MISSING
    return ";".join(
        f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic(sorted(partitions)).items()
    )


def state_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    coordinator = f"{group.coordinator.address}  ({group.coordinator.node_id})"
    titles = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    cells = [group.group_id, coordinator, group.assignor or MISSING, group.state, str(len(group.members))]
    widths = [_width(len(group.group_id)), max(25, len(coordinator)), 20, 20, 0]
    if verbose:
        titles[4:4] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells[4:4] = [_shown(group.group_epoch), _shown(group.target_assignment_epoch)]
        widths[4:4] = [15, 25]
    return [_line(titles, widths), _line(cells, widths)]


# The other actions -------------------------------------------------------------------------------------


def listing_lines(groups: Sequence[GroupListing], *, state: bool, type_: bool) -> list[str]:
    if not state and not type_:
        return [group.group_id for group in groups]
    titles = ["GROUP", *(["TYPE"] if type_ else []), *(["STATE"] if state else [])]
    widths = [max(25, *(len(group.group_id) for group in groups), 0), *[20] * (len(titles) - 1)]
    table = [
        [group.group_id, *([group.group_type] if type_ else []), *([group.state] if state else [])]
        for group in groups
    ]
    return [_line(cells, widths) for cells in (titles, *table)]


def reset_lines(offsets: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    widths = [
        _width(*map(len, offsets)),
        _width(*(len(p.topic) for plan in offsets.values() for p in plan)),
        10,
        0,
    ]
    table = [
        [group_id, partition.topic, str(partition.partition), str(offset)]
        for group_id in sorted(offsets)
        for partition, offset in sorted(offsets[group_id].items())
    ]
    return [_line(cells, widths) for cells in (["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], *table)]


def export_text(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_group: bool) -> str:
    """The CSV that ``--from-file`` reads."""
    lines = []
    for group_id in sorted(offsets):
        head = f"{_quoted(group_id)}," if with_group else ""
        for (topic, partition), offset in sorted(offsets[group_id].items()):
            lines.append(f"{head}{_quoted(topic)},{partition},{offset}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n ') else text


def deleted_offset_lines(outcomes: Mapping[tuple[str, int | None], KafkaError | None]) -> list[str]:
    widths = [_width(*(len(topic) for topic, _ in outcomes)), 10, 15]
    table = [
        [
            topic,
            MISSING if partition is None else str(partition),
            "Successful" if error is None else f"Error: {exception_line(error)}",
        ]
        for (topic, partition), error in outcomes.items()
    ]
    return [_line(cells, widths) for cells in (["TOPIC", "PARTITION", "STATUS"], *table)]


def _width(*lengths: int) -> int:
    return max((_NARROW, *lengths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def _shown(number: int | None) -> str:
    return MISSING if number is None else str(number)

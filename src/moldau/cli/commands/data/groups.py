"""``moldau groups``: list, describe, reset and delete consumer groups, and say why one lags.

Invariant: offsets are changed only after the plan was shown and confirmed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.base.times import HOW_TO_WRITE, parse_time
from moldau.cli.output import echo, note, print_json, print_table
from moldau.cli.session import FILE, cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.base.names import TopicPartition
    from moldau.client.groups.offset_resets import NewOffsets, Reset
    from moldau.client.transport.cluster import Cluster
    from moldau.reports.group_lag import GroupSnapshot

#: Longer than the five seconds after which most clients commit by themselves.
_WATCH_SECONDS = 6.0


@click.group()
def groups() -> None:
    """List, describe, reset and delete consumer groups, and say why one lags.

    \b
    Examples:
      moldau groups list
      moldau groups describe billing
      moldau groups why billing
      moldau groups reset billing --topic orders --to earliest
      moldau groups delete billing --yes
    """


@groups.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; repeatable.")
@click.option("--names", is_flag=True, help="Print the names alone, one in a line.")
@cluster_command_options
def list_groups(states: tuple[str, ...], names: bool, as_json: bool) -> None:
    """Show all groups, with their members and their lag.

    \b
    Examples:
      moldau groups list
      moldau groups list --state empty
      moldau groups list --names | xargs -n1 moldau groups why
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        from moldau.client.groups.groups import Groups
        from moldau.reports.group_lag import take_group_snapshot

        wanted = {state.lower() for state in states}
        rows = []
        for listing in sorted(await Groups(cluster).list(), key=lambda g: g.group_id):
            if wanted and listing.state.lower() not in wanted:
                continue
            row: dict[str, Any] = {
                "name": listing.group_id,
                "type": listing.group_type,
                "state": listing.state,
                "protocol": listing.protocol_type,
            }
            if not names and listing.is_consumer_group:
                snapshot = await take_group_snapshot(cluster, listing.group_id, 0)
                topics = sorted({partition.topic for partition in snapshot.partitions})
                row |= {"members": len(snapshot.group.members), "topics": topics, "lag": snapshot.lag}
            rows.append(row)
        return rows

    rows = connected(work)
    if as_json:
        print_json([row["name"] for row in rows] if names else rows)
    elif names:
        for row in rows:
            echo(row["name"])
    elif not rows:
        note("There are no groups. One is there as soon as a consumer joins it or commits an offset.")
    else:
        columns = ["Group", "State", "Type", "Members>", "Lag>", "Topics"]
        keys = ("name", "state", "type", "members", "lag")
        print_table(columns, [[*map(row.get, keys), ", ".join(row.get("topics", ()))] for row in rows])


@groups.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@cluster_command_options
def describe(names: tuple[str, ...], as_json: bool) -> None:
    """Show state, members, and the offsets and lag of every partition.

    \b
    Examples:
      moldau groups describe billing
      moldau groups describe billing --json | jq .[0].lag
    """

    async def work(cluster: "Cluster") -> "list[GroupSnapshot]":
        from moldau.reports.group_lag import take_group_snapshot

        return [await take_group_snapshot(cluster, name, 0) for name in names]

    found = [description(snapshot) for snapshot in connected(work)]
    if as_json:
        print_json(found)
        return
    for group in found:
        _print_description(group)


def description(snapshot: "GroupSnapshot") -> dict[str, Any]:
    group = snapshot.group
    return {
        "name": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": {"id": group.coordinator.node_id, "address": group.coordinator.address},
        "lag": snapshot.lag,
        "members": [
            {
                "id": member.member_id,
                "client_id": member.client_id,
                "host": member.client_host.lstrip("/"),
                "instance_id": member.group_instance_id,
                "partitions": [str(partition) for partition in sorted(member.assignment)],
                "about": about(member.user_data),
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": state.committed,
                "end": state.end,
                "lag": None if state.committed is None else state.lag,
                "member": None if (owner := group.owner(partition)) is None else owner.member_id,
            }
            for partition, state in snapshot.partitions.items()
        ],
    }


def about(user_data: bytes) -> dict[str, Any]:
    """What a member says of itself in JSON, as Spark queries do; assignors put other bytes there."""
    import json

    try:
        found = json.loads(user_data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _print_description(group: dict[str, Any]) -> None:
    by = f", shared by {group['assignor']}" if group["assignor"] else ""
    count = len(group["members"])
    echo(
        f"{group['name']}: {group['state']}, {count} member{'s' if count != 1 else ''}{by}, "
        f"lag {group['lag']}, coordinated by broker {group['coordinator']['id']}"
    )
    if group["partitions"]:
        keys = ("topic", "partition", "committed", "end", "lag", "member")
        print_table(
            ["Topic", "Partition>", "Committed>", "End>", "Lag>", "Member"],
            [["-" if p[key] is None else p[key] for key in keys] for p in group["partitions"]],
        )
    if group["members"]:
        print_table(
            ["Member", "Client", "Host", "Instance", "Partitions>"],
            [
                [m["id"], m["client_id"], m["host"], m["instance_id"] or "-", len(m["partitions"])]
                for m in group["members"]
            ],
        )
    for member in group["members"]:
        if text := ", ".join(f"{name} {value}" for name, value in member["about"].items()):
            echo(f"{member['client_id']} says: {text}")


@groups.command("why")
@click.argument("name", metavar="GROUP")
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(min=0),
    default=_WATCH_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to measure; 0 for one look without rates.",
)
@click.option(
    "--history",
    type=FILE,
    metavar="FILE",
    help="What 'moldau lag --history FILE' has seen of the group: its status over a longer time.",
)
@cluster_command_options
def why(name: str, watch_seconds: float, history: Path | None, as_json: bool) -> None:
    """Say in plain words why a group lags.

    \b
    Examples:
      moldau groups why billing
      moldau groups why billing --watch 30
      moldau groups why billing --history lag.jsonl
    """

    async def work(cluster: "Cluster") -> "tuple[GroupSnapshot, GroupSnapshot | None]":
        from asyncio import sleep

        from moldau.base.clock import SystemClock
        from moldau.reports.group_lag import take_group_snapshot

        clock = SystemClock()
        first = await take_group_snapshot(cluster, name, clock.now_ms())
        if not watch_seconds or not first.group.members:
            return first, None
        if not as_json:
            note(f"Lag {first.lag}; watching for {watch_seconds:g} s …")
        await sleep(watch_seconds)
        return first, await take_group_snapshot(cluster, name, clock.now_ms())

    from moldau.reports.group_lag import reasons

    first, second = connected(work)
    found = reasons(first, second)
    if history is not None:
        from moldau.cli.reports.lag_history import status_over_time

        found += status_over_time(history, second or first)
    if as_json:
        print_json(
            [
                {"severity": f.severity.value, "subject": f.subject, "text": f.text, "next_step": f.next_step}
                for f in found
            ]
        )
        return
    for finding in found:
        echo(f"{finding.severity.value:8} {finding.subject}: {finding.text}")
        if finding.next_step:
            echo(f"{'':8} Next: {finding.next_step}")


@groups.command("reset")
@click.argument("name", metavar="GROUP")
@click.option(
    "-t", "--topic", "scopes", multiple=True, metavar="TOPIC[:0,1]", help="Repeatable; default all it has."
)
@click.option(
    "--to",
    "where",
    required=True,
    metavar="WHERE",
    help=f"earliest, latest, an offset, +N or -N from where it is, or {HOW_TO_WRITE} (with an @ before it).",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_command_options
def reset(name: str, scopes: tuple[str, ...], where: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Set where a group without members goes on reading.

    \b
    Examples:
      moldau groups reset billing --topic orders --to earliest
      moldau groups reset billing --topic orders:0,2 --to -100 --dry-run
      moldau groups reset billing --to '@1h ago' --yes
    """
    from moldau.base.clock import SystemClock

    try:
        to = parse_where(where, SystemClock().now_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None

    async def work(cluster: "Cluster") -> "tuple[NewOffsets, dict[TopicPartition, int]]":
        plan, committed = await _plan(cluster, name, scopes, to)
        _show_plan(plan, committed, as_json)
        if not plan.offsets:
            raise click.ClickException(
                f"group {name!r} has committed nothing. Next: name a topic with --topic"
            )
        if not (yes or dry_run):
            click.confirm(f"Let group {name} go on there?", abort=True, err=True)
        if not dry_run:
            await _commit(cluster, name, plan)
        return plan, committed

    plan, _ = connected(work)
    done = "Would set" if dry_run else "Set"
    note(f"{done} {len(plan.offsets)} partition{'s' if len(plan.offsets) != 1 else ''} of group {name}")


def parse_where(text: str, now_ms: int) -> "Reset":
    """Reads ``--to``; ValueError says how to write it."""
    from moldau.client.groups.offset_resets import Reset, ResetTo

    if text in ("earliest", "latest", "current"):
        return Reset(ResetTo(text))
    if text.isdecimal():
        return Reset(ResetTo.OFFSET, int(text))
    if text[:1] in ("+", "-") and text[1:].isdecimal():
        return Reset(ResetTo.SHIFT, int(text))
    try:
        return Reset(ResetTo.TIMESTAMP, parse_time(text.removeprefix("@"), now_ms))
    except ValueError:
        raise ValueError(
            f"{text!r} is neither earliest, latest, an offset, a shift such as -10, nor {HOW_TO_WRITE}"
        ) from None


async def _plan(
    cluster: "Cluster", name: str, scopes: tuple[str, ...], to: "Reset"
) -> "tuple[NewOffsets, dict[TopicPartition, int]]":
    from moldau.client.admin.admin import Admin, raise_errors
    from moldau.client.groups.descriptions import CommittedOffset
    from moldau.client.groups.groups import Groups
    from moldau.client.groups.offset_resets import NoCommittedOffset, new_offsets, partitions_of
    from moldau.protocol.errors import KafkaError

    groups_client = Groups(cluster)
    group = (await groups_client.describe([name]))[name]
    if not isinstance(group, KafkaError) and group.members:
        raise click.ClickException(
            f"group {name!r} has {len(group.members)} member(s), who would go on where they are. "
            "Next: stop them first"
        )
    found = await groups_client.committed(name)
    raise_errors(found)
    committed = {p: each for p, each in found.items() if isinstance(each, CommittedOffset)}
    wanted = [p for scope in scopes for p in await partitions_of(cluster, scope)] or sorted(committed)
    try:
        plan = await new_offsets(Admin(cluster), to, wanted, committed)
    except NoCommittedOffset as error:
        raise click.ClickException(
            f"the group has committed nothing for {error.partition}, so there is nothing to shift from. "
            "Next: --to earliest, latest or an offset"
        ) from None
    return plan, {p: each.offset for p, each in committed.items()}


def _show_plan(plan: "NewOffsets", committed: "dict[TopicPartition, int]", as_json: bool) -> None:
    rows = [(*p, committed.get(p), offset) for p, offset in sorted(plan.offsets.items())]
    if as_json:
        keys = ("topic", "partition", "committed", "new_offset")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    cells = [[topic, index, "-" if old is None else old, new] for topic, index, old, new in rows]
    print_table(["Topic", "Partition>", "Committed>", "New>"], cells)
    for partition in plan.without_record:
        note(f"{partition}: no record is that young, so the end is taken")
    for moved in plan.moved:
        note(f"{moved.partition}: {moved.wanted} lies outside, {moved.offset} is taken")


async def _commit(cluster: "Cluster", name: str, plan: "NewOffsets") -> None:
    from moldau.client.admin.admin import raise_errors
    from moldau.client.groups.descriptions import CommittedOffset
    from moldau.client.groups.groups import Groups

    offsets = {partition: CommittedOffset(offset) for partition, offset in plan.offsets.items()}
    raise_errors(await Groups(cluster).commit(name, offsets))


@groups.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_command_options
def delete(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete groups without members, with what they have committed.

    \b
    Examples:
      moldau groups delete billing
      moldau groups delete billing audit --yes
    """
    if not yes:
        click.confirm(f"Delete {', '.join(names)} and all committed offsets?", abort=True, err=True)

    async def work(cluster: "Cluster") -> dict[str, str | None]:
        from moldau.client.groups.groups import Groups

        outcomes = await Groups(cluster).delete(names)
        return {name: None if error is None else error.code.name for name, error in outcomes.items()}

    outcomes = connected(work)
    if as_json:
        print_json(
            [{"name": name, "deleted": error is None, "error": error} for name, error in outcomes.items()]
        )
    else:
        for name in (each for each, error in outcomes.items() if error is None):
            echo(f"Deleted group {name}")
    explanations = {
        "NON_EMPTY_GROUP": "it has members. Next: stop them first",
        "GROUP_ID_NOT_FOUND": "there is no such group. Next: 'moldau groups list' shows what there is",
    }
    failed = {name: error for name, error in outcomes.items() if error is not None}
    if failed:
        lines = (f"{name}: {explanations.get(error, error)}" for name, error in failed.items())
        raise click.ClickException("; ".join(lines))

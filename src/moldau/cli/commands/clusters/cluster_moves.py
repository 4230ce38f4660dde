"""``moldau cluster add|drain|rebalance|move|elect``: where replicas are and who leads, changed by a plan.

Invariant: nothing is changed before the plan was shown, and nothing at all with ``--dry-run``. What was begun
goes on in the cluster if this program ends: it only watches.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.clusters.cluster_throttle import throttled
from moldau.cli.output import note, print_json, print_table, progress, size_given, size_text
from moldau.cli.session import add_options, cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.base.names import TopicPartition
    from moldau.cli.reports.cluster_plan import Layout, PlannedMove
    from moldau.client.transport.cluster import Cluster

_LOOK_SECONDS = 0.5
_SHOWN_MOVES = 20
#: What the estimate of a plan without a throttle supposes, and says so.
_SUPPOSED_RATE = 50 * 1024 * 1024


#: Those of every command, and what the commands of a plan have beside them.
plan_options = add_options(
    click.option("--dry-run", is_flag=True, help="Show the plan and change nothing."),
    click.option("--no-wait", is_flag=True, help="Return when the moves have begun."),
    click.option(
        "--throttle",
        metavar="BYTES",
        callback=size_given,
        help="At most so many bytes a second for each broker, such as 20MB; removed when the moves are over.",
    ),
    cluster_command_options,
)


@click.command(short_help="Move a fair share of replicas to brokers that were added.")
@click.argument("brokers", nargs=-1, type=int, required=True)
@plan_options
def add(brokers: tuple[int, ...], **options: Any) -> None:
    """Fill brokers that have joined the cluster with their share of the replicas of others.

    \b
    Examples:
      moldau cluster add 4 --dry-run
      moldau cluster add 4 5
    """

    def plan(layout: "Layout") -> None:
        layout.even_out(brokers)
        layout.spread_leaders()

    _run(plan, options, needed=brokers)


@click.command(short_help="Take all replicas from a broker, so that it can be stopped for good.")
@click.argument("broker", type=int)
@plan_options
def drain(broker: int, **options: Any) -> None:
    """Move everything that a broker has to the others.

    \b
    Examples:
      moldau cluster drain 3 --dry-run
      moldau cluster drain 3 && moldau kafka-cluster unregister --id 3   # after the broker was stopped
    """
    _run(lambda layout: layout.empty(broker), options)


@click.command(short_help="Even out bytes, replicas and leaders over all brokers.")
@plan_options
def rebalance(**options: Any) -> None:
    """Move replicas so that every broker has about as many bytes and leads about as many partitions.

    \b
    Examples:
      moldau cluster rebalance --dry-run
      moldau cluster rebalance
    """

    def plan(layout: "Layout") -> None:
        layout.even_out()
        layout.spread_leaders()

    _run(plan, options)


@click.command(short_help="Move one partition, or all of a topic, to brokers that you name.")
@click.argument("partition")
@click.argument("brokers")
@plan_options
def move(partition: str, brokers: str, **options: Any) -> None:
    """Move TOPIC or TOPIC:PARTITION to BROKERS, a list with the preferred leader first.

    \b
    Examples:
      moldau cluster move orders:0 2,3,1
      moldau cluster move orders 1,2 --dry-run
    """
    from moldau.cli.reports.cluster_plan import NoPlan

    try:
        wanted = tuple(int(each) for each in brokers.split(","))
    except ValueError:
        raise click.UsageError(f"BROKERS {brokers!r}: it is a list of ids, such as 1,2,3") from None
    topic, colon, number = partition.partition(":")
    if colon and not number.isdecimal():
        raise click.UsageError(f"PARTITION {partition!r}: it is TOPIC or TOPIC:NUMBER")

    def plan(layout: "Layout") -> None:
        chosen = [
            each
            for each in layout.replicas
            if each.topic == topic and (not colon or each.partition == int(number))
        ]
        if not chosen:
            raise NoPlan(f"there is no partition {partition}: 'moldau topics list' shows the topics")
        if len(set(wanted)) != len(wanted):
            raise NoPlan(f"{brokers} names a broker twice")
        for each in chosen:
            layout.replicas[each] = wanted

    _run(plan, options, needed=wanted)


@click.command(short_help="Let the preferred replicas lead.")
@click.argument("topics", nargs=-1)
@cluster_command_options
def elect(topics: tuple[str, ...], as_json: bool) -> None:
    """Let the preferred replica of every partition lead, of all topics or of those named.

    \b
    Examples:
      moldau cluster elect
      moldau cluster elect orders payments
    """
    from moldau.client.admin.replicas import PREFERRED, elect_leaders

    async def work(cluster: "Cluster") -> tuple[dict[int, int], dict[int, int], int, list[str]]:
        before = await _placements(cluster)
        missing = set(topics) - {each.topic for each in before.partitions}
        if missing:
            raise click.UsageError(f"there is no topic {', '.join(sorted(missing))}")
        chosen = [each for each in before.partitions if each.topic in topics] if topics else None
        outcomes = await elect_leaders(cluster, PREFERRED, chosen)
        refused = [
            f"{partition}: {error}"
            for partition, error in outcomes.items()
            if error is not None and error.code.name != "ELECTION_NOT_NEEDED"
        ]
        moved = sum(error is None for error in outcomes.values())
        return before.led, (await _placements(cluster)).led, moved, refused

    before, after, moved, refused = connected(work)
    if as_json:
        print_json({"moved": moved, "refused": refused, "leads_before": before, "leads_after": after})
    else:
        rows = [[broker, before[broker], after.get(broker, 0)] for broker in sorted(before)]
        print_table(["Broker>", "Led>", "Leads now>"], rows)
        click.echo(f"{moved} partition(s) have another leader")
        for line in refused:
            click.echo(line)
    if refused:
        raise SystemExit(1)


# --- how a plan is made and carried out ------------------------------------------------------------------


class _Placements:
    """Where everything is now."""

    def __init__(self) -> None:
        self.racks: dict[int, str | None] = {}
        self.partitions: dict[TopicPartition, Any] = {}
        self.led: dict[int, int] = {}


async def _placements(cluster: "Cluster") -> _Placements:
    from moldau.base.names import TopicPartition
    from moldau.cli.reports.cluster_plan import Placement
    from moldau.client.admin.admin import Admin
    from moldau.protocol.errors import KafkaError

    admin = Admin(cluster)
    described = await admin.describe_cluster()
    found = _Placements()
    found.racks = {broker.node_id: broker.rack for broker in described.brokers}
    found.led = dict.fromkeys(found.racks, 0)
    sizes = await _sizes(cluster, name_silent=True)
    for topic in (await admin.describe_topics()).values():
        if isinstance(topic, KafkaError):
            continue
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.index)
            largest = max((sizes.get((broker, partition), 0) for broker in each.replicas), default=0)
            found.partitions[partition] = Placement(each.replicas, largest)
            if each.leader_id in found.led:
                found.led[each.leader_id] += 1
    return found


async def _sizes(cluster: "Cluster", *, name_silent: bool = False) -> "dict[tuple[int, TopicPartition], int]":
    """The bytes of every replica; a broker that does not answer counts as empty."""
    from moldau.base.names import TopicPartition
    from moldau.client.admin.admin import Admin
    from moldau.protocol.errors import KafkaError

    sizes: dict[tuple[int, TopicPartition], int] = {}
    for broker, directories in (await Admin(cluster).describe_log_dirs()).items():
        if name_silent and isinstance(directories, KafkaError):
            click.echo(f"broker {broker} does not say what its replicas hold: {directories}", err=True)
        for directory in () if isinstance(directories, KafkaError) else directories:
            for (topic, number), replica in directory.replicas.items():
                sizes[broker, TopicPartition(topic, number)] = replica.size
    return sizes


def _run(plan: "Callable[[Layout], None]", options: dict[str, Any], needed: Sequence[int] = ()) -> None:
    """Makes the plan, shows it and, without ``--dry-run``, carries it out and watches."""
    from moldau.cli.reports.cluster_plan import Layout, NoPlan

    if options["no_wait"] and options["throttle"] is not None:
        raise click.UsageError(
            "--throttle is removed when the moves are over, so that --no-wait does not go with it: "
            "'moldau kafka-reassign-partitions --throttle' leaves it to you"
        )

    async def work(cluster: "Cluster") -> int:
        now = await _placements(cluster)
        unknown = [each for each in needed if each not in now.racks]
        if unknown:
            raise click.ClickException(
                f"broker {unknown[0]} is not live: 'moldau cluster status' shows those that are"
            )
        layout = Layout(now.racks, now.partitions)
        try:
            plan(layout)
        except NoPlan as error:
            raise click.ClickException(str(error)) from None
        moves = layout.moves()
        _show(moves, options["throttle"], as_json=options["as_json"])
        if options["dry_run"] or not moves:
            return 0
        if options["throttle"] is None:
            return await _carry_out(cluster, moves, wait=not options["no_wait"])
        async with throttled(cluster, moves, options["throttle"]):
            return await _carry_out(cluster, moves, wait=True)

    code = connected(work)
    if code:
        raise SystemExit(code)


def _show(moves: "Sequence[PlannedMove]", throttle: int | None, *, as_json: bool) -> None:
    from moldau.cli.reports.cluster_plan import copy_seconds

    total = sum(each.size for each in moves)
    rate = _SUPPOSED_RATE if throttle is None else throttle
    seconds = copy_seconds(moves, rate)
    if as_json:
        listed = [
            {"partition": str(each.partition), "from": each.before, "to": each.after, "bytes": each.size}
            for each in moves
        ]
        print_json({"moves": listed, "bytes": total, "seconds": round(seconds, 1), "bytes_per_second": rate})
        return
    if not moves:
        click.echo("nothing to do: it is so already")
        return
    rows = [
        [each.partition, _listed(each.before), _listed(each.after), size_text(each.size)]
        for each in moves[:_SHOWN_MOVES]
    ]
    print_table(["Partition", "From", "To", "To copy>"], rows)
    if len(moves) > _SHOWN_MOVES:
        click.echo(f"and {len(moves) - _SHOWN_MOVES} more")
    how = "if" if throttle is None else "as"
    click.echo(
        f"{len(moves)} partition(s) change, {size_text(total)} to copy: about {seconds:.0f} s {how} each "
        f"broker copies {size_text(rate)}/s"
    )


def _listed(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


async def _carry_out(cluster: "Cluster", moves: "Sequence[PlannedMove]", *, wait: bool) -> int:
    from moldau.client.admin.replicas import PREFERRED, elect_leaders, reassign

    outcomes = await reassign(cluster, {each.partition: each.after for each in moves})
    refused = {partition: error for partition, error in outcomes.items() if error is not None}
    for partition, error in refused.items():
        note(f"{partition} is not moved: {error}")
    begun = [each for each in moves if each.partition not in refused]
    if wait and begun:
        seconds = await _watch(cluster, begun)
        leading = [each.partition for each in begun if each.after[0] != each.before[0]]
        if leading:
            await elect_leaders(cluster, PREFERRED, leading)
        note(f"{len(begun)} partition(s) moved in {seconds:.1f} s")
    elif begun:
        note(f"{len(begun)} partition(s) are moving: 'moldau cluster why' shows when they are in sync")
    return 1 if refused else 0


async def _watch(cluster: "Cluster", moves: "Sequence[PlannedMove]") -> float:
    """Returns when no move is under way any more; shows the bytes that have arrived."""
    import asyncio

    from moldau.client.admin.replicas import ongoing_moves

    start = time.monotonic()
    coming = [(each, broker) for each in moves for broker in set(each.after) - set(each.before)]
    total = sum(each.size for each in moves)
    bar, task = progress("bytes", total)
    with bar:
        while await ongoing_moves(cluster, [each.partition for each in moves]):
            sizes = await _sizes(cluster)
            arrived = sum(min(sizes.get((b, each.partition), 0), each.size) for each, b in coming)
            rate = arrived / max(time.monotonic() - start, 0.001)
            bar.update(task, completed=min(arrived, total), rate=f"{size_text(int(rate))}/s")
            await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic() - start

"""``moldau cluster restart``: brokers one after the other, each when all replicas are in sync.

Invariant: a broker is restarted only while every partition has all its replicas in sync, so that no more than
one broker is away at a time. When one does not come back nothing else is restarted.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.services.broker import DEFAULT_DATA_DIRECTORY
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.client.admin.descriptions import ClusterDescription, TopicDescription
    from moldau.client.transport.cluster import Broker, Cluster

_LOOK_SECONDS = 0.2
_SHOWN_PARTITIONS = 3

Restart = Callable[["Broker"], Awaitable[None]]


@click.command(short_help="Restart brokers one after the other, without downtime.")
@click.argument("brokers", nargs=-1, type=int)
@click.option(
    "--command",
    metavar="COMMAND",
    help="How a broker is restarted; {id}, {host} and {port} stand for the broker's.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    default=DEFAULT_DATA_DIRECTORY,
    show_default=True,
    help="Without --command: the directory of the 'moldau up' or 'moldau broker --processes' that runs here.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a broker may take to come back, and its replicas to be in sync.",
)
@click.option("--dry-run", is_flag=True, help="Show the order and what would be done.")
@cluster_command_options
def restart(
    brokers: tuple[int, ...],
    command: str | None,
    data_dir: str,
    wait_seconds: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restart all brokers, or those named, the controller last; wait for full in-sync replicas in between.

    \b
    Examples:
      moldau cluster restart                      # of 'moldau up --brokers 3' in this directory
      moldau cluster restart 2 --data-dir ./data
      moldau cluster restart --command "ssh {host} systemctl restart moldau"
      moldau cluster restart --dry-run
    """
    how = by_signal(Path(data_dir)) if command is None else by_command(command)

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        described, topics = await _look(cluster)
        order = restart_order(described, brokers)
        if dry_run:
            _show(order, topics, as_json=as_json)
            return []
        done = []
        for each in order:
            seconds = await _restart_one(cluster, each, how, wait_seconds)
            note(f"broker {each.node_id} is back, everything was in sync again after {seconds:.1f} s")
            done.append({"broker": each.node_id, "seconds": round(seconds, 3)})
        await _elect_preferred(cluster)
        return done

    done = connected(work)
    if as_json and not dry_run:
        print_json({"restarted": done})
    elif not dry_run:
        click.echo(f"{len(done)} broker(s) were restarted")


def restart_order(described: "ClusterDescription", wanted: Sequence[int]) -> "list[Broker]":
    """By their ids, the controller last: it would otherwise move from one to the next."""
    known = {each.node_id: each for each in described.brokers}
    unknown = [each for each in wanted if each not in known]
    if unknown:
        raise click.ClickException(f"there is no broker {unknown[0]}: 'moldau cluster status' shows them")
    chosen = [known[each] for each in sorted(set(wanted) or known)]
    return sorted(chosen, key=lambda each: each.node_id == described.controller_id)


def out_of_sync(topics: "Sequence[TopicDescription]") -> list[str]:
    """The partitions that lack a leader or replicas."""
    return [
        f"{topic.name}-{each.index}"
        for topic in topics
        for each in topic.partitions
        if each.leader_id < 0 or len(each.isr) < len(each.replicas)
    ]


def _show(order: "Sequence[Broker]", topics: "Sequence[TopicDescription]", *, as_json: bool) -> None:
    alone = {
        each.node_id: sum(p.replicas == (each.node_id,) for topic in topics for p in topic.partitions)
        for each in order
    }
    if as_json:
        print_json(
            [{"broker": each.node_id, "partitions_away": alone[each.node_id]} for each in order],
        )
        return
    rows = [[each.node_id, each.address, alone[each.node_id]] for each in order]
    print_table(["Broker>", "Address", "Partitions with no other replica>"], rows)


# --- how a broker is restarted ----------------------------------------------------------------------------


def by_command(command: str) -> Restart:
    """A command of the user's for each broker; it has to end, with exit code 0."""
    words = shlex.split(command)
    if not words:
        raise click.UsageError("--command is empty")

    async def restart_broker(broker: "Broker") -> None:
        values = {"id": str(broker.node_id), "host": broker.host, "port": str(broker.port)}
        filled = [_filled(word, values) for word in words]
        try:
            process = await asyncio.create_subprocess_exec(*filled, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise click.ClickException(f"{filled[0]} cannot be run: {error.strerror}") from None
        code = await process.wait()
        if code:
            raise click.ClickException(f"{shlex.join(filled)} ended with exit code {code}")

    return restart_broker


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def by_signal(directory: Path) -> Restart:
    """SIGTERM for the process of a broker that ``moldau up`` has started here, which starts it again."""
    numbers = directory / "up"

    async def restart_broker(broker: "Broker") -> None:
        file = numbers / f"broker-{broker.node_id}.pid"
        try:
            pid = int(file.read_text())
        except (OSError, ValueError):
            raise click.ClickException(
                f"{file} names no process of broker {broker.node_id}. Next: give the --data-dir of the "
                "'moldau up --brokers N' that runs here, or say with --command how a broker is restarted"
            ) from None
        if not _is_broker(pid):
            raise click.ClickException(
                f"{file} names process {pid}, which is no broker: is 'moldau up' over?"
            )
        os.kill(pid, signal.SIGTERM)

    return restart_broker


def _is_broker(pid: int) -> bool:
    """Whether the process is a broker of ours, where the system tells."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return not Path("/proc/self/cmdline").exists()
    return b"broker" in words


# --- waiting ----------------------------------------------------------------------------------------------


async def _restart_one(cluster: "Cluster", broker: "Broker", how: Restart, wait_seconds: float) -> float:
    await _wait_for_sync(cluster, broker.node_id, wait_seconds, "before")
    began = time.monotonic()
    # It breaks when the broker's process ends: what answers afterwards is another one.
    watched = await cluster.connection(broker.node_id, "restart")
    note(f"restarting broker {broker.node_id} at {broker.address}")
    await how(broker)
    while not watched.closed:
        if time.monotonic() - began > wait_seconds:
            raise click.ClickException(f"broker {broker.node_id} was not restarted: it runs on")
        await asyncio.sleep(_LOOK_SECONDS)
    await _wait_for_sync(cluster, broker.node_id, wait_seconds, "after")
    return time.monotonic() - began


async def _wait_for_sync(cluster: "Cluster", broker_id: int, wait_seconds: float, when: str) -> None:
    from moldau.protocol.errors import KafkaError

    deadline = time.monotonic() + wait_seconds
    missing = [f"broker {broker_id}"]
    while True:
        try:
            described, topics = await _look(cluster)
            missing = out_of_sync(topics)
            if broker_id not in {each.node_id for each in described.brokers} - described.fenced:
                missing.insert(0, f"broker {broker_id}")
            else:
                await cluster.connection(broker_id, "restart")
        except KafkaError as error:
            missing = [str(error)]
        if not missing:
            return
        if time.monotonic() > deadline:
            more = len(missing) - _SHOWN_PARTITIONS
            listed = ", ".join(missing[:_SHOWN_PARTITIONS]) + (f" and {more} more" if more > 0 else "")
            raise click.ClickException(
                f"not in sync {wait_seconds:.0f} s {when} the restart of broker {broker_id}: {listed}. Next: "
                "'moldau cluster why'"
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _look(cluster: "Cluster") -> "tuple[ClusterDescription, list[TopicDescription]]":
    from moldau.client.admin.admin import Admin
    from moldau.protocol.errors import KafkaError

    admin = Admin(cluster)
    described = await admin.describe_cluster(include_fenced_brokers=True)
    await cluster.refresh()
    topics = await admin.describe_topics()
    return described, [each for each in topics.values() if not isinstance(each, KafkaError)]


async def _elect_preferred(cluster: "Cluster") -> None:
    from moldau.client.admin.replicas import PREFERRED, elect_leaders
    from moldau.protocol.errors import KafkaError

    try:
        await elect_leaders(cluster, PREFERRED, None)
    except KafkaError as error:
        note(f"the preferred replicas do not lead yet: {error}. Next: 'moldau cluster elect'")

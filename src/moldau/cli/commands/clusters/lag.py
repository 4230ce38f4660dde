"""``moldau lag``: watches all groups of a cluster from outside, by the shape of their offsets.

Invariant: needs no thresholds and asks nothing of the consumers.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import echo, note, print_json, print_table
from moldau.cli.session import PORT, cluster_command_options, connected

if TYPE_CHECKING:
    from moldau.cli.monitoring.lag_monitor import LagMonitor
    from moldau.client.transport.cluster import Cluster


@click.command()
@click.option("--every", type=click.FloatRange(min=0.1), default=10.0, show_default=True, metavar="SECONDS")
@click.option("--looks", type=click.IntRange(min=1), metavar="N", help="End after N looks; default: never.")
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keeps what was seen, for the next start and for 'moldau groups why --history FILE'.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen, with --port.")
@click.option(
    "--port",
    type=PORT,
    help="Answers /metrics and Burrow's /v3/kafka/CLUSTER/consumer/GROUP/lag there; 0 takes a free port.",
)
@cluster_command_options
def lag(
    every: float, looks: int | None, history: Path | None, host: str, port: int | None, as_json: bool
) -> None:
    """Watch all consumer groups from outside, and say which do not keep up.

    OK, WARN (slower than records come), STALL (there, but stuck), STOP (gone), REWIND (went back): by the
    shape of offsets over ten looks, without thresholds.

    \b
    Examples:
      moldau lag
      moldau lag --every 5 --history lag.jsonl --port 9405
      moldau lag --every 1 --looks 10 --json
    """

    async def work(cluster: "Cluster") -> None:
        import asyncio

        from moldau.base.clock import SystemClock
        from moldau.base.http_server import HttpServer
        from moldau.cli.monitoring.lag_monitor import LagMonitor

        monitor = LagMonitor(cluster, SystemClock(), history, note)
        server = HttpServer(monitor.answer)
        if port is not None:
            note(f"http://{host}:{await server.start(host, port)}/metrics")
        said: dict[str, str] = {}
        count = 0
        try:
            while looks is None or count < looks:
                if count:
                    await asyncio.sleep(every)
                count += 1
                if looks is not None:
                    await monitor.look()
                else:
                    await monitor.try_to_look()
                    _say_changes(monitor, said)
        finally:
            await server.close()
        _show(monitor, as_json)

    connected(work)


def _say_changes(monitor: "LagMonitor", said: dict[str, str]) -> None:
    """One line for each group whose status is another one than before."""
    for group in monitor.history:
        found = monitor.status(group)
        if said.get(group, "OK") != found.status.name:
            echo(f"{group}: {found.status.name}, lag {found.lag}, worst {found.worst or '-'}")
        said[group] = found.status.name


def _show(monitor: "LagMonitor", as_json: bool) -> None:
    described = [monitor.described(group) for group in monitor.history]
    if as_json:
        print_json(described)
        return
    rows = [
        [each["group"], each["status"], each["totallag"], each["partition_count"], each["maxlag"] or "-"]
        for each in described
    ]
    print_table(["Group", "Status", "Lag>", "Partitions>", "Worst"], rows)

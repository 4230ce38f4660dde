"""``moldau probe``: says from outside whether a cluster works: writes to every broker and reads it back.

Invariant: exit code 0 means that a record went in and came out through every leader of the probe's topic.
"""

from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import echo, print_json_line
from moldau.cli.session import cluster_command_options, connected, timeout_ms

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster

_TOPIC = "moldau-probe"
_RETENTION_MS = 3_600_000


@click.command()
@click.option("-t", "--topic", default=_TOPIC, show_default=True, help="Made where it does not exist.")
@click.option(
    "--every", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Again and again; default: once."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="With --every: end after N times.")
@cluster_command_options
def probe(topic: str, every: float | None, count: int | None, as_json: bool) -> None:
    """Write a record to every partition of a topic of its own, read it back, and say how long that took.

    The exit code is 1 when a record did not come back within --timeout.

    \b
    Examples:
      moldau probe
      moldau probe -b broker1:9092 --timeout 5 && echo up
      moldau probe --every 30 --json >> probes.jsonl
    """

    async def work(cluster: "Cluster") -> bool:
        import asyncio

        from moldau.cli.monitoring.probing import probe_once

        rounds = 0
        well = True
        while True:
            found = await probe_once(cluster, topic, timeout_ms() / 1000, _RETENTION_MS)
            well = found.well
            _say(found.described(), as_json)
            rounds += 1
            if every is None or (count is not None and rounds >= count):
                return well
            await asyncio.sleep(every)

    if not connected(work):
        raise SystemExit(1)


def _say(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json_line(found)
        return
    for each in found["partitions"]:
        if each["error"] is None:
            times = f"written in {each['write_ms']:.1f} ms, read after {each['total_ms']:.1f} ms"
            echo(f"ok    {each['partition']} on broker {each['broker']}: {times}")
        else:
            echo(f"FAIL  {each['partition']} on broker {each['broker']}: {each['error']}")

"""What three real brokers do while nobody writes: CPU time of each, with many empty partitions of factor 3.

Every broker has a replica of each partition, leads a third of them and follows the rest.

    python -m benchmarks.idle_cluster [--partitions 1000,3000] [--seconds 10]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.clusters.processes import MoldauCluster

#: Topics are made in pieces of so many partitions.
_AT_A_TIME = 1000


def _grow(cluster: MoldauCluster, there: int, wanted: int) -> None:
    for first in range(there, wanted, _AT_A_TIME):
        cluster.create_topic(f"idle-{first}", min(_AT_A_TIME, wanted - first))
    cluster.wait_until_whole()


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of three brokers with nothing to do")
    parser.add_argument("--partitions", default="1000,3000")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print("| partitions | CPU of each broker, ms a second | memory of all, MB |\n|---:|---|---:|", flush=True)
    there = 0
    with (
        tempfile.TemporaryDirectory() as directory,
        MoldauCluster(Path(directory) / "moldau") as cluster,
    ):
        for partitions in map(int, options.partitions.split(",")):
            _grow(cluster, there, partitions)
            there = partitions
            time.sleep(options.seconds / 2)  # what a creation leaves to do is not idling
            before = {number: broker.cpu_s() for number, broker in cluster.brokers.items()}
            time.sleep(options.seconds)
            spent = [broker.cpu_s() - before[number] for number, broker in cluster.brokers.items()]
            each = ", ".join(f"{1000 * seconds / options.seconds:.0f}" for seconds in spent)
            print(f"| {partitions:,} | {each} | {cluster.resident_bytes() / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""How long a fork takes and how much disk space it needs, beside a copy of the same files.

Run it alone on a quiet machine: ``python -m benchmarks.fork [MEGABYTES]``. One topic of four partitions with
segments of 16 MB in a temporary directory; the forks are made one after the other, and the copy is ``cp``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker

PARTITIONS = 4
FORKS = 5
_RECORDS = 1000


def fill(broker: Broker, megabytes: int) -> None:
    broker.create_topic("orders", PARTITIONS, {"segment.bytes": 16 * 1024 * 1024})
    value = os.urandom(1000)

    async def append() -> None:
        partitions = [broker.node.replicas.find("orders", index) for index in range(PARTITIONS)]
        for number in range(megabytes):
            batch = encode_batch([Record(i, 1000, b"%d" % i, value) for i in range(_RECORDS)])
            partitions[number % PARTITIONS].append(memoryview(batch), 1, 1000, 13)

    broker.run(append())


def disk_megabytes(directory: Path) -> float:
    found = subprocess.run(["du", "-sk", directory], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0]) / 1024


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as name, Broker(data_dir=f"{name}/data") as broker:
        fill(broker, megabytes)
        before = disk_megabytes(Path(name))
        started = perf_counter()
        subprocess.run(["cp", "-r", f"{name}/data", f"{name}/copy"], check=True)
        subprocess.run(["sync", "-f", f"{name}/copy"], check=True)
        copied = perf_counter() - started
        subprocess.run(["rm", "-r", f"{name}/copy"], check=True)
        times = []
        for number in range(FORKS):
            started = perf_counter()
            broker.fork("orders", f"fork{number}")
            times.append(perf_counter() - started)
        megabytes = (disk_megabytes(Path(name)) - before) / FORKS
        best = min(times)
        print(f"topic of {before:.0f} MB in {PARTITIONS} partitions")
        print(f"  copy of the files and sync   {copied * 1000:8.0f} ms   {before:8.1f} MB")
        print(f"  fork, best of {FORKS}              {best * 1000:8.0f} ms   {megabytes:8.1f} MB")
        print(f"  a fork takes 1/{copied / best:.0f} of the time and 1/{before / megabytes:.0f} of the space")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)

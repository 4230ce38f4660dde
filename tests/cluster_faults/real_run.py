"""One run: a real cluster, writers and readers, faults, and what must not be found in their history.

The report is a text and a picture in a directory; they are written whatever comes of the run.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster_faults.checker import Fate, History, anomalies
from tests.cluster_faults.real_cluster import RealCluster
from tests.cluster_faults.real_faults import RealFaults
from tests.cluster_faults.timeline import draw, longest_silence
from tests.cluster_faults.workload import Reader, Writer, settle
from tests.shared.small_disk import mounted

PARTITIONS = 3
DISK_SIZE = "160m"


class RealRun:
    """``plain`` and ``transactions`` are the topics; more writers may be added before it starts."""

    def __init__(self, cluster: RealCluster, seed: int, small_disk: Path | None) -> None:
        self.cluster = cluster
        self.seed = seed
        servers = cluster.bootstrap_servers
        for topic in ("plain", "transactions"):
            cluster.create(topic, PARTITIONS)
        self.writers: dict[str, list[Writer]] = {"plain": [], "transactions": []}
        self.readers: dict[str, list[Reader]] = {"plain": [], "transactions": []}
        for topic in self.writers:
            committed = topic == "transactions"
            self.writers[topic] = [
                Writer(
                    f"{topic}-writer{each}", servers, topic, PARTITIONS, seed + each, transactional=committed
                )
                for each in range(2)
            ]
            self.readers[topic] = [
                Reader(f"{topic}-reader{each}", servers, topic, PARTITIONS, committed=committed)
                for each in range(2)
            ]
        self.faults = RealFaults(cluster, tuple(self.writers), PARTITIONS, seed, small_disk)
        self.histories: dict[str, History] = {}
        self.begin = self.end = 0.0

    def run(self, seconds: float, report: Path) -> list[str]:
        """What was found, and the report of it."""
        found = []
        self.begin = time.monotonic()
        try:
            for topic in self.writers:
                for thread in (*self.writers[topic], *self.readers[topic]):
                    thread.start()
            self.faults.run(seconds)
            for topic in self.writers:
                self.histories[topic] = settle(self.writers[topic], self.readers[topic])
                found += [f"{topic}: {each}" for each in anomalies(self.histories[topic])]
        finally:
            self.end = time.monotonic()
            self._write_report(report, found)
        return found

    def acknowledged(self, topic: str) -> int:
        return sum(each.fate is Fate.ACKNOWLEDGED for each in self.histories[topic].sent)

    def _write_report(self, report: Path, found: Sequence[str]) -> None:
        report.mkdir(parents=True, exist_ok=True)
        writers = [each for topic in self.writers.values() for each in topic]
        times = {each.name: tuple(each.times) for each in writers}
        title = f"seed {self.seed}: {len(self.faults.done)} faults, {len(found)} anomalies"
        picture = draw(title, self.begin, self.end, self.faults.done, times)
        (report / "timeline.svg").write_text(picture, "utf-8")
        lines = [
            title,
            *(f"{topic}: {history.checked}" for topic, history in self.histories.items()),
            *(
                f"{name}: longest silence {longest_silence(self.begin, self.end, its):.1f} s"
                for name, its in times.items()
            ),
            *found,
            *(
                f"{each.begin - self.begin:8.1f} s  {each.text}: {each.end - each.begin:.1f} s, "
                f"well again after {each.healed - each.end:.1f} s"
                for each in self.faults.done
            ),
            *(f"{each.name}: {error}" for each in writers for error in each.errors),
        ]
        (report / "report.txt").write_text("\n".join(lines) + "\n", "utf-8")


@contextmanager
def real_run(directory: Path, seed: int, *, small_disk: bool) -> Iterator[RealRun]:
    """A cluster that runs; with ``small_disk`` broker 3 has a file system of its own, which needs root."""
    if not small_disk:
        with RealCluster(directory) as cluster:
            yield RealRun(cluster, seed, None)
        return
    with (
        mounted(directory / "disk", DISK_SIZE) as disk,
        RealCluster(directory, {3: disk / "data"}) as cluster,
    ):
        yield RealRun(cluster, seed, disk)

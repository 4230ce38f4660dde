"""One session of measures: how much of everything, the two kinds of clusters, and the samples."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.clusters.processes import BrokerCluster
from benchmarks.clusters.targets import BY_KEY

#: The sizes that figures are named after; a short run has fewer of each, in the same order.
STEPS = ("1000", "3000", "10000")


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int
    starts: int
    warm_up_records: int
    small_records: int  # of 100 bytes
    large_records: int  # of 1,000 bytes
    latency_records: int
    missed_megabytes: int
    partition_steps: tuple[int, ...]


FULL = Sizes(3, 3, 500_000, 2_000_000, 400_000, 3_000, 1_000, (1_000, 3_000, 10_000))
QUICK = Sizes(1, 1, 50_000, 200_000, 40_000, 300, 50, (30, 60, 90))


@dataclass
class Session:
    sizes: Sizes
    #: Apache Kafka first.
    kinds: Sequence[Callable[[Path], BrokerCluster]]
    samples: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    began: float = field(default_factory=time.monotonic)

    def alternating(self, what: str, clusters: Sequence[BrokerCluster]) -> Iterator[BrokerCluster]:
        """Each in turn, round after round; what an earlier run left to be written is written first."""
        for number in range(self.sizes.rounds):
            for cluster in clusters:
                self.progress(f"{what}: {cluster.name}, round {number + 1} of {self.sizes.rounds}")
                os.sync()
                yield cluster

    def step_of(self, partitions: int) -> str:
        return STEPS[self.sizes.partition_steps.index(partitions)]

    def record(self, key: str, cluster: BrokerCluster, value: float) -> None:
        self.samples[key][cluster.name].append(value)
        self.progress(f"    {cluster.name}: {BY_KEY[key].title}: {value:,.6g} {BY_KEY[key].unit}")

    def progress(self, text: str) -> None:
        elapsed = int(time.monotonic() - self.began)
        print(f"[{elapsed // 60:3}:{elapsed % 60:02}] {text}", file=sys.stderr, flush=True)

"""What all measures share: the two brokers side by side, alternating runs, and the samples that come of them.

Both brokers run for the whole session, so that neither pays for a cold start in every figure; only one of
them is under load at a time."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.brokers import Broker, BrokerProcess
from benchmarks.targets import BY_KEY

ADMIN_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `quick` is for a look, `full` for the record."""

    rounds: int
    starts: int
    small_records: int  # of 100 bytes
    large_records: int  # of 1,000 bytes
    one_record_requests: int
    consumed_passes: int
    latency_records: int
    random_reads: int
    small_log_records: int  # of 1,000 bytes
    large_log_records: int
    group_joins: int
    rebalances: int
    offset_commits: int
    committed_offsets: int  # that a coordinator loads
    compacted_megabytes: int
    recovered_megabytes: int
    started_partitions: int
    expired_segments: int
    flushed_records: int  # of 100 bytes, each batch on disk before its answer
    idle_connections: int = 1000


FULL = Sizes(
    *(5, 5, 3_000_000, 400_000, 150_000, 3, 5_000, 3_000, 50_000, 2_500_000),
    *(20, 30, 10_000, 1_000_000, 150, 600, 1000, 5_000, 100_000),
)
QUICK = Sizes(
    *(1, 2, 1_000_000, 100_000, 30_000, 1, 1_000, 1_000, 50_000, 300_000),
    *(10, 10, 5_000, 100_000, 30, 100, 100, 500, 30_000),
)


@dataclass
class Bench:
    brokers: Sequence[Broker]
    sizes: Sizes
    samples: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    began: float = field(default_factory=time.monotonic)

    def alternating(self, what: str) -> Iterator[Broker]:
        """Each broker in turn, round after round; what an earlier run left to be written is written first."""
        for number in range(self.sizes.rounds):
            for broker in self.brokers:
                self.progress(f"{what}: {broker.name}, round {number + 1} of {self.sizes.rounds}")
                os.sync()
                yield broker

    def record(self, key: str, broker: Broker, value: float) -> None:
        self.samples[key][broker.name].append(value)
        metric = BY_KEY[key]
        self.progress(f"    {metric.title}: {value:,.6g} {metric.unit}")

    def alternating_own(
        self, what: str, brokers: Sequence[BrokerProcess], rounds: int
    ) -> Iterator[BrokerProcess]:
        """The same for brokers that a measure starts and stops itself."""
        for number in range(rounds):
            for broker in brokers:
                self.progress(f"{what}: {broker.name}, {number + 1} of {rounds}")
                os.sync()
                yield broker

    def progress(self, text: str) -> None:
        elapsed = int(time.monotonic() - self.began)
        print(f"[{elapsed // 60:3}:{elapsed % 60:02}] {text}", file=sys.stderr, flush=True)


def create_topic(
    broker: Broker, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> None:
    """Default settings and, unless a test says otherwise, one partition, as a topic that creates itself."""
    new = NewTopic(topic, partitions, 1, config=configs or {})
    timeouts = {"request_timeout": ADMIN_TIMEOUT_S, "operation_timeout": ADMIN_TIMEOUT_S}
    admin = _admin(broker)  # with a name of its own: it has to live until the answer is there
    admin.create_topics([new], **timeouts)[topic].result()


def set_topic_config(broker: Broker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = _admin(broker)
    admin.incremental_alter_configs([resource])[resource].result()


def delete_topic(broker: Broker, topic: str) -> None:
    admin = _admin(broker)
    admin.delete_topics([topic], request_timeout=ADMIN_TIMEOUT_S)[topic].result()


def _admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 3})

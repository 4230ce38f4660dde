"""Brokers of a cluster die, stand still and stop under load; nothing acknowledged is lost, doubled or torn.

``MOLDAU_FAULTS_SECONDS`` makes it longer, ``MOLDAU_FAULTS_SEED`` repeats a run's choices.
"""

import os
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster
from tests.cluster_faults.checker import Fate, anomalies
from tests.cluster_faults.workload import Reader, Writer, settle
from tests.shared.waiting import wait_until

SECONDS = float(os.environ.get("MOLDAU_FAULTS_SECONDS", "15"))
SEED = int(os.environ.get("MOLDAU_FAULTS_SEED", str(time.time_ns() % 1_000_000)))
PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "replica.lag.time.max.ms": 3_000,
    "min.insync.replicas": 2,
}


class Faults:
    """Does harm to one broker at a time, and makes it good again."""

    def __init__(self, cluster: Cluster, topic: str, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._dice = Random(seed)
        self.done: list[str] = []

    def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._one()

    def _one(self) -> None:
        cluster, dice = self._cluster, self._dice
        leaders = [cluster.leader(self._topic, each) for each in range(PARTITIONS)]
        victim = dice.choice([*leaders, cluster.controller_id or 1, dice.choice((1, 2, 3))])
        if victim not in cluster.running:
            return
        fault = dice.choice(("kill", "kill", "stop", "pause"))
        self.done.append(f"{fault} {victim}")
        pause = dice.uniform(0.2, 1.5)
        if fault == "pause":
            cluster.pause(victim)
            time.sleep(pause)  # a fault has to last for a while
            cluster.resume(victim)
        else:
            if fault == "kill":
                cluster.kill(victim)
            else:
                cluster[victim].stop()
            time.sleep(pause)  # likewise
            cluster.restart(victim)
        wait_until(self._healed, lambda: f"after {self.done[-3:]}: {self._state()}")

    def _healed(self) -> bool:
        image = self._cluster.image
        return all(
            set(partition.isr) == set(partition.replicas)
            for topic in image.topics_by_name.values()
            for partition in topic.partitions
        )

    def _state(self) -> str:
        topics = self._cluster.image.topics_by_name.values()
        return "; ".join(
            f"{topic.name}-{each.partition} leader {each.leader} isr {each.isr}"
            for topic in topics
            for each in topic.partitions
            if len(each.isr) < len(each.replicas)
        )


@pytest.mark.slow
@pytest.mark.timeout(600 + 3 * SECONDS)
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactions"])
def test_nothing_acknowledged_is_lost(transactional: bool, tmp_path: Path) -> None:
    print(f"MOLDAU_FAULTS_SEED={SEED}")
    with Cluster(3, SETTINGS, data_dir=tmp_path) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics([NewTopic("orders", PARTITIONS, 3)]).values():
            future.result(30)
        writers = [
            Writer(f"writer{each}", servers, "orders", PARTITIONS, SEED + each, transactional=transactional)
            for each in range(2)
        ]
        readers = [
            Reader(f"reader{each}", servers, "orders", PARTITIONS, committed=transactional)
            for each in range(2)
        ]
        for thread in (*writers, *readers):
            thread.start()
        faults = Faults(cluster, "orders", SEED)
        faults.run(SECONDS)
        history = settle(writers, readers)
    print(history.checked, faults.done, *(error for writer in writers for error in writer.errors), sep="\n")
    assert sum(sent.fate is Fate.ACKNOWLEDGED for sent in history.sent) > 100
    assert anomalies(history) == [], f"seed {SEED}, {faults.done}"

"""Fifty times kill -9 under load from confluent-kafka: nothing acknowledged is lost, nothing is there twice.

    MOLDAU_SOAK_SECONDS=1 .venv/bin/pytest tests/soak/test_kill_soak.py --timeout 0

It is done when the kills are, however long they take (MOLDAU_SOAK_KILLS for another number), and tells of
every tenth. Segments are small and records live for seconds only in a second topic, so that kills also strike
while segments roll, while they are dropped and while files are removed.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.integration.broker_process import BrokerProcess
from tests.integration.client_contract import Producing
from tests.integration.every_client import CLIENTS
from tests.integration.history_checker import PartitionHistory
from tests.integration.test_restart import Load, read_all

KILLS = int(os.environ.get("MOLDAU_SOAK_KILLS", "50"))
PROGRESS_KILLS = 10
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "200",
}


def test_fifty_kills(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        with capfd.disabled():
            print(text, flush=True)

    began = time.monotonic()
    seed = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
    say(f"\n{KILLS} kills, MOLDAU_SOAK_SEED={seed}")
    dice = random.Random(seed)
    kept, fleeting = PartitionHistory("kept-0"), PartitionHistory("fleeting-0")
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        client = CLIENTS["confluent"](broker.bootstrap_servers)
        client.create_topic("kept", configs={"retention.ms": "-1"})
        client.create_topic("fleeting", configs={"retention.ms": "1000", "retention.bytes": "2000000"})
        loads = [
            Load(client.producer(Producing(linger_ms=2)), topic, history, seed)
            for topic, history in (("kept", kept), ("fleeting", fleeting))
        ]
        try:
            for number in range(1, KILLS + 1):
                for load in loads:
                    load.wait_for(dice.randrange(1, 1500))
                time.sleep(dice.random() / 20)  # to strike anywhere between two answers
                broker.kill()
                broker.start()
                if number % PROGRESS_KILLS == 0:
                    say(f"{number} of {KILLS} kills, {time.monotonic() - began:.0f} s")
            for load in loads:
                load.wait_for(1)
        finally:
            for load in loads:
                load.stop()
        log = read_all(client, "kept")
        assert kept.anomalies(log) == []
        assert not loads[0].refused
        assert len(kept.acknowledged) == len(log) == len(kept.sent)
        # Of the other topic a piece of the end is left, without holes; it goes on where it was.
        consumer = client.consumer()
        first, end = consumer.ends("fleeting", 0)
        assert 0 < first <= end
        assert not loads[1].refused
        assert end == len(fleeting.sent), "every record once, though most are gone"
        client.close()
    say(f"{len(log)} records over {KILLS} kills; of the other topic {first} of {end} went by retention")

"""Random load by several clients while the broker is killed and restarted; a checker judges what they saw.

    make soak SECONDS=600
    MOLDAU_SOAK_SECONDS=60 MOLDAU_SOAK_SEED=17 .venv/bin/pytest tests/soak -s --timeout 0

The run goes in rounds of a minute: each has topics of its own, which are read whole and judged at its end, so
that a night needs no more memory than a minute. The seed is printed; it draws the same load and the same
strikes again, though threads may meet in another order.
"""

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.broker_process import BrokerProcess
from tests.integration.client_contract import Client, Consuming, Producing
from tests.integration.every_client import CLIENTS
from tests.integration.history_checker import Anomaly, Value
from tests.soak.soak_chaos import Chaos
from tests.soak.soak_load import Ledger, Worker, following, jumping, making_topics, producing

SECONDS = float(os.environ["MOLDAU_SOAK_SECONDS"])
ROUND_SECONDS = 60.0
PROGRESS_SECONDS = 10.0
MEAN_LIFE_SECONDS = 4.0

#: Small segments, so that there are many; the rest as users have it.
SETTINGS = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "1024"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {}),
    "recompressed": (2, {"compression.type": "gzip"}),
    "append-time": (2, {"message.timestamp.type": "LogAppendTime"}),
    "flushed": (1, {"flush.messages": "1"}),
    "tiny-segments": (2, {"segment.bytes": "1048576", "segment.index.bytes": "4096"}),
}
PRODUCERS: list[tuple[str, Producing]] = [
    ("confluent", Producing(linger_ms=2)),
    ("confluent", Producing(linger_ms=5, compression="lz4")),
    ("confluent", Producing(acks=1, idempotent=False)),
    ("kafka_python", Producing(linger_ms=2, compression="gzip")),
    ("aiokafka", Producing(linger_ms=2, compression="snappy")),
]
READERS: list[tuple[str, str, Consuming]] = [
    ("confluent", "plain", Consuming()),
    ("confluent", "flushed", Consuming(read_committed=True)),
    ("kafka_python", "recompressed", Consuming()),  # it reads gzip with nothing else installed
    ("aiokafka", "append-time", Consuming(max_partition_fetch_bytes=20_000)),
    ("aiokafka", "tiny-segments", Consuming()),
]


class Round:
    def __init__(self, broker: BrokerProcess, seed: int, number: int) -> None:
        self.dice = random.Random(f"{seed}/{number}")
        self.broker = broker
        self.number = number
        self.names = {name: f"{name}.{number}" for name in TOPICS}
        self.ledger = Ledger({self.names[name]: partitions for name, (partitions, _) in TOPICS.items()})
        self.clients: list[Client] = []
        self.workers: list[Worker] = []

    def client(self, name: str) -> Client:
        self.clients.append(CLIENTS[name](self.broker.bootstrap_servers))
        return self.clients[-1]

    def start(self) -> None:
        admin = self.client("confluent")
        for name, (partitions, configs) in TOPICS.items():
            admin.create_topic(self.names[name], partitions, configs)
        dice = self.dice
        for number, (client, how) in enumerate(PRODUCERS):
            name = f"{client}-{number}"
            own = random.Random(dice.random())
            self.workers.append(producing(self.client(client), self.ledger, name, own, how))
        for client, topic, consuming in READERS:
            follower = following(
                self.client(client), self.ledger, self.names[topic], f"{topic}-{client}", consuming
            )
            self.workers.append(follower)
        jumper = self.client("confluent")
        self.workers.append(jumping(jumper, self.ledger, "jumper", random.Random(dice.random())))
        maker = f"made.{self.number}"
        self.workers.append(making_topics(admin, self.ledger, maker, random.Random(dice.random())))

    def tell_to_stop(self) -> None:
        for worker in self.workers:
            worker.tell_to_stop()

    def join(self) -> None:
        for worker in self.workers:
            worker.thread.join()

    def judge(self) -> list[Anomaly]:
        """Reads everything twice, before and after a restart in good order, and judges both."""
        found = list(self.ledger.anomalies)
        before = self.whole_log()
        assert self.broker.stop() == 0
        self.broker.start()
        after = self.whole_log()
        for place, history in self.ledger.histories.items():
            found += history.anomalies(before[place])
            if after[place] != before[place]:
                found.append(Anomaly("changed", f"{place} is another log after a clean restart"))
        there = self.client("confluent").topics()
        found += (
            Anomaly("lost", f"topic {name}") for name in self.ledger.created_topics if name not in there
        )
        return found

    def whole_log(self) -> dict[tuple[str, int], list[tuple[int, Value]]]:
        client = self.client("confluent")
        logs = {}
        for topic, partition in self.ledger.histories:
            consumer = client.consumer()
            consumer.assign(topic, {partition: 0})
            _, end = consumer.ends(topic, partition)
            records = consumer.poll(end, timeout=60)
            logs[topic, partition] = [(each.offset, Value.decode(each.value)) for each in records]
        return logs

    def clean_up(self) -> None:
        admin = self.client("confluent")
        for topic in [*self.names.values(), *self.ledger.created_topics]:
            admin.delete_topic(topic)
        for client in self.clients:
            client.close()


class Soak:
    def __init__(self, broker: BrokerProcess, seed: int, say: Callable[[str], None]) -> None:
        self.broker = broker
        self.seed = seed
        self.say = say
        self.began = time.monotonic()
        self.rounds = 0
        self.total: Counter[str] = Counter()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def round(self, seconds: float) -> None:
        round_ = Round(self.broker, self.seed, self.rounds)
        self.rounds += 1
        round_.start()
        chaos = Chaos(self.broker, random.Random(round_.dice.random()), MEAN_LIFE_SECONDS)
        try:
            deadline = time.monotonic() + seconds
            while (rest := deadline - time.monotonic()) > 0 and chaos.failure is None:
                time.sleep(min(rest, PROGRESS_SECONDS))  # the load lasts as long as was asked for
                self.tell(round_.ledger, chaos)
            chaos.end()
        finally:
            round_.tell_to_stop()
        round_.join()
        if anomalies := round_.judge():
            report(anomalies, self.broker, self.seed)
        round_.clean_up()
        ledger = round_.ledger
        self.total.update(acknowledged=ledger.acknowledged, refused=ledger.refused, read=ledger.read)
        self.total.update(kills=chaos.kills, stops=chaos.stops, pauses=chaos.pauses)

    def tell(self, ledger: Ledger, chaos: Chaos) -> None:
        self.say(
            f"{self.elapsed:6.0f} s  round {self.rounds}: {ledger.acknowledged} acknowledged, "
            f"{ledger.refused} refused, {ledger.read} read; {chaos.kills} kills, "
            f"{chaos.stops} stops, {chaos.pauses} pauses; {len(ledger.anomalies)} anomalies"
        )


def test_soak(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        """Past pytest's capture: whoever waits for hours wants to see that something goes on."""
        with capfd.disabled():
            print(text, flush=True)

    for noisy in ("aiokafka", "kafka"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    seed = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
    say(f"\nsoak of {SECONDS:.0f} s, MOLDAU_SOAK_SEED={seed}, data in {tmp_path}")
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        soak = Soak(broker, seed, say)
        while (left := SECONDS - soak.elapsed) > 1:
            soak.round(min(left, ROUND_SECONDS))
        assert broker.stop() == 0
    say(f"clean: {dict(soak.total)} in {soak.rounds} rounds and {soak.elapsed:.0f} s")


def report(anomalies: list[Anomaly], broker: BrokerProcess, seed: int) -> None:
    kinds = {kind: sum(each.kind == kind for each in anomalies) for kind in {each.kind for each in anomalies}}
    shown = "\n".join(f"  {each.kind}: {each.what}" for each in anomalies[:40])
    pytest.fail(f"seed {seed}: {kinds}\n{shown}\nthe broker's last words:\n{broker.log[-4000:]}")

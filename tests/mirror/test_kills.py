"""A mirror whose process is killed again and again under load: each record once, in order, none missing.

``MOLDAU_MIRROR_KILLS`` is how often; brokers of either side are killed as well.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from moldau.testing import Broker
from tests.mirror.flows import FAST, SETTINGS, committed, content, log_bounds, log_bytes
from tests.shared.waiting import wait_until

KILLS = int(os.environ.get("MOLDAU_MIRROR_KILLS", "2"))
pytestmark = pytest.mark.slow


@contextmanager
def load(broker: Broker, seed: int) -> Iterator[list[int]]:
    """Writes to all partitions, partly in transactions, for as long as the block lasts."""
    done, written, rng = Event(), [0], random.Random(seed)

    def write() -> None:
        plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        transactional = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"load-{seed}"}
        )
        transactional.init_transactions(60)
        while not done.is_set():
            for _ in range(rng.randint(1, 50)):
                written[0] += 1
                plain.produce(
                    "orders", b"%d" % written[0] + bytes(rng.randint(0, 300)), partition=rng.randint(0, 1)
                )
            plain.flush(60)
            transactional.begin_transaction()
            for _ in range(rng.randint(1, 5)):
                transactional.produce("orders", b"t", partition=rng.randint(0, 1))
            end = transactional.abort_transaction if rng.random() < 0.3 else transactional.commit_transaction
            end(60)
            done.wait(0.02)

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        done.set()
        thread.join(timeout=120)
        assert not thread.is_alive()


def start(a: Broker, b: Broker, mode: str, directory: str) -> subprocess.Popen[bytes]:
    file = f"{directory}/mm2.properties"
    lines = {
        "clusters": "A,B",
        "A.bootstrap.servers": a.bootstrap_servers,
        "B.bootstrap.servers": b.bootstrap_servers,
        "A->B.enabled": "true",
        **FAST,
        "moldau.mode": mode,
        "moldau.session.timeout.ms": "1000",
    }
    with open(file, "w") as out:
        out.writelines(f"{name}={value}\n" for name, value in lines.items())
    return subprocess.Popen(
        [sys.executable, "-m", "moldau", "mirror", file, "--log-level", "error"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_kills_of_the_mirror_and_of_brokers(mode: str, tmp_path: object) -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        a.create_topic("orders", partitions=2)
        process = start(a, b, mode, str(tmp_path))
        try:
            with load(a, seed):
                for _ in range(KILLS):
                    before = ends(b)
                    wait_until(lambda before=before: sum(ends(b)) > sum(before))  # type: ignore[misc]
                    time.sleep(rng.uniform(0, 0.3))  # a moment that is drawn by lot
                    process.send_signal(signal.SIGKILL)
                    process.wait(60)
                    if rng.random() < 0.5:
                        b.kill()
                        b.start()
                    process = start(a, b, mode, str(tmp_path))
            wait_until(
                lambda: same(a, b, mode),
                lambda: (seed, log_bounds(a, "orders"), ends(b), process.poll()),
                seconds=120,
            )
        finally:
            process.send_signal(signal.SIGTERM)
            # It may have been needed so little that it was still starting.
            assert process.wait(60) in (0, -signal.SIGTERM)
        if mode == "exact":
            for partition in (0, 1):
                assert log_bytes(a, "orders", partition) == log_bytes(b, "A.orders", partition), seed


def ends(broker: Broker) -> list[int]:
    if "A.orders" not in broker.topics():
        return [0, 0]
    return [end for _, end in log_bounds(broker, "A.orders")]


def same(a: Broker, b: Broker, mode: str) -> bool:
    if mode == "exact":
        return [end for _, end in log_bounds(a, "orders")] == ends(b) and content(a, "orders") == content(
            b, "A.orders"
        )
    return all(
        [r[1:] for r in committed(a, "orders", p)] == [r[1:] for r in committed(b, "A.orders", p)]
        for p in (0, 1)
    )

"""A broker with its settings as they come, under every attack in turn; a well-behaved client tells how long
it waited, and the system how much memory the broker had.

    make soak-hostile SECONDS=600
    MOLDAU_SOAK_SEED=17 make soak-hostile SECONDS=60

MOLDAU_SOAK_RSS_MB and MOLDAU_SOAK_WAIT_MS are the limits; a machine that is busy with other things needs more
of the second. The attacker runs in a process of its own: its work is not the broker's.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import CLOSED, Wire
from tests.integration.broker_process import BrokerProcess
from tests.soak.hostile_attacks import ATTACKS, TOPIC

PROJECT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("MOLDAU_SOAK_HOSTILE_SECONDS") or os.environ["MOLDAU_SOAK_SECONDS"])
RSS_MB = float(os.environ.get("MOLDAU_SOAK_RSS_MB", "256"))
WAIT_MS = float(os.environ.get("MOLDAU_SOAK_WAIT_MS", "250"))
#: Each attack comes several times in a long soak.
LONGEST_ATTACK_SECONDS = 30.0
OWN_TOPIC = "well-behaved"
PAUSE_SECONDS = 0.01
NOW_MS = int(time.time() * 1000)


class Figures(NamedTuple):
    attack: str
    seconds: float
    requests: int
    connections: int
    rss_mb: float
    asked: int
    worst_ms: float
    usual_ms: float


class Witness:
    """A client that produces, fetches and asks for metadata in turn, and notes how long each took."""

    def __init__(self, port: int) -> None:
        self.waits_ms: list[float] = []
        self.failure: BaseException | None = None
        self._wire = Wire(port)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            requests = list(self._requests())
            while not self._stop.wait(PAUSE_SECONDS):
                for request in requests:
                    began = time.perf_counter()
                    answer = self._wire.ask(request, 12)
                    assert answer is not CLOSED, "the broker closed a good connection"
                    self.waits_ms.append((time.perf_counter() - began) * 1000)
        except BaseException as error:
            self.failure = error

    def _requests(self) -> Iterator[Any]:
        yield produce_request(OWN_TOPIC, batch(b"v" * 100, timestamp=NOW_MS), acks=1)
        wanted = [FetchPartition(0, -1, 0, partition_max_bytes=1000)]
        yield FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(OWN_TOPIC, partitions=wanted)])
        yield MetadataRequest([MetadataRequestTopic(name=OWN_TOPIC)])
        yield produce_request(TOPIC, batch(b"v", timestamp=NOW_MS), acks=1)

    def take(self) -> list[float]:
        taken, self.waits_ms = self.waits_ms, []
        return taken

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._wire.close()
        if self.failure is not None:
            raise self.failure


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the broker is gone")


def under(attack: str, seconds: float, seed: int, broker: BrokerProcess, witness: Witness) -> Figures:
    """What one attack did to the broker and to its other client."""
    witness.take()
    command = [sys.executable, "-m", "tests.soak.hostile_attacks"]
    command += [str(broker.port), attack, str(seconds), str(seed)]
    began, peak = time.monotonic(), rss_mb(broker.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        while process.poll() is None:
            peak = max(peak, rss_mb(broker.pid))
            time.sleep(0.05)  # looks at the memory so often while the attack lasts
        assert process.stdout is not None
        said = process.stdout.read().split()
    assert len(said) == 2, f"{attack} ended with {process.returncode}; the broker said:\n{broker.log[-4000:]}"
    requests, connections = map(int, said)
    waits = sorted(witness.take()) or [float("inf")]
    return Figures(
        attack,
        time.monotonic() - began,
        requests,
        connections,
        peak,
        len(waits),
        waits[-1],
        waits[len(waits) // 2],
    )


def table(figures: list[Figures], idle_mb: float) -> str:
    head = ("attack", "s", "requests", "conns", "MB over idle", "asked", "worst", "usual")
    lines = ["{:18} {:>5} {:>9} {:>7} {:>12} {:>6} {:>9} {:>9}".format(*head)]
    lines += (
        f"{each.attack:18} {each.seconds:5.0f} {each.requests:9} {each.connections:7} "
        f"{each.rss_mb - idle_mb:12.0f} {each.asked:6} {each.worst_ms:6.0f} ms {each.usual_ms:6.1f} ms"
        for each in figures
    )
    return "\n".join(lines)


def test_nothing_cheap_stops_a_broker(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        with capfd.disabled():
            print(text, flush=True)

    seed = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
    dice = random.Random(seed)
    rounds = max(1, round(SECONDS / len(ATTACKS) / LONGEST_ATTACK_SECONDS))
    seconds = SECONDS / len(ATTACKS) / rounds
    say(f"\nhostile soak of {SECONDS:.0f} s, MOLDAU_SOAK_SEED={seed}, data in {tmp_path}")
    figures: list[Figures] = []
    with BrokerProcess(tmp_path / "data") as broker:
        prepare(broker.port)
        witness = Witness(broker.port)
        time.sleep(2)  # so long the well-behaved client has the broker to itself
        assert witness.failure is None, repr(witness.failure)
        idle_mb, usual = rss_mb(broker.pid), sorted(witness.take())
        say(f"idle: {idle_mb:.0f} MB, the longest of {len(usual)} waits {usual[-1]:.0f} ms")
        for _ in range(rounds):
            for attack in ATTACKS:
                figures.append(under(attack, seconds, dice.randrange(1 << 30), broker, witness))
                say(table(figures[-1:], idle_mb).splitlines()[1])
                assert witness.failure is None, f"{attack}: {witness.failure!r}\n{broker.log[-4000:]}"
        witness.stop()
        assert broker.stop() == 0
        errors = [line for line in broker.log.splitlines() if " ERROR " in line or "Traceback" in line]
    say(table(figures, idle_mb))
    assert not errors, "\n".join(errors[:20])
    judge(figures, idle_mb)


def prepare(port: int) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in (OWN_TOPIC, TOPIC)]
    with Wire(port) as wire:
        answer = wire.ask(CreateTopicsRequest(topics, 10_000), 7)
        assert [topic.error_code for topic in answer.topics] == [0, 0]


def judge(figures: list[Figures], idle_mb: float) -> None:
    checks: list[tuple[str, Callable[[Figures], float], float]] = [
        ("MB over idle", lambda each: each.rss_mb - idle_mb, RSS_MB),
        ("ms of waiting", lambda each: each.worst_ms, WAIT_MS),
    ]
    broken = [
        f"{each.attack}: {value(each):.0f} {what}, the limit is {limit:.0f}"
        for each in figures
        for what, value, limit in checks
        if value(each) > limit
    ]
    assert not broken, "\n".join(broken)

"""Consume, transform, produce with Kafka's own programs, killed in the middle: every record counts once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.moldau_broker import MoldauBroker
from tests.conformance.kafka_tools import JAVA_CLASSES, JavaTools
from tests.conformance.tool_process import JavaProcess

pytestmark = pytest.mark.timeout(400)

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COPIED = 10_000
WORDS = ("moldau", "vltava", "river", "stream", "log", "broker", "topic", "record", "offset", "epoch")
# Before and after the kill; the first lot is more than an application counts while we look.
LINES = (10_000, 1_000)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauBroker]:
    with MoldauBroker(tmp_path_factory.mktemp("exactly-once"), SETTINGS) as running:
        yield running


@pytest.fixture
def servers(broker: MoldauBroker) -> list[str]:
    return ["--bootstrap-server", broker.bootstrap_servers]


def create(java_tools: JavaTools, servers: list[str], *topics: str, partitions: int) -> None:
    for topic in topics:
        made = java_tools.run(
            "kafka-topics", [*servers, "--create", "--topic", topic, "--partitions", str(partitions)]
        )
        assert made.exit_code == 0, made.stderr


def committed(java_tools: JavaTools, servers: list[str], topic: str, *more: str) -> list[str]:
    """The lines that a reader of committed records sees: at least so many, or all after some silence."""
    words = [*servers, "--topic", topic, "--from-beginning", "--isolation-level", "read_committed", *more]
    return java_tools.run("kafka-console-consumer", words).stdout.splitlines()


@pytest.mark.check(
    "ProducerPerformance, ConsumerPerformance 4.3.0",
    "100,000 records in transactions of 100 ms, all of them read with read_committed in a group",
)
def test_performance_tools(java_tools: JavaTools, servers: list[str], tmp_path: Path) -> None:
    create(java_tools, servers, "perf-tx", partitions=3)
    load = ["--topic", "perf-tx", "--num-records", "100000", "--record-size", "100", "--throughput", "20000"]
    sent = java_tools.run(
        "kafka-producer-perf-test",
        [*load, *servers, "--transactional-id", "perf", "--transaction-duration-ms", "100"],
    )
    assert sent.exit_code == 0, sent.stderr
    assert "100000 records sent" in sent.stdout
    settings = tmp_path / "consumer.properties"
    settings.write_text("isolation.level=read_committed\n")
    words = ["--topic", "perf-tx", "--num-records", "100000", "--group", "perf", "--hide-header"]
    read = java_tools.run("kafka-consumer-perf-test", [*words, *servers, "--command-config", str(settings)])
    assert read.exit_code == 0, read.stderr
    assert int(read.stdout.splitlines()[-1].split(", ")[4]) == 100_000
    listed = java_tools.run("kafka-transactions", [*servers, "list"]).stdout
    assert "CompleteCommit" in next(line for line in listed.splitlines() if line.startswith("perf"))


@pytest.mark.check(
    "TransactionalMessageCopier 4.3.0",
    "two copiers in a group with random aborts, one killed and started again: each record copied once",
)
def test_copiers(broker: MoldauBroker, java_tools: JavaTools, servers: list[str], tmp_path: Path) -> None:
    create(java_tools, servers, "copy-in", "copy-out", partitions=2)
    keys = ["--repeating-keys", "100"]
    words = [*servers, "--topic", "copy-in", "--max-messages", str(COPIED), *keys]
    with JavaProcess(JAVA_CLASSES["kafka-verifiable-producer"], words, tmp_path) as producer:
        assert producer.wait() == 0, producer.told()

    def copier(name: str) -> JavaProcess:
        words = ["--input-topic", "copy-in", "--input-partition", "0", "--output-topic", "copy-out"]
        words += ["--broker-list", broker.bootstrap_servers, "--consumer-group", "copiers", "--group-mode"]
        words += ["--transactional-id", name, "--transaction-size", "100", "--transaction-timeout", "10000"]
        return JavaProcess(COPIER, [*words, "--enable-random-aborts", "--use-group-metadata"], tmp_path)

    with ExitStack() as stack:
        copiers = {name: stack.enter_context(copier(name)) for name in ("copier-0", "copier-1")}
        copiers["copier-0"].wait_for(lambda _: any(map(has_begun, copiers.values())), "progress")
        victim = next(name for name, each in copiers.items() if has_begun(each))
        copiers[victim].kill()
        copiers[victim] = stack.enter_context(copier(victim))
        lines = committed(
            *(java_tools, servers, "copy-out"), "--max-messages", str(COPIED), "--timeout-ms", "90000"
        )
        assert len(lines) == COPIED, "\n".join(each.told() for each in copiers.values())
        for each in copiers.values():
            each.stop()
    lines = committed(java_tools, servers, "copy-out", "--timeout-ms", "3000")
    assert Counter(lines) == Counter(str(number) for number in range(COPIED))


def has_begun(copier: JavaProcess) -> bool:
    """Whether it has copied some transactions; many more are to come then."""
    return any(event["totalProcessed"] > 500 for event in copier.events)


def text(lines: int) -> list[str]:
    chosen = random.Random(lines)
    return [" ".join(chosen.choices(WORDS, k=5)) for _ in range(lines)]


@pytest.mark.check(
    "Kafka Streams 4.3.0",
    "word count with exactly_once_v2, killed and started again: every count of every word once, in order",
)
def test_streams_word_count(
    broker: MoldauBroker, java_tools: JavaTools, servers: list[str], tmp_path: Path
) -> None:
    create(java_tools, servers, "lines", "counts", partitions=3)
    before, after = map(text, LINES)

    def produce(lines: list[str]) -> None:
        stdin = "".join(f"{number}|{line}\n" for number, line in enumerate(lines))
        keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
        sent = java_tools.run("kafka-console-producer", [*servers, "--topic", "lines", *keyed], stdin)
        assert sent.exit_code == 0, sent.stderr

    def application() -> JavaProcess:
        arguments = [broker.bootstrap_servers, "word-count", str(tmp_path / "state"), "lines", "counts"]
        return JavaProcess("WordCount", arguments, tmp_path)

    def counts(*more: str) -> list[str]:
        return committed(java_tools, servers, "counts", "--formatter-property", "print.key=true", *more)

    produce(before)
    with application() as first:
        first.wait_for(lambda each: "RUNNING" in each.lines, "state RUNNING")
        assert counts("--max-messages", "1", "--timeout-ms", "60000"), first.told()
        first.kill()
    assert 0 < len(counts("--timeout-ms", "3000")) < LINES[0] * 5, "it was not killed in the middle"
    produce(after)
    total = Counter(" ".join(before + after).split())
    with application() as second:
        seen = counts("--max-messages", str(total.total()), "--timeout-ms", "90000")
        assert len(seen) == total.total(), second.told()
        second.stop()
    check_counts(counts("--timeout-ms", "3000"), total)


def check_counts(lines: list[str], expected: Counter[str]) -> None:
    """Each word shows 1, 2, 3 and so on to its number, once each."""
    shown: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        word, _, count = line.partition("\t")
        shown[word].append(int(count))
    assert shown == {word: list(range(1, count + 1)) for word, count in expected.items()}

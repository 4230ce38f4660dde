"""Transcripts of Kafka 4.3's own tools, call by call, with ours against our broker."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker

MINUTE_MS = 60_000
YEAR_2026_MS = 1_767_225_600_000


@pytest.fixture
def replay(
    broker: Broker,
    tool: Callable[..., Any],
    tool_at: Callable[..., Any],
    transcript: Callable[[str], list[Any]],
) -> Callable[[str], None]:
    """Runs the calls of a transcript one after the other and compares each."""
    # Kafka sets this when it formats a cluster, and its tools show it for every topic.
    default = ("--entity-type", "brokers", "--entity-default", "--add-config", "min.insync.replicas=1")
    assert tool_at("kafka-configs", "--alter", *default).code == 0

    def run(name: str) -> None:
        for block in transcript(name):
            words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
            result = tool(*words, stdin=block.stdin)
            told = f"{block.command}\n{result.stdout}\n{result.stderr}"
            assert sorted(map(alike, result.lines)) == sorted(
                alike(line.replace("BOOTSTRAP", broker.bootstrap_servers)) for line in block.stdout
            ), told
            for line in block.stderr:
                assert line.replace("BOOTSTRAP", broker.bootstrap_servers) in result.errors, told
            assert result.code == block.code, told

    return run


def alike(line: str) -> str:
    """A line without what differs from run to run: ids, ports, the order of configs."""
    line = re.sub(r"TopicId: \S{22}", "TopicId: <id>", line)
    line = re.sub(r"^(1 +127\.0\.0\.1) \d+ +", r"\1 <port> ", line)
    line = re.sub(r"Cluster ID: \S{22}", "Cluster ID: <id>", line)
    head, found, configs = line.partition("\tConfigs: ")
    return head + found + ",".join(sorted(configs.split(",")))


def make_topics(broker: Broker, tool_at: Callable[..., Any]) -> None:
    """As topics.txt leaves them."""
    for words in (
        ("orders", "--partitions", "3", "--config", "retention.ms=-1"),
        ("audit.log", "--partitions", "4"),
        ("payments", "--config", "cleanup.policy=compact", "--config", "segment.bytes=1048576",
         "--config", "min.cleanable.dirty.ratio=0.1"),
    ):  # fmt: skip
        assert tool_at("kafka-topics", "--create", "--topic", *words).code == 0
    for index in range(10):
        timestamp_ms = YEAR_2026_MS + index * MINUTE_MS
        broker.produce("orders", b"v%d" % index, key=b"k%d" % index, partition=0, timestamp_ms=timestamp_ms)
    for index in range(5):
        timestamp_ms = YEAR_2026_MS + (60 + index) * MINUTE_MS
        broker.produce("orders", b"w%d" % index, key=b"k%d" % index, partition=1, timestamp_ms=timestamp_ms)
    for index in range(3):
        broker.produce("payments", b"v", key=b"k%d" % index)


def test_topics(replay: Callable[[str], None]) -> None:
    replay("topics")


def test_get_offsets(broker: Broker, tool_at: Callable[..., Any], replay: Callable[[str], None]) -> None:
    make_topics(broker, tool_at)
    replay("get-offsets")


@pytest.mark.slow
def test_configs(broker: Broker, tool_at: Callable[..., Any], replay: Callable[[str], None]) -> None:
    make_topics(broker, tool_at)
    replay("configs")


def test_cluster(replay: Callable[[str], None]) -> None:
    replay("cluster")


@pytest.mark.slow
def test_console_producer_then_consumer(
    broker: Broker,
    tool_at: Callable[..., Any],
    replay: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_topics(broker, tool_at)
    monkeypatch.chdir(tmp_path)
    write_offsets(tmp_path)
    replay("delete-records")
    replay("console-producer")
    replay("console-consumer")


def write_offsets(directory: Path) -> None:
    for name, offsets in {
        "dr": [("orders", 0, 2), ("orders", 1, -1)],
        "dr3": [("orders", 0, 2), ("orders", 0, 3)],
        "dr4": [("payments", 0, 1)],
    }.items():
        entries = ",".join(
            f'{{"topic":"{topic}","partition":{partition},"offset":{offset}}}'
            for topic, partition, offset in offsets
        )
        (directory / f"{name}.json").write_text(f'{{"partitions":[{entries}],"version":1}}')


def test_log_dirs(
    broker: Broker,
    tool: Callable[..., Any],
    tool_at: Callable[..., Any],
    transcript: Callable[[str], list[Any]],
) -> None:
    for block in transcript("log-dirs"):
        words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
        result = tool(*words)
        shown = re.sub(r'"logDir":"[^"]*"', '"logDir":"DATA"', result.stdout)
        assert shown.splitlines() == block.stdout
        assert all(line in result.errors for line in block.stderr)
        assert result.code == block.code
    make_topics(broker, tool_at)
    line = tool_at("kafka-log-dirs", "--describe", "--topic-list", "payments").lines[-1]
    assert '{"partition":"payments-0","size":' in line
    assert "orders" not in line

"""Kafka's VerifiableConsumer in both protocols against our broker: three members, one of them killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.moldau_broker import MOLDAU, MoldauBroker
from tests.conformance.kafka_tools import JAVA_CLASSES, JavaTools
from tests.conformance.tool_process import JavaProcess, ToolProcess

pytestmark = pytest.mark.timeout(300)

# A member that is killed is missed after so long, in the newer protocol too.
SESSION_MS = "6000"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
PARTITIONS = 6
RECORDS = 3000
Partition = tuple[str, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauBroker]:
    with MoldauBroker(tmp_path_factory.mktemp("groups"), SETTINGS) as running:
        yield running


def arguments(broker: MoldauBroker, protocol: str, group: str, *more: str) -> list[str]:
    words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", protocol, "--group-id", group]
    if protocol == "classic":
        words += ["--session-timeout", SESSION_MS]
    return [*words, "--group-protocol", protocol, *more]


def consumer(directory: Path, words: list[str]) -> JavaProcess:
    return JavaProcess(JAVA_CLASSES["kafka-verifiable-consumer"], words, directory)


def our_consumer(directory: Path, words: list[str]) -> ToolProcess:
    tool = "kafka-verifiable-consumer"
    return ToolProcess(tool, [str(MOLDAU), tool, *words], directory)


def produce(broker: MoldauBroker, directory: Path, topic: str, count: int, *more: str) -> None:
    words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--max-messages", str(count)]
    keys = ["--repeating-keys", "100"]  # so that every partition gets its share
    with JavaProcess(
        JAVA_CLASSES["kafka-verifiable-producer"], [*words, *keys, *more], directory
    ) as producer:
        assert producer.wait() == 0, producer.told()
        acked = [event for event in producer.events if event["name"] == "producer_send_success"]
        assert len(acked) == count, producer.told()


def partitions(event: dict[str, Any]) -> set[Partition]:
    return {(each["topic"], each["partition"]) for each in event["partitions"]}


def owned(member: ToolProcess) -> set[Partition]:
    """What a member has at the moment, by its own account."""
    has: set[Partition] = set()
    for event in member.events:
        if event["name"] == "partitions_assigned":
            has |= partitions(event)
        elif event["name"] == "partitions_revoked":
            has -= partitions(event)
    return has


def consumed(*members: ToolProcess) -> set[tuple[int, int]]:
    """Partition and offset of every record that one of the members has seen."""
    return {
        (part["partition"], offset)
        for member in members
        for event in member.events
        if event["name"] == "records_consumed"
        for part in event["partitions"]
        for offset in range(part["minOffset"], part["maxOffset"] + 1)
    }


def wait_until_shared(members: Sequence[ToolProcess]) -> None:
    """Until the members have all partitions among them, each some."""
    share = PARTITIONS // len(members)
    for member in members:
        member.wait_for(lambda each: len(owned(each)) == share, f"share of {share} partitions")


def spells(member: ToolProcess, end_ms: int) -> Iterator[tuple[Partition, int, int]]:
    """Partition, from when, until when."""
    since: dict[Partition, int] = {}
    for event in member.events:
        if event["name"] == "partitions_assigned":
            since |= dict.fromkeys(partitions(event), event["timestamp"])
        elif event["name"] == "partitions_revoked":
            for each in partitions(event):
                yield each, since.pop(each), event["timestamp"]
    for each, begin in since.items():  # those of a member that was killed
        yield each, begin, end_ms


def check_one_owner_at_a_time(members: Sequence[ToolProcess], killed: ToolProcess) -> None:
    killed_ms = max(event["timestamp"] for event in killed.events)
    history = sorted(
        (each, begin, end) for member in members for each, begin, end in spells(member, killed_ms)
    )
    for (before, _, end), (partition, begin, _) in pairwise(history):
        assert before != partition or end <= begin, f"{partition} had two owners: {history}"


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param(
            protocol,
            marks=pytest.mark.check(
                "VerifiableConsumer 4.3.0",
                f"{protocol} protocol: three members share, one is killed, nothing is lost",
            ),
        )
        for protocol in ("classic", "consumer")
    ],
)
def test_three_members_one_killed(
    protocol: str, broker: MoldauBroker, java_tools: JavaTools, tmp_path: Path
) -> None:
    words = ["--bootstrap-server", broker.bootstrap_servers]
    topic = ["--topic", protocol, "--partitions", str(PARTITIONS)]
    assert java_tools.run("kafka-topics", [*words, "--create", *topic]).exit_code == 0
    with ExitStack() as stack:
        same = arguments(broker, protocol, protocol)
        members = [stack.enter_context(consumer(tmp_path, same)) for _ in range(3)]
        wait_until_shared(members)
        produce(broker, tmp_path, protocol, RECORDS)
        victim, *survivors = members
        victim.kill()
        produce(broker, tmp_path, protocol, RECORDS)
        wait_until_shared(survivors)
        for member in survivors:
            member.wait_for(lambda _: len(consumed(*members)) == 2 * RECORDS, "end of the topic")
        for member in survivors:
            assert member.stop() == 143, member.told()
            assert member.events[-1]["name"] == "shutdown_complete"
    check_one_owner_at_a_time(members, victim)
    described = java_tools.run("kafka-consumer-groups", [*words, "--describe", "--group", protocol])
    lags = [line.split()[5] for line in described.stdout.splitlines() if line.startswith(f"{protocol} ")]
    assert lags == ["0"] * PARTITIONS, described.stdout


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param(
            protocol,
            marks=pytest.mark.check(
                "moldau kafka-verifiable-consumer",
                f"{protocol} protocol: shares a group with Kafka's VerifiableConsumer",
            ),
        )
        for protocol in ("classic", "consumer")
    ],
)
def test_one_group_of_both_makes(
    protocol: str, broker: MoldauBroker, java_tools: JavaTools, tmp_path: Path
) -> None:
    words = ["--bootstrap-server", broker.bootstrap_servers, "--create", "--topic", protocol]
    java_tools.run("kafka-topics", [*words, "--partitions", str(PARTITIONS), "--if-not-exists"])
    same = arguments(broker, protocol, f"both-{protocol}", "--reset-policy", "latest")
    with our_consumer(tmp_path, same) as ours, consumer(tmp_path, same) as theirs:
        wait_until_shared([ours, theirs])
        before = len(consumed(ours, theirs))
        produce(broker, tmp_path, protocol, 1000)
        theirs.wait_for(lambda _: len(consumed(ours, theirs)) == before + 1000, "end of the topic")
        assert theirs.stop() == 143, theirs.told()
        wait_until_shared([ours])
        assert ours.stop() == 143, ours.told()
        assert ours.events[-1]["name"] == "shutdown_complete"
        check_one_owner_at_a_time([ours, theirs], killed=theirs)


@pytest.mark.check("VerifiableConsumer 4.3.0", "static members come back without a round of the others")
def test_static_member(broker: MoldauBroker, java_tools: JavaTools, tmp_path: Path) -> None:
    words = ["--bootstrap-server", broker.bootstrap_servers, "--create", "--topic", "classic"]
    java_tools.run("kafka-topics", [*words, "--partitions", str(PARTITIONS), "--if-not-exists"])
    same = arguments(broker, "classic", "static", "--session-timeout", "30000")
    with consumer(tmp_path, same) as other:
        other.wait_for(lambda each: len(owned(each)) == PARTITIONS, "partitions")
        for _ in range(2):
            with consumer(tmp_path, [*same, "--group-instance-id", "till-1"]) as member:
                wait_until_shared([other, member])
                member.stop()
        rounds = [event for event in other.events if event["name"] == "partitions_assigned"]
        assert len(rounds) == 2, other.told()


@pytest.mark.check("VerifiableProducer 4.3.0", "every record acknowledged, with keys, acks=1 and a prefix")
def test_verifiable_producer(broker: MoldauBroker, java_tools: JavaTools, tmp_path: Path) -> None:
    produce(broker, tmp_path, "produced", 1000, "--acks", "1", "--value-prefix", "7")
    words = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "produced"]
    read = java_tools.run(
        "kafka-console-consumer",
        [*words, "--from-beginning", "--max-messages", "1000", "--timeout-ms", "20000"],
    )
    assert sorted(read.stdout.split()) == sorted(f"7.{number}" for number in range(1000))

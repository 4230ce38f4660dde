"""kafka-transactions: its transcript over our broker with real producers, what hangs, its options."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.hanging_transactions import PartitionTransaction, hangs, open_transactions
from moldau.cli.kafka_tools.transactions import table_lines
from moldau.client.admin.descriptions import ProducerState
from moldau.client.admin.transactions import TransactionDescription
from moldau.testing import Broker

PATIENCE_SECONDS = 30
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def begin(
    broker: Broker, transactional_id: str, topic: str, partitions: list[int], timeout_ms: int
) -> Producer:
    """A producer with an open transaction that has written one record to each partition."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, b"v", partition=partition)
        producer.flush(PATIENCE_SECONDS)
    return producer


@pytest.fixture
def producers(broker: Broker) -> list[Producer]:
    """As the transcript has them: tx-open has a transaction open, tx-done has committed one."""
    broker.create_topic("txt", 2)
    open_ = begin(broker, "tx-open", "txt", [0, 1], 600_000)
    done = begin(broker, "tx-done", "txt", [1], 60_000)
    done.commit_transaction(PATIENCE_SECONDS)
    return [open_, done]


def rows(lines: list[str], names: dict[str, str]) -> list[dict[str, str]]:
    """A printed table without what differs from run to run; producer ids by the names given for them."""
    if not lines:
        return []
    head, *body = ([cell.strip() for cell in line.split("\t")[:-1]] for line in lines)
    found = [dict(zip(head, cells, strict=True)) for cells in body]
    for row in found:
        for name in ("LastTimestamp", "CurrentTransactionStartTimeMs", "TransactionDurationMs"):
            if row.get(name, "None") != "None":
                row[name] = "some"
        if "ProducerId" in row:
            row["ProducerId"] = names[row["ProducerId"]]
    return sorted([dict.fromkeys(head, ""), *found], key=lambda row: sorted(row.items()))


def test_transcript(
    broker: Broker,
    producers: list[Producer],
    tool: Callable[..., Any],
    transcript: Callable[[str], list[Any]],
) -> None:
    first = tool("kafka-transactions", "--bootstrap-server", broker.bootstrap_servers, "list")
    ours = {cells.split("\t")[2].strip(): cells.split("\t")[0].strip() for cells in first.lines[1:]}
    blocks = transcript("transactions")
    assert len(blocks) == 20
    for block in blocks:
        words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
        result = tool(*words)
        told = f"{block.command}\n{result.stdout}\n{result.stderr}"
        assert rows(result.lines, ours) == rows(block.stdout, {"10": "tx-open", "11": "tx-done"}), told
        for line in block.stderr:
            assert line in result.errors, told
        assert result.code == block.code, told


def test_a_table_looks_like_kafkas() -> None:
    assert table_lines(("TransactionalId", "Id"), [("a", 1), ("long-transactional-id", 22)]) == [
        "TransactionalId      \tId\t",
        "a                    \t1 \t",
        "long-transactional-id\t22\t",
    ]
    assert table_lines(("Topic", "Id"), []) == ["Topic\tId\t"]


def producer(producer_id: int, start_offset: int, last_timestamp: int = 5) -> ProducerState:
    return ProducerState(producer_id, 0, 0, last_timestamp, -1, start_offset)


def test_only_old_open_transactions_are_candidates() -> None:
    found = open_transactions({P0: [producer(1, 7), producer(2, -1), producer(3, 0, last_timestamp=9)]}, 9)
    assert found == [PartitionTransaction(P0, producer(1, 7))]


def test_what_hangs() -> None:
    known = {1: TransactionDescription("a", 1, "Ongoing", 1, 0, 60_000, 5, (P1,))}
    assert not hangs(PartitionTransaction(P1, producer(1, 0)), known)
    assert hangs(PartitionTransaction(P0, producer(1, 0)), known), "the coordinator has no such partition"
    assert hangs(PartitionTransaction(P1, producer(2, 0)), known), "no coordinator knows the producer"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "too few arguments"),
        (
            ("foo",),
            "invalid choice: 'foo' (choose from 'list', 'describe', 'describe-producers', 'abort', "
            "'find-hanging', 'forceTerminateTransaction')",
        ),
        (("list",), "argument --bootstrap-server is required"),
        (("list", "more"), "unrecognized arguments: 'more'"),
        (("list", "--frob"), "unrecognized arguments: '--frob'"),
        (("list", "--topic", "t"), "unrecognized arguments: '--topic'"),
        (("--bootstrap-server", "x:1", "describe"), "argument --transactional-id is required"),
        (("--bootstrap-server", "x:1", "abort", "--topic", "t"), "argument --partition is required"),
        (("describe-producers", "--partition", "abc"), "Cannot parse argument 'abc' of option partition"),
    ],
)
def test_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-transactions", *words)
    assert result.errors[0] == f"kafka-transactions.sh: error: {message}"
    assert result.code == 1


ABORT = ("abort", "--topic", "none", "--partition", "0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (ABORT, "The transaction to abort must be identified either with --start-offset"),
        ((*ABORT, "--producer-id", "1"), "Missing required argument --producer-epoch"),
        (
            (*ABORT, "--producer-id", "1", "--producer-epoch", "0"),
            "Missing required argument --coordinator-epoch",
        ),
        ((*ABORT, "--start-offset", "0"), "Failed to validate producer state for partition none-0: "),
        (
            (*ABORT, "--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "-1"),
            "Failed to abort transaction AbortTransactionSpec(topicPartition=none-0, producerId=1, "
            "producerEpoch=0, coordinatorEpoch=0): ",
        ),
        (
            ("describe-producers", "--topic", "none", "--partition", "9"),
            "Failed to describe producers for partition none-9 on leader: ",
        ),
        (
            ("describe-producers", "--topic", "none", "--partition", "9", "--broker-id", "1"),
            "Failed to describe producers for partition none-9 on broker 1: ",
        ),
        (("find-hanging", "--topic", "none"), "Failed to find hanging transactions: "),
        (
            ("find-hanging", "--broker-id", "1", "--partition", "0"),
            "The --partition argument requires --topic to be provided",
        ),
        (("list", "--transactional-id-pattern", "("), "Failed to list transactions: "),
        (("forceTerminateTransaction", "--transactionalId", ""), "Failed to force terminate"),
    ],
)
def test_mistakes(broker: Broker, tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-transactions", "--bootstrap-server", broker.bootstrap_servers, *words)
    assert result.errors[-1].startswith(message), result.stderr
    assert result.code == 1

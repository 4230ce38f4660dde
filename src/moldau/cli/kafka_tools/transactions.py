"""``moldau kafka-transactions``: shows and ends transactions, as Kafka's TransactionsCommand does.

Its commands are list, describe, describe-producers, abort, find-hanging and forceTerminateTransaction. For a
partition that does not exist Kafka's tool waits for ever; this one reports it.

Invariant: only abort and forceTerminateTransaction change anything. A failure is one line on standard error
and exit code 1.
"""

import asyncio
from collections.abc import Iterable, Sequence

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import sentence
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error
from moldau.cli.kafka_tools.hanging_transactions import PartitionTransaction, Search, find_hanging
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import ProducerState
from moldau.client.admin.transactions import TransactionDescription, Transactions
from moldau.protocol.errors import ErrorCode, KafkaError

#: Command -> the options that it takes, and those that it requires.
_COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "list": (("duration-filter", "transactional-id-pattern"), ()),
    "describe": (("transactional-id",), ("transactional-id",)),
    "describe-producers": (("broker-id", "topic", "partition"), ("topic", "partition")),
    "abort": (
        ("topic", "partition", "start-offset", "producer-id", "producer-epoch", "coordinator-epoch"),
        ("topic", "partition"),
    ),
    "find-hanging": (("broker-id", "max-transaction-timeout", "topic", "partition"), ()),
    "forceTerminateTransaction": (("transactionalId",), ("transactionalId",)),
}
_EVERYWHERE = ("bootstrap-server", "command-config", "version")

TOOL = Tool(
    "kafka-transactions",
    "Shows the state of transactions and their producers, and ends transactions that hang.",
    Options(
        *CLUSTER_OPTIONS,
        Option("version", "Show the version and exit.", letter="v"),
        Option("topic", "The topic to look at.", "topic"),
        Option("partition", "The partition to look at.", "partition", int),
        Option("broker-id", "Ask this replica, not the leader.", "id", int),
        Option("transactional-id", "With describe: the transactional id.", "id"),
        Option("transactionalId", "With forceTerminateTransaction: the transactional id.", "id"),
        Option("duration-filter", "With list: those that began longer ago than this.", "ms", int),
        Option("transactional-id-pattern", "With list: those whose id fits.", "pattern"),
        Option("start-offset", "With abort: the first offset of the transaction.", "offset", int),
        Option("producer-id", "With abort, for brokers before 3.0: the producer id.", "id", int),
        Option("producer-epoch", "With --producer-id: the epoch of the producer.", "epoch", int),
        Option("coordinator-epoch", "With --producer-id: the epoch of the coordinator.", "epoch", int),
        Option(
            "max-transaction-timeout",
            "With find-hanging: pass over what is younger than this.",
            "minutes",
            int,
            default=15,
        ),
    ),
    (
        "--bootstrap-server localhost:9092 list --duration-filter 600000",
        "--bootstrap-server localhost:9092 describe --transactional-id payments",
        "--bootstrap-server localhost:9092 find-hanging --topic orders",
        "--bootstrap-server localhost:9092 abort --topic orders --partition 0 --start-offset 1234",
    ),
)


class Failed(Exception):
    """A failure, with the line that Kafka's tool prints for it."""


def main(arguments: Sequence[str], console: Console) -> int:
    try:
        command, given = parse(with_bootstrap_server(arguments, console))
    except OptionError as error:
        return report_usage_error(
            TOOL, OptionError(f"kafka-transactions.sh: error: {error.message}"), console
        )
    try:
        asyncio.run(_execute(command, given, console))
    except Failed as error:
        console.error(str(error))
        return 1
    return 0


def parse(arguments: Sequence[str]) -> tuple[str, Given]:
    """The command and its options; OptionError has the message of Kafka's tool."""
    try:
        given = TOOL.options.parse(arguments)
    except OptionError as error:
        name = error.message.removesuffix(" is not a recognized option")
        raise OptionError(f"unrecognized arguments: '--{name}'" if name != error.message else name) from None
    if not given.rest:
        raise OptionError("too few arguments")
    command = given.rest[0]
    if command not in _COMMANDS:
        choices = ", ".join(f"'{name}'" for name in _COMMANDS)
        raise OptionError(f"invalid choice: '{command}' (choose from {choices})")
    if given.rest[1:]:
        raise OptionError(f"unrecognized arguments: '{given.rest[1]}'")
    taken, needed = _COMMANDS[command]
    for option in TOOL.options.options:
        if given.has(option.name):
            if option.name not in (*taken, *_EVERYWHERE):
                raise OptionError(_not_for(option.name, taken))
            given.value(option.name)  # reports a bad number before the cluster is asked
    for name in ("bootstrap-server", *needed):
        if not given.has(name):
            raise OptionError(f"argument --{name} is required")
    return command, given


def _not_for(name: str, taken: Iterable[str]) -> str:
    alike = [
        f"\t--{each}" for each in taken if each.replace("-", "").lower() == name.replace("-", "").lower()
    ]
    return "\n".join(
        [f"unrecognized arguments: '--{name}'", *(["", "Did you mean:", *alike] if alike else [])]
    )


def table_lines(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Every cell is padded to the width of its column and followed by a tab, even the last one."""
    cells = [headers, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    return [
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)) for row in cells
    ]


def description_row(found: TransactionDescription, now_ms: int) -> list[object]:
    begun = found.start_ms >= 0
    return [
        found.coordinator_id,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        found.start_ms if begun else "None",
        now_ms - found.start_ms if begun else "None",
        ",".join(str(partition) for partition in found.partitions),
    ]


def hanging_row(found: PartitionTransaction, now_ms: int) -> list[object]:
    producer = found.producer
    return [
        found.partition.topic,
        found.partition.partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_transaction_start_offset,
        producer.last_timestamp,
        (now_ms - producer.last_timestamp) // 60_000,
    ]


async def _execute(command: str, given: Given, console: Console) -> None:
    if command == "find-hanging":
        _check_scope(given)
    async with await open_admin_cluster(given, console, call=command) as cluster:
        transactions = Transactions(cluster)
        match command:
            case "list":
                lines = await _list(transactions, given)
            case "describe":
                lines = await _describe(transactions, given.value("transactional-id"))
            case "describe-producers":
                lines = await _describe_producers(transactions, given)
            case "find-hanging":
                lines = await _find_hanging(transactions, given)
            case "abort":
                await _abort(transactions, given)
                lines = []
            case _:
                await _force_terminate(transactions, given.value("transactionalId"))
                lines = []
    for line in lines:
        console.print(line)


async def _list(transactions: Transactions, given: Given) -> list[str]:
    duration_ms = given.value("duration-filter")
    try:
        found = await transactions.list_transactions(
            duration_ms=-1 if duration_ms is None else duration_ms,
            pattern=given.value("transactional-id-pattern"),
        )
    except KafkaError as error:
        raise failure("Failed to list transactions", error) from None
    return table_lines(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found],
    )


async def _describe(transactions: Transactions, transactional_id: str) -> list[str]:
    found = (await transactions.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            found = KafkaError(
                found.code,
                f"DescribeTransactions request for transactionalId `{transactional_id}` failed because "
                "the ID could not be found",
            )
        raise failure(f"Failed to describe transaction state of transactional-id `{transactional_id}`", found)
    headers = ("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
               "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs",
               "TopicPartitions")  # fmt: skip
    return table_lines(headers, [description_row(found, SystemClock().now_ms())])


async def _producers(
    transactions: Transactions, partition: TopicPartition, broker_id: int | None, what: str
) -> list[ProducerState]:
    try:
        if broker_id is None:
            found = await Admin(transactions.cluster).describe_producers([partition])
        else:
            found = await transactions.producers_on(broker_id, [partition])
    except KafkaError as error:
        raise failure(what, error) from None
    outcome = found[partition]
    if isinstance(outcome, KafkaError):
        raise failure(what, outcome)
    return outcome


async def _describe_producers(transactions: Transactions, given: Given) -> list[str]:
    partition, broker_id = _partition(given), given.value("broker-id")
    whom = "leader" if broker_id is None else f"broker {broker_id}"
    found = await _producers(
        transactions,
        partition,
        broker_id,
        f"Failed to describe producers for partition {partition} on {whom}",
    )
    headers = ("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
               "CurrentTransactionStartOffset")  # fmt: skip
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            "None" if each.current_transaction_start_offset < 0 else each.current_transaction_start_offset,
        )
        for each in found
    ]
    return table_lines(headers, rows)


def _check_scope(given: Given) -> None:
    if not given.has("topic") and not given.has("broker-id"):
        raise Failed(
            "The `find-hanging` command requires either --topic or --broker-id "
            "to limit the scope of the search"
        )
    if given.has("partition") and not given.has("topic"):
        raise Failed("The --partition argument requires --topic to be provided")


async def _find_hanging(transactions: Transactions, given: Given) -> list[str]:
    now_ms = SystemClock().now_ms()
    search = Search(
        topic=given.value("topic"),
        partition=given.value("partition"),
        broker_id=given.value("broker-id"),
        older_than_ms=given.value("max-transaction-timeout") * 60_000,
    )
    try:
        found = await find_hanging(transactions, search, now_ms)
    except KafkaError as error:
        raise failure("Failed to find hanging transactions", error) from None
    headers = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset",
               "LastTimestamp", "Duration(min)")  # fmt: skip
    return table_lines(headers, [hanging_row(each, now_ms) for each in found])


async def _abort(transactions: Transactions, given: Given) -> None:
    partition = _partition(given)
    if given.has("start-offset"):
        offset = given.value("start-offset")
        found = await _producers(
            transactions, partition, None, f"Failed to validate producer state for partition {partition}"
        )
        open_ = [each for each in found if each.current_transaction_start_offset == offset >= 0]
        if not open_:
            raise Failed(
                f"Could not find any open transactions starting at offset {offset} on partition {partition}"
            )
        producer_id, producer_epoch = open_[0].producer_id, open_[0].producer_epoch
        coordinator_epoch = open_[0].coordinator_epoch
    else:
        producer_id, producer_epoch, coordinator_epoch = _named_producer(given)
    # Without a coordinator epoch nobody has ended a transaction of this producer yet, so 0 is accepted.
    coordinator_epoch = max(0, coordinator_epoch)
    try:
        await transactions.abort_transaction(partition, producer_id, producer_epoch, coordinator_epoch)
    except KafkaError as error:
        spec = (
            f"AbortTransactionSpec(topicPartition={partition}, producerId={producer_id}, "
            f"producerEpoch={producer_epoch}, coordinatorEpoch={coordinator_epoch})"
        )
        raise failure(f"Failed to abort transaction {spec}", error) from None


def _named_producer(given: Given) -> tuple[int, int, int]:
    if not given.has("producer-id"):
        raise Failed(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
            "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in ("producer-epoch", "coordinator-epoch"):
        if not given.has(name):
            raise Failed(f"Missing required argument --{name}")
    return given.value("producer-id"), given.value("producer-epoch"), given.value("coordinator-epoch")


async def _force_terminate(transactions: Transactions, transactional_id: str) -> None:
    try:
        await transactions.fence_producer(transactional_id)
    except KafkaError as error:
        raise failure(f"Failed to force terminate transactionalId `{transactional_id}`", error) from None


def _partition(given: Given) -> TopicPartition:
    return TopicPartition(given.value("topic"), given.value("partition"))


def failure(what: str, error: KafkaError) -> Failed:
    return Failed(f"{what}: {sentence(error)}. Enable debug logging for additional detail.")

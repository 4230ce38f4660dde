"""Records of internal topics as Kafka's dump tool prints them (texts captured from Kafka 4.3.0)."""

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.records.record_decoders import transaction_log
from moldau.coordinators.transactions.records import TransactionRecord, encode_record
from moldau.coordinators.transactions.transaction import Transaction, TransactionState
from moldau.protocol.records import Record

KEY = '{"type":"0","data":{"transactionalId":"pt"}}'


def shown(transaction: Transaction | None) -> tuple[str, str | None]:
    key, value = encode_record(TransactionRecord("pt", transaction))
    return transaction_log(Record(3, 0, key, value))


def test_an_open_transaction() -> None:
    transaction = Transaction(
        producer_id=8,
        producer_epoch=0,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=(TopicPartition("perf", 0),),
        last_update_ms=1794779391408,
        start_ms=1794779391408,
        previous_producer_id=8,
        client_transaction_version=2,
    )
    assert shown(transaction) == (
        KEY,
        '{"version":"1","data":{"producerId":8,"previousProducerId":8,"producerEpoch":0,'
        '"transactionTimeoutMs":60000,"transactionStatus":1,"transactionPartitions":[{"topic":"perf",'
        '"partitionIds":[0]}],"transactionLastUpdateTimestampMs":1794779391408,'
        '"transactionStartTimestampMs":1794779391408,"clientTransactionVersion":2}}',
    )


def test_an_id_without_a_transaction() -> None:
    transaction = Transaction(
        producer_id=8,
        producer_epoch=0,
        timeout_ms=60_000,
        state=TransactionState.EMPTY,
        partitions=(),
        last_update_ms=1794779391271,
        start_ms=-1,
        previous_producer_id=8,
        client_transaction_version=0,
    )
    assert shown(transaction) == (
        KEY,
        '{"version":"1","data":{"producerId":8,"previousProducerId":8,"producerEpoch":0,'
        '"transactionTimeoutMs":60000,"transactionStatus":0,"transactionPartitions":null,'
        '"transactionLastUpdateTimestampMs":1794779391271,"transactionStartTimestampMs":-1}}',
    )


def test_a_forgotten_id() -> None:
    assert shown(None) == (KEY, "<DELETE>")


def test_what_cannot_be_read_is_told_in_its_place() -> None:
    assert transaction_log(Record(3, 0, b"\0\7x", None)) == (
        "Unknown record type 7 at offset 3, skipping.",
        None,
    )
    good, _ = encode_record(TransactionRecord("pt", None))
    for key, value in ((None, None), (b"", None), (b"\0\0\0\xff", None), (good, b"\0\x09"), (good, b"\0\1")):
        text, nothing = transaction_log(Record(3, 0, key, value))
        assert text.startswith("Could not read record at offset 3 due to: ")
        assert nothing is None

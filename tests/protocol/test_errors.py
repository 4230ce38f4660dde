"""Error codes, and the one error that reaches a client."""

import pytest

from moldau.protocol.errors import RETRIABLE, ErrorCode, KafkaError


def test_numbers_of_kafka() -> None:
    assert (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE) == (-1, 0)
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID) == (6, 100)
    numbers = sorted(int(code) for code in ErrorCode)
    assert numbers == list(range(-1, numbers[-1] + 1)), "Kafka left no number out"


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_what_may_succeed_when_it_is_sent_again(code: ErrorCode, retriable: bool) -> None:
    assert KafkaError(code).retriable is retriable
    assert (code in RETRIABLE) is retriable


def test_an_error_in_words() -> None:
    assert str(KafkaError(ErrorCode.INVALID_TXN_STATE)) == "INVALID_TXN_STATE"
    told = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is no number")
    assert str(told) == "INVALID_CONFIG: retention.ms is no number"
    assert (told.code, told.message) == (ErrorCode.INVALID_CONFIG, "retention.ms is no number")


def test_a_message_that_repeats_what_a_client_sent_fits_an_answer() -> None:
    told = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "\N{GRINNING FACE}" * 40_000).message
    assert told is not None
    assert told.endswith("...")
    assert len(told.encode()) <= 32_767

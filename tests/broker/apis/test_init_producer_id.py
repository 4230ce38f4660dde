"""InitProducerId: ids for idempotent producers, and the one owner of a transactional id."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.apis.asking import Ask, begin_transaction, new_producer, open_coordinator


def test_an_idempotent_producer_gets_a_new_id_each_time(ask: Ask) -> None:
    one, other = (ask(InitProducerIdRequest(None, 1000)) for _ in range(2))
    assert (one.error_code, one.producer_epoch, other.producer_epoch) == (0, 0, 0)
    assert one.producer_id != other.producer_id
    assert ask.broker.topics() == [], "no coordinator is needed for that"


def test_a_transactional_id_keeps_its_id_and_gets_a_new_epoch(ask: Ask) -> None:
    first = new_producer(ask)
    assert new_producer(ask) == (first[0], first[1] + 1)
    assert new_producer(ask, "other")[0] != first[0]


def test_what_the_former_owner_left_open_is_aborted_first(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    producer_id, epoch = begin_transaction(ask, "orders")
    waiting = ask(InitProducerIdRequest("t", 60_000), 4)
    assert (waiting.error_code, waiting.producer_id) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1)
    given = ask(InitProducerIdRequest("t", 60_000), 4)
    assert (given.error_code, given.producer_id) == (0, producer_id)
    assert given.producer_epoch > epoch


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest("", 1000), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("t", 1000, 5, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, 1000, -1, 5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("t", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("t", 3_600_000), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_what_is_refused(ask: Ask, request_: InitProducerIdRequest, code: ErrorCode) -> None:
    open_coordinator(ask, 1)
    response = ask(request_)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


def test_an_owner_of_the_past_is_fenced_in_the_words_of_its_version(ask: Ask) -> None:
    producer_id, epoch = new_producer(ask)
    new_producer(ask)
    new_producer(ask)
    late = InitProducerIdRequest("t", 60_000, producer_id, epoch)
    assert ask(late, 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(late, 4).error_code == ErrorCode.PRODUCER_FENCED


def test_without_a_coordinator(ask: Ask) -> None:
    response = ask(InitProducerIdRequest("t", 60_000), 4)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

"""Transactions: one that is open is seen, and can be aborted."""

from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from moldau.testing import Broker


@pytest.mark.slow
def test_an_open_transaction_is_seen_and_aborted(console: Any, broker: Broker) -> None:
    assert "No producer has used transactions" in console.get("/transactions").words
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing <b>"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("bills", b"x")
    assert producer.flush(60) == 0
    page = console.get("/transactions")
    assert "Ongoing" in page.words
    assert "billing &lt;b&gt;" in page.text
    one = console.get("/transactions/view", id="billing <b>")
    assert "bills 0" in one.words
    # Readers of committed records do not see it; who asks for all does.
    assert "No record is here" in console.get("/topics/bills/messages").words
    assert "No record is here" not in console.get("/topics/bills/messages", uncommitted="true").words
    assert "is aborted" in console.post("/transactions/abort", id="billing <b>").words
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    unknown = console.post("/transactions/abort", id="nobody")
    assert (unknown.status, "no transactional id" in unknown.words) == (400, True)
    assert "nobody" not in console.get("/transactions").words

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker


def test_a_fork_for_each_test() -> None:
    with Broker() as broker:
        for number in range(10):
            broker.produce("orders", f"{number}", timestamp_ms=1000 + number)
        broker.fork("orders", "first", configs={"retention.ms": -1})
        broker.fork("orders", "second", offsets={0: 4})
        broker.fork("orders", "third", timestamp_ms=1001)
        broker.produce("first", "only here")
        assert [len(broker.records(topic)) for topic in ("orders", "first", "second", "third")] == [
            10,
            11,
            4,
            2,
        ]
        with pytest.raises(KafkaError) as refused:
            broker.fork("orders", "first")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        broker.reset()
        assert broker.topics() == []


def test_forks_of_forks() -> None:
    with Broker() as broker:
        broker.produce("a", "1")
        broker.fork("a", "b")
        broker.produce("b", "2")
        broker.fork("b", "c")
        broker.produce("c", "3")
        assert [[r.value for r in broker.records(topic)] for topic in "abc"] == [
            [b"1"],
            [b"1", b"2"],
            [b"1", b"2", b"3"],
        ]

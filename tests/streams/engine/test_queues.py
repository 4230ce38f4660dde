"""Which record of several topics is taken next."""

from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Input


def test_the_topic_with_the_earliest_first_record_is_next() -> None:
    queues = RecordQueues()
    for topic, key, time in [("a", "a1", 10), ("a", "a2", 1), ("b", "b1", 5), ("b", "b2", 20)]:
        queues.add(Input(topic, key, None, time), time)
    order = []
    while queues:
        record, _ = queues.take()
        order.append(record.key)
    assert order == ["b1", "a1", "a2", "b2"]

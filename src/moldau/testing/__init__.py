"""Moldau inside a test: a real broker in the process, ready in milliseconds.

from moldau.testing import Broker

with Broker() as broker:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    ...
    assert [record.value for record in broker.records("orders")] == [b"one"]
"""

from moldau.testing.broker import Broker
from moldau.testing.interception import Interception, delay, drop, fail

__all__ = ["Broker", "Interception", "delay", "drop", "fail"]

"""Ten lines against a broker: write three records, read them back."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

producer = Producer({"bootstrap.servers": servers})
for order in ("a pair of boots", "a lamp", "a map of the Moldau"):
    producer.produce("orders", value=order, key="alice")
producer.flush()

consumer = Consumer({"bootstrap.servers": servers, "group.id": "shop", "enable.auto.commit": False})
consumer.assign([TopicPartition("orders", 0, 0)])
for message in consumer.consume(3, timeout=10):
    print(message.offset(), message.key().decode(), message.value().decode())
consumer.close()

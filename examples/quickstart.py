"""The ten lines of the README: write three records, read them back. Give an address if it is another one."""

import sys

from confluent_kafka import Consumer, Producer

servers = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}
producer = Producer(servers)
for number in range(3):
    producer.produce("greetings", key="cz", value=f"ahoj {number}")
producer.flush()

consumer = Consumer({**servers, "group.id": "readme", "auto.offset.reset": "earliest"})
consumer.subscribe(["greetings"])
print([message.value() for message in consumer.consume(3, timeout=10)])

"""Count per key with quixstreams, every update to a topic, exactly once: SERVERS TOPIC; runs until ended."""

import sys

from quixstreams import Application

servers, topic = sys.argv[1:]
application = Application(
    broker_address=servers,
    consumer_group="quixstreams-count",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
)
source = application.topic("in", key_deserializer="string", value_deserializer="bytes")
target = application.topic(topic, key_serializer="string", value_serializer="integer")


def count(value, state):
    seen = state.get("count", 0) + 1
    state.set("count", seen)
    return seen


application.dataframe(source).apply(count, stateful=True).to_topic(target)
application.run()

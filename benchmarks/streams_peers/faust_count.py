"""Count per key with faust, every update to a topic, at least once: SERVERS TOPIC; runs until ended."""

import sys

import faust

servers, topic = sys.argv[1:]
application = faust.App(
    "faust-count",
    broker=f"kafka://{servers}",
    store="memory://",
    key_serializer="raw",
    value_serializer="raw",
    topic_partitions=4,
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
)
source = application.topic("in", key_type=bytes, value_type=bytes)
target = application.topic(topic, key_type=bytes, value_type=bytes)
counts = application.Table("counts", default=int, key_type=bytes, value_type=int, partitions=4)


@application.agent(source)
async def count(records):
    async for record in records.events():
        counts[record.key] += 1
        await target.send(key=record.key, value=counts[record.key].to_bytes(8, "big"))


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--loglevel=warn"]
    application.main()

"""What a cluster's metadata costs as it grows: the image, the log, elections, one answer for all topics.

    python -m benchmarks.cluster_scale [--partitions 10000 100000] [--brokers 3 30]

prints a line of JSON for each size. Times are of this process's CPU, so that a busy machine does not change
them; there is no network and no disk in them. The figures in ``docs/scale.md`` come from here.
"""

import argparse
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from moldau.cluster.controller.elections import elections_after_loss
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import (
    BrokerRegistered,
    ClusterCreated,
    Endpoint,
    PartitionChanged,
    Record,
    TopicCreated,
    decode_all,
    encode_all,
)

REPLICATION_FACTOR = 3
PARTITIONS_PER_TOPIC = 100


def records(brokers: int, partitions: int) -> list[Record]:
    """A cluster with its replicas one after the other round the brokers."""
    made: list[Record] = [ClusterCreated("scale")]
    for broker in range(brokers):
        endpoint = Endpoint("PLAINTEXT", f"broker-{broker}.example", 9092, "PLAINTEXT")
        made.append(BrokerRegistered(broker, broker, broker.to_bytes(16, "big"), (endpoint,)))
    for topic in range(partitions // PARTITIONS_PER_TOPIC):
        topic_id = (topic + 1).to_bytes(16, "big")
        made.append(TopicCreated(topic_id, f"topic-{topic:06d}"))
        for index in range(PARTITIONS_PER_TOPIC):
            first = (topic * PARTITIONS_PER_TOPIC + index) % brokers
            replicas = tuple((first + step) % brokers for step in range(REPLICATION_FACTOR))
            made.append(PartitionChanged(topic_id, index, replicas, replicas, first, 0, 0))
    return made


def measure(brokers: int, partitions: int) -> dict[str, Any]:
    log = records(brokers, partitions)
    text, encode_ms = _timed(lambda: encode_all(log))
    packed = zlib.compress(text.encode(), 1)
    _, decode_ms = _timed(lambda: decode_all(text))
    image, apply_ms = _timed(lambda: EMPTY_IMAGE.apply_all(log, version=1))
    changed, elect_ms = _timed(lambda: elections_after_loss(image, {0}))
    after, follow_ms = _timed(lambda: image.apply_all(changed, version=2))
    assert not any(each.leader == 0 for topic in after.topics_by_id.values() for each in topic.partitions)
    return {
        "brokers": brokers,
        "partitions": partitions,
        "image_bytes": _image_bytes(log),
        "log_bytes": len(text),
        "log_bytes_compressed": len(packed),
        "encode_ms": encode_ms,
        "decode_ms": decode_ms,
        "apply_ms": apply_ms,
        "partitions_that_change": len(changed),
        "elect_after_loss_ms": elect_ms,
        "apply_elections_ms": follow_ms,
        "elections_bytes": len(encode_all(changed)),
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, round((time.process_time() - start) * 1000, 1)


def _image_bytes(log: Sequence[Record]) -> int:
    """The memory of one image beside the records that it was made from, which a broker does not keep."""
    text = encode_all(log)
    tracemalloc.start()
    image: ClusterImage = EMPTY_IMAGE.apply_all(decode_all(text), version=1)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert image.version == 1
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--brokers", nargs="+", type=int, default=[3, 30])
    given = parser.parse_args()
    for brokers in given.brokers:
        for partitions in given.partitions:
            print(json.dumps(measure(brokers, partitions)), flush=True)


if __name__ == "__main__":
    main()

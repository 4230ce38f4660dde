"""What reading and writing the hot messages costs: ``python -m benchmarks.codec``.

Prints microseconds for one call, the best of several rounds, on one core: Produce and Fetch as the broker meets
them (requests read, responses written), and the time that declaring the first messages takes in a fresh process.
"""

import subprocess
import sys
import timeit
from collections.abc import Callable

from moldau.protocol import codec
from moldau.protocol.messages import fetch, produce

_RECORDS = bytes(200)
_TOPIC_ID = bytes(range(16))
_IMPORT = """
import moldau.protocol.schema
import time
start = time.perf_counter()
from moldau.protocol.messages import api_versions, fetch, metadata, produce
print(time.perf_counter() - start)
"""


def produce_request() -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=3, records=_RECORDS)
    topic = produce.TopicProduceData(name="events", topic_id=_TOPIC_ID, partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    topic = produce.TopicProduceResponse(name="events", topic_id=_TOPIC_ID, partition_responses=[partition])
    return produce.ProduceResponse(responses=[topic])


def fetch_request(partitions: int) -> fetch.FetchRequest:
    wanted = [
        fetch.FetchPartition(partition=index, fetch_offset=1_000, partition_max_bytes=1 << 20)
        for index in range(partitions)
    ]
    topic = fetch.FetchTopic(topic="events", topic_id=_TOPIC_ID, partitions=wanted)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def fetch_response(partitions: int) -> fetch.FetchResponse:
    given = [
        fetch.PartitionData(partition_index=index, high_watermark=2_000, log_start_offset=0, records=_RECORDS)
        for index in range(partitions)
    ]
    topic = fetch.FetchableTopicResponse(topic="events", topic_id=_TOPIC_ID, partitions=given)
    return fetch.FetchResponse(responses=[topic])


def microseconds(call: Callable[[], object], rounds: int = 9) -> float:
    timer = timeit.Timer(call)
    times, seconds = timer.autorange()
    times = max(1, round(times * 0.1 / seconds))
    return min(timer.repeat(rounds, times)) / times * 1e6


def decoding(message: object, version: int) -> float:
    frame = memoryview(codec.encode(message, version))
    read = codec.reader(type(message), version)
    return microseconds(lambda: read(frame, 0))


def encoding(message: object, version: int) -> float:
    write = codec.writer(type(message), version)
    return microseconds(lambda: write(message, bytearray(), []))


def declaring() -> float:
    """Seconds until Produce, Fetch, Metadata and ApiVersions are declared, without the language itself."""
    runs = (subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, check=True) for _ in range(5))
    return min(float(run.stdout) for run in runs)


def main() -> None:
    for version in (9, 13):
        print(f"Produce v{version}, one partition: decode request  {decoding(produce_request(), version):8.2f} µs")
        print(f"Produce v{version}, one partition: make response   {microseconds(produce_response):8.2f} µs")
        print(f"Produce v{version}, one partition: encode response {encoding(produce_response(), version):8.2f} µs")
    for partitions in (1, 50):
        where = f"Fetch v13, {partitions} partition{'s' if partitions > 1 else ''}"
        print(f"{where}: decode request  {decoding(fetch_request(partitions), 13):8.2f} µs")
        print(f"{where}: make response   {microseconds(lambda n=partitions: fetch_response(n)):8.2f} µs")
        print(f"{where}: encode response {encoding(fetch_response(partitions), 13):8.2f} µs")
    print(f"declaring produce, fetch, metadata and api_versions: {declaring() * 1e3:.1f} ms")


if __name__ == "__main__":
    main()

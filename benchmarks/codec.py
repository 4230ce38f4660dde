"""What reading and writing the hot messages costs: ``python -m benchmarks.codec``.

Prints microseconds for one call, the best of several rounds, on one core: Produce and Fetch as the broker
meets them (requests read, responses made and written), and what declaring the first messages takes in a fresh
process.
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
    command = [sys.executable, "-c", _IMPORT]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def report(what: str, microseconds: float) -> None:
    print(f"{what:<48} {microseconds:8.2f} µs")


def main() -> None:
    for version in (9, 13):
        where = f"Produce v{version}, 1 partition"
        report(f"{where}: read the request", decoding(produce_request(), version))
        report(f"{where}: make the response", microseconds(produce_response))
        report(f"{where}: write the response", encoding(produce_response(), version))
    for partitions in (1, 50):
        where = f"Fetch v13, {partitions} partition{'s' if partitions > 1 else ''}"
        report(f"{where}: read the request", decoding(fetch_request(partitions), 13))
        report(f"{where}: make the response", microseconds(lambda n=partitions: fetch_response(n)))
        report(f"{where}: write the response", encoding(fetch_response(partitions), 13))
    report("declare produce, fetch, metadata, api_versions", declaring() * 1e6)


if __name__ == "__main__":
    main()

"""Produce: good batches, bad ones, and topics with rules."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.compression import Compression
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import ATTRIBUTES_AT, MAGIC_AT, TimestampType
from tests.contract.batches import (
    LAST_OFFSET_DELTA_AT,
    RECORD_COUNT_AT,
    batch,
    of_size,
    old_message,
    patched,
    with_payload,
)
from tests.contract.golden import CLOSED
from tests.contract.scene import UNKNOWN_ID, Scene, produce_request

MINUTE = 60_000


def refused(code: int, message: str, log_start_offset: int = -1) -> Any:
    result = {
        "Index": 0,
        "ErrorCode": code,
        "BaseOffset": -1,
        "LogAppendTimeMs": -1,
        "LogStartOffset": log_start_offset,
        "RecordErrors": [],
        "ErrorMessage": message,
    }
    return {"Responses": [{"Name": "p1", "PartitionResponses": [result]}], "ThrottleTimeMs": 0}


def unsupported(version: int) -> Any:
    result = {"Index": 0, "ErrorCode": 35, "BaseOffset": -1}
    if version >= 2:
        result["LogAppendTimeMs"] = -1
    answer: dict[str, Any] = {"Responses": [{"Name": "p1", "PartitionResponses": [result]}]}
    return answer if version == 0 else {**answer, "ThrottleTimeMs": 0}


#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # These versions are advertised for librdkafka's sake; an answer says more than a closed connection.
    **{f"good batch, version {version}": unsupported(version) for version in (0, 1, 2)},
    "magic 1 message in v2": unsupported(2),
    # The real broker forgets to answer.
    "null records": refused(87, "the records of the partition are null"),
    # The real broker fails over these, and answers UNKNOWN_SERVER_ERROR.
    "unknown compression codec 7": refused(76, "Unknown compression type id: 7", 0),
    "garbage compressed payload": refused(87, "broken gzip data", 0),
    # The real broker appends the last of the two and says nothing of the other.
    "same partition twice in a request": [0, 1],
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.create("p1")
    for version in (0, 1, 2, 3, 5, 8, 9, 11, 12):
        answer = scene.produce("p1", good(scene), version=version)
        yield f"good batch, version {version}", answer
    answer = scene.ask(produce_request(scene.topic_id("p1"), good(scene)), 13)
    yield "good batch, version 13", answer
    yield "acks=1", scene.produce("p1", good(scene), acks=1)
    yield from unknown(scene)
    yield from broken(scene)
    yield from acknowledgements(scene)
    yield from limits(scene)
    yield from timestamps(scene)
    yield from rules(scene)


def good(scene: Scene) -> bytes:
    return batch(timestamp=scene.now_ms)


def unknown(scene: Scene) -> Iterator[tuple[str, Any]]:
    yield "unknown topic", scene.produce("nope", good(scene))
    (topic,) = scene.metadata("nope")["Topics"]
    yield "does produce to an unknown topic create it?", topic
    yield "unknown topic id", scene.ask(produce_request(UNKNOWN_ID, good(scene)), 13)
    yield "unknown partition", scene.produce("p1", good(scene), partition=7)


def broken(scene: Scene) -> Iterator[tuple[str, Any]]:
    fine = good(scene)
    no_records = patched(with_payload(fine, b""), RECORD_COUNT_AT, "i", 0)
    cases = {
        "bad CRC": fine[:17] + b"\0\1\2\3" + fine[21:],
        "magic 1 message in v9": old_message(1, scene.now_ms),
        "magic 0 message in v9": old_message(0, scene.now_ms),
        "magic 3 batch": patched(fine, MAGIC_AT, "b", 3),
        "two batches in one partition": fine + fine,
        "null records": None,
        "empty records": b"",
        "batch with zero records": patched(no_records, LAST_OFFSET_DELTA_AT, "i", 0),
        "record count larger than records present": patched(fine, RECORD_COUNT_AT, "i", 3),
        "lastOffsetDelta does not match count": patched(fine, LAST_OFFSET_DELTA_AT, "i", 5),
        "base offset not 0 in the request": patched(fine, 0, "q", 500),
        "control batch from a client": batch(timestamp=scene.now_ms, control=True),
        "log-append-time bit set by the client": batch(
            timestamp=scene.now_ms, timestamp_type=TimestampType.LOG_APPEND_TIME
        ),
        "unknown compression codec 7": patched(fine, ATTRIBUTES_AT, "h", 7),
        "garbage compressed payload": patched(fine, ATTRIBUTES_AT, "h", 1),
        "truncated batch": fine[:-5],
    }
    for case, records in cases.items():
        yield case, without_the_librarys_words(scene.produce("p1", records))
    yield "magic 1 message in v2", scene.produce("p1", old_message(1, scene.now_ms), version=2)
    yield "empty topic list", scene.ask(ProduceRequest(None, -1, 5000, []), 9)


def without_the_librarys_words(answer: Any) -> Any:
    for result in answer["Responses"][0]["PartitionResponses"]:
        if "broken gzip data" in (result["ErrorMessage"] or ""):
            result["ErrorMessage"] = "broken gzip data"
    return answer


def acknowledgements(scene: Scene) -> Iterator[tuple[str, Any]]:
    fine = good(scene)
    yield "acks=2", scene.produce("p1", fine, acks=2)
    yield "acks=-2", scene.produce("p1", fine, acks=-2)
    yield "acks=2 to an unknown topic", scene.produce("nope", fine, acks=2)
    cases = {
        "acks=0, good": produce_request("p1", fine, acks=0),
        "acks=0, bad CRC": produce_request("p1", fine[:-1] + b"!", acks=0),
        "acks=0, unknown topic": produce_request("nope", fine, acks=0),
    }
    for case, message in cases.items():
        scene.wire.send(message, 9)
        answer = scene.ask(MetadataRequest([]), 1)
        if answer == CLOSED:
            yield case, CLOSED
        else:
            yield case, {"answer_to_produce": "none", "next_request_answered": "Brokers" in answer}


def limits(scene: Scene) -> Iterator[tuple[str, Any]]:
    scene.create("small", configs={"max.message.bytes": "1000"})
    yield "batch larger than max.message.bytes", scene.produce("small", of_size(2000, scene.now_ms))
    exact, over = (scene.produce("small", of_size(size, scene.now_ms)) for size in (1000, 1001))
    yield "batch size exactly 1000 (whole batch incl. 12-byte prefix)", [1000, exact]
    yield "batch size exactly 1001", [1001, over]
    scene.create("cmp", configs={"cleanup.policy": "compact"})
    cases = {
        "record without key to a compacted topic": [None],
        "keyless record second of three": [b"a", None, b"c"],
        "empty (zero length) key to a compacted topic": [b""],
    }
    for case, keys in cases.items():
        yield case, scene.produce("cmp", batch(*[b"v"] * len(keys), keys=keys, timestamp=scene.now_ms))


def timestamps(scene: Scene) -> Iterator[tuple[str, Any]]:
    minute = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
    scene.create("ts", configs=minute)

    def at(topic: str, timestamp: int) -> Any:
        return scene.produce(topic, batch(timestamp=timestamp))

    yield "timestamp too old", at("ts", scene.now_ms - 10 * MINUTE)
    yield "timestamp too far ahead", at("ts", scene.now_ms + 10 * MINUTE)
    yield "timestamp ahead, default 1 h limit", at("p1", scene.now_ms + 120 * MINUTE)
    yield "timestamp -1", at("p1", -1)
    yield "timestamp -1 with a before limit", at("ts", -1)
    yield "timestamp very old, default", at("p1", 0)
    now = scene.now_ms
    yield "maxTimestamp in header wrong", scene.produce("p1", batch(timestamp=now, max_timestamp=now + 1000))
    scene.create("lat", configs={"message.timestamp.type": "LogAppendTime"})
    yield "LogAppendTime topic", scene.produce("lat", batch(b"v", b"v", timestamp=5))
    yield "LogAppendTime: batch as fetched", fetched(scene, "lat")


def fetched(scene: Scene, topic: str) -> Any:
    asked = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    answer = scene.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked]), 12)
    return answer["Responses"][0]["Partitions"][0]["Records"]


def rules(scene: Scene) -> Iterator[tuple[str, Any]]:
    now = scene.now_ms
    scene.create("misr", configs={"min.insync.replicas": "2"})
    yield "min.insync.replicas=2 with one replica", scene.produce("misr", good(scene))
    yield "min.insync.replicas=2 with one replica (again)", scene.produce("misr", good(scene), acks=1)
    scene.create("__consumer_offsets")
    yield "internal topic __consumer_offsets", scene.produce("__consumer_offsets", good(scene))
    yield "offsets: several records", scene.produce("p1", batch(b"1", b"2", b"3", timestamp=now))
    scene.create("b1")
    twice = [PartitionProduceData(0, good(scene)), PartitionProduceData(0, good(scene))]
    answer = scene.ask(ProduceRequest(None, -1, 5000, [TopicProduceData("b1", partition_data=twice)]), 9)
    answered = answer["Responses"][0]["PartitionResponses"]
    yield "same partition twice in a request", [each["BaseOffset"] for each in answered]
    both = [PartitionProduceData(0, good(scene)), PartitionProduceData(9, good(scene))]
    mixed = ProduceRequest(None, -1, 5000, [TopicProduceData("p1", partition_data=both)])
    yield "good and bad partitions in a request", scene.ask(mixed, 9)
    yield from compression(scene)


def compression(scene: Scene) -> Iterator[tuple[str, Any]]:
    """Sizes of compressed batches depend on the library; all else of them is compared."""
    now = scene.now_ms
    scene.create("zs", configs={"compression.type": "zstd"})
    scene.produce("zs", batch(b"v" * 100, timestamp=now))
    yield "topic compression.type=zstd, producer sends uncompressed", fetched(scene, "zs")
    scene.create("un", configs={"compression.type": "uncompressed"})
    scene.produce("un", batch(b"v" * 100, timestamp=now, compression=Compression.GZIP))
    yield "topic compression.type=uncompressed, producer sends gzip", fetched(scene, "un")
    packed = batch(timestamp=now, compression=Compression.ZSTD)
    yield "zstd in a too old produce version", scene.produce("p1", packed, version=6)
    yield "zstd in v7", scene.produce("p1", packed, version=7)

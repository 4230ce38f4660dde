"""What compaction costs: its speed alone, and what producers feel of it while it runs.

Run it alone on a quiet machine: ``python -m benchmarks.compaction [--megabytes N] [--directory D]``. The
first table compacts a log that was never compacted, ten records to a key, in a thread of this process:
megabytes of the log a second, best of several rounds, from the first look at the log to the last file in its
place; by the clock on the wall, and by the processor time of the thread, which other work does not spoil. The
second one sends records one by one to a broker and waits for each answer, with and without a compaction of
another topic going on beside it, and compares the times.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from confluent_kafka import Message, Producer

from benchmarks.bench import create_topic, set_topic_config
from benchmarks.load import Latencies
from benchmarks.moldau_broker import MoldauBroker
from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.records import Record, encode_batch
from moldau.storage.compaction.cleaner_worker import ThreadWorker
from moldau.storage.compaction.log_cleaner import CleanerConfig, LogCleaner
from moldau.storage.directory.logs import Logs
from moldau.storage.files import OsFiles
from moldau.storage.log.log import Log, LogConfig

MB = 1024 * 1024
ROUNDS = 2
RECORDS_TO_A_KEY = 10
BATCH_BYTES = 16 * 1024
NOW_MS = SystemClock().now_ms()
WORDS = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon", b"zeta", b"eta", b"theta", b"iota", b"kappa"]
CASES = [(100, Compression.NONE), (1000, Compression.NONE), (100, Compression.ZSTD), (1000, Compression.ZSTD)]
CONFIG = LogConfig(compact=True, delete=False, segment_bytes=64 * MB, min_cleanable_dirty_ratio=0.0)

WARM_UP_RECORDS = 500
FEWEST_RECORDS = 2000
PATIENCE_S = 300.0


def value(size: int) -> bytes:
    """Words in some order: a codec finds something to do, as in real data."""
    text = b" ".join(random.choices(WORDS, k=size // 5 + 1))
    return text[:size]


def filled(files: OsFiles, directory: str, size: int, codec: Compression, total: int) -> tuple[Logs, Log]:
    """A log of about so many bytes (before compression) whose keys come in no order."""
    logs = Logs(files, [directory], 1, None, SystemClock())
    logs.open()
    log = logs.create(TopicPartition("bench", 0), bytes(16), CONFIG)
    count = total // size
    in_a_batch = max(1, BATCH_BYTES // size)
    keys = [b"key-%09d" % number for number in range(count // RECORDS_TO_A_KEY)]
    values = [value(size) for _ in range(997)]
    for first in range(0, count, in_a_batch):
        records = [
            Record(at, NOW_MS + at // 10, random.choice(keys), values[(first + at) % 997])
            for at in range(in_a_batch)
        ]
        log.append(memoryview(encode_batch(records, compression=codec)), 0, NOW_MS)
    log.roll(NOW_MS)
    log.flush()
    return logs, log


def compact(files: OsFiles, logs: Logs) -> tuple[float, float]:
    """Seconds for all of it, and seconds of the processor."""
    cleaner = LogCleaner(files, logs, lambda: ThreadWorker(files, SystemClock()))
    began, processor = time.perf_counter(), time.thread_time()
    job = cleaner.begin_cleaning(NOW_MS, CleanerConfig())
    assert job is not None
    while job is not None:
        job.run()
        job = cleaner.finish_cleaning(job, NOW_MS)
    return time.perf_counter() - began, time.thread_time() - processor


def measure_speed(root: str, total: int) -> None:
    print(f"compaction, {total // MB} MB of records, {RECORDS_TO_A_KEY} to a key")
    print(f"  {'records':<24}{'log':>10}{'left':>10}{'MB/s':>10}{'MB/CPU s':>10}{'records/CPU s':>16}")
    for number, (size, codec) in enumerate(CASES):
        best = best_processor = float("inf")
        before = after = 0
        for round_number in range(ROUNDS):
            files = OsFiles()
            logs, log = filled(files, f"{root}/{number}-{round_number}", size, codec, total)
            before = log.size
            seconds, processor = compact(files, logs)
            best, best_processor = min(best, seconds), min(best_processor, processor)
            after = log.size
            logs.close()
            files.remove_tree(f"{root}/{number}-{round_number}")
        what = f"{size} bytes, {codec.label}"
        print(
            f"  {what:<24}{before / MB:>7.1f} MB{after / MB:>7.1f} MB"
            f"{before / MB / best:>10.1f}{before / MB / best_processor:>10.1f}"
            f"{total / size / best_processor:>16,.0f}"
        )


# --- beside a producer -------------------------------------------------------------------------------------


class Paced:
    """Sends records one by one, each after the answer to the one before."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        options = {"linger.ms": 0, "acks": "all", "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **options})
        self._topic = topic
        self._value = value(100)

    def send(self) -> int:
        """Microseconds until the answer."""
        answers: list[object] = []

        def answered(error: object, message: Message) -> None:
            answers.append(error)

        began = time.perf_counter_ns()
        self._producer.produce(self._topic, self._value, on_delivery=answered)
        while not answers:
            self._producer.poll(1.0)
        took = (time.perf_counter_ns() - began) // 1000
        assert answers == [None], answers
        return took


def fill_topic(bootstrap_servers: str, topic: str, total: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "batch.size": BATCH_BYTES})
    count = total // 100
    content = value(100)
    for _ in range(count):
        key = b"key-%09d" % random.randrange(count // RECORDS_TO_A_KEY)
        while True:
            try:
                producer.produce(topic, content, key=key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def measure_latency(root: str, total: int) -> None:
    with MoldauBroker(Path(root) / "broker", {"log.cleaner.backoff.ms": "500"}) as broker:
        never = {"min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(16 * MB)}
        never["cleanup.policy"] = "compact"
        create_topic(broker, "dirty", configs=never)
        create_topic(broker, "asked")
        fill_topic(broker.bootstrap_servers, "dirty", total)
        time.sleep(3)  # flushes and the like
        paced = Paced(broker.bootstrap_servers, "asked")
        for _ in range(WARM_UP_RECORDS):
            paced.send()
        checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
        size = log_bytes(broker.data_dir, "dirty")
        alone = [paced.send() for _ in range(FEWEST_RECORDS)]
        set_topic_config(broker, "dirty", "min.cleanable.dirty.ratio", "0.01")
        while not list((broker.data_dir / "dirty-0").glob("*.cleaned")):
            paced.send()
        began = time.perf_counter()
        beside = []
        while not (checkpoint.exists() and "dirty" in checkpoint.read_text()):
            beside.append(paced.send())
            assert time.perf_counter() - began < PATIENCE_S
        seconds = time.perf_counter() - began
    show_latencies(Latencies(tuple(alone)), Latencies(tuple(beside)), size / MB, seconds)


def log_bytes(data_dir: Path, topic: str) -> int:
    return sum(path.stat().st_size for path in (data_dir / f"{topic}-0").glob("*.log"))


def show_latencies(alone: Latencies, beside: Latencies, megabytes: float, seconds: float) -> None:
    print(f"\none producer, a record at a time; the new segments of {megabytes:.0f} MB took {seconds:.1f} s")
    print(f"  {'milliseconds':<24}{'alone':>10}{'beside':>10}{'ratio':>10}")
    for percent in (50, 95, 99, 99.9):
        one, other = alone.percentile_ms(percent), beside.percentile_ms(percent)
        print(f"  p{percent:<23g}{one:>10.3f}{other:>10.3f}{other / one:>10.2f}")
    print(f"  {'records':<24}{len(alone.microseconds):>10}{len(beside.microseconds):>10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="size of each log")
    parser.add_argument("--directory", help="where the logs are written; a temporary one by default")
    parser.add_argument("--only", choices=["speed", "latency"])
    options = parser.parse_args()
    random.seed(7)
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        if options.only != "latency":
            measure_speed(root, options.megabytes * MB)
        if options.only != "speed":
            measure_latency(root, 3 * options.megabytes * MB)


if __name__ == "__main__":
    main()

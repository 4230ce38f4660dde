"""What appending one batch to a log costs: validation, producer state, the write, indexes.

Run it alone on a quiet machine: ``python -m benchmarks.log_append [directory]``. Each figure is the best of
many rounds of this thread's CPU time, in microseconds; the write goes to the page cache, nothing is flushed.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.compression import Compression
from moldau.protocol.records import Record, encode_batch
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, MemoryFiles, OsFiles
from moldau.storage.log.log import Log, LogConfig

ROUNDS = 30
NOW_MS = SystemClock().now_ms()


def batches(
    count: int,
    records: int,
    size: int,
    *,
    producer: bool = False,
    compression: Compression = Compression.NONE,
) -> list[memoryview]:
    """As many batches as an idempotent producer, or one without sequences, would send."""
    content = [Record(i, NOW_MS, b"key-%d" % i, b"v" * size) for i in range(records)]
    return [
        memoryview(
            encode_batch(
                content,
                compression=compression,
                producer_id=7 if producer else -1,
                producer_epoch=0 if producer else -1,
                base_sequence=at * records if producer else -1,
            )
        )
        for at in range(count)
    ]


def new_log(files: Files, directory: str, config: LogConfig) -> Log:
    logs = Logs(files, [directory], 1, None, SystemClock())
    logs.open()
    return logs.create(TopicPartition("bench", 0), bytes(16), config)


def best(log: Log, sent: list[memoryview], calls: int) -> float:
    """Microseconds of one append in the best round."""
    results = []
    pending: Iterator[memoryview] = iter(sent)
    for _ in range(ROUNDS):
        ready = [next(pending) for _ in range(calls)]
        start = time.thread_time()
        for batch in ready:
            log.append(batch, 0, NOW_MS)
        results.append((time.thread_time() - start) / calls)
    return min(results) * 1e6


#: What is sent, appends in a round, the topic's config, and the figure to keep on disk.
CASES: dict[str, tuple[dict[str, Any], int, LogConfig, float | None]] = {
    "one record of 100 bytes": ({"records": 1, "size": 100}, 500, LogConfig(), 8.0),
    "one record of 100 bytes, idempotent": (
        {"records": 1, "size": 100, "producer": True},
        500,
        LogConfig(),
        10.0,
    ),
    "150 records of 100 bytes (16 KB)": ({"records": 150, "size": 100}, 100, LogConfig(), 70.0),
    "150 records of 100 bytes, lz4": (
        {"records": 150, "size": 100, "compression": Compression.LZ4},
        100,
        LogConfig(),
        None,
    ),
    "150 records of 100 bytes, LogAppendTime": (
        {"records": 150, "size": 100},
        100,
        LogConfig(log_append_time=True),
        None,
    ),
    "150 records of 100 bytes, compacted topic": (
        {"records": 150, "size": 100},
        100,
        LogConfig(compact=True),
        None,
    ),
    "one record of 1 MB": ({"records": 1, "size": 1_000_000}, 3, LogConfig(), None),
}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as root:
        print(f"{'microseconds for one batch':<48}{'disk':>10}{'memory':>10}")
        for number, (what, (kind, calls, config, target)) in enumerate(CASES.items()):
            disk = new_log(OsFiles(), f"{root}/{number}", config)
            memory = new_log(MemoryFiles(), "/data", config)
            figures = [best(log, batches(ROUNDS * calls, **kind), calls) for log in (disk, memory)]
            verdict = ""
            if target is not None:
                verdict = f"   target {target:g}{'' if figures[0] <= target else '   MISSED'}"
            print(f"  {what:<46}{figures[0]:10.2f}{figures[1]:10.2f}{verdict}")


if __name__ == "__main__":
    main()

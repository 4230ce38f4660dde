"""What a round of retention costs: with nothing to do, and when ten thousand segments have to go.

    python -m benchmarks.retention [directory]

Decisions are made on the broker's event loop: what counts there is the longest single step, in CPU time. Work
on files is done in other threads, and its time is that on the clock.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.protocol.records import Record, encode_batch
from moldau.storage.directory.logs import Logs
from moldau.storage.files import OsFiles
from moldau.storage.log.log import Log, LogConfig
from moldau.storage.log.trimming import begin_drop, expire_segments, finish_drop

logging.disable(logging.WARNING)
SEGMENTS = 10_000
PARTITIONS = 1_000
NOW_MS = SystemClock().now_ms()
DAY_MS = 86_400_000
KEEPING = LogConfig(segment_bytes=250, retention_ms=DAY_MS)


def new_logs(root: str) -> Logs:
    logs = Logs(OsFiles(), [root], 1, None, SystemClock(), config_of=lambda topic: KEEPING)
    logs.open()
    return logs


def fill(log: Log, segments: int) -> None:
    batch = encode_batch([Record(0, NOW_MS, b"key", b"v" * 150)])
    for _ in range(segments):
        log.append(memoryview(bytearray(batch)), 0, NOW_MS)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return (clock() - began) * 1000


def expire_all(log: Log, now_ms: int) -> tuple[float, float]:
    """All of it, and the longest single step, in milliseconds."""
    steps = []
    more = True
    while more:
        began = time.thread_time()
        more = expire_segments(log, log.log_end_offset, now_ms)
        steps.append((time.thread_time() - began) * 1000)
    return sum(steps), max(steps)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as root:
        logs = new_logs(f"{root}/many")
        for partition in range(PARTITIONS):
            fill(logs.create(TopicPartition("t", partition), bytes(16), KEEPING), 2)
        opened = list(logs)
        idle = timed(
            lambda: [expire_segments(log, log.log_end_offset, NOW_MS) for log in opened], time.thread_time
        )
        print(f"nothing to do, {PARTITIONS} partitions:             {idle:9.2f} ms")
        logs.close()
        for how in ("just written", "after a restart"):
            logs = new_logs(f"{root}/{how}")
            log = logs.create(TopicPartition("t", 0), bytes(16), KEEPING)
            fill(log, SEGMENTS)
            if how == "after a restart":
                logs.close()
                logs = new_logs(f"{root}/{how}")
                log = logs.open_partition(TopicPartition("t", 0), bytes(16), KEEPING)
            print(f"{len(log.segments)} segments, {how}:")
            idle, _ = expire_all(log, NOW_MS)
            print(f"  nothing to do:                               {idle:9.2f} ms")
            total, longest = expire_all(log, NOW_MS + 2 * DAY_MS)
            print(
                f"  deciding that all go:                        {total:9.2f} ms, longest step {longest:.2f}"
            )
            job = begin_drop(log)
            assert job is not None
            print(f"  renaming their files (another thread):       {timed(job.run):9.2f} ms")
            finish_drop(log, job, NOW_MS)
            removals = logs.begin_removals(NOW_MS + DAY_MS)
            took = timed(lambda removals=removals: [removal.run() for removal in removals])  # type: ignore[misc]
            print(f"  removing them (another thread):              {took:9.2f} ms")
            logs.close()


if __name__ == "__main__":
    main()

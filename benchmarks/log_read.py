"""What finding the bytes for a fetch costs, and that it does not grow with the log.

Run it alone on a quiet machine: ``python -m benchmarks.log_read [directory]``. Two logs are written, one
twenty times as large as the other; each figure is the best of many rounds of CPU time, in microseconds. No
payload is read but in the last line.
"""

import random
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

ROUNDS = 20
CALLS = 200
RECORDS = 10
SMALL_BATCHES = 15_000
LARGE_BATCHES = 20 * SMALL_BATCHES
FAR = 1 << 62
NOW_MS = SystemClock().now_ms()


def filled_log(logs: Logs, partition: int, batches: int) -> Log:
    log = logs.create(TopicPartition("bench", partition), bytes(16), LogConfig(segment_bytes=128 << 20))
    template = encode_batch([Record(i, NOW_MS, b"key-%d" % i, b"v" * 100) for i in range(RECORDS)])
    for _ in range(batches):
        log.append(memoryview(bytearray(template)), 0, NOW_MS)
    return log


def best(function: Callable[[int], object], offsets: list[int]) -> float:
    """Microseconds of one call in the best round."""
    results = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for offset in offsets:
            function(offset)
        results.append((time.thread_time() - start) / len(offsets))
    return min(results) * 1e6


def figures(log: Log) -> dict[str, float]:
    end = log.log_end_offset
    anywhere = [random.Random(1).randrange(end) for _ in range(CALLS)]

    def find(offset: int) -> object:
        return log.read(offset, 1 << 20, FAR, at_least_one=True)

    def find_bounded(offset: int) -> object:
        return log.read(offset, 1 << 20, end - RECORDS, at_least_one=True)

    def fetch(offset: int) -> object:
        piece = log.read(offset, 16 * 1024, FAR, at_least_one=True)
        return piece.read() if piece is not None else None

    return {
        "at the end of the log, nothing new": best(find, [end] * CALLS),
        "the last batch": best(find, [end - 1] * CALLS),
        "near the end, below a high watermark": best(find_bounded, [end - 3 * RECORDS] * CALLS),
        "anywhere": best(find, anywhere),
        "anywhere, and 16 KB read": best(fetch, anywhere),
    }


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as root:
        logs = Logs(OsFiles(), [root], 1, None, SystemClock())
        logs.open()
        small, large = (filled_log(logs, at, size) for at, size in enumerate((SMALL_BATCHES, LARGE_BATCHES)))
        sizes = [f"{log.size >> 20} MB" for log in (small, large)]
        print(f"{'microseconds for one read':<48}{sizes[0]:>10}{sizes[1]:>10}{'ratio':>8}")
        of_large = figures(large)
        for what, figure in figures(small).items():
            print(f"  {what:<46}{figure:10.2f}{of_large[what]:10.2f}{of_large[what] / figure:8.2f}")


if __name__ == "__main__":
    main()

"""The memory of a Spark job's Python workers: the largest sum that was seen while the job ran.

Invariant: looks, several times a second, at the processes below one that was started here; Linux only.
Memory is what the workers have for themselves (private pages), so that what a fork shares is not counted
again.
"""

from __future__ import annotations

import threading
from pathlib import Path


class WorkerMemory:
    """``with WorkerMemory(pid) as memory: …; memory.peak_mb``"""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self.peak_mb = 0.0

    def __enter__(self) -> WorkerMemory:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._ending.wait(0.3):
            total = sum(_private_mb(pid) for pid in _workers_below(self._pid))
            self.peak_mb = max(self.peak_mb, total)


def _workers_below(root: int) -> list[int]:
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                    daemons.add(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
    return [pid for pid, parent in parents.items() if parent in daemons and _is_below(pid, root, parents)]


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == root:
            return True
        pid = parents[pid]
    return False


def _private_mb(pid: int) -> float:
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024

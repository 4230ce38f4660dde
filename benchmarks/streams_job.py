"""Our side of ``streams_compare``: one application on Spark, measured by itself.

``python -m benchmarks.streams_job SERVERS PROGRAM WORKERS`` first processes what is there, which warms it up,
prints ``ready``, and for each line on its standard input processes what has come since, and prints seconds,
CPU seconds, records and megabytes of memory as JSON. CPU and memory are those of the whole application: the
driver, Java, Spark's workers and the processes that hold tasks.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks import streams_programs
from moldau.spark import spark_session
from moldau.streams.runner.application import RunningApplication, StreamsOptions, prepared
from moldau.streams.runner.orders import Updates
from moldau.streams.runner.programs import Program

_TICKS = os.sysconf("SC_CLK_TCK")


def family(directory: str, pid: int) -> list[int]:
    """A process, its children and theirs, and the processes that hold tasks: these outlive who started them.

    They are known by their sockets, which are in the directory for temporary files.
    """
    parents, tasks = {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"moldau.streams.runner.host" in command and directory.encode() in command:
                tasks.append(int(entry.name))
    found = {pid, *tasks}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return sorted(found)


def cpu_and_memory(pids: Iterable[int]) -> tuple[float, float]:
    """CPU seconds, with those of children that have ended, and resident megabytes."""
    cpu = memory = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
        cpu += sum(map(int, fields[11:15])) / _TICKS
        memory += pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return cpu, memory


def main(servers: str, program: str, workers: str) -> None:
    directory = tempfile.mkdtemp(prefix="sj-")
    os.environ["TMPDIR"] = tempfile.tempdir = directory
    spark = spark_session(
        "streams", master=f"local[{workers}]", spark_driver_memory="1g", spark_ui_showConsoleProgress="false"
    )
    spark.sparkContext.setLogLevel("ERROR")
    text = Path(streams_programs.__file__).read_text()
    text += f"\ntopology = PROGRAMS[{program!r}]()\n"
    updates: Updates = "last" if program.endswith("-last") else "all"
    options = StreamsOptions(servers, workers=int(workers), updates=updates)
    application = prepared(Program(f"{program}.py", text=text), f"bench-{program}", options, int(workers))

    def process() -> tuple[RunningApplication, float]:
        """The application, and how long it took until all results were there; then it leaves its group."""
        begun = time.perf_counter()
        running = RunningApplication(spark, application, f"{directory}/checkpoint")
        query = running.start(availableNow=True)
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        running.stop()
        return running, seconds

    process()
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, _ = cpu_and_memory(family(directory, os.getpid()))
        running, seconds = process()
        after, memory = cpu_and_memory(family(directory, os.getpid()))
        progress = running.progress
        print(
            json.dumps(
                {
                    "seconds": round(seconds, 3),
                    "cpu": round(after - cpu, 3),
                    "records": progress.records_in,
                    "results": progress.records_out,
                    "megabytes": round(memory),
                }
            ),
            flush=True,
        )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

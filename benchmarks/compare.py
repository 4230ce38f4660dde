"""Apache Kafka 4.3.0 and Moldau side by side; writes docs/benchmarks.md with a plot.

python -m benchmarks.compare                          everything, about 35 minutes on two cores
python -m benchmarks.compare --quick                  everything, small; prints, writes no documents
python -m benchmarks.compare --only start,produce     some measures; prints, writes no documents
python -m benchmarks.compare --report results/x.json  the documents again from an earlier run
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.apache_kafka import CACHE, ApacheKafka, compile_sources
from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.measures import MEASURES, WITH_OWN_BROKERS
from benchmarks.measures.produce import ACKS, run_producer
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.report import print_table, write_documents

HERE = Path(__file__).resolve().parent
WARM_UP_RECORDS = 1_000_000
# The first member of a classic group would wait three seconds in either broker, and nothing else be measured.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def main() -> int:
    arguments = _arguments()
    if arguments.report:
        write_documents(json.loads(arguments.report.read_text()), HERE.parent / "docs")
        return 0
    names = arguments.only.split(",") if arguments.only else list(MEASURES)
    if unknown := set(names) - set(MEASURES):
        print(
            f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}", file=sys.stderr
        )
        return 2
    compile_sources()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers and their gigabytes go too
    results = _run(names, quick=arguments.quick)
    _save(results)
    print_table(results)
    if arguments.quick or arguments.only:
        print("a partial or quick run: the documents stay as they are")
    else:
        write_documents(results, HERE.parent / "docs")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help=f"some of these, with commas between: {', '.join(MEASURES)}")
    parser.add_argument("--report", type=Path, help="write the documents from this file of results")
    return parser.parse_args()


def _run(names: list[str], *, quick: bool) -> dict[str, Any]:
    load_before = os.getloadavg()[0]
    began = time.time()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as directory:
        home = Path(directory)
        bench = Bench([], QUICK if quick else FULL)
        for name in names:
            if name in WITH_OWN_BROKERS:
                MEASURES[name](bench)
        rest = [name for name in names if name not in WITH_OWN_BROKERS]
        if rest:
            kafka, moldau = ApacheKafka(home / "kafka", SETTINGS), MoldauBroker(home / "moldau", SETTINGS)
            with kafka, moldau:
                bench.brokers = [kafka, moldau]
                try:
                    _warm_up(bench, quick=quick)
                    for name in rest:
                        MEASURES[name](bench)
                except Exception:
                    print(f"Apache Kafka:\n{kafka.log_tail()}\nMoldau:\n{moldau.log_tail()}", file=sys.stderr)
                    raise
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.localtime(began)),
        "minutes": round((time.time() - began) / 60, 1),
        "quick": quick,
        "machine": {**_machine(), "load average before": f"{load_before:.2f}"},
        "sizes": {name: getattr(bench.sizes, name) for name in bench.sizes.__slots__},
        "samples": bench.samples,
    }


def _warm_up(bench: Bench, *, quick: bool) -> None:
    """Let the JVM compile its hot path, and ours fill its caches, before anything counts."""
    records = WARM_UP_RECORDS // (4 if quick else 1)
    for broker in bench.brokers:
        for properties in ACKS.values():
            bench.progress(f"warming up {broker.name}")
            run_producer(broker, records, 100, properties)


def _machine() -> dict[str, str]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "processor": f"{os.cpu_count()} × {model}",
        "memory": f"{memory_kb / 1e6:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
    }


def _java_version() -> str:
    return os.popen("java -version 2>&1").readline().strip()


def _save(results: dict[str, Any]) -> None:
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path = (
        folder
        / f"{results['date'].replace(' ', '-').replace(':', '')}{'-quick' if results['quick'] else ''}.json"
    )
    path.write_text(json.dumps(results, indent=1))
    print(f"results in {path.relative_to(HERE.parent)}")


if __name__ == "__main__":
    sys.exit(main())

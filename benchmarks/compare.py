"""Apache Kafka 4.3.0 and Moldau side by side; writes docs/benchmarks.md with a plot.

python -m benchmarks.compare                          everything, about 45 minutes on two cores
python -m benchmarks.compare --quick                  everything, small; prints, marks ratios that fell since
                                                      the last page, writes no documents
python -m benchmarks.compare --only start,produce     some measures; the other figures stay as they are
python -m benchmarks.compare --only log               those of the life of a log, less than ten minutes
python -m benchmarks.compare --report                 the documents again from the results of earlier runs
python -m benchmarks.compare --report results/x.json  the same from one of them
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import stored
from benchmarks.apache_kafka import CACHE, ApacheKafka, compile_sources
from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.changes import fallen, known_ratios
from benchmarks.machine import machine
from benchmarks.measures import LOG_MEASURES, MEASURES, WITH_OWN_BROKERS
from benchmarks.measures.produce import ACKS, run_producer
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.report import figures_of, print_table, write_documents

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
WARM_UP_RECORDS = 1_000_000
# The first member of a classic group would wait three seconds in either broker, and nothing else be measured.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def main() -> int:
    arguments = _arguments()
    if arguments.report is not None:
        one = arguments.report != RESULTS
        runs = [json.loads(arguments.report.read_text())] if one else stored.load_whole(RESULTS)
        return _write_documents(stored.merged(runs))
    names = _names(arguments.only) if arguments.only else list(MEASURES)
    if unknown := set(names) - set(MEASURES):
        print(
            f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}", file=sys.stderr
        )
        return 2
    compile_sources()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers and their gigabytes go too
    results = _run(names, quick=arguments.quick)
    print(f"results in {stored.save(RESULTS, results).relative_to(HERE.parent)}")
    print_table(results)
    if arguments.quick:
        return _tell_changes(results)
    return _write_documents(stored.merged(stored.load_whole(RESULTS)))


def _tell_changes(results: dict[str, Any]) -> int:
    """What a quick run has to say; it is one round, so a mark asks for a look and is no verdict."""
    page = DOCS / "benchmarks.md"
    worse = fallen(figures_of(results), known_ratios(page.read_text() if page.exists() else ""))
    for line in worse:
        print(f"FELL  {line}")
    print(f"a quick run, {len(worse)} ratios fell by more than noise; the documents stay as they are")
    return 0


def _names(only: str) -> list[str]:
    """The measures that were asked for; `log` stands for several."""
    return [name for word in only.split(",") for name in (LOG_MEASURES if word == "log" else (word,))]


def _write_documents(results: stored.Results) -> int:
    if lost := stored.lost_figures(DOCS / "benchmarks.md", results):
        print(
            f"the documents stay as they are: they have {len(lost)} figures that no results in "
            f"{RESULTS.relative_to(HERE.parent)} have ({', '.join(lost[:3])} …); run all measures first",
            file=sys.stderr,
        )
        return 1
    write_documents(results, DOCS)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help=f"some of these, with commas between: log, {', '.join(MEASURES)}")
    parser.add_argument(
        "--report", type=Path, nargs="?", const=RESULTS, help="write the documents from stored results"
    )
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
        "code": _code(),
        "machine": {**machine(), "load average before": f"{load_before:.2f}"},
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


def _code() -> str:
    """The commit that is measured; with a mark where files differ from it."""
    commit = os.popen(f"git -C {HERE.parent} rev-parse --short=12 HEAD 2>/dev/null").read().strip()
    changed = os.popen(f"git -C {HERE.parent} status --porcelain -- src 2>/dev/null").read().strip()
    return f"{commit or 'unknown'}{' and changes' if changed else ''}"


if __name__ == "__main__":
    sys.exit(main())

"""Three brokers of Apache Kafka 4.3.0 and three of Moldau, in one run; writes docs/benchmarks-cluster.md.

    python -m benchmarks.cluster                       everything; prints how long it took
    python -m benchmarks.cluster --quick               everything, small; writes no documents
    python -m benchmarks.cluster --only start,failover some of: start, load, catch-up, failover, partitions
    python -m benchmarks.cluster --largest 3000        not beyond so many partitions
    python -m benchmarks.cluster --zookeeper           Moldau's metadata in a ZooKeeper, counted with it
    python -m benchmarks.cluster --report              the document again from the results of earlier runs

Everything has replication factor 3. Nothing here is asserted: figures below a floor are for people to read.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks import stored
from benchmarks.apache_kafka import compile_sources
from benchmarks.clusters.measures import MEASURES
from benchmarks.clusters.processes import KafkaCluster, MoldauCluster
from benchmarks.clusters.session import FULL, QUICK, Session, Sizes
from benchmarks.clusters.targets import METRICS
from benchmarks.machine import machine
from benchmarks.plot import draw_ratios
from benchmarks.report import (
    figures_of,
    markdown,
    missed_sections,
    print_table,
    range_rows,
    table_rows,
    updated_notes,
    when,
)

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "cluster"
DOCS = HERE.parent / "docs"

METHOD = """## Method

- Apache Kafka 4.3.0 from Maven: three nodes that are broker and controller (KRaft), the JVM options of its
  own start script (heap 1 GB each), no setting but ports and directories. Moldau: three processes of
  `moldau broker`, metadata in files as `moldau up --brokers 3` has it, no other setting. All on loopback and
  one disk, so that three brokers, their clients and everything else share the processors.
- Start: from the first process to an acknowledged write (acks=all) to a topic with three replicas.
- Producer: Kafka's ProducerPerformance with acks=all and idempotence, a topic with three partitions, a
  leader on each broker. CPU is of all three brokers, for a gigabyte given to the leaders (which is stored
  three times). Latency: one record at a time until a consumer with default settings has it. Both clusters
  run during these, one under load at a time, in turn.
- Memory: resident memory of all processes after these runs.
- Catch-up: a broker is stopped, records of 1,000 bytes are written, it is started again; until it is in sync
  everywhere.
- Failover: a librdkafka producer with default settings writes every 10 ms to a partition of the broker that
  is killed; from the kill to the acknowledgement of a record that was sent after it, there and then in every
  partition that it led. The broker is not the active controller, but for the one figure that says so.
- Controlled shutdown: SIGTERM to the end of the process, with a producer on 50 of its partitions.
- Creation: requests for a thousand partitions each, until all brokers name a leader for all and the last one
  takes a record. Metadata: the whole cluster over a bare connection, version 1.
- Ratios are Moldau divided by Apache Kafka. A figure is the median of its runs; those with 1,000 and more
  partitions were run once.
"""


def main() -> int:
    arguments = _arguments()
    if arguments.report:
        return _write_document(stored.merged(stored.load_whole(RESULTS)))
    names = arguments.only.split(",") if arguments.only else list(MEASURES)
    if unknown := set(names) - set(MEASURES):
        print(f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
        return 2
    compile_sources()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers and their gigabytes go too
    results = _run(names, _sizes(arguments), arguments)
    print(f"{results['minutes']} minutes; results in {stored.save(RESULTS, results)}")
    print_table(results, METRICS)
    if results["failed"]:
        print(f"failed: {', '.join(results['failed'])}; what is above is the rest", file=sys.stderr)
    if arguments.quick or arguments.zookeeper:
        print("the document stays as it is")
        return 0
    return _write_document(stored.merged(stored.load_whole(RESULTS)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help=f"some of these, with commas between: {', '.join(MEASURES)}")
    parser.add_argument("--largest", type=int, default=10_000, help="partitions, at most")
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--report", action="store_true")
    return parser.parse_args()


def _sizes(arguments: argparse.Namespace) -> Sizes:
    sizes = QUICK if arguments.quick else FULL
    steps = tuple(step for step in sizes.partition_steps if step <= arguments.largest)
    return dataclasses.replace(sizes, partition_steps=steps)


def _run(names: list[str], sizes: Sizes, arguments: argparse.Namespace) -> dict[str, Any]:
    load_before = os.getloadavg()[0]
    began = time.time()
    ours = functools.partial(MoldauCluster, zookeeper=arguments.zookeeper)
    session = Session(sizes, (KafkaCluster, ours))
    failed = []
    for name in names:
        try:
            MEASURES[name](session)
        except Exception:  # the figures of the other measures are worth having
            failed.append(name)
            traceback.print_exc()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.localtime(began)),
        "minutes": round((time.time() - began) / 60, 1),
        # What does not count for the document: small sizes, and another store.
        "quick": arguments.quick or arguments.zookeeper,
        "machine": {**machine(), "load average before": f"{load_before:.2f}"},
        "sizes": dataclasses.asdict(sizes),
        "samples": session.samples,
        "failed": failed,
    }


def _write_document(results: stored.Results) -> int:
    figures = figures_of(results, METRICS)
    draw_ratios(figures, DOCS / "benchmarks-cluster.png")
    missed = [figure.metric for figure in figures if figure.missed]
    notes = updated_notes(DOCS / "benchmarks-cluster-notes.md", missed)
    facts = results["machine"].items()
    described = ", ".join(f"{name} {value}" for name, value in facts if name != "load average before")
    parts = [
        "# Benchmarks: three brokers of Moldau and of Apache Kafka 4.3.0 side by side\n",
        "Written by `make bench-cluster`; do not edit. Notes on missed figures: "
        "`benchmarks-cluster-notes.md`.\n",
        f"{when(results)} Machine: {described}.\n",
        "![Ratios to Apache Kafka, with floors and goals](benchmarks-cluster.png)\n",
        markdown(table_rows(figures)),
        f"## What to make of it\n\n{notes['general']}\n" if "general" in notes else "",
        METHOD,
        "## Ranges\n",
        markdown(range_rows(figures)),
        "## Missed floors and goals\n",
        missed_sections(figures, notes),
    ]
    (DOCS / "benchmarks-cluster.md").write_text("\n".join(parts))
    print("written: docs/benchmarks-cluster.md, docs/benchmarks-cluster.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

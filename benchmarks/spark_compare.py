"""Moldau's Spark source and sink beside Spark's own connector, on the same topics of the same brokers.

    python -m benchmarks.spark_compare                 on Moldau and on Apache Kafka, about half an hour
    python -m benchmarks.spark_compare --quick         small sizes, on Moldau only; prints, writes nothing
    python -m benchmarks.spark_compare --only read,write

Law: both sides read and write the same records in alternating runs, each in a fresh session whose first
round is left out of the rates. Ratios are ours divided by theirs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.brokers import Broker
from benchmarks.load import run
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.spark_connector import fetch

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks-spark.md"


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    title: str
    action: str
    record_size: int
    floor: float | None
    goal: float | None
    compression: str = "none"
    delivery: str = "at-least-once"
    #: ``rate``: rows a second; ``seconds``: less is better.
    unit: str = "rate"


MEASURES = (
    Measure("read-100", "batch read, 100 bytes", "read", 100, 2.5, 4.0),
    Measure("read-100-zstd", "batch read, 100 bytes, zstd", "read", 100, 2.5, 4.0, "zstd"),
    Measure("read-1000", "batch read, 1,000 bytes", "read", 1000, 2.5, 4.0),
    Measure("read-1000-zstd", "batch read, 1,000 bytes, zstd", "read", 1000, 2.5, 4.0, "zstd"),
    Measure("stream-100", "availableNow, 100 bytes", "available-now", 100, 2.5, 4.0),
    Measure("stream-1000", "availableNow, 1,000 bytes", "available-now", 1000, 2.5, 4.0),
    Measure("write-100", "batch write, 100 bytes", "write", 100, 3.0, 5.0),
    Measure(
        "write-100-once", "exactly-once write, 100 bytes", "write", 100, 2.0, None, delivery="exactly-once"
    ),
    Measure("first-row", "start of the job to the first row", "first-row", 100, 1.0, None, unit="seconds"),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="keys that begin with one of these, with commas between")
    arguments = parser.parse_args()
    chosen = [m for m in MEASURES if not arguments.only or m.key.startswith(tuple(arguments.only.split(",")))]
    python, jars = fetch()
    sizes = {100: 300_000, 1000: 60_000} if arguments.quick else {100: 6_000_000, 1000: 1_500_000}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-spark-") as home:
        brokers = [MoldauBroker] if arguments.quick else [MoldauBroker, ApacheKafka]
        for kind in brokers:
            with kind(Path(home) / kind.__name__) as broker:
                results[broker.name] = _on(broker, chosen, sizes, str(python), jars)
    _print(results)
    if not arguments.quick and not arguments.only:
        PAGE.write_text(_page(results))
        print(f"written: {PAGE.relative_to(HERE.parent)}")
    return 0


def _on(
    broker: Broker, chosen: list[Measure], sizes: dict[int, int], python: str, jars: str
) -> dict[str, Any]:
    filled: set[str] = set()
    found: dict[str, Any] = {}
    for measure in chosen:
        topic = f"t-{measure.record_size}-{measure.compression}"
        if measure.action in ("read", "available-now", "first-row") and topic not in filled:
            _fill(broker, topic, measure, sizes[measure.record_size])
            filled.add(topic)
        figures: dict[str, list[float]] = {"kafka": [], "moldau": []}
        for turn in range(2):
            for format_ in ("kafka", "moldau") if turn == 0 else ("moldau", "kafka"):
                target = topic if measure.action != "write" else f"out-{format_}-{turn}-{time.time_ns()}"
                figures[format_] += _run(broker, measure, format_, target, sizes, python, jars)
        middle = {name: statistics.median(values) for name, values in figures.items()}
        found[measure.key] = middle
        print(f"{broker.name}: {measure.title}: {middle}", flush=True)
    return found


def _run(
    broker: Broker, measure: Measure, format_: str, topic: str, sizes: dict[int, int], python: str, jars: str
) -> list[float]:
    seconds = measure.unit == "seconds"
    command = [
        sys.executable if format_ == "moldau" else python,
        str(HERE / "spark_workload.py"),
        format_,
        measure.action,
        broker.bootstrap_servers,
        topic,
        f"--rounds={1 if seconds else 3}",
        f"--rows={sizes[measure.record_size] // 6}",
        f"--record-size={measure.record_size}",
        f"--delivery={measure.delivery}",
    ]
    if format_ == "kafka":
        command.append(f"--jars={jars}")
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    result = json.loads(lines[0].removeprefix("RESULT "))
    if seconds:
        return [time.perf_counter() - began]
    return [each["rows"] / each["seconds"] for each in result["rounds"][1:]]


def _fill(broker: Broker, topic: str, measure: Measure, count: int) -> None:
    servers = f"--bootstrap-server={broker.bootstrap_servers}"
    run("org.apache.kafka.tools.TopicCommand", [servers, "--create", f"--topic={topic}", "--partitions=4"])
    run(
        "org.apache.kafka.tools.ProducerPerformance",
        [
            f"--topic={topic}",
            f"--num-records={count}",
            f"--record-size={measure.record_size}",
            "--throughput=-1",
            "--producer-props",
            f"bootstrap.servers={broker.bootstrap_servers}",
            f"compression.type={measure.compression}",
            "batch.size=65536",
        ],
    )


def _ratio(measure: Measure, figures: dict[str, float]) -> float:
    return figures["moldau"] / figures["kafka"]


def _verdict(measure: Measure, ratio: float) -> str:
    if measure.floor is None:
        return ""
    if measure.unit == "seconds":
        return "floor met" if ratio <= measure.floor else "below the floor"
    if measure.goal is not None and ratio >= measure.goal:
        return "goal met"
    return "floor met" if ratio >= measure.floor else "below the floor"


def _rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for broker, found in results.items():
        for measure in MEASURES:
            if (figures := found.get(measure.key)) is None:
                continue
            ratio = _ratio(measure, figures)
            shown = [
                f"{figures[side]:,.1f} s" if measure.unit == "seconds" else f"{figures[side]:,.0f}"
                for side in ("kafka", "moldau")
            ]
            rows.append((broker, measure.title, *shown, f"{ratio:.2f}×", _verdict(measure, ratio)))
    return rows


_HEAD = ("broker", "measure", "Spark's connector", "format(moldau)", "ratio", "verdict")


def _print(results: dict[str, Any]) -> None:
    table = [_HEAD, *_rows(results)]
    widths = [max(len(row[index]) for row in table) for index in range(len(_HEAD))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _page(results: dict[str, Any]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in _rows(results)]
    return "\n".join(
        [
            "# Spark: format(moldau) beside Spark's own connector",
            "",
            "Written by `make bench-spark`. Rows a second, medians of alternating runs in own sessions "
            "on two cores; the connector is the newest that can be had complete, 4.0.0 with PySpark 4.0.0.",
            "",
            f"| {' | '.join(_HEAD)} |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

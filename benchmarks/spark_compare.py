"""Moldau's Spark source and sink beside Spark's own connector, on the same topics of the same brokers.

    python -m benchmarks.spark_compare                 on Moldau and on Apache Kafka, about two hours
    python -m benchmarks.spark_compare --quick         small sizes, on Moldau only; prints, writes nothing
    python -m benchmarks.spark_compare --only read,write --broker moldau     the rest of the page stays

Invariant: both sides read and write the same records in alternating runs, each in a fresh session whose
first seconds, in which Java compiles, are left out of the rates. Ratios are ours divided by theirs. Our
side runs in the session that we recommend, ``moldau.spark.spark_session``; what a plain one gives stands
beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import apache_kafka, spark_latency, spark_plot
from benchmarks.apache_kafka import CACHE, ApacheKafka
from benchmarks.brokers import Broker
from benchmarks.load import run
from benchmarks.moldau_broker import MoldauBroker
from benchmarks.round_topics import RoundTopics
from benchmarks.spark_avro import fill_avro, running_registry
from benchmarks.spark_connector import fetch
from benchmarks.worker_memory import WorkerMemory

HERE = Path(__file__).resolve().parent
_LATENCY_SECONDS = 15.0
#: Topics that are deleted leave the disk at once.
_SETTINGS = {"log.segment.delete.delay.ms": "1000"}
#: Rounds of a run that count, and the seconds of rounds before them in which Java compiles.
_ROUNDS, _WARM_UP_SECONDS = 3, 30
#: What rows have had that were stored before this was measured too.
_WARM_UP_BEFORE = 15
#: By measure: what the Python workers of our side had at most.
_peak_mb: dict[str, float] = {}
PAGE = HERE.parent / "docs" / "benchmarks-spark.md"
#: What is to be said about the figures, written by hand.
NOTES = PAGE.with_name("benchmarks-spark-notes.md")
STORED = HERE / "results" / "spark.json"


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
    #: ``rate``: rows a second; ``seconds`` and ``milliseconds``: less is better.
    unit: str = "rate"
    #: Whether our side runs in a session without any of our settings, as theirs does.
    plain_session: bool = False


MEASURES = (
    Measure("read-100", "batch read, 100 bytes", "read", 100, 2.5, 4.0),
    Measure("read-100-zstd", "batch read, 100 bytes, zstd", "read", 100, 2.5, 4.0, "zstd"),
    Measure("read-1000", "batch read, 1,000 bytes", "read", 1000, 2.5, 4.0),
    Measure("read-1000-zstd", "batch read, 1,000 bytes, zstd", "read", 1000, 2.5, 4.0, "zstd"),
    Measure("stream-100", "availableNow, 100 bytes", "available-now", 100, 2.5, 4.0),
    Measure("stream-100-zstd", "availableNow, 100 bytes, zstd", "available-now", 100, 2.5, 4.0, "zstd"),
    Measure("stream-1000", "availableNow, 1,000 bytes", "available-now", 1000, 2.5, 4.0),
    Measure("stream-1000-zstd", "availableNow, 1,000 bytes, zstd", "available-now", 1000, 2.5, 4.0, "zstd"),
    Measure("avro-read", "typed Avro read (the connector: bytes only)", "avro-read", 100, 2.0, None),
    Measure("write-100", "batch write, 100 bytes", "write", 100, 3.0, 5.0),
    Measure("write-100-plain", "the same in a plain session", "write", 100, None, None, plain_session=True),
    Measure(
        "write-100-once", "exactly-once write, 100 bytes", "write", 100, 2.0, None, delivery="exactly-once"
    ),
    Measure("first-row", "start of the job to the first row", "first-row", 100, 1.0, None, unit="seconds"),
    Measure(
        "first-row-plain",
        "the same in a plain session",
        "first-row",
        100,
        None,
        None,
        unit="seconds",
        plain_session=True,
    ),
    Measure("latency", "record through a query, median", "stream-write", 100, 1.2, None, unit="milliseconds"),
    Measure(
        "latency-once",
        "record through a query, median, ours exactly-once",
        "stream-write",
        100,
        None,
        None,
        delivery="exactly-once",
        unit="milliseconds",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="measures by key or by the first words of it: read,write-100")
    parser.add_argument("--broker", choices=["moldau", "kafka"], help="on one of the two only")
    arguments = parser.parse_args()
    only = tuple(f"{key}-" for key in arguments.only.split(",")) if arguments.only else ("",)
    chosen = [measure for measure in MEASURES if f"{measure.key}-".startswith(only)]
    python, jars = fetch()
    apache_kafka.fetch()  # for its load tools
    sizes = {100: 300_000, 1000: 60_000} if arguments.quick else {100: 6_000_000, 1000: 1_500_000}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-spark-") as home:
        brokers = [MoldauBroker] if arguments.quick else [MoldauBroker, ApacheKafka]
        for kind in [kind for kind in brokers if arguments.broker in (None, kind.name)]:
            with kind(Path(home) / kind.__name__, _SETTINGS) as broker:
                results[broker.name] = _on(broker, chosen, sizes, str(python), jars, not arguments.quick)
    _print(results)
    return 0


def _on(
    broker: Broker, chosen: list[Measure], sizes: dict[int, int], python: str, jars: str, keep: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with ExitStack() as closing:
        for key, figures in _measured(broker, chosen, sizes, python, jars, closing):
            found[key] = figures
            if keep:
                _keep({broker.name: {key: figures}})
    return found


def _measured(
    broker: Broker, chosen: list[Measure], sizes: dict[int, int], python: str, jars: str, closing: ExitStack
) -> Iterator[tuple[str, dict[str, float]]]:
    filled: set[str] = set()
    registry: str | None = None
    for measure in chosen:
        topic = f"t-{measure.record_size}-{measure.compression}"
        if measure.action == "avro-read":
            topic = "t-avro"
            if registry is None:
                registry = closing.enter_context(running_registry(broker.bootstrap_servers))
            fill_avro(broker.bootstrap_servers, registry, topic, sizes[measure.record_size])
        if measure.action in ("read", "available-now", "first-row") and topic not in filled:
            _fill(broker, topic, measure, sizes[measure.record_size])
            filled.add(topic)
        figures: dict[str, list[float]] = {"kafka": [], "moldau": []}
        for turn in range(2):
            for format_ in ("kafka", "moldau") if turn == 0 else ("moldau", "kafka"):
                stream = measure.action == "stream-write"
                target = f"out-{format_}-{turn}-{time.time_ns()}" if stream else topic
                figures[format_] += _run(broker, measure, format_, target, sizes, python, jars, registry)
                if stream:
                    _forget(broker, target)
        middle = {name: statistics.median(values) for name, values in figures.items()}
        middle["memory_mb"] = _peak_mb.pop(measure.key, 0.0)
        middle["warm_up"] = _WARM_UP_SECONDS
        print(f"{broker.name}: {measure.title}: {middle}", flush=True)
        yield measure.key, middle


def _run(
    broker: Broker,
    measure: Measure,
    format_: str,
    topic: str,
    sizes: dict[int, int],
    python: str,
    jars: str,
    registry: str | None,
) -> list[float]:
    command = _command(broker, measure, format_, topic, sizes, python, jars)
    if registry is not None:
        command.append(f"--registry={registry}")
    if measure.unit == "milliseconds":
        return [_latency(command, broker, topic)]
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        job = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        with WorkerMemory(job.pid) as memory, RoundTopics(broker.bootstrap_servers) as topics:
            found = _result(job, topics)
            took = time.perf_counter() - began
            job.communicate(timeout=1800)
        if found is None:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{errors.read()[-3000:]}")
    if format_ == "moldau":
        _peak_mb[measure.key] = max(_peak_mb.get(measure.key, 0.0), memory.peak_mb)
    if measure.unit == "seconds":
        return [took]
    rounds = json.loads(found.removeprefix("RESULT "))["rounds"]
    return [each["rows"] / each["seconds"] for each in rounds]


def _result(job: subprocess.Popen[str], topics: RoundTopics) -> str | None:
    """The line with the result; a job that asks for the next topic to write to gets one."""
    assert job.stdin is not None
    assert job.stdout is not None
    for line in job.stdout:
        if line.startswith("RESULT "):
            return line
        if line.startswith("NEXT"):
            job.stdin.write(f"{topics.next(quiet='QUIET' in line)}\n")
            job.stdin.flush()
    return None


def _latency(command: list[str], broker: Broker, topic: str) -> float:
    servers = f"--bootstrap-server={broker.bootstrap_servers}"
    for name in (topic, f"{topic}-out"):
        run("org.apache.kafka.tools.TopicCommand", [servers, "--create", f"--topic={name}", "--partitions=2"])
    return spark_latency.measure(
        command, broker.bootstrap_servers, topic, f"{topic}-out", _LATENCY_SECONDS
    ).median_ms


def _command(
    broker: Broker, measure: Measure, format_: str, topic: str, sizes: dict[int, int], python: str, jars: str
) -> list[str]:
    seconds = measure.unit == "seconds"
    command = [
        sys.executable if format_ == "moldau" else python,
        str(HERE / "spark_workload.py"),
        format_,
        measure.action,
        broker.bootstrap_servers,
        topic,
        f"--rounds={1 if seconds else _ROUNDS}",
        f"--warm-up={0 if seconds else _WARM_UP_SECONDS}",
        f"--rows={sizes[measure.record_size] // 2}",
        f"--record-size={measure.record_size}",
        f"--delivery={measure.delivery}",
    ]
    if format_ == "kafka":
        command.append(f"--jars={jars}")
    elif not measure.plain_session:
        command.append("--moldau-session")
    return command


def _forget(broker: Broker, topic: str) -> None:
    """What a stream has written goes away."""
    servers = f"--bootstrap-server={broker.bootstrap_servers}"
    run("org.apache.kafka.tools.TopicCommand", [servers, "--delete", f"--topic={topic}(-out)?"])


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


def _keep(results: dict[str, Any]) -> None:
    """What was measured takes the place of what was known before; the rest stays."""
    known = json.loads(STORED.read_text()) if STORED.exists() else {}
    for broker, found in results.items():
        known.setdefault(broker, {}).update(found)
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text(_page(known))
    bars = [
        spark_plot.Bar(
            f"{measure.title} ({broker})",
            _ratio(measure, found[measure.key]),
            measure.floor,
            measure.goal,
            _verdict(measure, _ratio(measure, found[measure.key])),
        )
        for broker, found in known.items()
        for measure in MEASURES
        if measure.key in found
    ]
    spark_plot.draw(bars, PAGE.with_suffix(".png"))


def _ratio(measure: Measure, figures: dict[str, float]) -> float:
    return figures["moldau"] / figures["kafka"]


def _verdict(measure: Measure, ratio: float) -> str:
    if measure.floor is None:
        return ""
    if measure.unit != "rate":
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
            shown = [_shown(measure, figures[side]) for side in ("kafka", "moldau")]
            memory = f"{figures['memory_mb']:,.0f} MB" if figures.get("memory_mb") else ""
            bounds = (_bound(measure, measure.floor), _bound(measure, measure.goal))
            verdict = _verdict(measure, ratio)
            short = measure.unit == "rate" and figures.get("warm_up", _WARM_UP_BEFORE) < _WARM_UP_SECONDS
            rows.append(
                (
                    broker,
                    f"{measure.title}{' ¹' if short else ''}",
                    *shown,
                    f"{ratio:.2f}×",
                    *bounds,
                    verdict,
                    memory,
                )
            )
    return rows


_HEAD = (
    *("broker", "measure", "Spark's connector", "format(moldau)", "ratio", "floor", "goal", "verdict"),
    "our Python workers",
)


def _shown(measure: Measure, figure: float) -> str:
    match measure.unit:
        case "seconds":
            return f"{figure:,.1f} s"
        case "milliseconds":
            return f"{figure:,.0f} ms"
    return f"{figure:,.0f}"


def _bound(measure: Measure, bound: float | None) -> str:
    if bound is None:
        return ""
    return f"{'≥' if measure.unit == 'rate' else '≤'} {bound:g}×"


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
            "Written by `make bench-spark`; do not edit. Rows a second unless a unit is named, medians of "
            f"alternating runs in own sessions on two cores, each after {_WARM_UP_SECONDS} seconds of rounds "
            "in which Java warms up; the "
            "connector is the newest that can be had complete, 4.0.0 with PySpark 4.0.0. Our side runs in "
            '`moldau.spark.spark_session`, the connector in that of its users; rows "in a plain '
            'session" have ours in that one too. Memory: the most that the Python workers of our side had '
            "for themselves, both together.",
            "",
            "![Ratios to Spark's connector, with floors and goals](benchmarks-spark.png)",
            "",
            f"| {' | '.join(_HEAD)} |",
            "|" + "---|" * len(_HEAD),
            *lines,
            "",
            f"¹ after {_WARM_UP_BEFORE} seconds only.\n" if any("¹" in line for line in lines) else "",
            NOTES.read_text("utf-8").rstrip() if NOTES.exists() else "",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

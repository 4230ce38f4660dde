"""Results of a comparison as a table on the terminal, and as docs/benchmarks.md with its plot.

What a person wrote about a missed floor or goal lives in docs/benchmarks-notes.md, a heading for each figure,
and is copied beside the figure; this file only ever adds headings to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.plot import draw_ratios
from benchmarks.targets import METRICS, Metric

NOTES_HEAD = """# Notes on missed floors and goals

One heading for each figure that missed its floor or goal: the profile, the reason and the next step. `make
bench` copies the text below a heading into benchmarks.md beside the figure, adds headings that are missing,
and changes nothing else.
"""
UNWRITTEN = "(not written yet)"

METHOD = """## Method

- Apache Kafka 4.3.0 from Maven: one node (KRaft, combined), default settings, the JVM options of its own
  start script (heap 1 GB). Moldau: `moldau broker`, default settings. Both on loopback, data on the same
  disk. One setting differs in both: `group.initial.rebalance.delay.ms=0`, or the first member
  of a classic group would wait three seconds.
- Both brokers run for the whole session, warmed up with two million records, and only one is under load at
  a time; runs alternate Kafka, Moldau, Kafka, Moldau. A figure is the median of its runs; the range is the
  lowest and the highest.
- The load comes from Java: Kafka's own ProducerPerformance (after its warm-up records), an assigned
  consumer with default settings (the first pass over the topic is not counted), Kafka's ConsumerPerformance
  in a group (its rate without the time to join, one pass of a cold JVM), and one-record-at-a-time
  programs that follow Kafka's EndToEndLatency in microseconds (`benchmarks/java/`). The same tool with the
  same arguments for both.
- One partition for each topic, replication factor 1, no compression. What a run leaves unwritten is flushed
  to disk before the next begins.
- Groups: Kafka's consumer subscribes in a new group, in a warm JVM, until its first record. Rebalances and
  offset commits go over bare connections with Kafka's message classes, so that no client's threads and
  heartbeat intervals are measured: one more member comes to a group of fifty until all of them have their
  partitions (`consumer.assignment.interval.ms=0` for the new protocol); commits of one partition, one after
  the other and 100 in flight. Transactions: ProducerPerformance with `--transaction-duration-ms 100`.
- Loading a coordinator: offsets of groups with a hundred partitions each, spread over the fifty partitions of
  `__consumer_offsets`, then restarts of the broker: from the start of the process until an offset of each of
  the fifty can be fetched, asked without a pause meanwhile.
- Compaction: a log whose keys come ten times each, in no order, in segments of 16 MB; from the setting that
  makes it due to the broker's own note that it is done (`log.cleaner.backoff.ms=100`). The producer beside
  it is librdkafka's.
- Recovery: eight partitions that were never flushed, from the page cache. Moldau's time is that of a start
  after kill -9 less one after a clean stop; Apache Kafka's is its own word for the time its logs took, as its
  start after kill -9 also waits until the session of the broker before has ended
  (`broker.session.timeout.ms`). That wait is part of its starts with many partitions, as a user meets it.
- Retention: one record in each segment, all due at once (`log.retention.check.interval.ms=500`,
  `file.delete.delay.ms=1000`; both count).
- Memory is resident memory and CPU is user and system time of the broker's process, from /proc.
- Ratios are Moldau divided by Apache Kafka: above 1 is better where higher is better, below 1 where lower
  is.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric with both brokers' medians."""

    metric: Metric
    kafka: float
    moldau: float
    kafka_range: tuple[float, float]
    moldau_range: tuple[float, float]

    @property
    def ratio(self) -> float:
        return self.moldau / self.kafka if self.kafka else float("nan")

    @property
    def judged(self) -> float:
        return self.ratio if self.metric.judged == "ratio" else self.moldau

    @property
    def shown(self) -> float:
        """What stands beside the figure: a ratio in any case."""
        return self.ratio if self.metric.in_own_unit else self.judged

    @property
    def verdict(self) -> str:
        metric = self.metric
        if metric.floor is None:
            return ""
        if not metric.meets(self.judged, metric.floor):
            return "below the floor"
        if metric.goal is not None and not metric.meets(self.judged, metric.goal):
            return "floor met, goal missed"
        return "goal met" if metric.goal is not None else "floor met"

    @property
    def missed(self) -> bool:
        return "missed" in self.verdict or "below" in self.verdict


def figures_of(results: dict[str, Any], metrics: Iterable[Metric] = METRICS) -> list[Figure]:
    figures = []
    for metric in metrics:
        samples = results["samples"].get(metric.key, {})
        kafka, moldau = samples.get("kafka"), samples.get("moldau")
        if kafka and moldau:
            ranges = [(min(values), max(values)) for values in (kafka, moldau)]
            figures.append(Figure(metric, median(kafka), median(moldau), ranges[0], ranges[1]))
    return figures


def print_table(results: dict[str, Any], metrics: Iterable[Metric] = METRICS) -> None:
    for row in table_rows(figures_of(results, metrics)):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, (60, 12, 12, 8, 7, 7, 20), strict=False))
        )


def write_documents(results: dict[str, Any], docs: Path) -> None:
    figures = figures_of(results)
    docs.mkdir(exist_ok=True)
    draw_ratios(figures, docs / "benchmarks.png")
    notes = updated_notes(
        docs / "benchmarks-notes.md", [figure.metric for figure in figures if figure.missed]
    )
    (docs / "benchmarks.md").write_text(_document(results, figures, notes))
    print("written: docs/benchmarks.md, docs/benchmarks.png")


SPARK = """## Spark

`make bench-spark` measures `format("moldau")` beside Spark's own connector, on both brokers:
[benchmarks-spark.md](benchmarks-spark.md).

![Ratios to Spark's connector, with floors and goals](benchmarks-spark.png)
"""
_QUICK = " (the small sizes of `--quick`, one round each: take the ratios as orders of magnitude)"


def _document(results: dict[str, Any], figures: list[Figure], notes: dict[str, str]) -> str:
    facts = results["machine"].items()
    machine = ", ".join(f"{name} {value}" for name, value in facts if name != "load average before")
    parts = [
        "# Benchmarks: Moldau and Apache Kafka 4.3.0 side by side\n",
        "Written by `make bench`; do not edit. Notes on missed figures: `benchmarks-notes.md`.\n",
        f"{when(results)} Machine: {machine}.\n",
        "![Ratios to Apache Kafka, with floors and goals](benchmarks.png)\n",
        markdown(table_rows(figures)),
        f"## What to make of it\n\n{notes['general']}\n" if "general" in notes else "",
        METHOD,
        SPARK,
        "## Ranges\n",
        markdown(range_rows(figures)),
        "## Missed floors and goals\n",
        missed_sections(figures, notes),
    ]
    return "\n".join(parts)


def missed_sections(figures: list[Figure], notes: dict[str, str]) -> str:
    """What was missed, each with what a person wrote about it."""
    parts = []
    missed = [figure for figure in figures if figure.missed]
    if not missed:
        parts.append("None.\n")
    for figure in missed:
        bounds = f"floor {figure.metric.floor:g}" + (
            f", goal {figure.metric.goal:g}" if figure.metric.goal else ""
        )
        unit = f" {figure.metric.unit}" if figure.metric.in_own_unit else "×"
        title = f"{figure.metric.title}: {figure.judged:.2f}{unit}"
        parts.append(f"### {title} ({bounds}; {figure.verdict})\n")
        parts.append(notes.get(figure.metric.key, UNWRITTEN) + "\n")
    return "\n".join(parts)


def when(results: dict[str, Any]) -> str:
    """The runs that the figures come from, each with the load that it met."""
    runs = [
        f"{run['date']} ({run['figures']} figures, {run['minutes']} minutes, load average before: "
        f"{run['load average before']})"
        for run in results["runs"]
    ]
    newest = " A figure is that of the newest run that has it." if len(runs) > 1 else ""
    code = f" Code: {results['code']}." if "code" in results else ""
    return f"Measured on {', '.join(runs)}{_QUICK if results['quick'] else ''}.{newest}{code}"


def table_rows(figures: list[Figure]) -> list[list[str]]:
    rows = [["measure", "Apache Kafka", "Moldau", "ratio", "floor", "goal", "verdict"]]
    for figure in figures:
        metric = figure.metric
        sign = "≥" if metric.better == "higher" else "≤"
        unit = f" {metric.unit} (own)" if metric.in_own_unit else ""
        floor = "" if metric.floor is None else f"{sign} {metric.floor:g}{unit}"
        goal = "" if metric.goal is None else f"{sign} {metric.goal:g}{unit}"
        ratio = "" if math.isnan(figure.shown) else f"{figure.shown:.2f}×"
        ratio += " (own)" if metric.judged == "own" and not unit else ""
        title = f"{metric.title} ({metric.unit})"
        rows.append(
            [title, _number(figure.kafka), _number(figure.moldau), ratio, floor, goal, figure.verdict]
        )
    return rows


def range_rows(figures: list[Figure]) -> list[list[str]]:
    rows = [["measure", "Apache Kafka", "Moldau"]]
    for figure in figures:
        ranges = [
            f"{_number(low)} – {_number(high)}" for low, high in (figure.kafka_range, figure.moldau_range)
        ]
        rows.append([f"{figure.metric.title} ({figure.metric.unit})", *ranges])
    return rows


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines) + "\n"


def updated_notes(path: Path, missed: list[Metric]) -> dict[str, str]:
    """The notes by metric key; a heading is added for each missed figure that has none."""
    text = path.read_text() if path.exists() else NOTES_HEAD
    notes = _parse_notes(text)
    for metric in missed:
        if metric.key not in notes:
            text = f"{text.rstrip()}\n\n## {metric.key}\n\n{UNWRITTEN}\n"
    path.write_text(text)
    return _parse_notes(text)


def _parse_notes(text: str) -> dict[str, str]:
    pieces = re.split(r"^## (\S+)\s*$", text, flags=re.MULTILINE)
    return {key: body.strip() for key, body in zip(pieces[1::2], pieces[2::2], strict=True)}

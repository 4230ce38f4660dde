"""How a streaming query is doing, as a value: made from Spark's progress events, written as JSON.

The lag of a source is what its topics held when the batch began, less what the batch has read: Spark puts
both into the event, as offsets by topic and partition.

Pure. A field that an event does not have stays unknown; nothing is guessed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from moldau.spark.read.offsets import RESET_KEY

#: States of a query; the last two are ends.
STARTING, RUNNING, STOPPED, FAILED = "starting", "running", "stopped", "failed"
SPARK, STREAMS = "spark", "streams"


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """One query at a moment; rates are rows a second, None where nothing is known yet."""

    name: str
    query_id: str = ""
    run_id: str = ""
    group: str = ""
    host: str = ""
    state: str = STARTING
    batch_id: int = -1
    #: Rows since this run began, and of the last batch.
    rows: int = 0
    batch_rows: int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    batch_duration_ms: int | None = None
    #: From the time of the newest record of the last batch to when its result was there; streams only.
    latency_ms: int | None = None
    #: Records that wait, by topic, one entry for each source.
    lag: tuple[Mapping[str, int], ...] = ()
    watermark: str | None = None
    #: Rows that came too late for the watermark, since this run began.
    late_rows: int = 0
    #: Records that were passed over by reason, since this run began; only programs of streams count them.
    dropped: Mapping[str, int] = field(default_factory=dict)
    sink: str = ""
    updated: str = ""
    error: str | None = None
    #: What kind of program it is: a query of Spark, or one of ``moldau streams``.
    kind: str = SPARK
    #: The pipeline that it is a step of, and what the step writes to.
    pipeline: str = ""
    output: str = ""
    #: Rows and bytes that its stateful operators keep; None where it has none.
    state_rows: int | None = None
    state_bytes: int | None = None
    #: Its operators and the topics between them, as ``moldau.streams.topology.plan`` makes them.
    plan: tuple[Mapping[str, Any], ...] = ()

    @property
    def total_lag(self) -> int | None:
        """Records that wait; None before the first event."""
        return sum(sum(each.values()) for each in self.lag) if self.lag else None

    @property
    def ended(self) -> bool:
        return self.state in (STOPPED, FAILED)

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "lag": [dict(each) for each in self.lag],
            "plan": [dict(each) for each in self.plan],
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "QueryStatus":
        """Reads what this or another version has written: what is not known here is left out."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        listed = {name: tuple(known.get(name, ())) for name in ("lag", "plan")}
        return cls(**{**known, **listed})


def with_progress(status: QueryStatus, event: Mapping[str, Any]) -> QueryStatus:
    """The status after one progress event of Spark."""
    batch_rows = int(event.get("numInputRows") or 0)
    again = event.get("batchId") == status.batch_id
    operators = event.get("stateOperators") or ()
    late = sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators)
    return replace(
        status,
        query_id=event.get("id") or status.query_id,
        run_id=event.get("runId") or status.run_id,
        state=RUNNING if not status.ended else status.state,
        batch_id=int(event.get("batchId", status.batch_id)),
        rows=status.rows + (0 if again and not batch_rows else batch_rows),
        batch_rows=batch_rows,
        input_rows_per_second=_rate(event.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(event.get("processedRowsPerSecond")),
        batch_duration_ms=(event.get("durationMs") or {}).get("triggerExecution"),
        lag=tuple(source_lag(source) for source in event.get("sources") or ()) or status.lag,
        watermark=(event.get("eventTime") or {}).get("watermark", status.watermark),
        late_rows=status.late_rows + late,
        sink=_sink(event) or status.sink,
        updated=event.get("timestamp") or status.updated,
        state_rows=_sum(operators, "numRowsTotal"),
        state_bytes=_sum(operators, "memoryUsedBytes"),
    )


def source_lag(source: Mapping[str, Any]) -> dict[str, int]:
    """Records that wait in each topic of a source; empty for a source that is none of ours."""
    ends, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    found: dict[str, int] = {}
    for topic, partitions in latest.items():
        read = ends.get(topic, {})
        found[topic] = sum(max(int(end) - int(read.get(p, 0)), 0) for p, end in partitions.items())
    return found


def _offsets(given: Any) -> dict[str, dict[str, int]]:
    """Spark hands offsets out as JSON, or as the text of it."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except json.JSONDecodeError:
            return {}
    if not isinstance(given, Mapping):
        return {}
    return {t: dict(p) for t, p in given.items() if t != RESET_KEY and isinstance(p, Mapping)}


def _sum(operators: Sequence[Mapping[str, Any]], name: str) -> int | None:
    known = [int(each[name]) for each in operators if isinstance(each.get(name), int)]
    return sum(known) if known else None


def _sink(event: Mapping[str, Any]) -> str:
    """What Spark calls the sink; of one in Python it only knows the class that stands for it."""
    described = str((event.get("sink") or {}).get("description") or "")
    return "moldau" if "python.PythonTable" in described else described


def _rate(given: Any) -> float | None:
    """NaN and infinity, which Spark gives for a batch that took no time, are no rates."""
    rate = float(given) if isinstance(given, int | float) else None
    return None if rate is None or rate != rate or rate in (float("inf"), float("-inf")) else round(rate, 3)

"""Metrics of a pipeline as Prometheus reads them.

Pure. Names end with their unit; a value that is not known is left out.
"""

from collections.abc import Callable, Iterator

from moldau.pipelines.directory import PipelineState
from moldau.spark.query.progress import RUNNING, QueryStatus

_METRICS: tuple[tuple[str, str, str, Callable[[QueryStatus], float | None]], ...] = (
    ("moldau_query_up", "gauge", "1 while the query runs.", lambda q: float(q.state == RUNNING)),
    ("moldau_query_rows_total", "counter", "Rows read since the run began.", lambda q: q.rows),
    (
        "moldau_query_late_rows_total",
        "counter",
        "Rows that came too late for the watermark.",
        lambda q: q.late_rows,
    ),
    (
        "moldau_query_input_rows_per_second",
        "gauge",
        "Rows that come, a second.",
        lambda q: q.input_rows_per_second,
    ),
    (
        "moldau_query_processed_rows_per_second",
        "gauge",
        "Rows that are worked through, a second.",
        lambda q: q.processed_rows_per_second,
    ),
    ("moldau_query_batch", "gauge", "The number of the last batch.", lambda q: q.batch_id),
    (
        "moldau_query_batch_duration_seconds",
        "gauge",
        "How long the last batch took.",
        lambda q: None if q.batch_duration_ms is None else q.batch_duration_ms / 1000,
    ),
    (
        "moldau_query_latency_seconds",
        "gauge",
        "From the time of the newest record of the last batch to its result, in a program of streams.",
        lambda q: None if q.latency_ms is None else q.latency_ms / 1000,
    ),
)


def prometheus_text(state: PipelineState) -> str:
    """All metrics of all queries of a pipeline."""
    return "\n".join(_lines(state)) + "\n"


def _lines(state: PipelineState) -> Iterator[str]:
    for name, kind, text, value_of in _METRICS:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {kind}"
        for query in state.queries:
            value = value_of(query)
            if value is not None:
                yield f"{name}{{{_labels(state, query)}}} {_number(value)}"
    yield "# HELP moldau_query_lag Records that wait in a topic."
    yield "# TYPE moldau_query_lag gauge"
    for query in state.queries:
        waiting: dict[str, int] = {}
        for source in query.lag:
            for topic, lag in source.items():
                waiting[topic] = waiting.get(topic, 0) + lag
        for topic, lag in waiting.items():
            yield f'moldau_query_lag{{{_labels(state, query)},topic="{_quoted(topic)}"}} {lag}'

    yield "# HELP moldau_query_dropped_records_total Records that a program of streams passed over."
    yield "# TYPE moldau_query_dropped_records_total counter"
    for query in state.queries:
        for reason, count in query.dropped.items():
            labels = f'{_labels(state, query)},reason="{_quoted(reason)}"'
            yield f"moldau_query_dropped_records_total{{{labels}}} {count}"


def _labels(state: PipelineState, query: QueryStatus) -> str:
    return f'pipeline="{_quoted(state.name)}",query="{_quoted(query.name)}"'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))

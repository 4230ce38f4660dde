"""Metrics as text, and over HTTP."""

import urllib.error
import urllib.request

import pytest

from moldau.pipelines.directory import PipelineState
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.metrics import prometheus_text
from moldau.pipelines.metrics_server import MetricsServer
from moldau.spark.query.progress import QueryStatus

STATE = PipelineState(
    "p",
    "/p.py",
    queries=(
        QueryStatus(
            'p-"q"',
            state="running",
            batch_id=4,
            rows=10,
            input_rows_per_second=2.5,
            batch_duration_ms=1500,
            latency_ms=250,
            lag=({"t": 3}, {"t": 4, "u": 0}),
            dropped={"late": 2},
        ),
        QueryStatus("p-new"),
    ),
)


def test_metrics() -> None:
    lines = prometheus_text(STATE).splitlines()
    labels = 'pipeline="p",query="p-\\"q\\""'
    for line in (
        f"moldau_query_up{{{labels}}} 1",
        'moldau_query_up{pipeline="p",query="p-new"} 0',
        f"moldau_query_rows_total{{{labels}}} 10",
        f"moldau_query_input_rows_per_second{{{labels}}} 2.5",
        f"moldau_query_batch_duration_seconds{{{labels}}} 1.5",
        f"moldau_query_latency_seconds{{{labels}}} 0.25",
        f'moldau_query_lag{{{labels},topic="t"}} 7',
        f'moldau_query_lag{{{labels},topic="u"}} 0',
        "# TYPE moldau_query_rows_total counter",
    ):
        assert line in lines
    assert not any("input_rows" in line and "p-new" in line for line in lines)
    assert len([line for line in lines if line.startswith("# TYPE")]) == len(
        {line.split()[2] for line in lines if line.startswith("# TYPE")}
    )


def test_they_are_served() -> None:
    server = MetricsServer(0, lambda: STATE)
    try:
        address = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == prometheus_text(STATE)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/other")
        refused.value.close()
        with pytest.raises(PipelineError, match=f"cannot be served on port {server.port}"):
            MetricsServer(server.port, lambda: STATE)
    finally:
        server.close()

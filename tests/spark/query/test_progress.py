"""Statuses out of Spark's progress events, and sentences out of its errors."""

import json
from typing import Any

import pytest

from moldau.spark.query.failures import sentence
from moldau.spark.query.progress import QueryStatus, source_lag, with_progress

EVENT: dict[str, Any] = {
    "id": "id-1",
    "runId": "run-1",
    "name": "p-counts",
    "timestamp": "2026-11-16T05:43:20.384Z",
    "batchId": 7,
    "numInputRows": 30,
    "inputRowsPerSecond": 15.0,
    "processedRowsPerSecond": 60.25,
    "durationMs": {"triggerExecution": 498, "addBatch": 300},
    "eventTime": {"watermark": "2026-11-16T05:43:00.000Z"},
    "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
    "sources": [
        {
            "description": "moldau",
            "startOffset": {"t": {"0": 0, "1": 0}},
            "endOffset": {"t": {"0": 10, "1": 20}, "__moldau_reset": {"t": {"0": 5}}},
            "latestOffset": {"t": {"0": 14, "1": 20, "2": 3}},
        },
        {"endOffset": json.dumps({"u": {"0": 1}}), "latestOffset": json.dumps({"u": {"0": 1}})},
    ],
    "sink": {"description": "moldau"},
}


def test_an_event_changes_the_status() -> None:
    first = with_progress(QueryStatus("p-counts", group="p-counts", host="here"), EVENT)
    assert first == QueryStatus(
        "p-counts",
        "id-1",
        "run-1",
        "p-counts",
        "here",
        "running",
        batch_id=7,
        rows=30,
        batch_rows=30,
        input_rows_per_second=15.0,
        processed_rows_per_second=60.25,
        batch_duration_ms=498,
        lag=({"t": 7}, {"u": 0}),
        watermark="2026-11-16T05:43:00.000Z",
        late_rows=3,
        sink="moldau",
        updated="2026-11-16T05:43:20.384Z",
    )
    assert first.total_lag == 7
    second = with_progress(
        first, {**EVENT, "batchId": 8, "numInputRows": 5, "inputRowsPerSecond": float("nan")}
    )
    assert (second.rows, second.batch_rows, second.input_rows_per_second) == (35, 5, None)
    assert second.late_rows == 6


def test_what_an_event_does_not_say_stays_unknown() -> None:
    status = with_progress(QueryStatus("q"), {})
    assert (status.total_lag, status.batch_duration_ms, status.input_rows_per_second) == (None, None, None)
    assert not status.ended
    assert QueryStatus("q", state="failed").ended


def test_a_status_survives_json() -> None:
    status = with_progress(QueryStatus("q"), EVENT)
    assert QueryStatus.from_json(json.loads(json.dumps(status.to_json()))) == status
    assert QueryStatus.from_json({"name": "q", "of_a_later_version": 1}) == QueryStatus("q")


def test_what_operators_keep_is_summed() -> None:
    operators = [{"numRowsTotal": 3, "memoryUsedBytes": 100}, {"numRowsTotal": 4, "memoryUsedBytes": 20}]
    status = with_progress(QueryStatus("q"), {"stateOperators": operators})
    assert (status.state_rows, status.state_bytes) == (7, 120)


@pytest.mark.parametrize("source", [{}, {"endOffset": "7", "latestOffset": 9}, {"latestOffset": "{no json"}])
def test_the_lag_of_another_kind_of_source_is_not_known(source: dict[str, Any]) -> None:
    assert source_lag(source) == {}


TRACE = """[STREAM_FAILED] Query p-counts [id = 1, runId = 2] terminated with exception: [ERROR]
Failed to read:
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
ValueError: an inner one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/ranges.py", line 9, in read
    raise DataLoss(
moldau.spark.read.ranges.DataLoss: records 0 to 4 of t-0 are gone before this query has read them
(retention); failOnDataLoss=false passes over holes

\tat org.apache.spark.api.python.BasePythonRunner.x(PythonRunner.scala:1)
=== Streaming Query ===
Identifier: p
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            TRACE,
            "records 0 to 4 of t-0 are gone before this query has read them (retention); "
            "failOnDataLoss=false passes over holes",
        ),
        ("x\nTraceback (most recent call last):\n  File \"a\"\nKeyError: 'k'\n", "KeyError: 'k'"),
        (
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 3 pos 7;\n'Project",
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved; line 3 pos 7",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost "
            "task 0.0 in stage 1.0 (TID 1) (host executor driver): java.io.IOException: full\n\tat a.C.d(E)",
            "java.io.IOException: full",
        ),
        ("Query q [id = 1] terminated with exception: it broke\n=== Streaming Query ===\nx", "it broke"),
        ("plain", "plain"),
    ],
)
def test_a_failure_is_one_sentence(text: str, said: str) -> None:
    assert sentence(text) == said
    assert sentence(Failed(text)) == said


class Failed(Exception):
    """As Spark's own errors: what they say is enough."""


def test_an_error_of_python_has_its_name() -> None:
    assert sentence(KeyError("gone")) == "KeyError: 'gone'"
    assert sentence(KeyboardInterrupt()) == "KeyboardInterrupt"

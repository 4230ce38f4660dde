"""What the numbers of an application say."""

from moldau.pipelines.directory import PipelineState
from moldau.spark.query.progress import QueryStatus
from moldau.streams.runner.why import reasons


def said(state: str = "running", lag: int = 0, error: str | None = None, **progress: object) -> str:
    queries = (QueryStatus("app", lag=({"in": lag},)),)
    found = PipelineState("app", "app.py", state=state, queries=queries, error=error)
    return "\n".join(reasons(found, {"batches": 1, **progress}, 4, 2))


def test_a_failure_comes_with_what_to_do() -> None:
    assert "--dead-letter-topic" in said("failed", error="the record at offset 1 of in-0 does not decode: x")


def test_a_lag_comes_with_time_and_workers() -> None:
    text = said(lag=1000, batch_seconds=2.0, batch_records=200)
    assert "1000 records wait, about 10 s of work" in text
    assert "--workers 4" in text


def test_dropped_records_are_mentioned() -> None:
    assert "10 of 100 records were dropped" in said(dropped=10, records_in=100)
    reasons = {"late": 7, "undecodable": 3}
    assert "dropped: 7 late, 3 undecodable; a longer grace" in said(
        dropped=10, records_in=100, reasons=reasons
    )


def test_nothing_is_made_up() -> None:
    assert "no batch" in said(batches=0)
    assert "logs app" in said("died")
    assert "5 ms after" in said(latency_ms=5)

"""Events of Spark's queries, kept and published; the events are made up, the broker is real."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.spark.background_loop import open_loop
from moldau.spark.options import ClusterOptions
from moldau.spark.query.listener import PIPELINES_TOPIC, Publisher, QueryListener, listen
from moldau.spark.query.progress import QueryStatus
from moldau.testing import Broker

PROGRESS = {
    "id": "id-1",
    "runId": "run-1",
    "batchId": 0,
    "numInputRows": 4,
    "timestamp": "t2",
    "sources": [{"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 6}}}],
}


def tell(listener: QueryListener, *, error: str | None = None, name: str | None = "p-counts") -> None:
    """A query from its start to its end."""
    listener.onQueryStarted(SimpleNamespace(id="id-1", runId="run-1", name=name, timestamp="t1"))
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(PROGRESS))))
    listener.onQueryIdle(SimpleNamespace(runId="run-1", timestamp="t3"))
    listener.onQueryTerminated(SimpleNamespace(runId="run-1", exception=error))
    # Another run, which began before anybody listened.
    listener.onQueryTerminated(SimpleNamespace(runId="run-0", exception=None))


def test_the_newest_status_is_kept() -> None:
    seen: list[QueryStatus] = []
    listener = QueryListener(seen.append)
    tell(listener)
    assert [each.state for each in seen] == ["starting", "running", "running", "stopped"]
    assert [each.total_lag for each in seen] == [None, 2, 2, 2]
    last = listener.statuses["p-counts"]
    assert (last.group, last.rows, last.input_rows_per_second, last.updated) == ("p-counts", 4, 0.0, "t3")
    assert last.host


def test_a_failure_is_a_sentence() -> None:
    listener = QueryListener()
    tell(listener, error="Query terminated with exception: it broke\n=== Streaming Query ===\nmore")
    assert (listener.statuses["p-counts"].state, listener.statuses["p-counts"].error) == (
        "failed",
        "it broke",
    )


def test_a_query_without_a_name_has_its_id() -> None:
    listener = QueryListener()
    tell(listener, name=None)
    assert list(listener.statuses) == ["id-1"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_statuses_are_published_to_a_compacted_topic(broker: Broker) -> None:
    loop = open_loop(ClusterOptions(broker.bootstrap_servers))
    publisher = Publisher(loop)
    tell(QueryListener(publisher.publish))
    publisher.flush()
    records = broker.records(PIPELINES_TOPIC)
    assert {record.key for record in records} == {b"p-counts"}
    found = [QueryStatus.from_json(json.loads(record.value or b"")) for record in records]
    assert [each.state for each in found] == ["starting", "running", "running", "stopped"]
    assert found[-1].lag == ({"t": 2},)
    loop.close()


def test_a_session_is_listened_to(broker: Broker) -> None:
    added: list[Any] = []
    session: Any = SimpleNamespace(streams=SimpleNamespace(addListener=added.append))
    assert listen(session, broker.bootstrap_servers) is added[0]
    tell(added[0])
    assert broker.wait_for_records(PIPELINES_TOPIC, 4)

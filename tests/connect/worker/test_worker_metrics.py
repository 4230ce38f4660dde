"""What a worker tells of its connectors and tasks at /metrics."""

import re
from pathlib import Path

import pytest

from moldau.testing import Broker
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


def figures(worker: Worker) -> dict[str, float]:
    """Numbers of Connect by their name with its labels."""
    text = worker.http.get("/metrics").text
    lines = re.findall(r"^(?:kafka|moldau)_connect_(\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_records_errors_and_states_are_told(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\ntwo\nthree\n")
    broker.create_topic("bad")
    for value in (b'"good"', b"no json", b"nor this"):
        broker.produce("bad", value, partition=0)
    source = {"name": "lines", "connector.class": "FileStreamSource", "file": str(tmp_path / "in")}
    sink = {"connector.class": "FileStreamSink", "topics": "bad", "value.converter.schemas.enable": "false"}
    json_values = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}
    letters = {"errors.deadletterqueue.topic.replication.factor": "1"}
    own = {**source, "name": "own", "topic": "own", "isolation": "process"}
    connectors = [
        {**source, "topic": "lines"},
        own,
        {"name": "bad", "file": str(tmp_path / "out"), **sink, **json_values, **tolerant, **letters},
        {"name": "strict", "file": str(tmp_path / "strict"), **sink, **json_values},
    ]
    of_lines, of_bad = '{connector="lines",task="0"}', '{connector="bad",task="0"}'
    with running(broker, tmp_path, connectors) as worker:

        def everything_is_told() -> bool:
            found = figures(worker)
            return (
                found.get(f"source_task_metrics_source_record_write_total{of_lines}") == 3
                and found.get(f"task_error_metrics_deadletterqueue_produce_requests_total{of_bad}") == 2
                and found.get('source_task_metrics_source_record_write_total{connector="own",task="0"}') == 3
                and found.get('connect_worker_metrics_connector_failed_task_count{connector="strict"}') == 1
            )

        wait_until(everything_is_told, lambda: str(figures(worker)))
        found = figures(worker)
        expected = {
            "connect_worker_metrics_connector_count": 4,
            "connect_worker_metrics_task_count": 4,
            'connect_worker_metrics_connector_running_task_count{connector="lines"}': 1,
            'connect_worker_metrics_connector_running_task_count{connector="strict"}': 0,
            'connector_failed{connector="strict"}': 0,
            f"source_task_metrics_source_record_poll_total{of_lines}": 3,
            'source_task_metrics_source_record_poll_total{connector="own",task="0"}': 3,
            f"sink_task_metrics_sink_record_read_total{of_bad}": 3,
            f"sink_task_metrics_sink_record_send_total{of_bad}": 1,
            f"task_error_metrics_total_record_errors_total{of_bad}": 2,
            f"task_error_metrics_total_records_skipped_total{of_bad}": 2,
            f"task_error_metrics_total_record_errors_total{of_lines}": 0,
        }
        assert {name: found.get(name) for name in expected} == expected
        assert not any("sink_task" in name and "lines" in name for name in found)
        worker.call("DELETE", "/connectors/bad")
        assert not any('"bad"' in name for name in figures(worker)), "it is gone"

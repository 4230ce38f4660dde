"""The metrics of a worker of Connect, by the names of Apache's: connectors, tasks, records and errors.

Invariant: part of the one table. Apache's states are texts; here they are numbers, for alerts to ask for.
"""

from moldau.metrics.table import Metric, attribute, gauge

_WORKER = ("kafka.connect", "connect-worker-metrics")
_TASK = ("connector", "task")
#: By attribute; tasks that run on Spark count nothing here.
RECORDS: dict[str, Metric] = {}


def _count(type_: str, name: str, help_: str) -> None:
    RECORDS[name] = attribute("kafka.connect", type_, name, help_, *_TASK, grows=True)


CONNECTORS = attribute(*_WORKER, "connector-count", "Connectors that run in this worker")
TASKS = attribute(*_WORKER, "task-count", "Tasks that run in this worker")
#: Tasks of one connector by their state, as REST has it.
TASK_STATES = {
    state: attribute(
        *_WORKER, f"connector-{state.lower()}-task-count", f"Tasks that are {state.lower()}", "connector"
    )
    for state in ("RUNNING", "PAUSED", "FAILED", "RESTARTING", "UNASSIGNED")
}
CONNECTOR_FAILED = gauge(
    "moldau.connect", "Connector", "Failed", "1 where a connector has failed before it had tasks", "connector"
)
_count("source-task-metrics", "source-record-poll-total", "Records that a source has read")
_count("source-task-metrics", "source-record-write-total", "Records of a source that are written to topics")
_count("sink-task-metrics", "sink-record-read-total", "Records that a sink has read from topics")
_count("sink-task-metrics", "sink-record-send-total", "Records that were given to a sink")
_count("task-error-metrics", "total-record-errors", "Records that a step has failed for in the end")
_count("task-error-metrics", "total-retries", "Steps that were tried again")
_count("task-error-metrics", "total-records-skipped", "Records that were left out because of an error")
_count("task-error-metrics", "deadletterqueue-produce-requests", "Records that became dead letters")

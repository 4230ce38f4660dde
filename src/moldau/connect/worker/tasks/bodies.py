"""Which body runs a task: of a source or a sink, in transactions or not, as a Spark query or not.

Invariant: what a configuration may not choose is refused before a task is made.
"""

from collections.abc import Mapping

from moldau.connect.connector import Connector, SinkConnector, SourceConnector
from moldau.connect.errors import ConfigException, ConnectException
from moldau.connect.transforms.python import TYPE as PYTHON
from moldau.connect.transforms.python import load
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.client_options import check_clients
from moldau.connect.worker.tasks.exactly_once import ExactlyOnceBody, Transactions
from moldau.connect.worker.tasks.on_spark import RUNTIME, runs_on_spark
from moldau.connect.worker.tasks.own_process import ProcessBody, in_own_process
from moldau.connect.worker.tasks.running_task import Body
from moldau.connect.worker.tasks.sink_body import SinkBody
from moldau.connect.worker.tasks.source_body import SourceBody
from moldau.connect.worker.tasks.spark_sink import SparkSinkBody, check_spark
from moldau.connect.worker.tasks.spark_source import SparkSnapshots, parts_at_a_time, snapshots_on_spark
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.tasks.topic_creation import creation_of


def body_of(
    parts: TaskParts, connector: Connector, config: Mapping[str, str], worker: WorkerSettings
) -> Body:
    if in_own_process(config):
        return ProcessBody(parts, config, worker)
    return inner_body_of(parts, connector, config, worker)


def inner_body_of(
    parts: TaskParts, connector: Connector, config: Mapping[str, str], worker: WorkerSettings
) -> Body:
    """What runs in the worker, or in the process that is the task's own."""
    if isinstance(connector, SourceConnector):
        first = None
        if snapshots_on_spark(type(connector), config, worker):
            first = SparkSnapshots(parts, connector, config, worker)
        if worker.exactly_once:
            writes = Transactions.of(config, worker, parts.connector, parts.task)
            return ExactlyOnceBody(parts, connector, writes, first)
        return SourceBody(parts, connector, first)
    assert isinstance(connector, SinkConnector)
    if runs_on_spark(config, worker):
        return SparkSinkBody(parts, connector, config, worker)
    return SinkBody(parts, connector)


def check_runtime(connector: type[Connector], settings: Mapping[str, str], worker: WorkerSettings) -> None:
    """Options of Spark belong to the worker, because some of them load code and read files; so does the list
    of modules that may be loaded."""
    for name, value in settings.items():
        if value == PYTHON and name.startswith("transforms.") and name.endswith(".type"):
            load(settings.get(f"{name.removesuffix('type')}function", ""), worker.python_modules)
        if name.startswith(("spark.", "moldau.spark.")):
            raise ConfigException(f"The setting {name} is the worker's, not a connector's")
    in_own_process(settings)
    check_clients(settings, worker)
    if issubclass(connector, SourceConnector):
        creation_of(settings, worker)
    if runs_on_spark(settings, worker) and issubclass(connector, SinkConnector):
        check_spark(connector, settings, worker)
    elif settings.get(RUNTIME) == "spark" and not snapshots_on_spark(connector, settings, worker):
        raise ConfigException(
            f"{RUNTIME}=spark is for sinks, and for sources of tables (JDBC) and of folders (SpoolDirSource)"
        )


def task_count(connector: type[Connector], config: Mapping[str, str], worker: WorkerSettings) -> int:
    """How many tasks a connector may have: one on Spark, which spreads the work itself."""
    if issubclass(connector, SinkConnector) and runs_on_spark(config, worker):
        return 1
    return 1 if snapshots_on_spark(connector, config, worker) else int(config.get("tasks.max", "1"))


def tasks_of(
    name: str, connector: Connector, config: Mapping[str, str], worker: WorkerSettings
) -> list[dict[str, str]]:
    """The settings of a connector's tasks; more of them than it may have are an error, not left out."""
    most = task_count(type(connector), config, worker)
    found = connector.task_settings(most)
    if len(found) > most and config.get("tasks.max.enforce", "true").strip().lower() != "false":
        raise ConnectException(
            f"The connector {name} has generated {len(found)} tasks, which is greater than {most}, the "
            "maximum number of tasks it is configured to create; tasks.max.enforce=false permits it"
        )
    return found


def writer_count(
    connector: type[Connector], config: Mapping[str, str], worker: WorkerSettings, tasks: int
) -> int:
    """How many transactional ids the tasks of a source have."""
    return tasks + (parts_at_a_time(config) if snapshots_on_spark(connector, config, worker) else 0)

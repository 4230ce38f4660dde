"""Which body runs a task: of a source or a sink, in transactions or not, as a Spark query or not.

Invariant: what a configuration may not choose is refused before a task is made.
"""

from collections.abc import Mapping

from moldau.connect.connector import Connector, SinkConnector, SourceConnector
from moldau.connect.errors import ConfigException
from moldau.connect.transforms.python import TYPE as PYTHON
from moldau.connect.transforms.python import load
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.tasks.exactly_once import ExactlyOnceBody, Transactions
from moldau.connect.worker.tasks.own_process import ProcessBody, in_own_process
from moldau.connect.worker.tasks.running_task import Body
from moldau.connect.worker.tasks.sink_body import SinkBody
from moldau.connect.worker.tasks.source_body import SourceBody
from moldau.connect.worker.tasks.spark_sink import SparkSinkBody, check_spark, runs_on_spark
from moldau.connect.worker.tasks.task_parts import TaskParts


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
        if worker.exactly_once:
            return ExactlyOnceBody(
                parts, connector, Transactions.of(config, worker, parts.connector, parts.task)
            )
        return SourceBody(parts, connector)
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
    if runs_on_spark(settings, worker) and issubclass(connector, SinkConnector):
        check_spark(connector, settings, worker)
    elif settings.get("moldau.runtime") == "spark":
        raise ConfigException("moldau.runtime=spark is for sinks; sources run in the worker")

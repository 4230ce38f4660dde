"""What sinks and sources on Spark share: who chooses it, the worker's one session, what travels to Spark's
Python workers, and why a job ended.

Invariant: options of Spark are the worker's; a process of Spark gets no more of the worker's settings than it
needs.
"""

from collections.abc import Mapping
from typing import Any

from moldau.connect.errors import ConfigException, ConnectException, RetriableException
from moldau.connect.transforms.python import MODULES
from moldau.connect.worker.settings import WorkerSettings, converter_of, standalone_settings
from moldau.connect.worker.tasks.client_options import worker_clients

RUNTIME = "moldau.runtime"
_SECURITY = ("security.protocol", "sasl.", "ssl.")
#: What a query may fail of that has nothing to do with its records. Spark waits ten seconds for a Python
#: worker that it starts, which a busy machine may need longer for.
_PASSING = (
    RetriableException.__name__,
    "NOT_COORDINATOR",
    "ConnectionError",
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "CANNOT_OPEN_SOCKET",
    "ExecutorLostFailure",
)


def runs_on_spark(config: Mapping[str, str], worker: WorkerSettings) -> bool:
    chosen = config.get(RUNTIME, worker.given.get(RUNTIME, "python"))
    if chosen not in ("python", "spark"):
        raise ConfigException.of(RUNTIME, chosen, "String must be one of: python, spark")
    return chosen == "spark"


def session_of(worker: WorkerSettings) -> Any:
    """The session that all connectors of this process share, started when it is first asked for."""
    from moldau.spark import spark_session

    return spark_session(
        "moldau connect", master=worker.given.get("moldau.spark.master"), spark_scheduler_mode="FAIR"
    )


def whole_config(config: Mapping[str, str], worker: WorkerSettings) -> dict[str, str]:
    """A configuration with the worker's converters in it, for a process that has no worker."""
    found = {
        "compatibility": worker.compatibility.value,
        **worker_clients(worker),
        **config,
        "topic.creation.enable": str(worker.topic_creation).lower(),
        MODULES: ",".join(worker.python_modules),
    }
    for side in ("key", "value", "header"):
        if converter_of(config, side) is None:
            name, settings = worker.converter(side)
            found[f"{side}.converter"] = name
            found |= {f"{side}.converter.{key}": value for key, value in settings.items()}
    return found


def no_worker(config: Mapping[str, str]) -> WorkerSettings:
    """Everything that a worker would say stands in the configuration already."""
    nothing = dict.fromkeys(("key.converter", "value.converter", "offset.storage.file.filename"), "-")
    known = {name: config[name] for name in (MODULES, "topic.creation.enable")}
    return standalone_settings({**nothing, **known})


def login_of(worker: WorkerSettings) -> dict[str, str]:
    """How the worker proves to the cluster who it is."""
    return {key: value for key, value in worker.given.items() if key.startswith(_SECURITY)}


def failure_of(text: str) -> Exception:
    """Why a job or query ended, in the words of the last of our errors that Spark's report names."""
    passes = any(words in text for words in _PASSING)
    lines = [line for line in text.splitlines() if "moldau.connect.errors" in line]
    said = (lines[-1] if lines else text.partition("\n")[0]).strip()
    return (RetriableException if passes else ConnectException)(said[:1000])

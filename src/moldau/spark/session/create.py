"""A Spark session that fits: Java found and new enough, the workers on this interpreter.

Invariant: what is missing is reported in one sentence that says what to do, before Spark reports it in a
hundred lines. Users with a session of their own need nothing of this.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from moldau.spark.jvm.columnar_jar import columnar_jar
from moldau.spark.session import class_archive
from moldau.spark.session.interpreter import worker_python
from moldau.spark.session.java import LEAST_JAVA as LEAST_JAVA
from moldau.spark.session.java import JavaNotFound as JavaNotFound
from moldau.spark.session.java import find_java as find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: The number that Spark takes for no limit.
_NO_LIMIT = 2**31 - 1
#: Switches off the bounds checks of Arrow's Java library; Spark reads only what is there.
_ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
#: The collector with the least work of its own; pauses are of no interest to queries.
_COLLECTOR = "-XX:+UseParallelGC"
#: The longest directory in which a Unix socket of Spark's fits the 104 bytes that all systems allow.
_LONGEST_SOCKET_DIRECTORY = 60


def spark_session(
    name: str = "moldau",
    *,
    master: str | None = None,
    jvm_output: IO[bytes] | None = None,
    **settings: Any,
) -> "SparkSession":
    """A session for small machines: local cores, no user interface, few shuffle partitions by default.

    ``settings`` are Spark's own with underscores for dots: ``spark_sql_shuffle_partitions=8``. What the JVM
    and its Python workers print goes to ``jvm_output`` instead of to this program's own output.
    """
    java_home = find_java().path
    os.environ["JAVA_HOME"] = str(java_home)
    from pyspark.sql import SparkSession

    given = {key.replace("_", "."): str(value) for key, value in settings.items()}
    chosen = with_java_options({**recommended_settings(), **given}, java_home)
    if jar := columnar_jar(java_home):
        chosen["spark.jars"] = ",".join(filter(None, (chosen.get("spark.jars"), str(jar))))
    if master is not None:
        chosen["spark.master"] = master
    chosen.setdefault("spark.master", "local[*]")
    if os.environ.get("PYSPARK_PYTHON") in (None, worker_python("local")):
        os.environ["PYSPARK_PYTHON"] = worker_python(chosen["spark.master"])
    if jvm_output is not None:
        _launch(chosen, jvm_output)
    builder = SparkSession.builder.appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def recommended_settings() -> dict[str, str]:
    """Spark's settings for small machines and for our source and sink; what a user says wins over them."""
    # Between Spark and its Python workers, which otherwise speak through the whole of TCP.
    unix_sockets = os.name == "posix" and len(tempfile.gettempdir()) <= _LONGEST_SOCKET_DIRECTORY
    return {
        "spark.ui.enabled": "false",
        "spark.python.unix.domain.socket.enabled": str(unix_sockets).lower(),
        "spark.driver.defaultJavaOptions": _ARROW_UNCHECKED,
        "spark.executor.defaultJavaOptions": _ARROW_UNCHECKED,
        "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 2, 2)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        # Spark looks at the size of an Arrow batch after every row if there is a limit to it, and spends
        # nearly half of a write on that; the number of rows is limited in any case.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_NO_LIMIT),
    }


def with_java_options(settings: Mapping[str, str], java_home: Path) -> dict[str, str]:
    """The settings with which this Java starts: from an archive if there is one, with a collector that fits.

    Settings that name another of the two keep it; Java refuses to start with two collectors.
    """
    given = settings.get(_JAVA_OPTIONS, "")
    collector = "" if re.search(r"-XX:\+Use\w+GC\b", given) else _COLLECTOR
    archive = "" if "Archive" in given else class_archive.java_options(java_home)
    return {**settings, _JAVA_OPTIONS: " ".join(filter(None, (collector, archive, given)))}


def _launch(settings: dict[str, str], output: IO[bytes]) -> None:
    """Starts the JVM as Spark would itself, but for its output; nothing where there is one already.

    In a process group of its own: Ctrl-C in a terminal reaches this program alone, which says what becomes of
    tasks that run.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        started: dict[str, Any] = {"stdout": output, "stderr": output}
        if os.name == "posix":
            started["process_group"] = 0
        gateway = launch_gateway(conf, started)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)

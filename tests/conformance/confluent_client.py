"""Confluent's Java client and Avro serializers 7.9.5, and how our small program runs on them.

They are not in Maven Central under their own names; Apache Pinot's plug-in for them brings them along whole.
The jar is in the project's `.cache/confluent-libs` and is fetched once, without its dependencies, which are
inside.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.apache_kafka import CACHE

LIBS = CACHE / "confluent-libs"
CLASSES = CACHE / "confluent-classes"
ARTIFACT = "org.apache.pinot:pinot-confluent-avro:1.5.0:jar:shaded"
JAR = LIBS / "pinot-confluent-avro-1.5.0-shaded.jar"
SOURCE = Path(__file__).parent / "java_confluent" / "ConfluentSmoke.java"
TIMEOUT_S = 120.0


def fetch() -> None:
    """Copies the jar into the cache unless it is there."""
    if JAR.exists():
        return
    print("fetching Confluent's Java client through Maven …", file=sys.stderr)
    goal = ["dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={LIBS}"]
    subprocess.run(["mvn", "-q", "-B", *goal], check=True, stdout=sys.stderr, cwd=CACHE)


def compile_source() -> None:
    CACHE.mkdir(exist_ok=True)
    fetch()
    made = CLASSES / "ConfluentSmoke.class"
    if made.exists() and made.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    CLASSES.mkdir(exist_ok=True)
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", str(JAR), "-d", str(CLASSES), str(SOURCE)]
    subprocess.run(command, check=True)


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """One step of the program, in a JVM of its own."""
    utf8 = ["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    command = ["java", "-Xmx256M", *utf8, "-cp", f"{JAR}:{CLASSES}", "ConfluentSmoke", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S
    )

"""``moldau pipeline`` as people use it: processes of its own, in the background and on a Spark cluster."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from moldau.pipelines.directory import PipelineDirectory
from moldau.spark import JavaNotFound, find_java
from moldau.testing import Broker
from tests.shared.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORD_COUNT = Path(__file__).parent.parent.parent / "examples" / "word_count.py"
SMALL = [
    *("--conf", "spark.driver.memory=600m", "--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    *("--conf", "spark.sql.codegen.wholeStage=false"),
]


@pytest.fixture(scope="module", autouse=True)
def java() -> str:
    try:
        return str(find_java().path)
    except JavaNotFound as missing:
        pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    broker.create_topic("wordcount-input", partitions=2)
    for index, line in enumerate(("The quick the Quick fox", "a fox")):
        broker.produce("wordcount-input", line.encode(), partition=index)
    yield
    broker.reset()


def moldau(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "pipeline", *arguments], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def counted(broker: Broker) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in broker.records("wordcount-output")}


def test_in_the_background(broker: Broker, tmp_path: Path) -> None:
    where = ["--home", str(tmp_path)]
    run = ["run", str(WORD_COUNT), *where, "-b", broker.bootstrap_servers, "--master", "local[2]", *SMALL]
    assert "pipeline word_count runs" in moldau(*run, "--detach", "--metrics-port", "0")
    broker.wait_for_records("wordcount-output", 3, timeout_seconds=120)
    assert counted(broker) == {b"quick": b"2", b"fox": b"2", b"a": b"1"}
    assert "runs already" in moldau(*run, code=1)
    (state,) = json.loads(moldau("list", "--json", *where))
    assert (state["name"], state["state"]) == ("word_count", "running")
    assert "is stopped" in moldau("stop", "word_count", *where)
    shown = moldau("status", "word_count", *where)
    assert "word_count: stopped" in shown
    assert "counts is written to topic wordcount-output" in shown
    assert "pipeline word_count stopped" in moldau("logs", "word_count", *where)
    # Once more by its name: it goes on where it ended.
    broker.produce("wordcount-input", b"fox", partition=0)
    child = subprocess.Popen(
        [sys.executable, "-m", "moldau", "pipeline", "run", "word_count", *run[2:]],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: counted(broker).get(b"fox") == b"3" or child.poll() is not None, seconds=200)
    assert child.poll() is None
    os.killpg(child.pid, signal.SIGINT)  # Ctrl-C reaches everyone in front of the terminal
    _, said = child.communicate(timeout=100)
    assert child.returncode == 0, said
    assert "pipeline word_count is over" in said
    assert counted(broker) == {b"quick": b"2", b"fox": b"3", b"a": b"1"}
    ended = PipelineDirectory(tmp_path, "word_count").state()
    assert ended is not None
    assert ended.state == "stopped"


def awaited(path: Path, pattern: str, process: "subprocess.Popen[bytes]") -> "re.Match[str]":
    """Waits for words in the log of a process."""

    def found() -> "re.Match[str] | None":
        assert process.poll() is None, path.read_text()
        return re.search(pattern, path.read_text(errors="replace"))

    return wait_until(found, path.read_text, seconds=200)


class SparkCluster:
    """A master and two workers of Spark, each a process of its own, out of the package pyspark."""

    def __init__(self, directory: Path, java_home: str) -> None:
        import pyspark

        self.directory = directory
        self._home = Path(pyspark.__file__).parent
        self._environment = {**os.environ, "JAVA_HOME": java_home, "SPARK_DAEMON_MEMORY": "256m"}
        self._environment |= {"SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1"}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> "SparkCluster":
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log, master = self._start("master", "org.apache.spark.deploy.master.Master", *place)
        self.url = awaited(log, r"Starting Spark master at (spark://\S+)", master).group(1)
        started = []
        for number in (1, 2):
            more = ["--cores", "1", "--memory", "600m", "-d", str(self.directory / f"work-{number}")]
            kind = "org.apache.spark.deploy.worker.Worker"
            started.append(self._start(f"worker-{number}", kind, *place, *more, self.url))
        for log, worker in started:
            awaited(log, "Successfully registered with master", worker)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)
        for log in self._logs:
            log.close()

    def _start(self, name: str, kind: str, *arguments: str) -> "tuple[Path, subprocess.Popen[bytes]]":
        path = self.directory / f"{name}.log"
        log = path.open("wb")
        command = [str(self._home / "bin" / "spark-class"), kind, *arguments]
        process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self._logs.append(log)
        self.processes.append(process)
        return path, process


def test_the_same_file_on_a_cluster_of_spark(broker: Broker, tmp_path: Path, java: str) -> None:
    with SparkCluster(tmp_path, java) as cluster:
        conf = ["spark.executor.memory=500m", "spark.executor.cores=1", "spark.driver.host=127.0.0.1"]
        settings = [word for each in conf for word in ("--conf", each)]
        where = ["--home", str(tmp_path), "-b", broker.bootstrap_servers, "--master", cluster.url]
        said = moldau("run", str(WORD_COUNT), "--once", *where, *SMALL, *settings)
        assert "1 query, 2 rows read" in said
        assert counted(broker) == {b"quick": b"2", b"fox": b"2", b"a": b"1"}
        # Both workers had an executor for it.
        assert {path.parts[-4] for path in tmp_path.glob("work-*/app-*/*/stderr")} == {"work-1", "work-2"}

"""A cluster of real processes under faults for a share of the soak's time, with librdkafka and Java's client.

make soak SECONDS=7200
MOLDAU_SOAK_SECONDS=600 .venv/bin/pytest tests/soak/test_cluster_faults_soak.py --timeout 0 -s

MOLDAU_SOAK_SEED repeats the choices of a run; MOLDAU_FAULTS_REPORT is where report.txt and timeline.svg go.
"""

import os
import shutil
import time
from pathlib import Path

from tests.cluster_faults.real_run import RealRun, real_run
from tests.soak.java_writer import JavaWriter

SECONDS = float(os.environ["MOLDAU_SOAK_SECONDS"])
#: The part of the soak's time that belongs to this.
SHARE = 0.4
SEED = int(os.environ.get("MOLDAU_SOAK_SEED", str(time.time_ns() % 1_000_000)))


def add_java(run: RealRun, directory: Path) -> bool:
    """A writer with the Java client, where Kafka's jars can be had."""
    from benchmarks import apache_kafka

    if shutil.which("mvn") is None and not apache_kafka.LIBS.exists():
        return False
    apache_kafka.fetch()
    servers = run.cluster.bootstrap_servers
    run.writers["plain"].append(JavaWriter("java-writer", 17, servers, "plain", directory))
    return True


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    report = Path(os.environ.get("MOLDAU_FAULTS_REPORT", tmp_path / "report"))
    with real_run(tmp_path, SEED, small_disk=os.geteuid() == 0) as run:
        with_java = add_java(run, tmp_path)
        print(f"MOLDAU_SOAK_SEED={SEED}, Java client: {with_java}, report in {report}")
        found = run.run(SECONDS * SHARE, report)
        print((report / "report.txt").read_text("utf-8"))
        assert found == [], f"seed {SEED}"
        for topic in run.writers:
            assert run.acknowledged(topic) > 100
        assert len(run.faults.done) > 3
        if with_java:
            assert len(run.writers["plain"][-1].times) > 100

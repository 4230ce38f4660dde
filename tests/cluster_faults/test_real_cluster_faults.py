"""Three broker processes on a ZooKeeper ensemble: kills, pauses, partitions, a full disk, moves and restarts.

MOLDAU_REAL_FAULTS_SECONDS makes it longer, MOLDAU_FAULTS_SEED repeats a run's choices, MOLDAU_FAULTS_REPORT
is where report.txt and timeline.svg go. ``make soak`` runs it for its share of the time.
"""

import os
import time
from pathlib import Path

import pytest

from tests.cluster_faults.real_run import real_run

SECONDS = float(os.environ.get("MOLDAU_REAL_FAULTS_SECONDS", "12"))
SEED = int(os.environ.get("MOLDAU_FAULTS_SEED", str(time.time_ns() % 1_000_000)))


@pytest.mark.slow
@pytest.mark.timeout(900 + 3 * SECONDS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    report = Path(os.environ.get("MOLDAU_FAULTS_REPORT", tmp_path / "report"))
    print(f"MOLDAU_FAULTS_SEED={SEED}, report in {report}")
    with real_run(tmp_path, SEED, small_disk=os.geteuid() == 0) as run:
        found = run.run(SECONDS, report)
        print((report / "report.txt").read_text("utf-8"))
        assert found == [], f"seed {SEED}"
        assert run.acknowledged("plain") > 100
        assert run.acknowledged("transactions") > 20

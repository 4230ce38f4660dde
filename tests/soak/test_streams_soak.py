"""Streams on Spark for a long time: every vector with three seeds, and thirty kills.

MOLDAU_SOAK_SECONDS=1 .venv/bin/pytest tests/soak/test_streams_soak.py -s --timeout 0
"""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.broker_process import BrokerProcess
from tests.streams.kill_oracle import CommittedReader
from tests.streams.kills import DRIVING_JOB, JOB, VICTIMS, Trial
from tests.streams.play import cases

ROOT = Path(__file__).parents[2]
VECTORS = sorted(str(path) for path in (ROOT / "tests" / "streams" / "vectors").glob("*.json"))
KILLS = int(os.environ.get("MOLDAU_SOAK_KILLS", "30"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_vector_in_random_micro_batches(seed: int) -> None:
    command = [sys.executable, "-m", "tests.streams.play", "--spark", "--seed", str(seed), *VECTORS]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    assert [line for line in lines if " FAIL " in line] == []
    played = sum(len(cases(Path(path))) for path in VECTORS)
    assert (done.returncode, lines[-1:]) == (0, [f"{played} passed, 0 failed"])


@pytest.mark.parametrize(
    ("module", "victims"),
    [(JOB, VICTIMS), (DRIVING_JOB, ("driver", "driver", "broker"))],
    ids=["spark", "without-spark"],
)
def test_many_kills(module: str, victims: tuple[str, ...], tmp_path: Path) -> None:
    """What a reader of committed records saw all the while is what the oracle says."""
    seed = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
    print(f"\nMOLDAU_SOAK_SEED={seed}")
    dice = random.Random(seed)
    with BrokerProcess(tmp_path / "data") as broker:
        trial = Trial(tmp_path, broker, dice, module)
        with CommittedReader(broker.bootstrap_servers) as reader:
            while len(trial.kills) < KILLS:
                trial.fill(20_000)
                trial.run([dice.choice(victims) for _ in range(min(10, KILLS - len(trial.kills)))])
                compared = trial.check(reader)
                killed = Counter(trial.kills)
                print(
                    f"{killed.total()} kills {dict(killed)}, {trial.lives} lives, {compared:,} equal",
                    flush=True,
                )
    assert len(trial.kills) == KILLS

"""Thirty random kills of drivers, workers and brokers under a query that writes exactly once.

MOLDAU_SOAK_SECONDS=1 .venv/bin/pytest tests/soak/test_exactly_once_soak.py -s --timeout 0
"""

import os
import random
from pathlib import Path

from tests.integration.broker_process import BrokerProcess
from tests.spark.exactly_once_kills import ROWS_AT_ONCE, VICTIMS, Trial

KILLS = 30


def test_thirty_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("MOLDAU_SOAK_SEED", random.randrange(1 << 32)))
    print(f"\nMOLDAU_SOAK_SEED={seed}")
    dice = random.Random(seed)
    with BrokerProcess(tmp_path / "data") as broker:
        trial = Trial(tmp_path, broker, dice)
        trial.fill(ROWS_AT_ONCE)
        while len(trial.kills) < KILLS:
            trial.run([dice.choice(VICTIMS) for _ in range(min(3, KILLS - len(trial.kills)))])
            print(f"{len(trial.kills)} kills, {trial.lives} lives, {trial.rows:,} rows", flush=True)
            assert sorted(trial.output()) == list(range(trial.rows))
            trial.fill(ROWS_AT_ONCE)

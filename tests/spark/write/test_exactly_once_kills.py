"""Kill -9 of the driver, of a worker and of the broker while a query writes: every row is there once."""

import random
from pathlib import Path

import pytest

from moldau.spark import JavaNotFound, find_java
from tests.integration.broker_process import BrokerProcess
from tests.spark.exactly_once_kills import ROWS_AT_ONCE, Trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_each_row_once_whoever_is_killed(tmp_path: Path) -> None:
    try:
        find_java()
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    with BrokerProcess(tmp_path / "data") as broker:
        trial = Trial(tmp_path, broker, random.Random(7))
        trial.fill(ROWS_AT_ONCE)
        trial.run(["worker", "driver", "broker"])
        assert trial.kills == ["worker", "driver", "broker"]
        assert sorted(trial.output()) == list(range(trial.rows))

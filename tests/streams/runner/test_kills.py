"""An application that loses its driver goes on as if nothing had happened."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "integration"))

from broker_process import BrokerProcess
from kills import Trial

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_driver_is_killed(tmp_path: Path, spark: object) -> None:
    """``spark`` is asked for only so that the test is left out where there is no Java."""
    with BrokerProcess(tmp_path / "data") as broker:
        trial = Trial(tmp_path, broker, random.Random(3))
        trial.fill(6_000)
        trial.run(["driver"])
        trial.undisturbed("calm")
        assert trial.compare("calm") > 6_000
        assert trial.kills == ["driver"]

"""Every captured case of the real broker, played again on ours.

The cases of an area build on each other (offsets grow, topics come and go), so each area is played
once from its beginning, and then each case is compared on its own.
"""

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from moldau.testing import Broker, SteppedClock
from tests.contract.golden import BEHAVIOURS, comparable
from tests.contract.scene import REAL_NODE, Scene

AREAS = [area for area in BEHAVIOURS if area != "about"]
CASES = [(area, case) for area in AREAS for case in BEHAVIOURS[area]]


def module_of(area: str) -> Any:
    return importlib.import_module(f"tests.contract.replays.{area.replace('-', '_')}")


@pytest.fixture(scope="session")
def answers_of() -> Iterator[Any]:
    """The answers of our broker to all cases of an area."""

    @cache
    def play(area: str) -> dict[str, Any]:
        module = module_of(area)
        # Where the steps of a case are a matter of time, a case has all the time that it takes.
        clock = SteppedClock(frozen=True) if getattr(module, "TIME_STANDS_STILL", False) else None
        with Broker(REAL_NODE, clock=clock) as broker:
            scene = Scene(broker)
            try:
                return dict(module.replay(scene))
            finally:
                scene.close()

    return play


@pytest.mark.parametrize("area", AREAS)
def test_every_case_is_played(area: str, answers_of: Any) -> None:
    assert set(answers_of(area)) == set(BEHAVIOURS[area])


@pytest.mark.parametrize(("area", "case"), CASES, ids=[f"{area}: {case}" for area, case in CASES])
def test_the_answer_is_the_real_ones(area: str, case: str, answers_of: Any) -> None:
    different = module_of(area).DIFFERENT
    expected = different[case] if case in different else BEHAVIOURS[area][case]
    assert comparable(answers_of(area)[case]) == comparable(expected)

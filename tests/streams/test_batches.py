"""How a run is cut into batches changes nothing: neither saving and taking over, nor crashes in between.

Invariant: vectors are programs and records of every kind, so the property is tried on them.
"""

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from moldau.streams import TestDriver
from moldau.streams.engine.stores.store import StoreState, merged
from moldau.streams.engine.task import TaskState
from tests.streams.play import Play, cases, internal_topics, named_stores

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))
FAMILIES = [path for path in VECTORS if path.stem not in ("copartitioning", "topology")]


def playable(path: Path) -> list[dict[str, Any]]:
    return [case for _, case, _ in cases(path) if "error" not in case and case["inputs"]]


def seen(playing: Play, driver: TestDriver) -> tuple[Any, ...]:
    return (
        playing.outputs,
        named_stores(playing.vector, driver),
        driver.dropped_records,
        internal_topics(driver),
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_a_run_that_is_saved_and_taken_over_at_any_point_equals_one_that_is_not(path: Path) -> None:
    """The whole state goes through bytes before every record that a coin chooses."""
    for vector in playable(path):
        chance = random.Random(vector["name"])
        playing = Play(vector)
        driver = playing.driver(playing.topology())
        for number, given in enumerate(vector["inputs"]):
            playing.number = number
            if chance.random() < 0.5:
                driver.restart(pickle.loads(pickle.dumps(driver.export())))
            playing.feed(driver, given)
        outputs, stores, dropped, topics = seen(playing, driver)
        assert outputs == vector.get("outputs", []), vector["name"]
        assert stores == vector["stores"], vector["name"]
        assert dropped == vector["dropped_records"], vector["name"]
        assert topics == vector.get("internal_topics", {}), vector["name"]


@pytest.mark.slow
@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_after_a_crash_in_any_batch_the_results_are_those_of_an_undisturbed_run(path: Path) -> None:
    """Changes are saved batch by batch. A batch may crash after any of its records; it is then done again."""
    for vector in playable(path):
        if any("advance_wall_clock_ms" in given for given in vector["inputs"]):
            continue
        chance = random.Random(vector["name"])
        playing = Play(vector)
        topology = playing.topology()
        saved = playing.driver(topology).export()
        inputs, start = vector["inputs"], 0
        while start < len(inputs):
            end = start + chance.randint(1, 4)
            driver = playing.driver(topology)
            driver.restart(pickle.loads(pickle.dumps(saved)))
            crashes = chance.random() < 0.3
            kept = len(playing.outputs)
            for number in range(start, min(end, len(inputs))):
                playing.number = number
                playing.feed(driver, inputs[number])
                if crashes and chance.random() < 0.5:
                    break
            else:
                saved = after(saved, driver._task.take_changes())
                start = end
                continue
            del playing.outputs[kept:]
        if not uses_offsets(vector):
            assert playing.outputs == vector.get("outputs", []), vector["name"]
        last = playing.driver(topology)
        last.restart(saved)
        assert named_stores(vector, last) == vector["stores"], vector["name"]


def uses_offsets(vector: dict[str, Any]) -> bool:
    """Offsets are the source's: a new driver counts them anew."""
    return any(step.get("on_record") == "context" for step in vector["topology"])


def after(state: TaskState, changes: TaskState) -> TaskState:
    """What a runner has that saves only what changed."""
    empty = StoreState({}, ())
    stores = {name: merged(state.stores.get(name, empty), each) for name, each in changes.stores.items()}
    return TaskState(stores, changes.operators, changes.task)

"""Transforms, predicates and converters give what those of Apache Kafka Connect 4.3 gave, errors included."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.connect.play import play, vectors

FOLDER = Path(__file__).parent / "vectors"
FILES = sorted(FOLDER.glob("*.json"))
EVERY = [vector for path in FILES for vector in vectors(path)]


def test_there_are_vectors_of_everything() -> None:
    assert len(EVERY) == 1609
    names = {vector["class"].split(".")[-1] for vector in EVERY}
    assert {"Cast$Value", "TimestampConverter$Key", "ValueToKey", "JsonConverter", "HasHeaderKey"} <= names


@pytest.mark.parametrize("name", sorted({vector["class"] for vector in EVERY}))
def test_results_are_those_of_apache(name: str) -> None:
    played = [play(vector) for vector in EVERY if vector["class"] == name]
    assert [result for result in played if result.problem is not None] == []


def test_the_player_tells_a_wrong_result() -> None:
    vector: dict[str, Any] = next(vector for vector in EVERY if vector["id"] == "Cast-Value-005")
    wrong = {**vector, "out": {**vector["out"], "topic": "other"}}
    assert play(wrong).problem is not None
    missing = {**vector, "error": {"phase": "apply", "class": "x", "message": "y"}}
    assert play(missing).problem is not None


@pytest.mark.slow
def test_the_player_as_a_program() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.connect.play", str(FOLDER / "transforms.json")],
        cwd=FOLDER.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "Cast-Value-001 PASS"
    assert lines[-1] == "373 passed, 0 failed"

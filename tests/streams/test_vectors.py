"""Small programs with what Kafka Streams 4.3 gives for them, record by record."""

import json
from pathlib import Path

import pytest

from tests.streams.play import cases, differences, main, play, play_on_spark, run

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_every_vector_gives_what_kafka_streams_gives(path: Path) -> None:
    failed = {name: found for name, case, player in cases(path) if (found := player(case))}
    assert not failed


def test_all_families_are_there() -> None:
    assert sum(len(cases(path)) for path in VECTORS) == 641


def test_the_player_prints_a_line_for_each_vector(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(VECTORS[0])]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.endswith(" PASS") for line in lines)
    assert last == f"{len(lines)} passed, 0 failed"


@pytest.mark.parametrize("field", ["outputs", "stores", "dropped_records", "internal_topics"])
def test_the_player_notices_a_wrong_vector(field: str) -> None:
    (vector,) = (
        case for _, case, _ in cases(_vectors("aggregate")) if case["name"] == "aggregate/headers-of-result"
    )
    wrong = {
        "outputs": vector["outputs"][:-1],
        "stores": {"c": []},
        "dropped_records": 1,
        "internal_topics": {},
    }[field]
    assert play(vector) == []
    (found,) = play({**vector, field: wrong})
    assert found.startswith(field)


def test_the_player_notices_an_error_that_does_not_come() -> None:
    (_, vector, _), *_ = cases(_vectors("stateless"))
    error = {"at": "input", "i": 0, "class": "x", "message": "y"}
    assert differences({**vector, "error": error}, run(vector))


def test_a_query_that_fails_is_said_of_each_of_its_vectors() -> None:
    class Player:
        def play(self, vectors: list[dict[str, object]], seed: int, *, continues: bool) -> None:
            raise RuntimeError("no Spark today")

    pytest.importorskip("pyspark")
    arguments = cases(_vectors("stateless"))[:3]
    found = play_on_spark(arguments, 1, Player())
    why = ["the query of 3 vectors failed: RuntimeError: no Spark today"]
    assert found == {name: why for name, _, _ in arguments}


def _vectors(family: str) -> Path:
    return next(path for path in VECTORS if path.stem == family)


def test_a_failure_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_, vector, _), *_ = cases(_vectors("topology"))
    file = tmp_path / "wrong.json"
    file.write_text(
        json.dumps([{**vector, "describe": "Topologies:\n   none\n"}, {"name": "x", "topology": []}])
    )
    assert main([str(file)]) == 1
    one, other, last = capsys.readouterr().out.splitlines()
    assert one.startswith(f"{vector['name']} FAIL describe: ")
    assert other.startswith("x FAIL the player failed: ")
    assert last == "0 passed, 2 failed"

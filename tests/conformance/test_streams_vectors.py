"""Random programs with random inputs: Kafka Streams' own test driver and our engine, update by update."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from tests.streams.play import play
from tests.streams.random_vectors import random_vectors

FIRST = int(os.environ.get("MOLDAU_VECTORS_SEED", "1"))
COUNT = 300


@pytest.mark.check(
    "Kafka Streams 4.3.0",
    "random programs of all operators: outputs, stores, dropped records and describe() as it gives",
)
def test_random_programs_give_what_kafka_streams_gives(tmp_path: Path) -> None:
    apache_kafka.compile_sources()
    given, played = tmp_path / "given.json", tmp_path / "played.json"
    given.write_text(json.dumps(random_vectors(FIRST, COUNT)))
    subprocess.run(apache_kafka.java("StreamsVectors", str(given), str(played)), check=True)
    differing = {
        vector["name"]: found for vector in json.loads(played.read_text()) if (found := play(vector))
    }
    assert not differing

"""A real Kafka's data directory; ``tests/data/make_kafka_directory.py`` says how it was made."""

import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parents[1] / "data" / "kafka_directory.tar.xz"


@pytest.fixture
def kafka_directory(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "kafka"

"""Connectors without a worker."""

from pathlib import Path

import pytest

from moldau.connect.connectors.file.stream import FileStreamSink, FileStreamSource
from moldau.connect.errors import ConfigException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import read, write


def test_a_source_is_read_and_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("one\ntwo\n")
    config = {"file": str(file), "topic": "lines"}
    found = read(FileStreamSource, config, count=2)
    assert [(record.topic, record.value) for record in found.records] == [("lines", "one"), ("lines", "two")]
    with file.open("a") as out:
        out.write("three\n")
    again = read(FileStreamSource, config, count=1, places=found.places)
    assert [record.value for record in again.records] == ["three"]


def test_a_sink_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(FileStreamSink, {"file": str(out)}, [SinkRecord(topic="t", offset=0, value={"a": [1, None]})])
    assert out.read_text() == "{a=[1, null]}\n"


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigException, match='Missing required configuration "topic"'):
        read(FileStreamSource, {"file": "x"}, count=1)

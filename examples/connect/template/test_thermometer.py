"""Connectors in tests: neither a worker nor a broker is needed."""

from pathlib import Path

import pytest
from thermometer import CELSIUS, DisplaySink, ThermometerSource

from moldau.connect.errors import DataException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import read, write


def test_a_source_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_text("20.5\n21\n")
    config = {"file": str(file), "topic": "celsius"}
    found = read(ThermometerSource, config, count=2)
    assert [record.value for record in found.records] == [20.5, 21.0]
    with file.open("a") as out:
        out.write("22\n")
    assert [
        record.value for record in read(ThermometerSource, config, count=1, places=found.places).records
    ] == [22.0]


def test_a_sink_shows_the_last_value(tmp_path: Path) -> None:
    file = tmp_path / "display"
    records = [
        SinkRecord(topic="celsius", partition=0, offset=n, value_schema=CELSIUS, value=20.0 + n)
        for n in range(3)
    ]
    write(DisplaySink, {"file": str(file)}, records)
    assert file.read_text() == "22.0 °C\n"
    with pytest.raises(DataException, match="warm is no temperature"):
        write(
            DisplaySink,
            {"file": str(file)},
            [SinkRecord(topic="celsius", partition=0, offset=3, value="warm")],
        )

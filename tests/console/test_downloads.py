"""Records as files: every cell is data, for spreadsheets too."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from moldau.console import downloads
from moldau.console.decoding import Decoded
from moldau.console.records import ShownRecord
from tests.shared.hostile_texts import HOSTILE


def record(value: object, key: str | None = "k", offset: int = 0) -> ShownRecord:
    form = Decoded(key, "text") if key is not None else Decoded(None, "null")
    return ShownRecord("t", 0, offset, 1_700_000_000_000, form, Decoded(value, "text"), (("h", "x"),), 1)


def test_json_lines() -> None:
    data = downloads.made("json", [record({"a": 1}), record("\ud800", None)])
    first, second = (json.loads(line) for line in data.splitlines())
    assert first["value"] == {"a": 1}
    assert first["headers"] == {"h": "x"}
    assert (second["key"], second["value"]) == (None, "\ud800")


def test_csv_has_no_formulas() -> None:
    data = downloads.made("csv", [record(text, text) for text in HOSTILE]).decode()
    head, *rows = csv.reader(io.StringIO(data, newline=""))
    assert tuple(head) == downloads.COLUMNS
    assert len(rows) == len(HOSTILE)
    for row in rows:
        for cell in row[4:6]:
            assert not cell.startswith(("=", "+", "@", "\t", "\r", "|", "%"))
            assert not cell.startswith("-") or cell[1:].isdecimal()
    assert rows[0][1:3] == ["0", "0"]


def test_numbers_stay_numbers_in_csv() -> None:
    values = ["-5", "-1.5e-3", "-1+1", "\n=1", "＝1"]
    data = downloads.made("csv", [record(value) for value in values]).decode()
    _, *rows = csv.reader(io.StringIO(data, newline=""))
    assert [row[5] for row in rows] == ["-5", "-1.5e-3", "'-1+1", "'\n=1", "'＝1"]


def test_a_header_that_comes_twice_is_there_twice() -> None:
    twice = replace(record("x"), headers=(("h", "1"), ("g", "2"), ("h", "3"), ("h", "4")))
    (line,) = downloads.made("json", [twice]).splitlines()
    assert json.loads(line)["headers"] == {"h": ["1", "3", "4"], "g": "2"}


def test_parquet() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    odd = replace(record("\ud800", None), timestamp=1 << 62, headers=(("h", "1"), ("h", "2")))
    data = downloads.made("parquet", [record({"a": 1}, offset=7), odd])
    found = parquet.read_table(io.BytesIO(data)).to_pylist()
    assert (found[0]["offset"], found[0]["value"], found[1]["key"]) == (7, '{"a": 1}', None)
    assert found[0]["timestamp"] == datetime.fromtimestamp(1_700_000_000, UTC)
    assert found[1]["timestamp"] is None
    assert found[1]["headers"] == [{"key": "h", "value": "1"}, {"key": "h", "value": "2"}]
    assert parquet.read_table(io.BytesIO(downloads.made("parquet", []))).num_rows == 0
    assert "parquet" in downloads.formats()

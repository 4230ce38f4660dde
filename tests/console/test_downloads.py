"""Records as files: every cell is data, for spreadsheets too."""

import csv
import io
import json

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
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "|", "%"))
    assert rows[0][1:3] == ["0", "0"]


def test_parquet() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    data = downloads.made("parquet", [record({"a": 1}, offset=7), record("\ud800", None)])
    found = parquet.read_table(io.BytesIO(data)).to_pylist()
    assert (found[0]["offset"], found[0]["value"], found[1]["key"]) == (7, '{"a": 1}', None)
    assert parquet.read_table(io.BytesIO(downloads.made("parquet", []))).num_rows == 0
    assert "parquet" in downloads.formats()

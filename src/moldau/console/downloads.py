"""Records as files: JSON lines, CSV, Parquet.

Invariant: a cell of a CSV file is never a formula for the program that opens it. Parquet needs pyarrow, and
is offered only where that is installed. Pure, but for that library.
"""

import csv
import io
import json
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from moldau.console.decoding import shown
from moldau.console.markup.words import moment
from moldau.console.records import ShownRecord

#: Most records of one file.
MAX_RECORDS = 10_000
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
#: What Excel and others take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%")


def formats() -> tuple[str, ...]:
    return ("json", "csv", "parquet") if find_spec("pyarrow") is not None else ("json", "csv")


def media_type(form: str) -> str:
    return {"json": "application/x-ndjson", "csv": "text/csv"}.get(form, "application/vnd.apache.parquet")


def made(form: str, records: Iterable[ShownRecord]) -> bytes:
    match form:
        case "json":
            return json_lines(records)
        case "csv":
            return comma_separated(records)
        case _:
            return parquet(records)


def json_lines(records: Iterable[ShownRecord]) -> bytes:
    # Escaped: half a surrogate pair cannot be written in UTF-8.
    return b"".join(json.dumps(record.as_mapping()).encode("ascii") + b"\n" for record in records)


def comma_separated(records: Iterable[ShownRecord]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in _rows(records):
        writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue().encode("utf-8", "replace")


def harmless(cell: str) -> str:
    """A text that a spreadsheet shows and does not compute."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def parquet(records: Iterable[ShownRecord]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    rows = list(zip(*_rows(records), strict=True)) or [()] * len(COLUMNS)
    integers = {"partition": pyarrow.int32(), "offset": pyarrow.int64()}
    arrays = [
        pyarrow.array(
            [_clean(cell) for cell in column],
            integers.get(name, pyarrow.string()),
        )
        for name, column in zip(COLUMNS, rows, strict=True)
    ]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, COLUMNS), out)
    return out.getvalue()


def _clean(cell: Any) -> Any:
    return cell.encode("utf-8", "replace").decode() if isinstance(cell, str) else cell


def _rows(records: Iterable[ShownRecord]) -> Iterable[tuple[Any, ...]]:
    for record in records:
        yield (
            record.topic,
            record.partition,
            record.offset,
            moment(record.timestamp),
            None if record.key.value is None else shown(record.key.value),
            None if record.value.value is None else shown(record.value.value),
            json.dumps(dict(record.headers)),
        )

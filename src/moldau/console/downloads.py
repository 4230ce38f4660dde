"""Records as files: JSON lines, CSV, Parquet.

Parquet has the time as a timestamp and the headers as Spark has them, a list of keys and values; CSV has all
of it as text.

Invariant: a cell of a CSV file is never a formula for the program that opens it. Parquet needs pyarrow, and
is offered only where that is installed. Pure, but for that library.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from importlib.util import find_spec

from moldau.console.decoding import Decoded, shown
from moldau.console.markup.words import moment
from moldau.console.records import ShownRecord

#: Most records of one file.
MAX_RECORDS = 10_000
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
#: What Excel and others take for the beginning of a formula, in the wide letters of Asia too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
#: The last millisecond that readers of Parquet's timestamps know: the end of the year 9999.
_LAST_MS = 253_402_300_799_999


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
    for record in records:
        row = (
            record.topic,
            record.partition,
            record.offset,
            moment(record.timestamp),
            _text(record.key),
            _text(record.value),
            json.dumps(record.as_mapping()["headers"]),
        )
        writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue().encode("utf-8", "replace")


def harmless(cell: str) -> str:
    """A text that a spreadsheet shows and does not compute; a number below nought is none that computes."""
    if not cell.lstrip(" ").startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def parquet(records: Iterable[ShownRecord]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    text = pyarrow.string()
    header = pyarrow.struct([("key", text), ("value", text)])
    types = {
        "partition": pyarrow.int32(),
        "offset": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("ms", tz="UTC"),
        "headers": pyarrow.list_(header),
    }
    schema = pyarrow.schema([(name, types.get(name, text)) for name in COLUMNS])
    rows = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp if 0 <= record.timestamp <= _LAST_MS else None,
            "key": _clean(_text(record.key)),
            "value": _clean(_text(record.value)),
            "headers": [{"key": _clean(name), "value": _clean(value)} for name, value in record.headers],
        }
        for record in records
    ]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out)
    return out.getvalue()


def _text(decoded: Decoded) -> str | None:
    return None if decoded.value is None else shown(decoded.value)


def _clean(text: str | None) -> str | None:
    """Half a surrogate pair cannot be written in UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()

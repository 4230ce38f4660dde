"""The columns of a record by name: those that are read, with their types in Spark's SQL, and those written.

Invariant: nothing here imports Arrow, so that a process which only plans does not wait for it. Names, order
and types of what is read are those of Spark's own connector.
"""

from moldau.spark.options import OptionError

READ_COLUMNS: tuple[tuple[str, str], ...] = (
    ("key", "BINARY"),
    ("value", "BINARY"),
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
    ("timestamp", "TIMESTAMP"),
    ("timestampType", "INT"),
)
#: Columns that every record has. They are declared as not nullable, so that Spark skips its null checks.
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
HEADERS_SQL = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
WRITTEN_COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")


def check_columns(names: list[str], *, topic_given: bool) -> None:
    """OptionError for a DataFrame that cannot be written."""
    if "value" not in names:
        raise OptionError(f"there is no column value among {', '.join(names)}: select or rename one")
    if "topic" not in names and not topic_given:
        raise OptionError("no topic to write to: set the option topic or give a column topic")
    if unknown := [name for name in names if name not in WRITTEN_COLUMNS]:
        raise OptionError(
            f"column {unknown[0]!r} has no place in a record: select only {', '.join(WRITTEN_COLUMNS)}"
        )

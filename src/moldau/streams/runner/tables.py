"""A store of an application as a DataFrame: ``table("counts", "word-count").df(spark)``.

Invariant: a batch, of what is decided when it is asked for; nothing of the running application is touched.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.streams.engine.records import Windowed
from moldau.streams.runner.application import StreamsOptions, prepared
from moldau.streams.runner.orders import Application
from moldau.streams.runner.programs import program_of_file
from moldau.streams.runner.running import streams_home
from moldau.streams.runner.store_views import StoreViews, plain_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StoreTable:
    """One store; ``df`` has the columns key, value and timestamp, and for windows start and end."""

    store: str
    application: Application

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts, without Spark."""
        views = StoreViews(self.application)
        views.check(self.store)
        views.refresh()
        return [_row(entry) for entry in views.all(self.store)]

    def df(self, spark: "SparkSession") -> "DataFrame":
        rows = self.rows()
        windowed = bool(rows) and "start" in rows[0]
        names = ["key", *(["start", "end"] if windowed else []), "value", "timestamp"]
        types = [_sql_type([row.get(name) for row in rows]) for name in names]
        schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(names, types, strict=True))
        data = [
            tuple(_cell(row.get(name), kind) for name, kind in zip(names, types, strict=True)) for row in rows
        ]
        return spark.createDataFrame(data, schema)


def table(
    store: str, application_id: str, *, home: str | Path | None = None, options: StreamsOptions | None = None
) -> StoreTable:
    """A store of an application that was run on this machine with ``moldau streams run``."""
    from moldau.pipelines.directory import PipelineDirectory
    from moldau.streams.errors import StreamsError

    state = PipelineDirectory(streams_home(home), application_id).state()
    if state is None:
        raise StreamsError(
            f"there is no application {application_id}: 'moldau streams list' shows what there is"
        )
    chosen = options or StreamsOptions(state.bootstrap_servers)
    return StoreTable(store, prepared(program_of_file(state.file), application_id, chosen, 1))


def _row(entry: Any) -> dict[str, Any]:
    key = entry.key
    row: dict[str, Any] = {"value": plain_json(entry.value), "timestamp": entry.timestamp}
    if isinstance(key, Windowed):
        return {"key": plain_json(key.key), "start": key.start, "end": key.end, **row}
    return {"key": plain_json(key), **row}


def _sql_type(values: list[Any]) -> str:
    """BIGINT, DOUBLE, BOOLEAN or STRING; everything else is its JSON."""
    kinds = {type(value) for value in values if value is not None}
    for kind, sql in ((bool, "BOOLEAN"), (int, "BIGINT"), (float, "DOUBLE")):
        if kinds == {kind}:
            return sql
    return "DOUBLE" if kinds == {int, float} else "STRING"


def _cell(value: Any, kind: str) -> Any:
    if value is None or kind != "STRING":
        return float(value) if kind == "DOUBLE" and value is not None else value
    return value if isinstance(value, str) else json.dumps(value)

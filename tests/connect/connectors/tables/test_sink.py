"""Rows in tables of Delta and Iceberg: append, upsert, new columns, batches that come again, two tasks at
once."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.connect.config.validation import validate
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.tables.delta import DeltaSink
from moldau.connect.connectors.tables.iceberg import IcebergSink
from moldau.connect.data.schema import Schema, Struct, decimal, struct, timestamp
from moldau.connect.data.types import Instant, Type
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.records import SinkRecord

pytestmark = pytest.mark.slow

INT, LONG, TEXT = Schema(Type.INT32), Schema(Type.INT64), Schema(Type.STRING, optional=True)
OLD = struct({"id": INT, "name": TEXT})
NEW = struct({"id": LONG, "name": TEXT, "price": decimal(2, optional=True)})
KEY = struct({"id": INT})
ZERO = TopicPartition("orders", 0)


class Lake:
    """One of the formats, in a folder."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.connector: type[SinkConnector] = DeltaSink if kind == "delta" else IcebergSink
        self.settings: dict[str, str] = {"name": "lake", "topics": "orders", "flush.size": "1000000"}
        self.settings["connector.class"] = self.connector.class_name
        self.settings["flush.interval.ms"] = "1"
        if kind == "delta":
            self.settings["delta.path"] = str(folder)
        else:
            self.settings["iceberg.tables"] = "shop.${topic}"
            self.settings["iceberg.catalog.type"] = "sql"
            self.settings["iceberg.catalog.uri"] = f"sqlite:///{folder}/catalogue.db"
            self.settings["iceberg.catalog.warehouse"] = f"file://{folder}"
        self.now = 0

    def start(self, **more: str) -> SinkTask:
        given = self.settings | {name.replace("_", "."): value for name, value in more.items()}
        assert validate(self.connector, given).refusal() is None
        task = self.connector(given).make_task()
        task.start(given, SinkTaskContext("lake", 0, lambda: self.now))
        return task

    def put(self, task: SinkTask, *records: SinkRecord) -> None:
        """With a commit: all that was put is old enough."""
        self.now += 10
        task.put(records)
        self.now += 10
        task.idle()

    def rows(self) -> list[dict[str, Any]]:
        if self.kind == "delta":
            from deltalake import DeltaTable

            found = DeltaTable(self.folder / "orders").to_pyarrow_table()
        else:
            from pyiceberg.catalog import load_catalog

            given = {
                name.removeprefix("iceberg.catalog."): value
                for name, value in self.settings.items()
                if name.startswith("iceberg.catalog.")
            }
            found = load_catalog("moldau", **given).load_table("shop.orders").scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: (row["id"], str(row["name"])))


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    pytest.importorskip("deltalake" if request.param == "delta" else "pyiceberg")
    return Lake(request.param, tmp_path)


def record(offset: int, value: Mapping[str, object] | None, schema: Schema = OLD, key: int = 0) -> SinkRecord:
    made = None if value is None else Struct(schema, value)
    return SinkRecord(
        topic="orders",
        partition=0,
        offset=offset,
        key_schema=KEY,
        key=Struct(KEY, {"id": key or (value or {}).get("id")}),
        value_schema=None if made is None else schema,
        value=made,
    )


def test_batches_that_come_again_change_nothing(lake: Lake) -> None:
    task = lake.start()
    lake.put(task, record(0, {"id": 1, "name": "a"}), record(1, {"id": 2, "name": None}))
    lake.put(task, record(2, {"id": 3, "name": "c"}))
    assert task.kept({ZERO: 3}) == {ZERO: 3}
    again = lake.start()
    lake.put(again, *(record(n, {"id": n + 1, "name": "again"}) for n in range(5)))
    assert [(row["id"], row["name"]) for row in lake.rows()] == [
        (1, "a"),
        (2, None),
        (3, "c"),
        (4, "again"),
        (5, "again"),
    ]


def test_records_that_wait_are_not_committed(lake: Lake) -> None:
    task = lake.start()
    lake.now += 10
    task.put([record(0, {"id": 1, "name": "a"}), record(1, {"id": 2, "name": "b"})])
    assert task.kept({ZERO: 2}) == {ZERO: 0}
    task.put([record(0, {"id": 1, "name": "a"})])  # the group went back
    task.revoked([ZERO])
    assert task.kept({ZERO: 2}) == {ZERO: 2}


def test_new_columns_and_wider_ones(lake: Lake) -> None:
    task = lake.start()
    lake.put(task, record(0, {"id": 1, "name": "a"}))
    lake.put(
        task,
        record(1, {"id": 2, "name": "b"}),
        record(2, {"id": 3, "name": "c", "price": Decimal("1.50")}, NEW),
    )
    found = lake.rows()
    assert [row["price"] for row in found] == [None, None, Decimal("1.50")]
    strict = lake.start(auto_evolve="false")
    other = struct({"id": INT, "extra": TEXT})
    with pytest.raises(ConnectException, match="no column extra"):
        lake.put(strict, record(3, {"id": 4, "extra": "x"}, other))
    texts = struct({"id": TEXT})
    with pytest.raises(ConnectException):
        lake.put(lake.start(), record(3, {"id": "four"}, texts, key=4))


def test_upserts_and_deletes_by_key(lake: Lake) -> None:
    task = lake.start(write_mode="upsert", pk_mode="record_key", delete_enabled="true")
    lake.put(
        task, record(0, None, key=9), record(1, {"id": 1, "name": "a"}), record(2, {"id": 2, "name": "b"})
    )
    lake.put(
        task,
        record(3, {"id": 1, "name": "A"}),
        record(4, {"id": 3, "name": "c"}),
        record(5, {"id": 3, "name": "C"}),
        record(6, None, key=2),
        record(7, None, key=8),
    )
    assert [(row["id"], row["name"]) for row in lake.rows()] == [(1, "A"), (3, "C")]
    wider = struct({"id": INT, "name": TEXT, "at": timestamp()})
    lake.put(task, record(8, {"id": 3, "name": "D", "at": Instant(1000)}, wider))
    assert [row["at"] is not None for row in lake.rows()] == [False, True]
    again = lake.start(write_mode="upsert", pk_mode="record_key", delete_enabled="true")
    lake.put(again, record(6, None, key=1))
    assert len(lake.rows()) == 2


def test_two_tasks_with_one_partition(lake: Lake) -> None:
    lake.put(lake.start(), record(0, {"id": 1, "name": "a"}))
    task: Any = lake.start()
    opened = task.open
    zombie: Any = lake.start()

    def late(name: str) -> Any:
        found = opened(name)
        lake.put(zombie, record(1, {"id": 2, "name": "b"}))  # the other one is first
        return found

    task.open = late
    with pytest.raises(RetriableException):
        lake.put(task, record(1, {"id": 2, "name": "b"}))
    assert [row["id"] for row in lake.rows()] == [1, 2]


def test_what_was_forgotten_comes_again(lake: Lake) -> None:
    lake.put(lake.start(), record(0, {"id": 1, "name": "a"}))
    lake.connector(lake.settings).forget([ZERO])
    lake.put(lake.start(), record(0, {"id": 1, "name": "a"}))
    lake.connector(lake.settings).forget(None)
    lake.put(lake.start(), record(0, {"id": 1, "name": "a"}))
    assert len(lake.rows()) == 3


def test_hostile_settings(lake: Lake) -> None:
    if lake.kind == "delta":
        changes = [{"delta.path": "gs://bucket"}, {"table.name.format": "../${topic}"}]
    else:
        changes = [
            {"iceberg.catalog.py-io-impl": "os.system"},
            {"iceberg.catalog.py-catalog-impl": "x.Y"},
            {"iceberg.catalog.uri": "postgresql://inner/db"},
        ]
    changes.append({"write.mode": "upsert"})
    for change in changes:
        assert validate(lake.connector, lake.settings | change).refusal() is not None, change
    assert all(str(lake.folder) in path for path in lake.connector.paths(lake.settings))

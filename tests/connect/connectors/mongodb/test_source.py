"""Changes of a real MongoDB, and documents written to it; restarts lose nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.clock import SystemClock
from moldau.connect.connector import Place, SinkTaskContext, SourceTaskContext
from moldau.connect.connectors.mongodb.sink import MongoSink
from moldau.connect.connectors.mongodb.source import MongoSourceTask
from moldau.connect.data.schema import Schema, Struct, decimal, struct
from moldau.connect.data.types import Type
from moldau.connect.errors import ConfigException, DataException, RetriableException
from moldau.connect.records import SinkRecord, SourceRecord
from moldau.testing.connect import write
from tests.connect.servers import Server, mongodb, mongodb_address
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with mongodb() as server:
        yield server


@pytest.fixture(scope="module")
def shop(server: Server) -> Iterator[Any]:
    import pymongo

    with pymongo.MongoClient(mongodb_address(server)) as client:
        yield client["shop"]


class Reading:
    def __init__(self, server: Server, collection: str, **more: str) -> None:
        self.given = {
            "connection.uri": mongodb_address(server),
            "database": "shop",
            "collection": collection,
            "poll.await.time.ms": "100",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self.place: Place | None = None
        self.records: list[SourceRecord] = []
        self.start()

    def start(self) -> None:
        self.task = MongoSourceTask()
        self.task.start(self.given, SourceTaskContext("m", 0, lambda _: self.place, SystemClock().now_ms))

    def poll(self) -> None:
        found = self.task.poll()
        self.records += found
        if found:
            self.place = found[-1].source_offset

    def until(self, count: int) -> list[Any]:
        def enough() -> bool:
            self.poll()
            return len(self.records) >= count

        wait_until(enough, lambda: self.records)
        return [None if each.value is None else json.loads(str(each.value)) for each in self.records]


def test_copy_then_changes(server: Server, shop: Any) -> None:
    shop.orders.insert_many([{"_id": n, "state": "new"} for n in range(3)])
    reading = Reading(server, "orders", startup_mode="copy_existing", topic_prefix="m")
    reading.until(3)
    shop.orders.update_one({"_id": 1}, {"$set": {"state": "paid"}})
    shop.orders.delete_one({"_id": 2})
    events = reading.until(5)
    assert [event["operationType"] for event in events] == ["insert"] * 3 + ["update", "delete"]
    assert events[3]["updateDescription"]["updatedFields"] == {"state": "paid"}
    assert {each.topic for each in reading.records} == {"m.shop.orders"}
    reading.task.stop()
    shop.orders.insert_one({"_id": 9})
    reading.start()
    assert reading.until(6)[5]["fullDocument"] == {"_id": 9}
    reading.task.stop()


def test_documents_alone_and_tombstones(server: Server, shop: Any) -> None:
    shop.create_collection("plain")
    reading = Reading(server, "plain", publish_full_document_only="true")
    reading.poll()
    shop.plain.insert_one({"_id": "a", "n": 1})
    shop.plain.update_one({"_id": "a"}, {"$set": {"n": 2}})
    wait_until(lambda: reading.until(2) is not None)
    shop.plain.delete_one({"_id": "a"})
    assert reading.until(3) == [{"_id": "a", "n": 1}, {"_id": "a", "n": 2}, None]
    assert {each.key for each in reading.records} == {'{"_id": "a"}'}
    reading.task.stop()


def sink(server: Server, **more: str) -> dict[str, str]:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return {"connection.uri": mongodb_address(server), "database": "shop", **settings}


def record(offset: int, topic: str, key: object, value: object, schema: Schema | None = None) -> SinkRecord:
    return SinkRecord(topic=topic, partition=0, offset=offset, key=key, value=value, value_schema=schema)


def test_documents_by_key(server: Server, shop: Any) -> None:
    import bson

    schema = struct({"n": Schema(Type.INT32), "price": decimal(2)})
    from decimal import Decimal

    rows = [
        record(0, "kept", "a", Struct(schema, {"n": 1, "price": Decimal("1.50")}), schema),
        record(1, "kept", None, {"n": 2}),
        record(2, "kept", {"_id": 7}, '{"n": 3, "at": {"$date": "2024-01-01T00:00:00Z"}}'),
        record(3, "kept", "b", {"n": 4}),
        record(4, "kept", "b", None),
    ]
    for _ in range(2):  # the same batch again changes nothing
        write(MongoSink, sink(server, delete_on_null_values="true"), rows)
    found = {str(each["_id"]): each for each in shop.kept.find()}
    assert sorted(found) == ["7", "a", "kept#0#1"]
    assert found["a"]["price"] == bson.Decimal128("1.50")
    assert found["7"]["at"].year == 2024


def test_a_document_that_is_refused_is_reported_alone(server: Server, shop: Any) -> None:
    shop.create_collection("ruled", validator={"n": {"$gte": 0}})
    reported: list[int] = []
    made = MongoSink({"topics": "ruled", **sink(server)})
    task = made.make_task()
    context = SinkTaskContext("m", 0, report=lambda record, error: reported.append(record.offset))
    task.start(made.task_settings(1)[0], context)
    values = [{"n": 1}, {"n": -1}, {"n": 2}, "no json", {"n": -5}, {"n": 3}]
    task.put([record(n, "ruled", n, value) for n, value in enumerate(values)])
    task.stop()
    assert sorted(reported) == [1, 3, 4]
    assert sorted(each["n"] for each in shop.ruled.find()) == [1, 2, 3]


def test_what_cannot_work_says_why(server: Server) -> None:
    with pytest.raises(ConfigException, match="mongodb://host"):
        write(MongoSink, {"connection.uri": "http://x", "database": "d"}, [])
    with pytest.raises(DataException, match=r"Next: delete\.on\.null\.values=true"):
        write(MongoSink, sink(server), [record(0, "x", "k", None)])
    away = "mongodb://ann:hush@127.0.0.1:1/?serverSelectionTimeoutMS=100"
    with pytest.raises(RetriableException) as caught:
        write(MongoSink, {"connection.uri": away, "database": "d"}, [record(0, "x", "k", {"n": 1})])
    assert "hush" not in str(caught.value)

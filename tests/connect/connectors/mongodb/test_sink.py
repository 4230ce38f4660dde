"""Documents that cannot be made of records, without a server; test_source has those that a server refuses."""

from typing import Any

import pytest

from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.mongodb.sink import MongoSink
from moldau.connect.records import SinkRecord


class Collection:
    """Takes documents as a driver does: one that cannot be encoded is the end of its batch."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def bulk_write(self, requests: list[Any], ordered: bool) -> None:
        import bson

        for each in requests:
            bson.encode(each._doc)
        self.numbers += [each._doc["n"] for each in requests]


def test_what_cannot_be_a_document_is_reported_alone() -> None:
    pytest.importorskip("pymongo")
    made = MongoSink({"topics": "t", "connection.uri": "mongodb://127.0.0.1:1", "database": "d"})
    task: Any = made.make_task()
    reported: list[int] = []
    context = SinkTaskContext("m", 0, report=lambda record, error: reported.append(record.offset))
    task.start(made.task_settings(1)[0], context)
    task._client.close()
    collection = Collection()
    task._client = {"d": {"t": collection}}
    values = [{"n": 0}, {"n": 1, "a\0": 1}, {"n": 2}, {"n": 3, "text": "\ud800"}, {"n": 4}, {"n": 1 << 70}]
    task.put([SinkRecord(topic="t", partition=0, offset=n, value=value) for n, value in enumerate(values)])
    assert reported == [1, 3, 5]
    assert collection.numbers == [0, 2, 4]

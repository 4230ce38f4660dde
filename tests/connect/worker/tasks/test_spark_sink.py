"""A sink as a Spark query: the rows that the plain runtime would write, once, also over a restart."""

import json
import os
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.transforms.base import Side
from moldau.connect.worker.tasks.early_drops import (
    AllOf,
    AnyOf,
    Condition,
    HasHeader,
    HasHeaders,
    IsNull,
    IsText,
    Not,
    OfTopic,
    holds,
    sql_of,
)
from moldau.connect.worker.tasks.processing import RawRecord
from moldau.connect.worker.tasks.spark_sink import _reason, bounded, checkpoint_folder
from moldau.testing import Broker
from moldau.testing.connect import read
from tests.connect.conftest import Worker, running
from tests.connect.worker.tasks.test_early_drops import CASES
from tests.shared.waiting import wait_until

with_spark = pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect")


def rows(file: Path) -> list[tuple[int, int]]:
    with sqlite3.connect(file) as database:
        try:
            return database.execute("SELECT n, twice FROM numbers ORDER BY n").fetchall()
        except sqlite3.OperationalError:
            return []


def send(broker: Broker, numbers: range) -> None:
    for number in numbers:
        broker.produce(
            "numbers", json.dumps({"n": number, "twice": 2 * number}).encode(), partition=number % 2
        )


def test_every_connector_has_a_checkpoint_of_its_own_below_the_folder() -> None:
    names = ["plain", ".", "..", "...", "../evil", "/etc", "a/b", "a%2Fb", "a%252Fb", "a b", ".a"]
    folders = [checkpoint_folder("/checkpoints", name) for name in names]
    assert len(set(folders)) == len(names)
    assert {str(folder.parent) for folder in folders} == {"/checkpoints"}
    assert ".." not in {folder.name for folder in folders}
    assert (folders[0].name, folders[6].name, folders[9].name) == ("plain", "a%2Fb", "a b")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[STREAM_FAILED] Query terminated: Python worker failed to connect back.", RetriableException),
        ("moldau.connect.errors.RetriableException: the database is away", RetriableException),
        ("moldau.connect.errors.DataException: 300 does not fit", ConnectException),
        (None, ConnectException),
    ],
)
def test_why_a_query_ended(text: str | None, kind: type[Exception]) -> None:
    """What has nothing to do with records is tried again: a busy machine must not fail a sink for good."""
    query = SimpleNamespace(exception=lambda: None if text is None else Exception(text))
    assert type(_reason(query)) is kind


CONTENTS = [
    None,
    b"",
    b"x",
    "ä😀".encode(),
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
]
HEADERS: list[tuple[tuple[str, bytes | None], ...]] = [
    (),
    (("a", None),),
    (("b", b"1"), ("a", b"2")),
    (("b", b""),),
]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_conditions_mean_the_same_on_columns(spark: Any) -> None:
    """Each condition, and what is made of them, for all kinds of records."""
    raws = [
        RawRecord(topic, 0, key, value, headers, 5, 7)
        for topic in ("t", "u")
        for key in CONTENTS
        for value in CONTENTS
        for headers in HEADERS
    ]
    rows = [
        (number, raw.topic, raw.key, raw.value, [*raw.headers] or None) for number, raw in enumerate(raws)
    ]
    headers = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
    schema = f"number INT, topic STRING, key BINARY, value BINARY, headers {headers}"
    leaves: list[Condition] = [
        OfTopic("t"),
        HasHeader("a"),
        HasHeader("it's"),
        HasHeaders(),
        *(kind(side) for kind in (IsNull, IsText) for side in Side),
        *(found for _, _, found in CASES if found is not None),
        AnyOf(()),
    ]
    conditions = [*leaves, *map(Not, leaves), AllOf(tuple(leaves[:2])), AnyOf(tuple(leaves[2:5]))]
    columns = [f"{sql_of(condition)} AS c{n}" for n, condition in enumerate(conditions)]
    frame = spark.createDataFrame(rows, schema).selectExpr("number", *columns)
    found = {row["number"]: row for row in frame.collect()}
    wide = frame.repartition(3)
    assert [bounded(wide, most).rdd.getNumPartitions() for most in ("", "2", "9")] == [3, 2, 3]
    for number, raw in enumerate(raws):
        for n, condition in enumerate(conditions):
            assert found[number][f"c{n}"] is holds(condition, raw), (condition, raw)


@pytest.mark.slow
@with_spark
@pytest.mark.timeout(900)
def test_a_sink_on_spark(spark: object, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "numbers.db"
    sqlite3.connect(file).close()
    broker.create_topic("numbers", partitions=2)
    send(broker, range(10))
    config = {
        "connector.class": "JdbcSinkConnector",
        "connection.url": f"jdbc:sqlite:{file}",
        "topics": "numbers",
        "auto.create": "true",
        "moldau.runtime": "spark",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "deletes,tests",
        "transforms.deletes.type": "Filter",
        "transforms.deletes.predicate": "deleted",
        "transforms.tests.type": "Filter",
        "transforms.tests.predicate": "test",
        "predicates": "deleted,test",
        "predicates.deleted.type": "RecordIsTombstone",
        "predicates.test.type": "HasHeaderKey",
        "predicates.test.name": "test",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "bad-numbers",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    for partition in (0, 1):  # which the sink would refuse, or write
        broker.produce("numbers", None, key=b"k", partition=partition)
        broker.produce("numbers", b'{"n": -1}', headers=[("test", b"1")], partition=partition)
        broker.produce("numbers", b"no json", headers=[("h", b"1")], partition=partition)

    def state(worker: Worker) -> object:
        return worker.task("numbers"), rows(file)

    def committed(worker: Worker) -> int:
        found = worker.call("GET", "/connectors/numbers/offsets")["offsets"]
        return sum(each["offset"]["kafka_offset"] for each in found)

    folder = tmp_path / "checkpoints"
    with running(broker, tmp_path, **{"moldau.spark.checkpoints": str(folder)}) as worker:
        refused = worker.http.post(
            "/connectors", json={"name": "x", "config": {**config, "spark.jars": "/tmp/evil.jar"}}
        )
        assert refused.status_code == 400
        assert "is the worker's" in refused.json()["message"]
        worker.call("POST", "/connectors", {"name": "numbers", "config": config})
        wait_until(lambda: len(rows(file)) >= 10, lambda: state(worker), seconds=200)
        worker.call("PUT", "/connectors/numbers/pause")
        send(broker, range(10, 20))
        worker.call("PUT", "/connectors/numbers/resume")
        wait_until(lambda: len(rows(file)) >= 20, lambda: state(worker), seconds=200)
        # Offsets that are changed count, though there is a checkpoint.
        worker.call("PUT", "/connectors/numbers/stop")
        wait_until(lambda: worker.call("GET", "/connectors/numbers/status")["tasks"] == [])
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM numbers")
        worker.call("DELETE", "/connectors/numbers/offsets")
        worker.call("PUT", "/connectors/numbers/resume")
        wait_until(lambda: len(rows(file)) >= 20, lambda: state(worker), seconds=200)
        # And without one, as on another machine, the query begins where its group is.
        wait_until(lambda: committed(worker) == 26, lambda: committed(worker), seconds=60)
        worker.call("PUT", "/connectors/numbers/stop")
        wait_until(lambda: worker.call("GET", "/connectors/numbers/status")["tasks"] == [])
        shutil.rmtree(checkpoint_folder(str(folder), "numbers"))
        send(broker, range(20, 22))
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM moldau_connect_offsets")
        worker.call("PUT", "/connectors/numbers/resume")
        wait_until(lambda: len(rows(file)) >= 22, lambda: state(worker), seconds=200)
        worker.call("DELETE", "/connectors/numbers")
    assert rows(file) == [(number, 2 * number) for number in range(22)]
    letters = [(bytes(each.value or b""), [*dict(each.headers)]) for each in broker.records("bad-numbers")]
    assert len(letters) >= 4  # all records were read twice, and a batch that was cut off writes its own again
    assert all(each == (b"no json", ["h"]) for each in letters)


@pytest.mark.slow
@with_spark
@pytest.mark.timeout(900)
def test_an_archive_on_spark(spark: object, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("kept", partitions=3)
    for number in range(30):
        broker.produce("kept", b"%d" % number, key=b"k%d" % number, partition=number % 3)
    config = {
        "connector.class": "ArchiveSink",
        "archive.path": str(tmp_path / "archive"),
        "topics": "kept",
        "flush.size": "4",
        "rotate.interval.ms": "500",
        "moldau.runtime": "spark",
        "tasks.max": "2",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }

    def flushes() -> list[str]:
        return sorted(path.name for path in (tmp_path / "archive/topics/_complete/kept").rglob("*+*"))

    with running(broker, tmp_path, **{"moldau.spark.checkpoints": str(tmp_path / "checkpoints")}) as worker:
        worker.call("POST", "/connectors", {"name": "kept", "config": config})
        wait_until(lambda: len(flushes()) >= 9, lambda: (worker.task("kept"), flushes()), seconds=200)
        worker.call("DELETE", "/connectors/kept")
    found = read(ArchiveSource, {"archive.path": str(tmp_path / "archive")}, count=30, polls=20)
    assert sorted((each.partition, each.key, each.value) for each in found.records) == sorted(
        (number % 3, f"k{number}", str(number)) for number in range(30)
    )

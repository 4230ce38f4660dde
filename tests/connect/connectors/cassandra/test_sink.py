"""Rows in a real Cassandra; in ``make test-connect``."""

import datetime
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.cassandra.sink import CassandraSink, CassandraSinkTask
from moldau.connect.data.schema import Schema, Struct, array, date, decimal, map_of, struct, time, timestamp
from moldau.connect.data.types import Instant, Type
from moldau.connect.errors import ConnectException, DataException, JavaError, RetriableException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import write
from tests.connect.java_servers import cassandra
from tests.connect.servers import Server
from tests.shared.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect"),
    # The driver leaves sockets to the garbage collector, and uses asyncore's successor by thread.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
TEXT = Schema(Type.STRING)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with cassandra() as server:
        yield server


@pytest.fixture
def session(server: Server) -> Iterator[Any]:
    """A client of its own; the keyspace ``shop`` is empty."""
    from cassandra.cluster import Cluster

    cluster = Cluster(["127.0.0.1"], port=server.port, connect_timeout=30, protocol_version=5)
    session = cluster.connect()
    session.default_timeout = 60
    session.execute("DROP KEYSPACE IF EXISTS shop")
    session.execute(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    yield session
    cluster.shutdown()


def settings(server: Server, **more: str) -> dict[str, str]:
    given = {"contactPoints": "127.0.0.1", "port": str(server.port), "keyspace": "shop", "pk.fields": "id"}
    return {**given, "consistencyLevel": "ONE", **more}


def record(offset: int, key: object, value: object, **more: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=offset, key=key, value=value, **more)  # type: ignore[arg-type]


def rows(session: Any, query: str = "SELECT * FROM shop.t") -> list[dict[str, Any]]:
    return sorted((row._asdict() for row in session.execute(query)), key=repr)


def tolerated(given: dict[str, str], records: Sequence[SinkRecord]) -> list[tuple[int, str]]:
    """Writes a batch; the offsets of dead letters with their reasons."""
    found: list[tuple[int, str]] = []

    def report(record: SinkRecord, error: JavaError) -> None:
        found.append((record.offset, error.message))

    task = CassandraSinkTask()
    try:
        task.start({**given, "topics": "t"}, SinkTaskContext("test", 0, report=report))
        task.put(records)
    finally:
        task.stop()
    return found


def test_types_of_a_table_that_the_sink_makes(server: Server, session: Any) -> None:
    schema = struct(
        {
            "small": Schema(Type.INT8),
            "whole": Schema(Type.INT64),
            "price": decimal(2),
            "real": Schema(Type.FLOAT32),
            "yes": Schema(Type.BOOLEAN),
            "raw": Schema(Type.BYTES),
            "day": date(),
            "clock": time(),
            "at": timestamp(),
            "tags": array(TEXT),
            "counts": map_of(TEXT, array(Schema(Type.INT32))),
            "inner": struct({"a": TEXT}),
            "none": Schema(Type.STRING, optional=True),
        }
    )
    value = Struct(
        schema,
        {
            "small": -128,
            "whole": (1 << 63) - 1,
            "price": Decimal("12.30"),
            "real": 0.5,
            "yes": True,
            "raw": b"\x00\xff",
            "day": Instant(86_400_000),
            "clock": Instant(1500),
            "at": Instant(1_700_000_000_123),
            "tags": ["a", "ü"],
            "counts": {"x": [1, 2]},
            "inner": Struct(struct({"a": TEXT}), {"a": "b"}),
            "none": None,
        },
    )
    given = settings(server, **{"auto.create": "true"})
    for _ in range(2):
        write(CassandraSink, given, [record(0, "k", value, key_schema=TEXT, value_schema=schema)])
    (row,) = rows(session)
    assert row["at"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)
    assert (str(row["day"]), str(row["clock"])) == ("1970-01-02", "00:00:01.500000000")
    assert (row["small"], row["whole"], row["price"]) == (-128, (1 << 63) - 1, Decimal("12.30"))
    assert (row["real"], row["yes"], row["raw"], row["none"]) == (0.5, True, b"\x00\xff", None)
    assert (row["tags"], dict(row["counts"]), row["inner"]) == (["a", "ü"], {"x": [1, 2]}, '{"a":"b"}')


def test_the_last_record_of_a_key_counts(server: Server, session: Any) -> None:
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int)")
    batch = [record(n, f"k{n % 3}", {"n": n}) for n in range(300)]
    batch += [record(300, "k1", None), record(301, "k2", None), record(302, "k2", {"n": 5})]
    for _ in range(2):  # it comes again, as after a crash
        write(CassandraSink, settings(server), batch)
        assert rows(session) == [{"id": "k0", "n": 297}, {"id": "k2", "n": 5}]


def test_write_time_by_offset(server: Server, session: Any) -> None:
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int)")
    given = settings(server, **{"write.time": "offset"})
    write(CassandraSink, given, [record(8, "k", {"n": 8}), record(9, "gone", None)])
    write(
        CassandraSink, given, [record(3, "k", {"n": 3}), record(4, "gone", {"n": 4})]
    )  # a batch that is late
    assert rows(session) == [{"id": "k", "n": 8}]


def test_mapping_to_two_tables(server: Server, session: Any) -> None:
    session.execute('CREATE TABLE shop."ByName" (name text, id int, total decimal, PRIMARY KEY (name, id))')
    session.execute("CREATE TABLE shop.by_id (id int PRIMARY KEY, total decimal, note text)")
    given = settings(
        server,
        **{
            'topic.t.shop."ByName".mapping': "name=key.name, id=key.id, total=value.total",
            "topic.t.shop.by_id.mapping": "id=key.id, total=value.total, note=value.note",
        },
    )
    key = {"name": "ann", "id": 1}
    write(CassandraSink, given, [record(0, key, {"total": 2, "note": "x"}), record(1, key, {"total": 3})])
    assert rows(session, 'SELECT * FROM shop."ByName"') == [{"name": "ann", "id": 1, "total": Decimal(3)}]
    kept = {"id": 1, "total": Decimal(3), "note": "x"}  # a null leaves the column as it is
    assert rows(session, "SELECT * FROM shop.by_id") == [kept]
    write(CassandraSink, {**given, "nullToUnset": "false"}, [record(2, key, {"total": 3})])
    assert rows(session, "SELECT * FROM shop.by_id") == [{**kept, "note": None}]
    write(CassandraSink, given, [record(3, key, None)])
    assert rows(session, 'SELECT * FROM shop."ByName"') == rows(session, "SELECT * FROM shop.by_id") == []


def test_time_to_live(server: Server, session: Any) -> None:
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int) WITH default_time_to_live = 5000")
    for ttl in ("-1", "0", "100"):
        write(CassandraSink, settings(server, ttl=ttl), [record(0, ttl, {"n": 1})])
    found = {row.id: row.left for row in session.execute("SELECT id, TTL(n) AS left FROM shop.t")}
    assert found["0"] is None
    assert 0 < found["100"] <= 100 < found["-1"] <= 5000


def test_dead_letters_leave_the_good_rows(server: Server, session: Any) -> None:
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int, tags list<text>)")
    batch = [
        record(0, "a", {"n": 1}),
        record(1, "b", {"n": "secret"}),
        record(2, None, {"n": 1}),
        record(3, "c", {"n": 1, "odd": 1}),
        record(4, "d", "no row"),
        record(5, "e" * 70_000, {"n": 1}),  # only the server knows that a key is too long
        record(6, "f", {"tags": ["x", None]}),
        record(7, "g", {"n": 7}),
    ]
    letters = tolerated(settings(server), batch)
    assert sorted(offset for offset, _ in letters) == [1, 2, 3, 4, 5, 6]
    assert "secret" not in str(letters)
    assert {row["id"] for row in rows(session)} == {"a", "g"}
    with pytest.raises(DataException):
        write(CassandraSink, settings(server), [record(8, "h", {"n": 8}), *batch[1:]])
    assert "h" in {row["id"] for row in rows(session)}  # what is good before a bad one is there


def test_columns_that_come_later(server: Server, session: Any) -> None:
    given = settings(server, **{"auto.create": "true", "auto.evolve": "true"})
    batch = [record(0, "a", {"n": None}), record(1, "b", {"n": 1}), record(2, "c", {"n": None, "x y": "z"})]
    write(CassandraSink, given, batch)  # a null without a schema has no type, so its column waits
    assert {row.id: row.n for row in session.execute("SELECT id, n FROM shop.t")} == {
        "a": None,
        "b": 1,
        "c": None,
    }
    assert [row[0] for row in session.execute("SELECT \"x y\" FROM shop.t WHERE id = 'c'")] == ["z"]


def test_errors_that_say_what_to_do(server: Server, session: Any) -> None:
    one = [record(0, "a", {"n": 1})]
    with pytest.raises(ConnectException, match=r"table .* is missing. Next"):
        write(CassandraSink, settings(server), one)
    with pytest.raises(ConnectException, match="keyspace nowhere is missing"):
        write(CassandraSink, settings(server, keyspace="nowhere"), one)
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int)")
    with pytest.raises(RetriableException, match="Unavailable"):  # one node cannot be two
        write(CassandraSink, settings(server, consistencyLevel="TWO"), one)
    with pytest.raises(RetriableException, match="NoHostAvailable"):
        write(CassandraSink, settings(server, port="1"), one)


def test_a_server_that_is_away_and_back(server: Server, session: Any) -> None:
    session.execute("CREATE TABLE shop.t (id text PRIMARY KEY, n int)")
    task = CassandraSinkTask()
    task.start({**settings(server), "topics": "t", "queryExecutionTimeout": "5"}, SinkTaskContext("test", 0))
    batch = [record(n, f"k{n}", {"n": n}) for n in range(50)]
    try:
        task.put(batch[:10])
        server.stop()
        with pytest.raises(RetriableException):
            task.put(batch)
        server.start()
        wait_until(lambda: _put(task, batch), "the sink does not find the server again", seconds=120)
    finally:
        task.stop()
    wait_until(lambda: len(rows(session)) == 50, seconds=60)


def _put(task: CassandraSinkTask, batch: Sequence[SinkRecord]) -> bool:
    try:
        task.put(batch)
    except RetriableException:
        return False
    return True

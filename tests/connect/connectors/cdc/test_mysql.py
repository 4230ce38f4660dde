"""Changes of a real MariaDB: the snapshot, the binary log behind it, restarts at any place, all types."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.connect.connectors.cdc.mysql import MySqlCdc
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException, RetriableException
from tests.connect.connectors.cdc.reading import Reading, plain
from tests.connect.servers import Server, mariadb
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with mariadb() as server:
        yield server


Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def run(server: Server) -> Run:
    import pymysql

    def run(*statements: str) -> list[Any]:
        with (
            pymysql.connect(
                host="127.0.0.1", port=server.port, user="root", database="test", autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    return run


def reading(server: Server, name: str, **more: str) -> Reading:
    given = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "root",
        "topic.prefix": name,
        "table.include.list": f"test.{name}",
        "poll.interval.ms": "100",
    }
    return Reading(MySqlCdc, name, given | {key.replace("_", "."): value for key, value in more.items()})


def test_snapshot_then_stream(server: Server, run: Run) -> None:
    run(
        "CREATE TABLE shop (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, price DECIMAL(8, 2))",
        "INSERT INTO shop VALUES (1, 'a', 1.5), (2, 'b', NULL)",
    )
    shop = reading(server, "shop")
    shop.until(2)
    run("INSERT INTO shop VALUES (3, 'c', 3)", "UPDATE shop SET name = 'B' WHERE id = 2")
    run("DELETE FROM shop WHERE id = 1", "UPDATE shop SET id = 4 WHERE id = 3")
    seen = shop.until(9)
    assert [each[0] for each in seen] == ["r", "r", "c", "u", "d", None, "d", None, "c"]
    assert seen[3][1:] == ({"id": 2, "name": "b", "price": None}, {"id": 2, "name": "B", "price": None})
    assert seen[4][1]["name"] == "a"
    assert seen[5][1] == {"id": 1}
    assert seen[7][1] == {"id": 3}  # another key: the old one ends
    first, third = shop.records[0], shop.records[2]
    assert first.topic == "shop.test.shop"
    assert plain(first.key) == {"id": 1}
    assert third.value_schema is not None
    assert third.value_schema.name == "shop.test.shop.Envelope"
    assert isinstance(first.value, Struct)
    assert isinstance(third.value, Struct)
    assert first.value_schema == third.value_schema
    source = plain(third.value.get("source"))
    assert (source["connector"], source["table"], source["snapshot"]) == ("mysql", "shop", "false")
    assert source["gtid"].startswith("0-1-")
    shop.task.stop()


def test_restarts_lose_nothing_and_double_nothing(server: Server, run: Run) -> None:
    run("CREATE TABLE steps (n INT PRIMARY KEY)", "INSERT INTO steps SELECT seq FROM seq_0_to_4")
    steps = reading(server, "steps", max_batch_size="3")
    steps.until(5)
    run("CREATE TABLE other (n INT)", "BEGIN", "INSERT INTO steps VALUES (77)", "ROLLBACK")
    run(  # one transaction of several events, among changes of other tables, read in pieces
        "BEGIN",
        "INSERT INTO steps SELECT seq FROM seq_5_to_14",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO steps SELECT seq FROM seq_15_to_24",
        "COMMIT",
    )
    for count in (7, 8, 15, 25):
        steps.until(count)
        steps.restart()
        run(f"INSERT INTO steps VALUES ({1000 + count})", "FLUSH BINARY LOGS")
    steps.until(29)
    steps.task.stop()
    numbers = [each[2]["n"] for each in steps.seen()]
    assert sorted(numbers) == sorted([*range(25), 1007, 1008, 1015, 1025])


@pytest.mark.parametrize("kept", ["the first place alone", "a place within the snapshot"])
def test_a_snapshot_that_is_cut_short_loses_no_delete(server: Server, run: Run, kept: str) -> None:
    name = "cut_early" if kept == "the first place alone" else "cut_late"
    run(f"CREATE TABLE {name} (n INT PRIMARY KEY)", f"INSERT INTO {name} SELECT seq FROM seq_0_to_5")
    cut = reading(server, name, max_batch_size="2")
    cut.until(4)
    if kept == "the first place alone":
        cut.place = cut.kept_first
    run(f"DELETE FROM {name} WHERE n = 1", f"INSERT INTO {name} VALUES (9)")
    cut.restart()
    cut.until(4 + 4)  # amid the rows of another snapshot
    run(f"DELETE FROM {name} WHERE n = 0")
    cut.restart()
    wait_until(lambda: cut.poll() is not None and cut.rows("n") == {2, 3, 4, 5, 9}, cut.seen)
    cut.task.stop()


def test_a_table_that_was_empty_at_the_snapshot_loses_no_delete(server: Server, run: Run) -> None:
    run("CREATE TABLE empty (n INT PRIMARY KEY)")
    empty = reading(server, "empty")
    empty.poll()
    run("INSERT INTO empty VALUES (1)")
    empty.until(1)
    empty.place = empty.kept_first  # as if the worker had died before it kept the place of the row
    run("DELETE FROM empty")
    empty.restart()
    wait_until(lambda: empty.poll() is not None and len(empty.records) > 1 and not empty.rows("n"))
    empty.task.stop()


def test_a_snapshot_cut_short_whose_log_is_gone_says_so(server: Server, run: Run) -> None:
    run("CREATE TABLE lost (n INT PRIMARY KEY)", "INSERT INTO lost SELECT seq FROM seq_0_to_5")
    lost = reading(server, "lost", max_batch_size="2")
    lost.until(2)
    lost.task.stop()
    run("DELETE FROM lost WHERE n = 1", "FLUSH BINARY LOGS")
    (file, *_) = run("SHOW MASTER STATUS")[0]

    def purged() -> bool:  # not while a reader that was stopped is still there
        run(f"PURGE BINARY LOGS TO '{file}'")
        return len(run("SHOW BINARY LOGS")) == 1

    wait_until(purged)
    lost.start()
    with pytest.raises(ConnectException, match="begins with a new snapshot"):
        lost.poll()
    lost.task.stop()


def test_the_records_of_one_change_are_not_parted(server: Server, run: Run) -> None:
    run("CREATE TABLE pairs (id INT PRIMARY KEY)", "INSERT INTO pairs VALUES (1)")
    pairs = reading(server, "pairs")
    pairs.until(1)
    run("DELETE FROM pairs")
    pairs.until(3)
    pairs.place = pairs.records[1].source_offset  # as if the tombstone had not been written
    pairs.restart()
    assert [each[0] for each in pairs.until(5)] == ["r", "d", None, "d", None]
    pairs.task.stop()


def test_columns_that_come_and_go_are_those_of_their_time(server: Server, run: Run) -> None:
    run("CREATE TABLE wide (id INT PRIMARY KEY, a TEXT)", "INSERT INTO wide VALUES (1, 'x')")
    wide = reading(server, "wide")
    wide.until(1)
    wide.task.stop()
    run("INSERT INTO wide VALUES (2, 'y')", "ALTER TABLE wide ADD COLUMN b INT NOT NULL DEFAULT 7")
    run(
        "UPDATE wide SET a = 'z' WHERE id = 2",
        "ALTER TABLE wide DROP COLUMN a",
        "INSERT INTO wide VALUES (3, 1)",
    )
    wide.start()
    seen = wide.until(4)
    assert seen[1] == ("c", None, {"id": 2, "a": "y"})
    assert seen[2] == ("u", {"id": 2, "a": "y", "b": 7}, {"id": 2, "a": "z", "b": 7})
    assert seen[3] == ("c", None, {"id": 3, "b": 1})
    wide.task.stop()


TYPES = """
CREATE TABLE types (
  id BIGINT UNSIGNED PRIMARY KEY, tiny TINYINT UNSIGNED, small SMALLINT UNSIGNED, medium MEDIUMINT,
  flag BOOLEAN, single FLOAT, twice DOUBLE, price DECIMAL(10, 3), word CHAR(5),
  latin VARCHAR(9) CHARACTER SET latin1, fixed BINARY(4), raw VARBINARY(9), long_text LONGTEXT, blobbed BLOB,
  bits BIT(10), one BIT(1), kind ENUM('a', 'b''c'), many SET('x', 'y', 'z'), born DATE, at TIME(3),
  seen DATETIME(3), exact DATETIME(6), changed TIMESTAMP(6) NULL, vintage YEAR, doc JSON, place POINT
)
"""
VALUES = """
(%s, 200, 65535, -7, TRUE, 0.5, 0.25, -12.5, 'w', 'é', 'ab', 'cd', 'text', 'blob', b'1000000001', b'1',
 'b''c', 'z,x', '1969-12-31', '12:30:00.5', '2024-05-06 07:08:09.123', '2024-05-06 07:08:09.123456',
 '2024-05-06 07:08:09.5', 1999, '{"a": 1}', ST_GeomFromText('POINT(1 2)'))
"""


def test_types_are_the_same_in_snapshot_and_stream(server: Server, run: Run) -> None:
    run(TYPES, f"INSERT INTO types VALUES {VALUES}" % 1, "INSERT INTO types (id) VALUES (2)")
    types = reading(server, "types")
    types.until(2)
    run(f"INSERT INTO types VALUES {VALUES}" % 3, "INSERT INTO types (id) VALUES (4)")
    seen = types.until(4)
    types.task.stop()
    assert types.records[0].value_schema == types.records[2].value_schema
    assert {**seen[0][2], "id": 3} == seen[2][2]
    assert {**seen[1][2], "id": 4} == seen[3][2]
    row = seen[2][2]
    assert (row["tiny"], row["small"], row["medium"], row["flag"]) == (200, 65535, -7, 1)
    assert (row["single"], row["twice"], str(row["price"])) == (0.5, 0.25, "-12.500")
    assert (row["word"], row["latin"], row["long_text"]) == ("w", "é", "text")
    assert (row["fixed"], row["raw"], row["blobbed"]) == (b"ab\0\0", b"cd", b"blob")
    assert (row["bits"], row["one"]) == (b"\x01\x02", True)
    assert (row["kind"], row["many"]) == ("b'c", "x,z")
    assert (row["born"], row["at"]) == (-1, 45_000_500_000)
    assert (row["seen"], row["exact"]) == (1_714_979_289_123, 1_714_979_289_123_456)
    assert (row["changed"], row["vintage"]) == ("2024-05-06T07:08:09.5Z", 1999)
    assert row["doc"] == '{"a": 1}'
    assert row["place"]["wkb"][:5] == b"\x01\x01\0\0\0"
    assert all(value is None for name, value in seen[3][2].items() if name != "id")


def test_heartbeats_pass_what_other_tables_did(server: Server, run: Run) -> None:
    run(
        "CREATE TABLE beats (id INT PRIMARY KEY)",
        "CREATE TABLE noise (id INT)",
        "INSERT INTO beats VALUES (1)",
    )
    beats = reading(server, "beats", heartbeat_interval_ms="50")
    beats.until(2)
    run("INSERT INTO noise SELECT seq FROM seq_1_to_1000")
    file, end = run("SHOW MASTER STATUS")[0][:2]

    def passed() -> bool:
        beats.poll()
        place = beats.place or {}
        return (place.get("file"), place.get("pos")) == (file, end)

    wait_until(passed, lambda: beats.place)
    beats.restart()
    run("INSERT INTO beats VALUES (2)")
    wait_until(lambda: any(record.topic == "beats.test.beats" for record in beats.poll()))
    rows = [each for each in beats.seen() if each[0] != "heartbeat"]
    assert [each[2]["id"] for each in rows] == [1, 2]
    beats.task.stop()


def test_a_server_that_goes_away_and_a_log_that_is_gone(server: Server, run: Run) -> None:
    run("CREATE TABLE away (id INT PRIMARY KEY)", "INSERT INTO away VALUES (1)")
    away = reading(server, "away")
    away.until(1)
    away.poll()
    server.stop(signal.SIGKILL)
    with pytest.raises(RetriableException):
        wait_until(lambda: bool(away.poll()))
    server.start()
    run("INSERT INTO away VALUES (2)")
    away.restart()
    assert away.until(2)[1] == ("c", None, {"id": 2})
    away.task.stop()
    run("FLUSH BINARY LOGS", "INSERT INTO away VALUES (3)")
    (file, *_) = run("SHOW MASTER STATUS")[0]
    run(f"PURGE BINARY LOGS TO '{file}'")
    away.start()
    with pytest.raises(ConnectException, match="begins with a new snapshot"):
        wait_until(lambda: bool(away.poll()))
    away.task.stop()


def test_a_server_without_what_is_needed_is_told(server: Server, run: Run) -> None:
    run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    try:
        with pytest.raises(ConnectException, match="binlog_row_metadata=FULL"):
            reading(server, "shop").poll()
    finally:
        run("SET GLOBAL binlog_row_metadata = 'FULL'")

"""Snapshots in ranges give the rows of the plain task, which goes on behind them; on real databases."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.base.clock import SystemClock
from moldau.connect.connector import Place, Snapshot, SourceTaskContext
from moldau.connect.connectors.jdbc.snapshot import JdbcSnapshotTask
from moldau.connect.connectors.jdbc.source import JdbcSource
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord
from moldau.connect.worker.offsets import offset_key
from moldau.testing.connect import read
from tests.connect.connectors.jdbc.databases import Database

NOW = SystemClock().now_ms


def config(db: Database, **more: str) -> dict[str, str]:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return {"topic.prefix": "t-", "poll.interval.ms": "0", **db.settings, **settings}


@contextmanager
def task(
    given: dict[str, str], places: dict[str, Place], now_ms: Callable[[], int] = NOW
) -> Iterator[JdbcSnapshotTask]:
    made = JdbcSource({"name": "test", **given}).make_snapshots()
    assert isinstance(made, JdbcSnapshotTask)
    try:
        made.start(
            given,
            SourceTaskContext("test", 0, lambda at: places.get(offset_key("test", at)), now_ms),
        )
        yield made
    finally:
        made.stop()


def keep(places: dict[str, Place], pairs: Any) -> None:
    for partition, place in pairs:
        places[offset_key("test", partition)] = place


def finish(snapshot: Snapshot, places: dict[str, Place]) -> None:
    keep(places, snapshot.reached)
    for partition in snapshot.cleared:
        places.pop(offset_key("test", partition), None)


def taken(
    given: dict[str, str],
    places: dict[str, Place],
    until: int = 100,
    now_ms: Callable[[], int] = NOW,
) -> list[list[SourceRecord]]:
    """The records of each range of all snapshots, as a worker takes them; at most ``until`` ranges, as if
    the worker died then."""
    found: list[list[SourceRecord]] = []
    with task(given, places, now_ms) as planner, task(given, {}) as reader:
        while (snapshot := planner.next()) is not None:
            keep(places, snapshot.planned)
            for part in snapshot.parts:
                if len(found) >= until:
                    return found
                found.append(list(reader.read(part.work)))
                keep(places, [(part.partition, part.place)])
            finish(snapshot, places)
            planner.done(snapshot)
    return found


def flat(parts: list[list[SourceRecord]]) -> list[SourceRecord]:
    return [record for part in parts for record in part]


def ids(records: list[SourceRecord]) -> list[Any]:
    return sorted(value_of(record)["id"] for record in records)


def value_of(record: SourceRecord) -> dict[str, Any]:
    assert isinstance(record.value, Struct)
    return {field.name: value for field, value in record.value.items()}


def by_id(records: list[SourceRecord]) -> list[SourceRecord]:
    return sorted(records, key=lambda record: int(value_of(record)["id"]))


def fill(db: Database, table: str, *numbers: int) -> None:
    rows = ", ".join(f"({n}, 'n{n}', '2024-01-01 10:{abs(n) % 60:02d}:00')" for n in numbers)
    db.run(f"INSERT INTO {table} VALUES {rows}")


def make(db: Database, table: str, *numbers: int) -> None:
    db.run(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), at TIMESTAMP NOT NULL)")
    if numbers:
        fill(db, table, *numbers)


NUMBERED = {"mode": "incrementing", "incrementing_column_name": "id", "snapshot_partitions": "4"}
TIMED = {"mode": "timestamp", "timestamp_column_name": "at", "snapshot_partitions": "4"}
BOTH = {**TIMED, "mode": "timestamp+incrementing", "incrementing_column_name": "id"}


@pytest.mark.parametrize("mode", [NUMBERED, TIMED, BOTH], ids=lambda mode: mode["mode"])
def test_the_same_records_as_the_plain_task_and_the_same_place(db: Database, mode: dict[str, str]) -> None:
    table = f"same_{mode['mode'].replace('+', '_')}"
    # Gaps, a number that lies far away, and negative ones, which the plain task does not see by number.
    make(db, table, -5, -1, 0, 1, 2, 3, 50, 51, 99, 4000)
    given = config(db, table_whitelist=table, **mode)
    places: dict[str, Place] = {}
    parts = taken(given, places)
    plain = read(JdbcSource, given, count=100, polls=5)
    assert len(parts) == 4
    assert len(plain.records) == (8 if mode is NUMBERED else 10)
    assert [record.value for record in by_id(flat(parts))] == [r.value for r in by_id(plain.records)]
    assert {record.topic for record in flat(parts)} == {f"t-{table}"}
    assert places == plain.places  # and nothing of the plan is left


@pytest.mark.parametrize("mode", [NUMBERED, TIMED, BOTH], ids=lambda mode: mode["mode"])
def test_rows_that_come_while_ranges_are_read_are_not_lost(db: Database, mode: dict[str, str]) -> None:
    table = f"grows_{mode['mode'].replace('+', '_')}"
    make(db, table, *range(1, 41))
    given = config(db, table_whitelist=table, **mode)
    places: dict[str, Place] = {}
    first = taken(given, places, until=2)  # the worker dies
    db.run(f"UPDATE {table} SET name = 'new', at = '2024-01-01 11:30:00' WHERE id IN (2, 39)")
    db.run(f"INSERT INTO {table} VALUES (100, 'late', '2024-01-01 11:40:00')")
    second = taken(given, places)
    assert (len(first), len(second)) == (2, 2)
    rest = read(JdbcSource, given, count=100, places=places, polls=5).records
    found = [value_of(record) for record in [*flat(first), *flat(second), *rest]]
    assert {row["id"] for row in found} == {*range(1, 41), 100}
    assert [row["id"] for row in found].count(100) == 1
    if mode is not NUMBERED:
        # Changed ones are seen as they are now; the one that was read before its change, twice.
        assert [row["id"] for row in found if row["name"] == "new"] == [2, 39]
        assert [row["name"] for row in found if row["id"] == 39] == ["new"]


def test_only_ranges_that_were_not_finished_are_read_again(db: Database) -> None:
    make(db, "resumed", *range(1, 21))
    given = config(db, table_whitelist="resumed", **NUMBERED)
    places: dict[str, Place] = {}
    first = taken(given, places, until=3)
    changed = {**given, "snapshot.partitions": "7"}  # the plan that was begun stays
    second = taken(changed, places)
    assert [ids(part) for part in [*first, *second]] == [
        [1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15], [16, 17, 18, 19, 20],
    ]  # fmt: skip
    assert taken(given, places) == []  # it is over for good


def test_a_plan_of_another_mode_is_made_anew(db: Database) -> None:
    make(db, "other_mode", *range(1, 9))
    places: dict[str, Place] = {}
    taken(config(db, table_whitelist="other_mode", **NUMBERED), places, until=2)
    timed = config(db, table_whitelist="other_mode", **{**TIMED, "snapshot_partitions": "2"})
    assert [ids(part) for part in taken(timed, places)] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert places == read(JdbcSource, timed, count=8).places


def test_what_another_plan_has_read_does_not_count(db: Database) -> None:
    """Not even where both are made in the same millisecond."""
    make(db, "replanned", *range(1, 9))
    given = config(db, table_whitelist="replanned", **NUMBERED)
    places: dict[str, Place] = {}
    taken(given, places, until=3, now_ms=lambda: 1)
    (plan,) = [key for key in places if '"snapshot":"plan"' in key]
    del places[plan]  # somebody altered the offsets
    assert ids(flat(taken(given, places, now_ms=lambda: 1))) == list(range(1, 9))


def test_a_place_that_somebody_sets_ends_the_snapshot(db: Database) -> None:
    make(db, "ended", *range(1, 9))
    given = config(db, table_whitelist="ended", **NUMBERED)
    places: dict[str, Place] = {}
    taken(given, places, until=1)
    with task(given, {}) as planner:
        planner.next()
        (partition,) = [table.partition for table in planner._known.values()]
    keep(places, [(partition, {"incrementing": 6})])
    assert taken(given, places) == []
    assert places == {offset_key("test", partition): {"incrementing": 6}}
    assert ids(read(JdbcSource, given, count=2, places=places).records) == [7, 8]


def test_small_tables(db: Database) -> None:
    make(db, "empty_one")
    make(db, "one_row", 7)
    places: dict[str, Place] = {}
    assert taken(config(db, table_whitelist="empty_one", **NUMBERED), places) == []
    assert places == {}  # the plain task sees what comes
    parts = taken(config(db, table_whitelist="one_row", **NUMBERED), places)
    assert [ids(part) for part in parts] == [[7]]


def test_where_reading_begins(db: Database) -> None:
    make(db, "begun", *range(1, 21))  # one of them in each minute
    ten = "1704103800000"  # 2024-01-01 10:10:00
    given = config(db, table_whitelist="begun", timestamp_initial=ten, **TIMED)
    places: dict[str, Place] = {}
    assert ids(flat(taken(given, places))) == list(range(11, 21))
    assert places == read(JdbcSource, given, count=10).places
    now = config(db, table_whitelist="begun", timestamp_initial="-1", **TIMED)
    with task(now, {}) as planner:
        assert planner.next() is None
        assert planner.over


def rounds(given: dict[str, str], places: dict[str, Place], count: int) -> list[list[list[Any]]]:
    """Ids of each range, round by round."""
    found: list[list[list[Any]]] = []
    with task(given, places) as planner:
        for _ in range(count):
            snapshot = planner.next()
            assert snapshot is not None
            keep(places, snapshot.planned)
            found.append([ids(list(planner.read(part.work))) for part in snapshot.parts])
            finish(snapshot, places)
            planner.done(snapshot)
        assert not planner.over
    return found


def test_bulk_is_cut_by_the_primary_key_in_every_round(db: Database) -> None:
    make(db, "rounds", -5, -1, 0, 1, 2, 3)
    given = config(db, mode="bulk", table_whitelist="rounds", snapshot_partitions="3")
    places: dict[str, Place] = {}
    assert rounds(given, places, 2) == [[[-5], [-1, 0], [1, 2, 3]]] * 2
    assert places == read(JdbcSource, given, count=6).places
    with task({**given, "poll.interval.ms": "600000"}, places) as planner:
        first = planner.next()
        assert first is not None
        planner.done(first)
        assert planner.next() is None  # until the time has come


def test_rows_without_a_key_are_read_too(db: Database) -> None:
    if db.kind != "sqlite":
        pytest.skip("only SQLite allows nulls in a primary key")
    db.run(
        "CREATE TABLE keyless (k INT PRIMARY KEY, id INTEGER)",
        "INSERT INTO keyless VALUES (1, 1), (NULL, 2), (9, 3), (NULL, 4)",
    )
    given = config(db, mode="bulk", table_whitelist="keyless", snapshot_partitions="2")
    assert rounds(given, {}, 1) == [[[1], [3], [2, 4]]]


def test_tables_that_cannot_be_cut_are_read_by_one_task_and_the_log_says_so(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.run(
        "CREATE TABLE by_text (k VARCHAR(9) PRIMARY KEY NOT NULL, id INTEGER, at TIMESTAMP NOT NULL)",
        "INSERT INTO by_text VALUES ('a', 1, '2024-01-01 10:00:00'), ('b', 2, '2024-01-01 10:00:01')",
    )
    with caplog.at_level(logging.WARNING, "moldau.connect.worker"):
        given = config(db, mode="bulk", table_whitelist="by_text", snapshot_partitions="2")
        assert rounds(given, {}, 2) == [[[1, 2]]] * 2  # as a whole
        assert [each for each in caplog.messages if "no key that is one column" in each][1:] == []
        places: dict[str, Place] = {}
        timed = config(db, table_whitelist="by_text", **TIMED)
        with task(timed, places) as planner:
            assert planner.next() is None
            assert planner.over  # the plain task reads it
        query = config(db, mode="bulk", query="SELECT * FROM by_text")
        with task(query, places) as planner:
            assert planner.next() is None
            assert planner.over
    assert any("query is read by one task" in each for each in caplog.messages)


def test_texts_in_a_column_of_numbers(db: Database) -> None:
    if db.kind != "sqlite":
        pytest.skip("only SQLite allows that")
    db.run("CREATE TABLE mixed (k INT PRIMARY KEY NOT NULL, id INTEGER)")
    db.run("INSERT INTO mixed VALUES (1, 1), ('x', 2), (2.5, 3)")
    given = config(db, mode="bulk", table_whitelist="mixed", snapshot_partitions="2")
    with task(given, {}) as planner:
        snapshot = planner.next()
        assert snapshot is not None
        assert len(snapshot.parts) == 1


def test_what_cannot_work_says_why(db: Database) -> None:
    db.run("CREATE TABLE nullable (a INTEGER)")
    with pytest.raises(ConnectException, match="may be null"):
        taken(config(db, mode="incrementing", incrementing_column_name="a", table_whitelist="nullable"), {})
    with pytest.raises(ConnectException, match="has no table gone"):
        taken(config(db, mode="bulk", table_whitelist="gone"), {})


def test_offsets_that_somebody_alters_are_checked(db: Database) -> None:
    connector = JdbcSource({"name": "test", **config(db, mode="bulk")})
    plan = {"protocol": "1", "table": "x", "snapshot": "plan"}
    connector.check_offsets([(plan, None), ({**plan, "snapshot": "3"}, None)])
    with pytest.raises(ConnectException, match="The plan of a snapshot"):
        connector.check_offsets([(plan, {"began": 1})])

"""GROUP BY over streams, windows and tables."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.sql.errors import SqlError
from tests.sql.clicks import record

CLICKS = [
    record("clicks", "ann", {"page": "/a", "ms": 5}, 0),
    record("clicks", "bob", {"page": "/b", "ms": 7}, 1_000),
    record("clicks", "ann", {"page": "/a", "ms": 9}, 61_000),
    record("clicks", "ann", {"page": None, "ms": 1}, 61_500),
]


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [
        ("COUNT(*)", 3),
        ("COUNT(page)", 2),
        ("COUNT(DISTINCT page)", 1),
        ("COUNT_DISTINCT(ms)", 3),
        ("SUM(ms)", 15),
        ("AVG(ms)", 5.0),
        ("MIN(ms)", 1),
        ("MAX(ms) - MIN(ms)", 8),
        ("COLLECT_LIST(ms)", [5, 9, 1]),
        ("COLLECT_SET(page)", ["/a", None]),
        ("LATEST_BY_OFFSET(ms)", 1),
        ("LATEST_BY_OFFSET(page)", "/a"),
        ("EARLIEST_BY_OFFSET(ms)", 5),
        ("TOPK(ms, 2)", [9, 5]),
        ("TOPKDISTINCT(ms, 2)", [9, 5]),
        ("HISTOGRAM(page)", {"/a": 2}),
        ("CAST(SUM(ms) AS STRING) || '!'", "15!"),
    ],
)
def test_aggregates(sql: Any, aggregate: str, value: Any) -> None:
    rows = sql.batch(f"SELECT user, {aggregate} AS x FROM clicks GROUP BY user", CLICKS)
    assert {row["USER"]: row["X"] for row in rows}["ann"] == value


def test_rows_without_a_key_are_left_out(sql: Any) -> None:
    rows = sql.batch("SELECT page, COUNT(*) AS n FROM clicks GROUP BY page", CLICKS)
    assert rows == [{"PAGE": "/a", "N": 2}, {"PAGE": "/b", "N": 1}]


def test_several_columns_and_expressions(sql: Any) -> None:
    query = "SELECT user, ms > 5 AS slow, COUNT(*) AS n FROM clicks GROUP BY user, ms > 5"
    assert {tuple(row.values()) for row in sql.batch(query, CLICKS)} == {
        ("ann", False, 2),
        ("ann", True, 1),
        ("bob", True, 1),
    }


def test_having_takes_rows_away_again(sql: Any) -> None:
    query = "SELECT user, COUNT(*) AS n FROM clicks GROUP BY user HAVING COUNT(*) < 2"
    assert sql.updates(query, CLICKS) == [{"USER": "ann", "N": 1}, {"USER": "bob", "N": 1}, None]


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        ("TUMBLING (SIZE 1 MINUTE)", {(0, 60_000, 1), (60_000, 120_000, 2)}),
        (
            "HOPPING (SIZE 1 MINUTE, ADVANCE BY 30 SECONDS)",
            {(0, 60_000, 1), (30_000, 90_000, 2), (60_000, 120_000, 2)},
        ),
        ("SESSION (30 SECONDS)", {(0, 0, 1), (61_000, 61_500, 2)}),
    ],
)
def test_windows(sql: Any, window: str, rows: set[Any]) -> None:
    columns = "user, WINDOWSTART AS s, WINDOWEND AS e, COUNT(*) AS n"
    query = f"SELECT {columns} FROM clicks WINDOW {window} GROUP BY user"
    found = sql.batch(query, [each for each in CLICKS if each.key == b"ann"])
    assert {(row["S"], row["E"], row["N"]) for row in found} == rows


def test_sessions_merge(sql: Any) -> None:
    records = [record("clicks", "a", {"ms": 1}, 0), record("clicks", "a", {"ms": 2}, 50_000)]
    records.append(record("clicks", "a", {"ms": 3}, 25_000))
    query = (
        "SELECT user, SUM(ms) AS x, TOPK(ms, 2) AS t FROM clicks WINDOW SESSION (30 SECONDS) GROUP BY user"
    )
    assert sql.batch(query, records) == [{"USER": "a", "X": 6, "T": [3, 2]}]


def test_emit_final_speaks_once(sql: Any) -> None:
    query = (
        "SELECT user, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS)"
        " GROUP BY user EMIT FINAL"
    )
    assert sql.updates(query, CLICKS) == [{"USER": "ann", "N": 1}, {"USER": "bob", "N": 1}]


def test_emit_final_loses_no_window_when_time_jumps(sql: Any) -> None:
    """On window close Kafka Streams forgets a window that also leaves the retention in the same step."""
    records = [record("clicks", "ann", {"ms": 1}, 0), record("clicks", "bob", {"ms": 1}, 600_000)]
    query = (
        "SELECT user, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS)"
        " GROUP BY user EMIT FINAL"
    )
    assert sql.updates(query, records) == [{"USER": "ann", "N": 1}]


def test_a_table_is_grouped_as_it_changes(sql: Any) -> None:
    records = [
        record("users", "a", {"name": "Ann", "level": 1}),
        record("users", "b", {"name": "Bob", "level": 1}),
        record("users", "a", {"name": "Ann", "level": 2}),
        record("users", "b", None),
    ]
    query = "SELECT level, COUNT(*) AS n, COLLECT_LIST(name) AS names FROM users GROUP BY level"
    rows = {row["LEVEL"]: (row["N"], row["NAMES"]) for row in sql.batch(query, records)}
    assert rows == {1: (0, []), 2: (1, ["Ann"])}


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT page, COUNT(*) FROM clicks", "needs GROUP BY"),
        ("SELECT ms, COUNT(*) FROM clicks GROUP BY page", "MS must stand in GROUP BY"),
        ("SELECT page FROM clicks GROUP BY page", "needs an aggregate"),
        ("SELECT * FROM clicks GROUP BY page", "do not go together"),
        ("SELECT page, SUM(page) FROM clicks GROUP BY page", "number is expected"),
        ("SELECT page, SUM(DISTINCT ms) FROM clicks GROUP BY page", "DISTINCT is for COUNT"),
        ("SELECT level, MAX(name) FROM users GROUP BY level", "cannot be used over a table"),
        ("SELECT page, COUNT(*) FROM clicks GROUP BY page EMIT FINAL", "needs a WINDOW"),
        (
            "SELECT level, COUNT(*) FROM users WINDOW TUMBLING (SIZE 1 DAY) GROUP BY level",
            "WINDOW is for streams",
        ),
        ("SELECT page, TOPK(ms) FROM clicks GROUP BY page", "takes 2 to 2"),
        ("SELECT page, TOPK(ms, 0) FROM clicks GROUP BY page", "takes a number from 1"),
        ("SELECT page, TOPK(ms, ms) FROM clicks GROUP BY page", "takes a number from 1"),
        ("SELECT page, MAX(info) FROM clicks GROUP BY page", "that have an order"),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 0 SECONDS) GROUP BY page",
            "larger than zero",
        ),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 2 SECONDS)"
            " GROUP BY page",
            "advancement interval",
        ),
        (
            "SELECT page, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 MINUTE)"
            " GROUP BY page",
            "retention period",
        ),
    ],
)
def test_what_is_refused(sql: Any, query: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        sql.columns(query)


def test_a_sum_that_its_type_cannot_hold_is_null_until_it_can(sql: Any) -> None:
    """Whoever reads the table could not read a larger number; nothing is lost for the rows that follow."""
    records = [record("clicks", "ann", {"ms": ms}) for ms in ((1 << 63) - 1, 1, -1)]
    updates = sql.updates("SELECT user, SUM(ms) AS total FROM clicks GROUP BY user", records)
    assert [row["TOTAL"] for row in updates] == [(1 << 63) - 1, None, (1 << 63) - 1]


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5), st.integers(0, 200_000)), max_size=30),
    st.sampled_from(
        ["", "WINDOW TUMBLING (SIZE 1 MINUTE)", "WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 20 SECONDS)"]
    ),
)
def test_the_batch_is_what_the_stream_comes_to(given_rows: Any, window: str) -> None:
    """The last update of each group is the row of the batch, and both are what plain Python counts."""
    from moldau.sql.program import catalogue_of
    from tests.sql.clicks import STATEMENTS, Sql

    sql = Sql(catalogue_of(STATEMENTS))
    records = [record("clicks", key, {"ms": ms}, time) for key, ms, time in given_rows]
    columns = "user, COUNT(*) AS n, SUM(ms) AS total" + (", WINDOWSTART AS s" if window else "")
    query = f"SELECT {columns} FROM clicks {window} GROUP BY user"
    last = {(row["USER"], row.get("S")): row for row in sql.updates(query, records)}
    batch = {(row["USER"], row.get("S")): row for row in sql.batch(query, records)}
    assert batch == last
    if not window:
        expected = {
            key: (len(own), sum(own))
            for key in {each[0] for each in given_rows}
            for own in [[ms for other, ms, _ in given_rows if other == key]]
        }
        assert {key: (row["N"], row["TOTAL"]) for (key, _), row in batch.items()} == expected

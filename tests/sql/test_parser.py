"""Texts and the statements that they are; texts that are none, and what is said of them."""

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.parser import parse, parse_duration, parse_query, parse_statement, split
from moldau.sql.statements import (
    Control,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    InsertSelect,
    InsertValues,
    PrintTopic,
    SetProperty,
    Show,
    Window,
    Within,
)


def test_columns_and_properties() -> None:
    made = parse_statement(
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, `Mixed` STRING, d DECIMAL(4, 2),"
        " s STRUCT<a INT, b ARRAY<MAP<STRING, BIGINT>>>)"
        " WITH (kafka_topic='x', PARTITIONS=3, value_format='JSON')"
    )
    assert isinstance(made, CreateSource)
    assert [(each.name, str(each.type), each.is_key) for each in made.columns] == [
        ("ID", "INTEGER", True),
        ("Mixed", "VARCHAR(STRING)", False),
        ("D", "DECIMAL(4, 2)", False),
        ("S", "STRUCT<A INTEGER, B ARRAY<MAP<VARCHAR(STRING), BIGINT>>>", False),
    ]
    assert made.properties == {"KAFKA_TOPIC": "x", "PARTITIONS": 3, "VALUE_FORMAT": "JSON"}
    assert made.or_replace


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TUMBLING (SIZE 1 HOUR)", Window("TUMBLING", 3_600_000)),
        (
            "TUMBLING (SIZE 5 MINUTES, RETENTION 2 DAYS, GRACE PERIOD 30 SECONDS)",
            Window("TUMBLING", 300_000, None, 30_000, 172_800_000),
        ),
        ("HOPPING (SIZE 10 SECONDS, ADVANCE BY 1 SECOND)", Window("HOPPING", 10_000, 1_000)),
        ("SESSION (60 SECONDS)", Window("SESSION", 60_000)),
        ("SESSION (60 SECONDS, GRACE PERIOD 500 MILLISECONDS)", Window("SESSION", 60_000, None, 500)),
    ],
)
def test_windows(text: str, window: Window) -> None:
    query = parse_query(f"SELECT a, COUNT(*) FROM s WINDOW {text} WHERE b > 1 GROUP BY a EMIT FINAL")
    assert query.window == window
    assert query.emit == "FINAL"
    assert query.where is not None
    assert len(query.group_by) == 1


@pytest.mark.parametrize(
    ("text", "within", "kind"),
    [
        ("JOIN u WITHIN 1 HOUR ON s.a = u.a", Within(3_600_000, 3_600_000), "INNER"),
        ("LEFT JOIN u WITHIN (1 MINUTE, 2 MINUTES) ON s.a = u.a", Within(60_000, 120_000), "LEFT"),
        (
            "FULL OUTER JOIN u WITHIN 1 DAY GRACE PERIOD 1 HOUR ON s.a = u.a",
            Within(86_400_000, 86_400_000, 3_600_000),
            "OUTER",
        ),
        ("LEFT OUTER JOIN u ON s.a = u.a", None, "LEFT"),
    ],
)
def test_joins(text: str, within: Within | None, kind: str) -> None:
    (join,) = parse_query(f"SELECT * FROM s {text} EMIT CHANGES").joins
    assert (join.source, join.alias, join.within, join.kind) == ("U", "U", within, kind)


def test_a_long_select() -> None:
    query = parse_query(
        "SELECT a.id AS x, b.y FROM s AS a JOIN t b ON a.id = b.id JOIN v WITHIN 1 HOUR ON a.id = v.id"
        " WHERE a.z IN (1, 2) PARTITION BY b.y EMIT CHANGES LIMIT 7"
    )
    assert (query.source, query.alias, query.limit, query.emit) == ("S", "A", 7, "CHANGES")
    assert [(join.source, join.alias, join.within) for join in query.joins] == [
        ("T", "B", None),
        ("V", "V", Within(3_600_000, 3_600_000)),
    ]
    assert [each.sql() for each in query.partition_by] == ["b.y"]


@pytest.mark.parametrize(
    ("moment", "ms"),
    [("1000", 1000), ("'1970-01-01T00:00:02'", 2000), ("'1970-01-01T01:00:00+01:00'", 0)],
)
def test_as_of(moment: str, ms: int) -> None:
    assert parse_query(f"SELECT * FROM t AS OF {moment}").as_of_ms == ms


def test_all_others() -> None:
    statements = parse(
        """
        -- a comment; with a semicolon
        DROP STREAM IF EXISTS s DELETE TOPIC; SHOW STREAMS; LIST TABLES; DESCRIBE s EXTENDED; EXPLAIN q_1;
        TERMINATE ALL; PAUSE q_1; SET 'auto.offset.reset' = 'earliest'; UNSET 'auto.offset.reset';
        PRINT 'my-topic' FROM BEGINNING LIMIT 3;
        """
    )
    assert statements == [
        Drop("STREAM", "S", True, True),
        Show("STREAMS"),
        Show("TABLES"),
        Describe("S", True),
        Explain("Q_1"),
        Control("TERMINATE", None),
        Control("PAUSE", "Q_1"),
        SetProperty("auto.offset.reset", "earliest"),
        SetProperty("auto.offset.reset", None),
        PrintTopic("my-topic", True, 3),
    ]


def test_inserts() -> None:
    rows, select = parse(
        "INSERT INTO s (a, b) VALUES (1, 'x;y'), (-2, UCASE('z')); INSERT INTO s SELECT * FROM u"
    )
    assert isinstance(rows, InsertValues)
    assert (rows.columns, len(rows.rows)) == (("A", "B"), 2)
    assert isinstance(select, InsertSelect)


def test_create_as_keeps_its_text() -> None:
    text = "CREATE TABLE t WITH (PARTITIONS=1) AS SELECT a, COUNT(*) AS n FROM s GROUP BY a EMIT CHANGES"
    made = parse_statement(text)
    assert isinstance(made, CreateAs)
    assert (made.text, made.kind, made.properties) == (text, "TABLE", {"PARTITIONS": 1})


def test_statements_are_split_by_semicolons_outside_of_texts() -> None:
    assert split("SELECT ';' FROM a; ; SELECT `;` FROM b") == ["SELECT ';' FROM a", "SELECT `;` FROM b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("FROB x", "No statement begins with FROB"),
        ("", "No statement begins with nothing"),
        ("SELECT FROM", "."),
        ("SELECT a", "needs FROM"),
        ("SELECT a FROM s ORDER BY a", "ORDER"),
        ("SELECT DISTINCT a FROM s", "DISTINCT"),
        ("SELECT a FROM s RIGHT JOIN t ON s.a = t.a", "RIGHT JOIN"),
        ("SELECT a FROM s JOIN t", "needs ON"),
        ("SELECT a FROM s WINDOW TUMBLING (GRACE PERIOD 1 HOUR) GROUP BY a", "needs a size"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 HOUR) GROUP BY a", "ADVANCE BY"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 FORTNIGHT) GROUP BY a", "length of time"),
        ("SELECT a FROM s EMIT NOTHING", "CHANGES or by FINAL"),
        ("SELECT a FROM s AS OF 'yesterday'", "AS OF takes"),
        ("CREATE STREAM s (a INT)", "needs WITH"),
        ("CREATE STREAM s (a FROB) WITH (KAFKA_TOPIC='x')", "FROB|type"),
        ("CREATE STREAM s (a INT, A INT) WITH (KAFKA_TOPIC='x')", "twice"),
        ("CREATE VIEW v AS SELECT 1 FROM s", "STREAM or TABLE"),
        ("CREATE STREAM s (a INT) AS SELECT a FROM t", "takes its columns"),
        ("SHOW COWS", "no SHOW COWS"),
        ("DROP STREAM s s", "goes on"),
        ("INSERT INTO s VALUES (1", "[)] is expected|too early"),
        ("SET a = 'b'", "text in quotes"),
        ("SELECT 'abc FROM s", "."),
        ("SELECT a FROM s LIMIT -1", "LIMIT takes a whole number"),
        ("SELECT a FROM s LIMIT 1.5", "LIMIT takes a whole number"),
        ("SELECT a FROM s LIMIT " + "9" * 5000, "LIMIT takes a whole number"),
        ("SELECT a FROM s AS OF 1.5", "AS OF takes a whole number"),
        ("PRINT t LIMIT many", "LIMIT takes a whole number"),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 99999999999 DAYS) GROUP BY a", "too long"),
        ("CREATE STREAM s (a INT) WITH (PARTITIONS=1.5)", "PARTITIONS takes a whole number"),
    ],
)
def test_what_is_no_statement(text: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        parse_statement(text)


def test_durations() -> None:
    assert parse_duration("2 HOURS") == 7_200_000

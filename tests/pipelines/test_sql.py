"""Files of SQL: what is read of them, and how mistakes are told."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.definitions import ParquetOutput, TopicOutput
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.files import load
from moldau.pipelines.sql import Query, Source, parse

FILE = """-- Orders and what they bring; a semicolon in a comment; no end
CREATE SOURCE orders (product STRING, price DECIMAL(10, 2), time TIMESTAMP)
  WITH (topic = 'shop.orders', value_format = 'json', watermark = 'time 10 seconds',
        maxOffsetsPerTrigger = 100, failOnDataLoss = FALSE, kafka.client.id = 'it''s me');

/* a view
   over two lines */
CREATE OR REPLACE VIEW cheap AS SELECT * FROM orders WHERE price < 10 AND product <> 'a;b';

CREATE STREAM revenue WITH (key = 'product', mode = 'update', partitions = 3, "trigger" = '1 second') AS
  WITH named AS (SELECT product, price FROM `cheap`)
  SELECT product, sum(price) AS total
  FROM named GROUP BY product;

create table archive with (path = 'a/b', partition_by = 'product, day') as select * from orders
"""


def test_statements_are_read() -> None:
    orders, cheap, revenue, archive = parse(FILE, "shop.sql")
    assert orders == Source(
        "orders",
        2,
        "product STRING, price DECIMAL(10, 2), time TIMESTAMP",
        {
            "topic": "shop.orders",
            "value_format": "json",
            "watermark": "time 10 seconds",
            "maxOffsetsPerTrigger": "100",
            "failOnDataLoss": "false",
            "kafka.client.id": "it's me",
        },
    )
    assert isinstance(cheap, Query)
    assert (cheap.kind, cheap.name, cheap.text) == (
        "view",
        "cheap",
        "SELECT * FROM orders WHERE price < 10 AND product <> 'a;b'",
    )
    assert "orders" in cheap.mentions
    assert isinstance(revenue, Query)
    assert (revenue.line, revenue.text_line) == (10, 11)
    assert revenue.text.startswith("WITH named AS")
    assert revenue.text.endswith("FROM named GROUP BY product")
    assert {"cheap", "named"} <= revenue.mentions
    assert revenue.options["trigger"] == "1 second"
    assert isinstance(archive, Query)
    assert (archive.kind, archive.options["path"]) == ("table", "a/b")


def test_a_file_is_a_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "shop.sql"
    path.write_text(FILE)
    pipeline = load(path)
    assert pipeline.name == "shop"
    assert [step.name for step in pipeline.steps] == ["revenue", "archive"]
    assert pipeline.steps[0].output == TopicOutput("revenue", "product", "json", "update", "1 second", 3)
    assert pipeline.steps[1].output == ParquetOutput("a/b", ("product", "day"))
    assert list(pipeline.datasets) == ["orders", "cheap", "revenue", "archive"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "writes nothing"),
        ("CREATE SOURCE a WITH (topic = 'a');", "writes nothing"),
        ("SELECT 1;", ":1: a statement begins with CREATE SOURCE, STREAM, VIEW or TABLE, not 'SELECT'"),
        ("\n\nCREATE TOPIC a;", ":3: expected one of SOURCE, STREAM, VIEW, TABLE after CREATE, not 'TOPIC'"),
        ("CREATE STREAM", ":1: CREATE STREAM wants a name"),
        ("CREATE STREAM 5 AS SELECT 1", "CREATE STREAM wants a name, not '5'"),
        ("CREATE STREAM s\nWITH (topic 'a') AS SELECT 1", ":2: CREATE STREAM s: expected = and a value"),
        ("CREATE STREAM s\nWITH (topic = ) AS SELECT 1", ":2: CREATE STREAM s: the value of topic is a text"),
        ("CREATE STREAM s WITH (a = 1 b = 2) AS SELECT 1", "expected a comma or ) after the value of a"),
        ("CREATE STREAM s WITH (a = 1, a = 2) AS SELECT 1", "a is given twice"),
        ("CREATE STREAM s WITH topic AS SELECT 1", "expected WITH (name = 'value', …)"),
        ("CREATE STREAM s WITH (a = 1", ":1:"),
        ("CREATE STREAM s SELECT 1", "expected AS SELECT …, not 'SELECT'"),
        (
            "CREATE STREAM s AS\n\nDELETE FROM t",
            ":3: CREATE STREAM s: expected a query after AS, not 'DELETE'",
        ),
        ("CREATE STREAM s AS", "expected a query after AS, not the end of the file"),
        ("CREATE STREAM s AS SELECT 'abc", ":1: the text that begins here has no end"),
        ("CREATE STREAM s AS SELECT 1; /* no end", "the comment that begins here has no end"),
        ("CREATE SOURCE s (a INT WITH (topic = 'a')", "the parenthesis that opens here is not closed"),
        ("CREATE SOURCE s () WITH (topic = 'a')", "the columns of s are missing"),
        ("CREATE SOURCE s WITH (topic = 'a') AS SELECT 1", "expected ; and not 'AS'"),
        (
            "CREATE VIEW v AS SELECT 1;\nCREATE STREAM V AS SELECT 1;",
            ":2: V is there twice, first in line 1",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as told:
        parse(text, "shop.sql")
    assert message in str(told.value)
    assert str(told.value).startswith("shop.sql")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("mode = 'often'", "mode is one of append, update, complete, not 'often'"),
        ("value_format = 'xml'", "value_format is one of"),
        ("partitions = 'many'", "partitions is a number from 1 on, not 'many'"),
        ("path = 'x'", "CREATE TABLE writes files to a path"),
    ],
)
def test_wrong_options_of_a_stream(tmp_path: Path, options: str, message: str) -> None:
    path = tmp_path / "shop.sql"
    path.write_text(f"\nCREATE STREAM s WITH ({options}) AS SELECT 1")
    with pytest.raises(PipelineError, match=message) as told:
        load(path)
    assert str(told.value).startswith("shop.sql:2: ")


@given(st.text(alphabet="CREATESOMVIW ABLs('=,;)`\"-/*\n1.\\", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(PipelineError):
        assert parse(text, "any.sql")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30))
def test_any_value_survives_its_quotes(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    (stream,) = parse(f"CREATE STREAM s WITH (x = '{quoted}') AS SELECT 1", "any.sql")
    assert stream.options == {"x": value}

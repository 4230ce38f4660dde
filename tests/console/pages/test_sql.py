"""The box for SQL: rows of topics, what it refuses, and that masks and read-only consoles hold."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from moldau.testing import Broker

pytest.importorskip("sqlglot")
CREATE = (
    "CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT) "
    "WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');"
)


@pytest.fixture
def clicks(broker: Broker) -> Broker:
    broker.create_topic("clicks")
    for user, page, ms in (("ann", "/home", 12), ("bob", "/cart", 40), ("ann", "/cart", 8)):
        broker.produce("clicks", json.dumps({"page": page, "ms": ms}).encode(), key=user.encode())
    return broker


def test_rows_of_a_topic(clicks: Broker, make_console: Callable[..., Any]) -> None:
    console = make_console()
    assert "SHOW STREAMS" in console.get("/sql").words
    query = "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"
    page = console.post("/sql", statement=f"{CREATE} {query}")
    assert page.status == 200
    assert "/cart 2" in page.words
    assert "/home 1" in page.words
    assert "2 rows" in page.words
    assert "CLICKS" in console.post("/sql", statement="SHOW STREAMS;").words.upper()
    again = console.post("/sql", statement="SELECT user, ms FROM clicks WHERE ms > 10;")
    assert "bob 40" in again.words
    assert "SQL" in console.get("/audit").words


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("", "Type a statement"),
        ("SELECT * FROM clicks EMIT CHANGES;", "goes on for ever"),
        ("INSERT INTO clicks VALUES ('a', 'b', 1);", "does everything else"),
        ("DROP STREAM clicks;", "does everything else"),
        ("SELECT nothing FROM nowhere;", "There is no stream or table"),
        ("SELEKT 1;", "Correct it"),
        ("SHOW STREAMS;" * 21, "At most 20"),
        ("SELECT '" + "x" * 20_000 + "';", "too long"),
        ("SELECT Regexp_Extract('(a+)+b', v) FROM s;", "may take for ever"),
        ("<script>alert(1)</script>", "Correct it"),
    ],
)
def test_what_is_refused(statement: str, said: str, make_console: Callable[..., Any]) -> None:
    page = make_console().post("/sql", statement=statement)
    assert (page.status, said in page.words) == (400, True), page.words
    assert "<script>alert" not in page.text


def test_masks_and_read_only_consoles_hold(clicks: Broker, make_console: Callable[..., Any]) -> None:
    plain = make_console()
    assert plain.post("/sql", statement=CREATE).status == 200
    masking = make_console(masks=["clicks:value.ms"])
    refused = masking.post("/sql", statement="SELECT user, ms FROM clicks;")
    assert refused.status == 400
    assert "40" not in refused.words
    created = CREATE.replace("STREAM clicks", "STREAM other")
    assert "masked" in masking.post("/sql", statement=created).words
    read_only = make_console(read_only=True)
    page = "/sql"
    assert "bob" in read_only.post("/sql", page, statement="SELECT user FROM clicks;").words
    assert read_only.post("/sql", page, statement=created).status == 403

"""CREATE OR REPLACE: what differs, what can be done in place, and what a dry run says."""

from typing import cast

import pytest

from moldau.sql.parser import parse_statement
from moldau.sql.program import catalogue_of
from moldau.sql.running.upgrades import Upgrade, dry_run, upgrade_of
from moldau.sql.statements import CreateAs
from tests.sql.clicks import STATEMENTS, record

CATALOGUE = catalogue_of(STATEMENTS)
STREAM = "CREATE STREAM s AS SELECT user, page FROM clicks WHERE ms > 4"
COUNT = "CREATE TABLE t AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page"


def created(text: str) -> CreateAs:
    return cast(CreateAs, parse_statement(text))


def upgrade(old: str, new: str) -> Upgrade:
    return upgrade_of(created(old), created(new), CATALOGUE)


def test_what_changes() -> None:
    found = upgrade(STREAM, "CREATE STREAM s AS SELECT user, page, ms FROM clicks WHERE ms > 6")
    assert found.changes == (
        "+ column MS BIGINT",
        "~ SELECT: user, page becomes user, page, ms",
        "~ WHERE: ms > 4 becomes ms > 6",
    )
    assert found.problems == ()
    assert upgrade(STREAM, STREAM) == Upgrade((), ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COUNT, COUNT.replace("GROUP BY page", "GROUP BY page HAVING COUNT(*) > 1")),
        (COUNT.replace("GROUP", "WHERE ms > 1 GROUP"), COUNT.replace("GROUP", "WHERE ms > 2 GROUP")),
    ],
)
def test_state_that_keeps_its_shape(old: str, new: str) -> None:
    problems = upgrade(old, new).problems
    if "HAVING" in new:  # one more aggregate is kept for it
        assert problems == ("what it has counted so far has another shape than the new query needs",)
    else:
        assert problems == ()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (STREAM, STREAM.replace("user, page", "user, ms"), "column PAGE would be gone"),
        (STREAM, STREAM.replace("user, page", "user, ms AS page"), "column PAGE would be gone or have"),
        (STREAM, STREAM.replace("CREATE STREAM s", "CREATE STREAM s WITH (KAFKA_TOPIC='x')"), "topic"),
        (STREAM, "CREATE STREAM s AS SELECT user, item AS page FROM views", "other topics"),
        (STREAM, f"{STREAM} PARTITION BY page", "key"),
        (COUNT, COUNT.replace("COUNT(*)", "SUM(ms)"), "another shape"),
        (COUNT, COUNT.replace("FROM clicks", "FROM clicks WINDOW TUMBLING (SIZE 1 HOUR)"), "window"),
        (STREAM, COUNT.replace("TABLE t", "TABLE s"), "a stream cannot become a table"),
    ],
)
def test_what_cannot_be_done_in_place(old: str, new: str, problem: str) -> None:
    assert any(problem in each for each in upgrade(old, new).problems)


def test_a_dry_run_tells_the_rows_apart() -> None:
    records = [record("clicks", "ann", {"page": "/a", "ms": ms}, ms, ms) for ms in (3, 5, 5, 8)]
    old, new = created(STREAM).query, created(STREAM.replace("> 4", "> 6")).query
    found = dry_run(old, new, CATALOGUE, records)
    assert (found.records, found.same) == (4, 1)
    assert found.only_old == ({"USER": "ann", "PAGE": "/a"},) * 2
    assert list(found.lines()) == [
        "dry run over the last 4 records: 1 rows are the same, "
        "2 only the old query gives, 0 only the new one",
        "  - {'USER': 'ann', 'PAGE': '/a'}",
        "  - {'USER': 'ann', 'PAGE': '/a'}",
    ]

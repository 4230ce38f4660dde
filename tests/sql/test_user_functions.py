"""Functions of users: known by their modules, checked by their types, harmless when they fail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.functions import FUNCTIONS
from moldau.sql.program import file_of
from moldau.sql.user_functions import load_functions, sql_function
from tests.sql.clicks import Sql, record

MODULE = """
from moldau.sql.user_functions import sql_function

@sql_function(takes=("STRING", "BIGINT"), gives="STRING")
def repeated(text, times):
    "a text so many times"
    return text * times

@sql_function(takes=("BIGINT",), gives="DOUBLE", name="inverse")
def one_by(number):
    return 1 / number

@sql_function(takes=("STRING",), gives="INT", takes_null=True)
def length_or_zero(text):
    return len(text or "")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "shop_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(FUNCTIONS)
    yield "shop_functions"
    FUNCTIONS.clear()
    FUNCTIONS.update(before)
    sys.modules.pop("shop_functions", None)


def test_calls(sql: Sql, module: str) -> None:
    load_functions([module])
    records = [record("clicks", "ann", {"page": "ab", "ms": 2}), record("clicks", "bob", {"ms": 0})]
    found = sql.batch(
        "SELECT repeated(page, ms) AS r, INVERSE(ms) AS i, length_or_zero(page) AS n FROM clicks", records
    )
    assert found == [{"R": "abab", "I": 0.5, "N": 2}, {"R": None, "I": None, "N": 0}]
    assert FUNCTIONS["REPEATED"].help == "a text so many times"


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT repeated(ms, 2) AS r FROM clicks", "Argument 1 of REPEATED is VARCHAR"),
        ("SELECT repeated(page) AS r FROM clicks", "takes 2 to 2 arguments"),
    ],
)
def test_what_is_refused(sql: Sql, module: str, query: str, complaint: str) -> None:
    load_functions([module])
    with pytest.raises(SqlError, match=complaint):
        sql.columns(query)


def test_names_are_taken_once() -> None:
    with pytest.raises(SqlError, match="function UCASE already"):
        sql_function(takes=("STRING",), gives="STRING", name="ucase")(lambda text: text)


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(SqlError, match="PYTHONPATH"):
        load_functions(["there_is_no_such_module"])


def test_the_program_of_a_query_names_its_modules(module: str) -> None:
    clicks = "CREATE STREAM c (u STRING KEY, p STRING) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON')"
    query = "CREATE STREAM d AS SELECT u, repeated(p, 2) AS p FROM c"
    names: dict[str, object] = {}
    exec(file_of("CSAS_D_2", [clicks, query], None, [module]), names)
    assert names["FUNCTIONS"] == [module]

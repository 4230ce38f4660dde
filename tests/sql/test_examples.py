"""The examples in SQL give what those in Python give."""

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.sql.catalogue import source_of
from moldau.sql.parser import parse, split
from moldau.sql.planner import plan_create
from moldau.sql.program import catalogue_of
from moldau.sql.statements import CreateAs, CreateSource
from moldau.streams import TestDriver, Windowed

EXAMPLES = Path(__file__).parents[2] / "examples" / "streams" / "sql"
MINUTE = 60_000


def results(name: str, records: list[tuple[str, str | None, Any, int]]) -> list[tuple[Any, Any]]:
    """Every result of the last statement of a file, in order."""
    text = (EXAMPLES / f"{name}.sql").read_text()
    statement = parse(text)[-1]
    assert isinstance(statement, CreateAs)
    plan, _ = plan_create(statement, catalogue_of(split(text)[:-1]))
    found = []
    with TestDriver(plan.topology) as driver:
        for topic, key, value, time in records:
            data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            found += driver.pipe_raw_input(topic, None if key is None else key.encode(), data, time)
    return [(each.key, each.value) for each in found if each.topic == plan.sink]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sql")), ids=lambda path: path.stem)
def test_every_statement_is_understood(path: Path) -> None:
    *sources, query = parse(path.read_text())
    assert isinstance(query, CreateAs)
    for each in sources:
        assert isinstance(each, CreateSource)
        assert source_of(each).partitions == 4


def test_words_are_counted() -> None:
    lines = [("text-lines", None, text, 0) for text in ("all streams lead to kafka", "Hello kafka streams")]
    last = dict(results("word_count", lines))
    assert (last["kafka"], last["hello"]) == ({"N": 2}, {"N": 1})


def test_stock_statistics_are_in_five_windows() -> None:
    trades = [
        ("stocks", "IBM", {"price": price, "size": 1}, time) for price, time in ((168, 7_300), (167, 7_900))
    ]
    last = dict(results("stock_statistics", trades))
    assert [window.start for window in last] == [3_000, 4_000, 5_000, 6_000, 7_000]
    assert all(each == {"LOWEST": 167.0, "AVERAGE": 167.5} for each in last.values())


def test_visits_are_sent_when_they_are_over() -> None:
    views = [("u", "home", 0), ("u", "shop", 20), ("v", "home", 25), ("u", "cart", 15), ("w", "home", 120)]
    found = results("sessions", [("page-views", user, page, at * MINUTE) for user, page, at in views])
    assert [(key.key, value["PAGES"]) for key, value in found] == [
        ("u", ["home", "shop", "cart"]),
        ("v", ["home"]),
    ]


def test_a_card_in_two_countries_is_an_alarm() -> None:
    payments = [("a", "CZ", 0), ("a", "CZ", 10), ("b", "AT", 20), ("a", "BR", 60)]
    records = [("payments", card, {"country": country}, at * 1_000) for card, country, at in payments]
    found = [(key.key, value) for key, value in results("fraud", records) if value is not None]
    assert {card for card, _ in found} == {"a"}
    assert all(sorted(value["COUNTRIES"]) == ["BR", "CZ"] for _, value in found)


def test_clicks_have_profile_and_search() -> None:
    records = [
        ("clicks.user.profile", "1", {"name": "Mathias"}, 0),
        ("clicks.search", "1", {"terms": "Trek"}, 1_000),
        ("clicks.pages.views", "1", {"page": "bikes"}, 1_400),
        ("clicks.pages.views", "9", {"page": "home"}, 2_000),
        ("clicks.pages.views", "1", {"page": "end"}, 9_000),
    ]
    assert results("click_stream", records) == [
        ("1", {"PAGE": "bikes", "NAME": "Mathias", "SEARCH": "Trek"}),
        ("9", {"PAGE": "home", "NAME": None, "SEARCH": ""}),
    ]


def test_words_are_counted_without_some() -> None:
    lines = [("wordcount-input", None, text, 0) for text in ("The quick, the Quick fox", "and a fox")]
    assert results("word_count_without", lines) == [
        ("quick", {"N": 1}),
        ("quick", {"N": 2}),
        ("fox", {"N": 1}),
        ("fox", {"N": 2}),
    ]


def test_sensors_may_be_late() -> None:
    readings = [(1_000, 10.0), (12_000, 30.0), (9_000, 20.0), (5_000, None), (15_000, 1.0), (2_000, 99.0)]
    records = [("readings", "s", {"at": at, "celsius": celsius}, 0) for at, celsius in readings]
    assert results("sensors", records) == [(Windowed("s", 0, 10_000), {"CELSIUS": 15.0})]


def test_an_event_is_sent_once_in_ten_minutes() -> None:
    events = [("a", 0), ("a", 5), ("b", 6), ("a", 10), ("b", 30)]
    found = results("deduplication", [("events", each, f"at {at}", at * MINUTE) for each, at in events])
    assert [(key.key, value["WHAT"]) for key, value in found] == [
        ("a", "at 0"),
        ("b", "at 6"),
        ("a", "at 10"),
    ]

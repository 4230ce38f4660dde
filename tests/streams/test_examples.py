"""The examples of streams give what their first lines promise."""

from pathlib import Path
from typing import Any

import pytest

from moldau.streams import TestDriver, Windowed
from moldau.streams.files import load_topology
from moldau.streams.topology.advice import advise

EXAMPLES = Path(__file__).parents[2] / "examples" / "streams"


def driver(name: str) -> TestDriver:
    return TestDriver(load_topology(EXAMPLES / f"{name}.py"))


def results(program: TestDriver, topic: str) -> list[tuple[Any, Any]]:
    return [(output.key, output.value) for output in program.read_outputs(topic)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_has_all_serdes(path: Path) -> None:
    assert [each for each in advise(load_topology(path)) if each.kind == "error"] == []


def test_words_are_counted() -> None:
    program = driver("word_count")
    program.pipe_raw_input("text-lines", None, b"all streams lead to kafka")
    program.pipe_raw_input("text-lines", None, b"hello kafka streams")
    assert dict(results(program, "word-counts"))["kafka"] == 2
    assert list(program.rows("counts")) == ["all", "hello", "kafka", "lead", "streams", "to"]


def test_words_are_counted_without_some() -> None:
    program = driver("word_count_without")
    program.pipe_input("wordcount-input", None, "The quick the Quick fox")
    assert results(program, "wordcount-output") == [("quick", "1"), ("quick", "2"), ("fox", "1")]


def test_stock_statistics_are_in_five_windows() -> None:
    program = driver("stock_statistics")
    trade = b'{"ticker":"IBM","price":%d,"size":1}'
    program.pipe_raw_input("stocks", b"IBM", trade % 168, 7_300)
    program.pipe_raw_input("stocks", b"IBM", trade % 167, 7_900)
    last = dict(results(program, "stock-statistics"))
    assert [window.start for window in last] == [3_000, 4_000, 5_000, 6_000, 7_000]
    assert all(each == {"lowest": 167, "average": 167.5} for each in last.values())


def test_clicks_have_profile_and_search() -> None:
    program = driver("click_stream")
    program.pipe_input("clicks.user.profile", "1", {"name": "Mathias"}, 0)
    program.pipe_input("clicks.search", "1", {"terms": "Trek"}, 1_000)
    program.pipe_input("clicks.pages.views", "1", {"page": "bikes"}, 1_400)
    program.pipe_input("clicks.pages.views", "9", {"page": "home"}, 2_000)
    program.pipe_input("clicks.pages.views", "1", {"page": "end"}, 9_000)
    assert results(program, "clicks.user.activity") == [
        ("1", {"page": "bikes", "name": "Mathias", "search": "Trek"}),
        ("9", {"page": "home", "name": None, "search": ""}),
    ]


def test_a_card_in_two_countries_is_an_alarm() -> None:
    program = driver("fraud")
    for card, country, seconds in [("a", "CZ", 0), ("a", "CZ", 10), ("b", "AT", 20), ("a", "BR", 60)]:
        program.pipe_input("payments", card, {"country": country}, seconds * 1_000)
    alarms = results(program, "alarms")
    assert {card for card, _ in alarms} == {"a"}
    assert all(alarm["countries"] == ["BR", "CZ"] for _, alarm in alarms)


def test_visits_are_sent_when_they_are_over() -> None:
    program = driver("sessions")
    minute = 60_000
    for user, page, minutes in [("u", "home", 0), ("u", "shop", 20), ("v", "home", 25), ("u", "cart", 15)]:
        program.pipe_input("page-views", user, page, minutes * minute)
    assert results(program, "visits-over") == []
    program.pipe_input("page-views", "w", "home", 120 * minute)
    assert results(program, "visits-over") == [("u", ["home", "shop", "cart"]), ("v", ["home"])]


def test_the_best_three_are_ranked() -> None:
    program = driver("top_n")
    for article in ["pen", "ink", "pen", "cup", "hat", "hat", "hat"]:
        program.pipe_input("purchases", "customer", article)
    *_, (_, last) = results(program, "best-sellers")
    assert last == [["hat", 3], ["pen", 2], ["cup", 1]]


def test_an_event_passes_once_in_ten_minutes() -> None:
    program = driver("deduplication")
    for event_id, minutes in [("a", 0), ("a", 5), ("b", 6), ("a", 10), ("b", 30)]:
        program.pipe_input("events", event_id, f"at {minutes}", minutes * 60_000)
    assert [value for _, value in results(program, "events-once")] == ["at 0", "at 6", "at 10", "at 30"]
    assert list(program.rows("seen")) == ["b"]


def test_sensors_may_be_late() -> None:
    program = driver("sensors")
    for at, celsius in [
        (1_000, 10.0),
        (12_000, 30.0),
        (9_000, 20.0),
        (5_000, None),
        (15_000, 1.0),
        (2_000, 99.0),
    ]:
        program.pipe_input("readings", "s", {"at": at, "celsius": celsius})
    assert results(program, "averages") == [(Windowed("s", 0, 10_000), 15.0)]
    assert program.dropped_records == 1

"""What a new version takes over of an old one."""

from collections.abc import Callable

import pytest

from moldau.streams import (
    Consumed,
    Materialized,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from moldau.streams.compatibility import described_serde, same_schedules, succession
from moldau.streams.engine.task import Task

TEXTS = Consumed.with_(Serdes.string(), Serdes.string())


def counting(store: str = "counts", *, filtered: bool = False) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("in", TEXTS)
    if filtered:
        lines = lines.filter(lambda value: bool(value)).filter(lambda value: value != "x")
    lines.group_by_key().count(store).to_stream().to("out")
    return builder.build()


def windowed(windows: TimeWindows | SessionWindows, *, filtered: bool = False) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("in", TEXTS)
    if filtered:
        lines = lines.filter(lambda value: bool(value))
    lines.group_by_key().windowed_by(windows).count("counts").to_stream().to("out")
    return builder.build()


def test_a_store_of_the_same_name_goes_over() -> None:
    found = succession(counting(), counting(filtered=True))
    assert (found.problems, found.stores) == ([], {"counts": "counts"})


def test_the_numbers_of_an_operator_go_over_whatever_it_is_called() -> None:
    hopping = TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000)
    found = succession(windowed(hopping), windowed(hopping, filtered=True))
    assert found.problems == []
    ((new, old),) = found.operators.items()
    assert new != old


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (counting, lambda: counting("totals"), "--store totals=OLD"),
        (
            lambda: windowed(TimeWindows.of_size_with_no_grace(5_000)),
            lambda: windowed(TimeWindows.of_size_with_no_grace(6_000)),
            "size_ms 6000",
        ),
        (
            lambda: windowed(TimeWindows.of_size_with_no_grace(5_000)),
            lambda: windowed(TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000)),
            "advance_ms 1000",
        ),
        (
            lambda: windowed(TimeWindows.of_size_with_no_grace(5_000)),
            lambda: windowed(SessionWindows.of_inactivity_gap_with_no_grace(5_000)),
            "is a SessionStore, and was a WindowStore",
        ),
        (
            lambda: windowed(SessionWindows.of_inactivity_gap_with_no_grace(5_000)),
            lambda: windowed(SessionWindows.of_inactivity_gap_with_no_grace(9_000)),
            "gap_ms 9000",
        ),
        (counting, lambda: windowed(TimeWindows.of_size_with_no_grace(1)), "is a WindowStore"),
    ],
)
def test_stores_that_differ(old: Callable[[], Topology], new: Callable[[], Topology], said: str) -> None:
    assert said in "; ".join(succession(old(), new()).problems)


def test_other_serdes() -> None:
    def table(serde: object) -> Topology:
        builder = StreamsBuilder()
        builder.table("in", Materialized.as_("rows").with_value_serde(serde))
        return builder.build()

    assert succession(table(Serdes.long()), table(Serdes.long())).problems == []
    (problem,) = succession(table(Serdes.long()), table(Serdes.json())).problems
    assert problem.startswith("store rows has values by JSON, and had values by ")


def test_grace_may_change() -> None:
    one, other = (windowed(TimeWindows.of_size_and_grace(5_000, grace)) for grace in (0, 3_000))
    assert succession(one, other).problems == []


def test_a_store_may_be_renamed_or_begin_empty() -> None:
    renamed = succession(counting(), counting("totals"), {"totals": "counts"})
    assert (renamed.problems, renamed.stores, renamed.left) == ([], {"totals": "counts"}, [])
    empty = succession(counting(), counting("totals"), empty=frozenset({"totals"}))
    assert (empty.problems, empty.stores, empty.empty, empty.left) == ([], {}, ["totals"], ["counts"])


def test_names_that_make_no_sense() -> None:
    found = succession(counting(), counting(), {"other": "counts"}, frozenset({"third"}))
    assert [each.split(":")[0] for each in found.problems] == [
        "the new version has no store other",
        "the new version has no store third",
    ]


def test_schedules() -> None:
    def beating(interval: int) -> Task:
        class Beat(Processor[str, str]):
            def init(self, context: object) -> None:
                super().init(context)  # type: ignore[arg-type]
                self.context.schedule(interval, "stream_time", lambda time: None)

            def process(self, record: Record) -> None:
                self.context.forward(record)

        builder = StreamsBuilder()
        builder.stream("in", TEXTS).process(Beat, stores=[Stores.key_value("s")]).to("out")
        return Task(builder.build())

    assert same_schedules(beating(10), beating(10))
    assert not same_schedules(beating(10), beating(20))


def test_serdes_in_words() -> None:
    assert described_serde(None) is None
    assert described_serde(Serdes.string()) != described_serde(Serdes.long())
    assert described_serde(Serdes.json()) == "JSON"

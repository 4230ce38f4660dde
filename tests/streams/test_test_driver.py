"""The driver of tests: records in, results out, stores, wall clock, errors."""

import pytest

from moldau.streams import (
    Consumed,
    Processor,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsError,
    TestDriver,
)
from moldau.streams.errors import DecodeError


def counting() -> TestDriver:
    builder = StreamsBuilder()
    json = Consumed.with_(Serdes.string(), Serdes.json())
    builder.stream("in", json).group_by_key().count("c").to_stream().to("out")
    return TestDriver(builder.build())


def test_results_are_returned_and_can_be_read_by_topic() -> None:
    with counting() as driver:
        (output,) = driver.pipe_input("in", "a", 1, 5)
        assert output == ("out", "a", 1, 5, ())
        driver.pipe_input("in", "a", 1, 7)
        assert driver.read_output("out") == output
        assert [each.value for each in driver.read_outputs("out")] == [2]
        assert driver.read_output("out") is None
        assert driver.rows("c") == {"a": 2}
        with pytest.raises(StreamsError, match="no store x; there are c"):
            driver.store("x")
        with pytest.raises(ValueError, match="Unknown topic: nowhere"):
            driver.pipe_input("nowhere", "a", 1)


def test_bytes_are_decoded_by_the_source() -> None:
    driver = counting()
    driver.pipe_raw_input("in", b"a", b"{}")
    assert driver.rows("c") == {"a": 1}
    with pytest.raises(DecodeError, match=r"deserialization\.exception\.handler"):
        driver.pipe_raw_input("in", b"a", b"{not json")
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.json())).to("out")
    driver = TestDriver(builder.build(), decoding_errors="continue")
    assert driver.pipe_raw_input("in", b"a", b"{not json") == []
    assert driver.dropped_records == 1


def test_what_cannot_be_read_of_a_global_table_is_passed_over() -> None:
    """Kafka's test driver does so, whatever is set for other topics."""
    builder = StreamsBuilder()
    table = builder.global_table("g", "G", Consumed.with_(Serdes.string(), Serdes.json()))
    stream = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.json()))
    stream.left_join(table, lambda one, other: [one, other]).to("out")
    driver = TestDriver(builder.build())
    assert driver.pipe_raw_input("g", b"a", b"{not json") == []
    assert driver.dropped_records == 1
    (output,) = driver.pipe_raw_input("in", b"a", b"1")
    assert output.value == [1, None]


class Beat(Processor[str, int]):
    def init(self, context: object) -> None:
        super().init(context)  # type: ignore[arg-type]
        self.context.schedule(10, "wall_clock_time", self.beat)

    def process(self, record: Record) -> None:
        self.context.store("sum").put("all", (self.context.store("sum").get("all") or 0) + record.value)

    def beat(self, time: int) -> None:
        self.context.forward(Record("sum", self.context.store("sum").get("all"), time))


def test_the_wall_clock_is_advanced_by_hand() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(Beat, stores=[Stores.key_value("sum")]).to("out")
    driver = TestDriver(builder.build(), wall_clock_ms=100)
    driver.pipe_input("in", "a", 2)
    driver.pipe_input("in", "a", 3)
    assert driver.advance_wall_clock(9) == []
    assert driver.advance_wall_clock(1) == [("out", "sum", 5, 110, ())]


def test_a_processor_sees_only_its_stores() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("sum"))
    builder.stream("in").process(Beat).to("out")
    driver = TestDriver(builder.build())
    with pytest.raises(StreamsError, match="processor=KSTREAM-PROCESSOR-0000000001") as caught:
        driver.pipe_input("in", "a", 2)
    assert "name it in stores" in str(caught.value.__cause__)
